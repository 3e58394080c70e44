//! A group before and after a commit: which instances moved, were removed or were replaced.
//!
//! The rules here compare with what really runs on the nodes; `instances` has the rules that follow from commands alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::command::Drift;
use contract::keys::{self, Key};
use contract::name::{GroupName, NodeName};
use contract::pod_id::{InstanceKey, PodId};
use contract::record::{GroupRecord, Instance, NodeRecord};
use contract::spec::{PodGroupSpec, PodSpec};
use contract::time::Timestamp;
use scheduler::core::io::{Commit, Write};

use crate::checks::checker::index_of;
use crate::checks::instances::{StoredGroup, is_instance};
use crate::checks::rollout_commands::RolloutCommands;
use crate::world::GroundTruth;
use crate::world::node_process::NodeProcess;

/// A decision that considered a node lost may be stored this long after the node returned.
const DECIDED_BEFORE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Change {
    pub group: GroupName,
    /// Default if the group is new.
    pub was: StoredGroup,
    pub is: StoredGroup,
    /// Moves accepted since the previous commit; one without instances ends immediately.
    pub drifts: Vec<Drift>,
    /// The rollout commands accepted so far.
    pub commands: RolloutCommands,
    /// When each drain was stored, by its begin.
    pub drains_stored: BTreeMap<Timestamp, Timestamp>,
}

#[derive(Debug, Clone)]
pub struct Transition<'a> {
    pub instance: InstanceKey,
    pub was: &'a Instance,
    pub is: &'a Instance,
}

impl Change {
    /// Instances that existed before and after.
    pub fn transitions(&self) -> impl Iterator<Item = Transition<'_>> {
        let pairs = (1..).zip(self.was.instances.iter().zip(&self.is.instances));
        pairs.filter(|(_, (was, is))| is_instance(was) && is_instance(is)).map(|(number, (was, is))| Transition {
            instance: InstanceKey { group: self.group.clone(), instance: number },
            was,
            is,
        })
    }
    /// Whether a move may explain the change; `by_force` counts only forced moves.
    pub fn drifts(&self, by_force: bool) -> bool {
        let queued = self.was.record.drifts.iter().chain(&self.is.record.drifts);
        queued.chain(&self.drifts).any(|drift| drift.force || !by_force)
    }
    /// Whether the readiness gate was added since the previous commit.
    pub fn is_added(&self, gate: &str) -> bool {
        let has_it = |spec: &PodGroupSpec| spec.readiness_gates.iter().any(|known| known == gate);
        !self.commands.recent_specs().iter().chain([&self.was.record.spec]).all(has_it)
    }
    /// Whether the number was given up and reused between two commits: it now belongs to another instance, which did not move.
    pub fn is_another(&self, transition: &Transition<'_>) -> bool {
        let fewest = self.commands.recent_specs().iter().map(|spec| spec.num_instances).min().unwrap_or(0);
        let fewest = usize::try_from(fewest).unwrap_or(0);
        let is_fresh = (transition.is.starts_requested, transition.is.restarts_requested) == (0, 0);
        if self.is.record.spec.has_strategy() {
            // The rollout chooses the instances to remove. A new instance under a name that may still exist has a higher drift count.
            let were = self.was.instances.iter().filter(|instance| is_instance(instance)).count();
            return is_fresh && fewest < were && transition.is.drift > transition.was.drift;
        }
        is_fresh && usize::try_from(transition.instance.instance).unwrap_or(0) > fewest
    }
    pub fn spec(&self, version: u32) -> Option<&PodSpec> {
        let of = |record: &GroupRecord| record.spec.version == version;
        let (was, is) = (&self.was.record, &self.is.record);
        let present = [is, was].into_iter().find(|record| of(record)).map(|record| &record.spec.pod);
        present.or_else(|| is.former.get(&version)).or_else(|| was.former.get(&version))
    }
    /// Stateful before, after and in every spec in between: two patches may be stored with one commit.
    pub fn is_stateful(&self, transition: &Transition<'_>) -> bool {
        let is_bound = |instance: &&Instance| self.spec(instance.version).is_some_and(PodSpec::is_stateful);
        let mut lately = self.commands.recent_specs().iter().map(|spec| &spec.pod);
        [transition.was, transition.is].iter().all(is_bound) && lately.all(PodSpec::is_stateful)
    }
}

impl Transition<'_> {
    pub fn left(&self) -> Option<&NodeName> {
        self.was.node.as_ref().filter(|from| self.is.node.as_ref() != Some(*from))
    }
    /// The surge pod replaced the current pod.
    pub fn is_promoted(&self) -> bool {
        let is_next = |next: &Instance| identity(next) == identity(self.is);
        identity(self.was) != identity(self.is) && self.was.next.as_deref().is_some_and(is_next)
    }
    /// It moved or was recreated after failures.
    pub fn failed(&self) -> bool {
        self.is.failures > 0 || self.was.failures > 0
    }
    /// The node that must have removed the instance by now.
    pub fn must_have_left(&self) -> Option<&NodeName> {
        match (&self.was.leaves, &self.is.leaves) {
            (Some(left), None) => Some(left),
            (None, None) => self.left().filter(|_| self.is.node.is_some()),
            (_, Some(_)) => None,
        }
    }
    pub fn pod(&self) -> PodId {
        let InstanceKey { group, instance } = self.instance.clone();
        PodId { group, instance, version: self.is.named_version(), drift: self.is.drift }
    }
}

/// Identifies one of the pods of an instance.
pub fn identity(instance: &Instance) -> (u32, u32, Option<&NodeName>) {
    (instance.named_version(), instance.drift, instance.node.as_ref())
}

/// Nodes that were stored as lost, and when they returned.
#[derive(Debug, Default)]
pub struct Lost {
    nodes: BTreeMap<NodeName, Option<Timestamp>>,
}

impl Lost {
    pub fn observe(&mut self, commit: &Commit, now: Timestamp) {
        for write in &commit.writes {
            if let Write::Put { key, value, .. } = write
                && let Key::Node(node) = keys::parse(key)
                && let Ok(record) = serde_json::from_slice::<NodeRecord>(value)
            {
                if record.lost {
                    self.nodes.insert(node, None);
                } else if let Some(back_at @ None) = self.nodes.get_mut(&node) {
                    *back_at = Some(now);
                }
            }
        }
    }
    /// Whether a decision that is stored now may have considered the node lost.
    pub fn contains(&self, node: &NodeName, now: Timestamp) -> bool {
        self.nodes.get(node).is_some_and(|back_at| back_at.is_none_or(|at| now.since(at) < DECIDED_BEFORE))
    }
}

/// What a node still has of an instance, in its order or its engine, except the surge pod.
pub fn has_of(truth: &GroundTruth<'_>, node: &NodeName, transition: &Transition<'_>) -> Option<String> {
    let process: &NodeProcess = truth.nodes.get(index_of(node)?)?;
    let beside = transition.is.next.as_deref().map(|next| (next.named_version(), next.drift));
    let is_it = |pod: &PodId| pod.key() == transition.instance && Some((pod.version, pod.drift)) != beside;
    let ordered = process.disk.order.pods.keys().find(|pod| is_it(pod));
    let inventory = truth.engines[process.engine].inventory(&process.owner);
    let found = inventory.into_iter().find(|seen| is_it(&seen.identity.pod));
    let order = ordered.map(|pod| format!("{pod} in its order {}", process.disk.order.fence));
    order.or_else(|| found.map(|seen| format!("container {} of {}, {:?}", seen.id, seen.identity.pod, seen.phase)))
}

/// Instances whose duplicate no leader could prevent: their node was lost, or lost its ledger.
pub type Excused = BTreeSet<InstanceKey>;
