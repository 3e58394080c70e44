//! What a commit changed for one group: which instances moved, were let go of, or were taken down, and whether that was right.
//!
//! The rules here need to know what really stands on the nodes; what follows from commands alone is in `slots`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::command::Drift;
use contract::keys::{self, Key};
use contract::name::{GroupName, NodeName};
use contract::pod_id::{InstanceKey, PodId};
use contract::record::{GroupRecord, NodeRecord, Slot};
use contract::spec::{PodGroupSpec, PodSpec};
use contract::time::Timestamp;
use scheduler::core::io::{Commit, Write};

use crate::checks::checker::index_of;
use crate::checks::instances::{StoredGroup, is_instance};
use crate::checks::rollout_commands::RolloutCommands;
use crate::world::GroundTruth;
use crate::world::node_process::NodeProcess;

/// A decision may be stored so long after a node it took for lost came back.
const DECIDED_BEFORE: Duration = Duration::from_secs(60);

/// One group before and after a commit.
#[derive(Debug, Clone)]
pub struct Change {
    /// Target.
    pub group: GroupName,
    /// Before; nothing when it is new.
    pub was: StoredGroup,
    /// After.
    pub is: StoredGroup,
    /// Drifts accepted meanwhile: one that has nothing to wait for is over at once.
    pub drifts: Vec<Drift>,
    /// What was said about its releases until now.
    pub said: RolloutCommands,
    /// When drains that were there before were stored, by when they began.
    pub hidden: BTreeMap<Timestamp, Timestamp>,
}

/// An instance before and after a commit.
#[derive(Debug, Clone)]
pub struct Transition<'a> {
    /// Target.
    pub instance: InstanceKey,
    /// Before.
    pub was: &'a Slot,
    /// After.
    pub is: &'a Slot,
}

impl Change {
    /// The instances that were there before and are there now.
    pub fn transitions(&self) -> impl Iterator<Item = Transition<'_>> {
        let pairs = (1..).zip(self.was.slots.iter().zip(&self.is.slots));
        pairs.filter(|(_, (was, is))| is_instance(was) && is_instance(is)).map(|(number, (was, is))| Transition {
            instance: InstanceKey { group: self.group.clone(), instance: number },
            was,
            is,
        })
    }
    /// A drift was under way, by force if asked for.
    pub fn drifts(&self, by_force: bool) -> bool {
        let queued = self.was.record.drifts.iter().chain(&self.is.record.drifts);
        queued.chain(&self.drifts).any(|drift| drift.force || !by_force)
    }
    /// The readiness gate was added since the commit before.
    pub fn is_added(&self, gate: &str) -> bool {
        let has_it = |spec: &PodGroupSpec| spec.readiness_gates.iter().any(|known| known == gate);
        !self.said.lately().iter().chain([&self.was.record.spec]).all(has_it)
    }
    /// The number was given up and taken again between two commits, and stands for another instance since: what happened to
    /// the one before is no move of this one.
    pub fn is_another(&self, transition: &Transition<'_>) -> bool {
        let fewest = self.said.lately().iter().map(|spec| spec.num_instances).min().unwrap_or(0);
        let fewest = usize::try_from(fewest).unwrap_or(0);
        let is_fresh = (transition.is.starts_requested, transition.is.restarts_requested) == (0, 0);
        if self.is.record.spec.has_strategy() {
            // Target ones go is the conductor's to say; who comes under a name that may still be there has another drift.
            let were = self.was.slots.iter().filter(|slot| is_instance(slot)).count();
            return is_fresh && fewest < were && transition.is.drift > transition.was.drift;
        }
        is_fresh && usize::try_from(transition.instance.instance).unwrap_or(0) > fewest
    }
    /// What an instance of that version is.
    pub fn spec(&self, version: u32) -> Option<&PodSpec> {
        let of = |record: &GroupRecord| record.spec.version == version;
        let (was, is) = (&self.was.record, &self.is.record);
        let present = [is, was].into_iter().find(|record| of(record)).map(|record| &record.spec.pod);
        present.or_else(|| is.former.get(&version)).or_else(|| was.former.get(&version))
    }
    /// Stateful before and after, and at every moment in between: two patches may be stored with one commit, and nothing
    /// binds what the first of them made stateless.
    pub fn is_stateful(&self, transition: &Transition<'_>) -> bool {
        let is_bound = |slot: &&Slot| self.spec(slot.version).is_some_and(PodSpec::is_stateful);
        let mut lately = self.said.lately().iter().map(|spec| &spec.pod);
        [transition.was, transition.is].iter().all(is_bound) && lately.all(PodSpec::is_stateful)
    }
}

impl Transition<'_> {
    /// The node it left.
    pub fn left(&self) -> Option<&NodeName> {
        self.was.node.as_ref().filter(|from| self.is.node.as_ref() != Some(*from))
    }
    /// The pod beside its own took over: its own goes, and nothing has to be let go of first.
    pub fn is_promoted(&self) -> bool {
        let is_next = |next: &Slot| identity(next) == identity(self.is);
        identity(self.was) != identity(self.is) && self.was.next.as_deref().is_some_and(is_next)
    }
    /// It left or was made anew because something was wrong with it.
    pub fn failed(&self) -> bool {
        self.is.failures > 0 || self.was.failures > 0
    }
    /// The node that must have let go of it by now.
    pub fn free_of(&self) -> Option<&NodeName> {
        match (&self.was.leaves, &self.is.leaves) {
            (Some(left), None) => Some(left),
            (None, None) => self.left().filter(|_| self.is.node.is_some()),
            (_, Some(_)) => None,
        }
    }
    /// The pod it is now.
    pub fn pod(&self) -> PodId {
        let InstanceKey { group, instance } = self.instance.clone();
        PodId { group, instance, version: self.is.named_version(), drift: self.is.drift }
    }
}

/// What tells the pods of one instance apart.
pub fn identity(slot: &Slot) -> (u32, u32, Option<&NodeName>) {
    (slot.named_version(), slot.drift, slot.node.as_ref())
}

/// Nodes that were stored as lost, and when they came back.
#[derive(Debug, Default)]
pub struct Lost {
    nodes: BTreeMap<NodeName, Option<Timestamp>>,
}

impl Lost {
    /// A commit is stored.
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
    /// Whether a decision stored now may have taken the node for lost.
    pub fn contains(&self, node: &NodeName, now: Timestamp) -> bool {
        self.nodes.get(node).is_some_and(|back_at| back_at.is_none_or(|at| now.since(at) < DECIDED_BEFORE))
    }
}

/// What a node still has of an instance, by its order or in its engine, but for the pod beside its own.
pub fn has_of(truth: &GroundTruth<'_>, node: &NodeName, transition: &Transition<'_>) -> Option<String> {
    let process: &NodeProcess = truth.nodes.get(index_of(node)?)?;
    let beside = transition.is.next.as_deref().map(|next| (next.named_version(), next.drift));
    let is_it = |pod: &PodId| pod.key() == transition.instance && Some((pod.version, pod.drift)) != beside;
    let ordered = process.disk.order.pods.keys().find(|pod| is_it(pod));
    let inventory = truth.engines[process.engine].inventory(&process.owner);
    let stands = inventory.into_iter().find(|seen| is_it(&seen.identity.pod));
    let order = ordered.map(|pod| format!("{pod} in its order {}", process.disk.order.fence));
    order.or_else(|| stands.map(|seen| format!("container {} of {}, {:?}", seen.id, seen.identity.pod, seen.phase)))
}

/// Instances whose second copy no leader could prevent: their node was lost, or its disk went back in time.
pub type Excused = BTreeSet<InstanceKey>;
