//! Decides what happens to every instance of one group.
//!
//! First the operation that holds the lock goes as far as it can, then each instance falls into exactly one bucket and the
//! bucket says what to do, then places are found. All waiting is `wake_at`, all memory is in record and slots, so a new leader
//! continues where the old one stopped, and planning a finished group changes nothing. The surprise: an upgrade is driven by
//! the versions of the slots and not by the operation, which only holds the lock; so it goes on when the lock is given back.
//! A group that names a strategy has no serial upgrade: its number and its versions are the conductor's ([`rollout`]).

mod bucket;
mod conclusion;
mod drifting;
pub mod dry_run;
mod failing;
pub mod inplace;
mod readiness;
mod repair;
mod rollback;
mod rollout;
mod rooms;
mod saying;
mod storing;
pub mod tombstones;
mod turns;
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
use contract::record::{Filling, GroupRecord, OperationRecord, Slot};
use contract::report::PodFacts;
use contract::spec::PodSpec;
use contract::time::Timestamp;

pub use self::bucket::Bucket;
pub use self::repair::wait_after;
pub use self::rollout::{limits, readiness};
use self::rooms::Rooms;
pub use self::storing::decided;
use crate::placement::{Candidate, Need, Standings, Tenants, Unplaceable};
use crate::rollout::controller::{RolloutReport, RolloutState};

/// One version of a group's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// What each instance of it is.
    pub pod: Arc<PodSpec>,
    /// What one instance of it takes.
    pub need: Need,
    /// What a node reports of a container that was made from it: taken once, and not for every pod of every plan.
    digest: String,
}

impl Revision {
    /// A version whose instances are this.
    pub fn new(pod: Arc<PodSpec>, need: Need) -> Self {
        let digest = Digest::of(&*pod).to_string();
        Self { pod, need, digest }
    }
}

/// How long planning waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// An operation gives its lock back after so long, done or not.
    pub operation: Duration,
    /// An instance gets five times this, or five times its setup time if that is longer, to become well before the next one is
    /// touched.
    pub health_poll: Duration,
    /// An instance of a serial upgrade that exits with a non-zero code within this time of its start fails its version. An
    /// instance without a health check must run for this long before the next one is replaced, and every instance before the
    /// version counts as completed.
    pub early_exit: Duration,
}

/// Everything one group is planned from.
#[derive(Clone, Copy)]
pub struct GroupFacts<'a> {
    /// What is wanted, and how far the operation on it is.
    pub record: &'a GroupRecord,
    /// The present version and every former one, by number.
    pub revisions: &'a BTreeMap<u32, Revision>,
    /// How long to wait for what.
    pub patience: Patience,
    /// Where the instances are.
    pub slots: &'a [Slot],
    /// What each slot's node reports of exactly that pod.
    pub seen: &'a [Option<&'a PodFacts>],
    /// Whether the node each slot leaves has let go of it; true for a slot that leaves none.
    pub vacated: &'a [bool],
    /// A node that is not lost still has pods of the group that must go.
    pub lingers: bool,
    /// What is reported of exactly the pod beside each slot's own.
    pub beside: &'a [Option<&'a PodFacts>],
    /// Pods of each slot's instance that a node still has and that are not ordered any more.
    pub leaving: &'a [u32],
    /// Such pods of instances that are no more.
    pub strays: u32,
    /// Since when something decided at a time ([`decided`]) is known to be stored; what is not in here is not stored yet.
    pub stored: &'a BTreeMap<Timestamp, Timestamp>,
    /// What earlier decisions on its release left behind.
    pub release: Option<&'a RolloutState>,
    /// The guard works: missing instances are made anew.
    pub guarding: bool,
    /// Expressions every placement obeys beside its own.
    pub constraints: &'a [String],
    /// The nodes.
    pub hosts: &'a BTreeMap<NodeName, Candidate>,
    /// Their order, if one is kept.
    pub standings: Option<&'a Standings>,
    /// What is placed on them.
    pub tenants: &'a dyn Tenants,
}

/// What to do with a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPlan {
    /// The slots afterwards.
    pub slots: Vec<Slot>,
    /// They differ from before in what must survive a change of leader.
    pub store: bool,
    /// The record afterwards, when it differs: an operation went on or ended, an upgrade was taken back.
    pub record: Option<GroupRecord>,
    /// The release afterwards, when it differs.
    pub release: Option<RolloutState>,
    /// What is said about the release; none for a serial upgrade.
    pub report: Option<RolloutReport>,
    /// A group that is being removed has nothing left: it can be forgotten.
    pub gone: bool,
    /// An instance wants a place and has none.
    pub waiting: bool,
    /// When to plan again even if nothing happens.
    pub wake_at: Option<Timestamp>,
    /// What the outside is told, by instance number.
    pub incidents: Vec<(u32, Incident)>,
    /// Instances that go although nobody said in time that they are drained.
    pub undrained: Vec<u32>,
    /// Why: what each instance was found to be.
    pub buckets: Vec<Bucket>,
    /// Why the last instance that found no place found none: every node with every reason.
    pub unplaced: Option<Arc<Unplaceable>>,
}

/// Plans one group.
pub fn plan_group(facts: &GroupFacts<'_>, now: Timestamp) -> GroupPlan {
    if let Some(operation) = facts.record.operation.as_ref().filter(|o| o.kind == Operation::Removing) {
        return plan_removal(facts, operation, now);
    }
    if !facts.record.taken_ports.is_empty() {
        // Others have its stream ports: nothing of it runs before they are its own.
        let ended = || GroupRecord { operation: None, updated_at: now, ..facts.record.clone() };
        let record = facts.record.operation.is_some().then(ended);
        return GroupPlan { slots: facts.slots.to_vec(), record, ..GroupPlan::default() };
    }
    let mut planning = Planning::new(facts, now);
    if facts.record.spec.has_strategy() {
        planning.enroll();
    } else {
        planning.resize();
    }
    planning.arrive();
    planning.operate();
    planning.repair();
    planning.conclude()
}

fn plan_removal(facts: &GroupFacts<'_>, operation: &OperationRecord, now: Timestamp) -> GroupPlan {
    let limit = operation.since + facts.patience.operation;
    let is_over = !facts.lingers || now >= limit;
    // Tombstones of stateful instances are waited for without a limit.
    let pod = |version: &u32| facts.record.former.get(version).unwrap_or(&facts.record.spec.pod);
    let is_held = |slot: &Slot| slot.leaves.is_some() && pod(&slot.version).is_stateful();
    let is_left = |slot: &Slot| slot.filling != Filling::Nothing || is_held(slot);
    let gone = is_over && !facts.slots.iter().any(is_left);
    GroupPlan { store: !facts.slots.is_empty(), gone, wake_at: (!is_over).then_some(limit), ..GroupPlan::default() }
}

struct Planning<'a> {
    facts: &'a GroupFacts<'a>,
    now: Timestamp,
    /// The record as it becomes; owned once it differs.
    record: Cow<'a, GroupRecord>,
    /// The version the record asks for; a rollback makes one that is not among the facts.
    present: Revision,
    plan: GroupPlan,
    rooms: Rooms<'a>,
    /// Slots that need a new place.
    moves: Vec<usize>,
    /// Slots this plan orders anew: what was seen is the pod before.
    touched: BTreeSet<usize>,
    unsettled: bool,
    /// The upgrade waits for an instance that proved that its version does not work: it needs no lock for that.
    paused_at: Option<usize>,
    /// Slots that keep their version although another is wanted, and why.
    stuck: BTreeMap<usize, String>,
    /// What is reported of the pod in each slot.
    seen: Vec<Option<&'a PodFacts>>,
    /// What is reported of the pod beside it.
    beside: Vec<Option<&'a PodFacts>>,
    /// While places are sought, the pods beside others are slots of their own after all the instances: whose each is.
    owners: Vec<usize>,
    /// Instances that found no place, with every node and every reason.
    unschedulable: BTreeMap<usize, Arc<Unplaceable>>,
    /// What is remembered of removed instances of a group without a strategy, by number from the first removed one.
    tombstones: Vec<Slot>,
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
            rooms: Rooms::new(facts),
            moves: Vec::new(),
            touched: BTreeSet::new(),
            unsettled: false,
            paused_at: None,
            stuck: BTreeMap::new(),
            seen: facts.seen.to_vec(),
            beside: facts.beside.to_vec(),
            owners: Vec::new(),
            unschedulable: BTreeMap::new(),
            tombstones: Vec::new(),
        }
    }

    /// Scaling up appends, scaling down drops the highest numbers.
    fn resize(&mut self) {
        let wanted = usize::try_from(self.record.spec.num_instances).unwrap_or(0);
        let fresh = Slot { version: self.record.spec.version, ..Slot::default() };
        self.plan.slots = self.facts.slots.iter().map(|slot| self.plain(slot)).collect();
        self.plan.slots.resize(wanted, fresh);
        let kept = self.facts.slots.len().min(wanted);
        let (kept, dropped) = self.facts.slots.split_at(kept);
        for node in kept.iter().filter_map(|slot| slot.node.as_ref()) {
            self.rooms.count(node);
        }
        // Slots beyond the new number are gone from the plan but not yet from the nodes' accounts.
        let beside = kept.iter().filter_map(|slot| slot.next.as_deref());
        let gone = dropped.iter().flat_map(Slot::pods).chain(beside);
        for (node, version) in gone.filter_map(|slot| Some((slot.node.as_ref()?, slot.version))) {
            let need = self.revision(version).need;
            self.rooms.release(node, need);
        }
        self.bury(kept.len());
    }

    /// The slot of a group without a strategy: one pod, always; it may have had one before.
    fn plain(&self, slot: &Slot) -> Slot {
        let (is_filled, version) = (slot.filling == Filling::Pod, self.record.spec.version);
        let fetching = slot.fetching.filter(|it| it.version == version && self.is_outdated(slot));
        Slot {
            filling: Filling::Pod,
            version: if is_filled { slot.version } else { version },
            next: None,
            draining: None,
            fetching,
            unplaced_since: Timestamp::NEVER,
            ..slot.clone()
        }
    }

    /// Who was let go by the node it leaves is ordered where it is to run.
    fn arrive(&mut self) {
        for index in 0..self.plan.slots.len() {
            let is_crash_looping = self.facts.vacated.get(index).copied().unwrap_or(false);
            if self.waits_in_vain(index) || (is_crash_looping && !self.is_pausing(index)) {
                self.plan.slots[index].leaves = None;
                self.plan.slots[index].pause_until = Timestamp::NEVER;
            }
        }
    }

    /// The node that the instance leaves is not waited for.
    fn waits_in_vain(&self, index: usize) -> bool {
        let slot = &self.plan.slots[index];
        slot.leaves.as_ref().is_some_and(|left| self.is_given_up(left, slot.version))
    }

    /// Whether a pod of that version starts elsewhere without waiting for the node: the node is lost, and the pod has no data
    /// there or an operator declared the node gone.
    fn is_given_up(&self, node: &NodeName, version: u32) -> bool {
        self.is_lost(node) && (self.is_forsaken(node) || !self.revision(version).pod.is_stateful())
    }

    /// Lets the operation go on as far as it can.
    fn operate(&mut self) {
        self.begin_drift();
        let operation = self.record.operation.as_ref().map(|operation| operation.kind);
        if self.record.spec.has_strategy() {
            self.lead(operation.is_none());
        }
        match operation {
            Some(Operation::Starting | Operation::Stopping) => self.retarget(),
            Some(Operation::Restarting) => self.restart(),
            Some(Operation::Drifting) => self.drift(),
            // Every other operation ends at its limit, so an upgrade that lost the lock only waits for it.
            Some(Operation::Upgrading) | None if !self.record.spec.has_strategy() => self.upgrade(),
            Some(Operation::Upgrading | Operation::Deploying | Operation::Scheduling | Operation::Removing) | None => {}
        }
    }

    /// Keeps every pod alive, those beside others too.
    fn repair(&mut self) {
        self.unfold();
        for index in 0..self.plan.slots.len() {
            self.classify(index);
        }
        self.place();
        self.fold();
    }

    /// What a slot of that version runs; the present version when it is not known any more.
    fn revision(&self, version: u32) -> &Revision {
        let former = self.facts.revisions.get(&version).filter(|_| version != self.record.spec.version);
        former.unwrap_or(&self.present)
    }

    /// What the slot's node reports of the pod the slot means now.
    fn seen(&self, index: usize) -> Option<&'a PodFacts> {
        self.seen.get(index).copied().flatten().filter(|_| !self.touched.contains(&index))
    }

    /// The expression that keeps a pod in its deployment unit; empty when there is none.
    fn within(&self, slot: &Slot) -> String {
        match &self.record.spec.topology {
            Some(topology) if !slot.unit.is_empty() => format!("constraint:{}=={}", topology.label(), slot.unit),
            Some(_) | None => String::new(),
        }
    }

    fn host(&self, node: &NodeName) -> Option<&'a Candidate> {
        self.facts.hosts.get(node)
    }

    fn is_lost(&self, node: &NodeName) -> bool {
        self.host(node).is_some_and(|host| host.liveness == Liveness::Lost)
    }

    /// Somebody says that the node will not return.
    fn is_forsaken(&self, node: &NodeName) -> bool {
        self.host(node).is_some_and(|host| host.decommissioned)
    }

    fn wake(&mut self, at: Timestamp) {
        self.plan.wake_at = Some(self.plan.wake_at.map_or(at, |other| other.min(at)));
    }
}

/// Another pod comes into the slot: what was said of the one before does not hold for it.
fn forget_pod(slot: &mut Slot) {
    slot.created_from = None;
    slot.gates.clear();
    slot.gates_closed_at = Timestamp::NEVER;
    slot.draining = None;
    slot.fetching = None;
    slot.not_moved.clear();
}

/// The number of the instance in a slot.
fn number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
