//! Reconciles one group: decides what happens to each of its instances.
//!
//! The scheduler calls [`plan_group`] after every change, report or wake-up. The operation that holds the lock advances as
//! far as it can; then each instance gets one status ([`PodStatus`]) that determines whether its pod is replaced; then
//! pods without a node are placed. Example: 3 instances on nodes a, b and c, node b is lost: instance 2 gets the status
//! `NodeLost` and is placed on a or c.
//!
//! All waiting is `wake_at` and all state is in the record and the instances, so a new leader continues where the old one
//! stopped, and planning a finished group changes nothing. A serial upgrade is driven by the revisions of the instances; its
//! operation only holds the lock, so it continues when the lock is released. The instances of a group with a strategy are
//! managed by [`rollout`] instead.

mod classify;
pub mod dry_run;
mod durability;
mod evacuate;
mod finish;
mod last_error;
mod operations;
mod readiness;
mod replace;
mod reservations;
mod rollback;
mod rollout;
pub mod tombstones;
mod update_method;
mod upgrade;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use contract::command::Operation;
use contract::digest::Digest;
use contract::name::NodeName;
use contract::notice::Incident;
use contract::query::Liveness;
use contract::record::{GroupRecord, Instance, OperationRecord, Presence};
use contract::report::PodFacts;
use contract::spec::PodSpec;
use contract::time::Timestamp;

pub use self::classify::PodStatus;
pub use self::durability::decided;
use self::reservations::Reservations;
pub use self::rollout::{limits, readiness};
pub use self::update_method::{UpdateMethod, update_method};
use crate::placement::{Candidate, LoadRanking, Need, PlacedPods, Unplaceable};
use crate::rollout::controller::{RolloutReport, RolloutState};

/// One revision of a group's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    pub pod: Arc<PodSpec>,
    /// The resources of one instance.
    pub need: Need,
    /// The digest that agents report for containers created from `pod`; computed once, not for every pod of every plan.
    digest: String,
}

impl Revision {
    pub fn new(pod: Arc<PodSpec>, need: Need) -> Self {
        let digest = Digest::of(&*pod).to_string();
        Self { pod, need, digest }
    }
}

/// How long the planner waits for an operation and for single instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupTimeouts {
    /// An operation releases its lock after this time, complete or not.
    pub operation: Duration,
    /// The next instance is touched at the latest after five polls, or after five setup times if those are longer. Poll 20 s and
    /// setup time 60 s: an unhealthy instance delays the next one by at most 300 s.
    pub health_poll: Duration,
    /// An instance of a serial upgrade that exits with a non-zero code within this time of its start fails its revision. An
    /// instance without a health check must run for this long before the next one is replaced, and every instance before the
    /// revision counts as completed.
    pub early_exit: Duration,
}

/// The input of [`plan_group`]: desired state, observed state and nodes.
#[derive(Clone, Copy)]
pub struct GroupFacts<'a> {
    /// The desired state and the progress of its operation.
    pub record: &'a GroupRecord,
    /// The present revision and the earlier ones that are still needed, by number.
    pub revisions: &'a BTreeMap<u32, Revision>,
    pub timeouts: GroupTimeouts,
    /// The instances; number 1 is at index 0.
    pub instances: &'a [Instance],
    /// The report on each instance's current pod.
    pub observed: &'a [Option<&'a PodFacts>],
    /// Whether the node that each instance leaves no longer has its pod; true for an instance that leaves no node.
    pub vacated: &'a [bool],
    /// A node that is not lost still has pods of the group that must go.
    pub has_leftovers: bool,
    /// The report on each instance's surge pod.
    pub observed_surge: &'a [Option<&'a PodFacts>],
    /// Pods of each instance that a node still has although they are not ordered any more.
    pub leaving: &'a [u32],
    /// Pods of removed instances that a node still has.
    pub terminating_removed: u32,
    /// When each decision was committed, by the time of the decision ([`decided`]). Decisions that are not committed yet are missing.
    pub committed: &'a BTreeMap<Timestamp, Timestamp>,
    /// The rollout's state that earlier plans left behind.
    pub release: Option<&'a RolloutState>,
    /// The guard is on: missing instances are recreated.
    pub guard_enabled: bool,
    /// Cluster-wide placement expressions, in addition to those of the pod.
    pub constraints: &'a [String],
    pub nodes: &'a BTreeMap<NodeName, Candidate>,
    /// The nodes by load, if the caller keeps that ranking.
    pub ranking: Option<&'a LoadRanking>,
    pub placed_pods: &'a dyn PlacedPods,
}

/// The result of [`plan_group`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPlan {
    /// The instances afterwards.
    pub instances: Vec<Instance>,
    /// The instances differ in something that must survive a change of leader.
    pub store: bool,
    /// The record afterwards, if it differs: an operation advanced or ended, or a revision was rolled back.
    pub record: Option<GroupRecord>,
    /// The rollout's state afterwards, if it differs.
    pub release: Option<RolloutState>,
    /// The progress of the rollout; none for a serial upgrade.
    pub report: Option<RolloutReport>,
    /// The removal is complete: the leader deletes the record.
    pub gone: bool,
    /// An instance is unschedulable.
    pub waiting: bool,
    /// When to plan again even if nothing is reported.
    pub wake_at: Option<Timestamp>,
    /// Incidents for callbacks, by instance number.
    pub incidents: Vec<(u32, Incident)>,
    /// Instances that stop although the answer to their drain did not arrive in time.
    pub undrained: Vec<u32>,
    /// The status of each instance that the plan is based on.
    pub statuses: Vec<PodStatus>,
    /// Why the last unschedulable instance fits on no node.
    pub unplaced: Option<Arc<Unplaceable>>,
}

/// Plans one group.
pub fn plan_group(facts: &GroupFacts<'_>, now: Timestamp) -> GroupPlan {
    if let Some(operation) = facts.record.operation.as_ref().filter(|o| o.kind == Operation::Removing) {
        return plan_removal(facts, operation, now);
    }
    if !facts.record.taken_ports.is_empty() {
        // Other groups own its stream ports: no instance starts before the group gets them.
        let ended = || GroupRecord { operation: None, updated_at: now, ..facts.record.clone() };
        let record = facts.record.operation.is_some().then(ended);
        return GroupPlan { instances: facts.instances.to_vec(), record, ..GroupPlan::default() };
    }
    let mut planning = Planning::new(facts, now);
    if facts.record.spec.has_strategy() {
        planning.load_instances();
    } else {
        planning.resize();
    }
    planning.complete_moves();
    planning.run_operation();
    planning.replace_pods();
    planning.finish()
}

fn plan_removal(facts: &GroupFacts<'_>, operation: &OperationRecord, now: Timestamp) -> GroupPlan {
    let limit = operation.since + facts.timeouts.operation;
    let is_done_waiting = !facts.has_leftovers || now >= limit;
    // Tombstones of stateful instances have no time limit.
    let pod = |version: &u32| facts.record.former.get(version).unwrap_or(&facts.record.spec.pod);
    let is_held = |instance: &Instance| instance.leaves.is_some() && pod(&instance.version).is_stateful();
    let is_left = |instance: &Instance| instance.presence != Presence::Free || is_held(instance);
    let gone = is_done_waiting && !facts.instances.iter().any(is_left);
    GroupPlan {
        store: !facts.instances.is_empty(),
        gone,
        wake_at: (!is_done_waiting).then_some(limit),
        ..GroupPlan::default()
    }
}

struct Planning<'a> {
    facts: &'a GroupFacts<'a>,
    now: Timestamp,
    /// The record afterwards; owned once it differs.
    record: Cow<'a, GroupRecord>,
    /// The revision that the record asks for; a rollback creates one that is not among the facts.
    present: Revision,
    plan: GroupPlan,
    reservations: Reservations<'a>,
    /// Instances that need a node.
    to_place: Vec<usize>,
    /// Instances whose pod this plan replaces: the reports are about the previous pod.
    touched: BTreeSet<usize>,
    unsettled: bool,
    /// The serial upgrade is paused by this failing instance and gives its lock back.
    paused_at: Option<usize>,
    /// Instances that cannot be upgraded now, and why.
    stuck: BTreeMap<usize, String>,
    observed: Vec<Option<&'a PodFacts>>,
    observed_surge: Vec<Option<&'a PodFacts>>,
    /// While pods are placed, surge pods follow the instances as instances of their own: the index of each one's instance.
    surge_owners: Vec<usize>,
    /// Instances that fit on no node.
    unschedulable: BTreeMap<usize, Arc<Unplaceable>>,
    /// Tombstones of removed instances of a group without a strategy; the first is for the first removed number.
    tombstones: Vec<Instance>,
}

impl<'a> Planning<'a> {
    fn new(facts: &'a GroupFacts<'a>, now: Timestamp) -> Self {
        let record = facts.record;
        let present = facts.revisions.get(&record.spec.version).cloned();
        Self {
            facts,
            now,
            record: Cow::Borrowed(record),
            present: present.unwrap_or_else(|| Revision::new(Arc::new(record.spec.pod.clone()), Need::default())),
            plan: GroupPlan::default(),
            reservations: Reservations::new(facts),
            to_place: Vec::new(),
            touched: BTreeSet::new(),
            unsettled: false,
            paused_at: None,
            stuck: BTreeMap::new(),
            observed: facts.observed.to_vec(),
            observed_surge: facts.observed_surge.to_vec(),
            surge_owners: Vec::new(),
            unschedulable: BTreeMap::new(),
            tombstones: Vec::new(),
        }
    }

    /// Scaling up appends instances, scaling down removes the highest numbers.
    fn resize(&mut self) {
        let wanted = usize::try_from(self.record.spec.num_instances).unwrap_or(0);
        let fresh = Instance { version: self.record.spec.version, ..Instance::default() };
        self.plan.instances =
            self.facts.instances.iter().map(|instance| self.without_rollout_state(instance)).collect();
        self.plan.instances.resize(wanted, fresh);
        let kept = self.facts.instances.len().min(wanted);
        let (kept, dropped) = self.facts.instances.split_at(kept);
        for node in kept.iter().filter_map(|instance| instance.node.as_ref()) {
            self.reservations.count(node);
        }
        // The load of the nodes still contains removed instances and surge pods.
        let surge = kept.iter().filter_map(|instance| instance.next.as_deref());
        let gone = dropped.iter().flat_map(Instance::pods).chain(surge);
        for (node, version) in gone.filter_map(|instance| Some((instance.node.as_ref()?, instance.version))) {
            let need = self.revision(version).need;
            self.reservations.release(node, need);
        }
        self.make_tombstones(kept.len());
    }

    /// The instance without the state of an earlier strategy: one pod and no surge pod.
    fn without_rollout_state(&self, instance: &Instance) -> Instance {
        let (is_filled, version) = (instance.presence == Presence::Pod, self.record.spec.version);
        let fetching = instance.fetching.filter(|it| it.version == version && self.is_outdated(instance));
        Instance {
            presence: Presence::Pod,
            version: if is_filled { instance.version } else { version },
            next: None,
            draining: None,
            fetching,
            unplaced_since: Timestamp::NEVER,
            ..instance.clone()
        }
    }

    /// Instances whose old node has removed their pod start on their new node.
    fn complete_moves(&mut self) {
        for index in 0..self.plan.instances.len() {
            let is_vacated = self.facts.vacated.get(index).copied().unwrap_or(false);
            if self.skips_old_node(index) || (is_vacated && !self.is_pausing(index)) {
                self.plan.instances[index].leaves = None;
                self.plan.instances[index].pause_until = Timestamp::NEVER;
            }
        }
    }

    /// Whether the instance starts without waiting for the node that it leaves.
    fn skips_old_node(&self, index: usize) -> bool {
        let instance = &self.plan.instances[index];
        instance.leaves.as_ref().is_some_and(|left| self.is_given_up(left, instance.version))
    }

    /// Whether a pod of that revision starts elsewhere without waiting for the node: the node is lost, and the pod has no
    /// data there or an operator declared the node gone.
    fn is_given_up(&self, node: &NodeName, version: u32) -> bool {
        self.is_lost(node) && (self.is_decommissioned(node) || !self.revision(version).pod.is_stateful())
    }

    /// Advances the operation as far as possible.
    fn run_operation(&mut self) {
        self.start_next_move();
        let operation = self.record.operation.as_ref().map(|operation| operation.kind);
        if self.record.spec.has_strategy() {
            self.run_rollout(operation.is_none());
        }
        match operation {
            Some(Operation::Starting | Operation::Stopping) => self.retarget(),
            Some(Operation::Restarting) => self.restart(),
            Some(Operation::Drifting) => self.run_move(),
            // Every other operation ends at its time limit, so a serial upgrade that lost the lock only waits for it.
            Some(Operation::Upgrading) | None if !self.record.spec.has_strategy() => self.upgrade(),
            Some(Operation::Upgrading | Operation::Deploying | Operation::Scheduling | Operation::Removing) | None => {}
        }
    }

    /// Recreates missing pods and places pods without a node, surge pods included.
    fn replace_pods(&mut self) {
        self.flatten_surge();
        for index in 0..self.plan.instances.len() {
            self.reconcile_instance(index);
        }
        self.place();
        self.unflatten_surge();
    }

    /// The revision with that number; the present one if the number is unknown.
    fn revision(&self, version: u32) -> &Revision {
        let former = self.facts.revisions.get(&version).filter(|_| version != self.record.spec.version);
        former.unwrap_or(&self.present)
    }

    /// The report on the current pod of an instance; none if this plan has replaced that pod.
    fn observed(&self, index: usize) -> Option<&'a PodFacts> {
        self.observed.get(index).copied().flatten().filter(|_| !self.touched.contains(&index))
    }

    /// The expression that keeps a pod in its deployment unit; empty without units.
    fn unit_constraint(&self, instance: &Instance) -> String {
        match &self.record.spec.topology {
            Some(topology) if !instance.unit.is_empty() => {
                format!("constraint:{}=={}", topology.label(), instance.unit)
            }
            Some(_) | None => String::new(),
        }
    }

    fn candidate(&self, node: &NodeName) -> Option<&'a Candidate> {
        self.facts.nodes.get(node)
    }

    fn is_lost(&self, node: &NodeName) -> bool {
        self.candidate(node).is_some_and(|candidate| candidate.liveness == Liveness::Lost)
    }

    /// An operator declared that the node will not return.
    fn is_decommissioned(&self, node: &NodeName) -> bool {
        self.candidate(node).is_some_and(|candidate| candidate.decommissioned)
    }

    fn wake(&mut self, at: Timestamp) {
        self.plan.wake_at = Some(self.plan.wake_at.map_or(at, |other| other.min(at)));
    }
}

/// Clears what belongs to the previous pod of an instance.
fn forget_pod(instance: &mut Instance) {
    instance.created_from = None;
    instance.gates.clear();
    instance.gates_closed_at = Timestamp::NEVER;
    instance.draining = None;
    instance.fetching = None;
    instance.not_moved.clear();
}

fn number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// The index of an instance number; none for 0, which is no instance.
fn index_of(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests;
