//! What the scheduler knows of intents and placements, with the indexes that keep its work small.
//!
//! Slots are changed in one place, [`State::set_slots`], because three things must change together: the slots, what each
//! node has given away, and which pods are placed where. Nothing here decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::brakes::{Constraint, EngineRecord};
use contract::command::{Operation, Outcome};
use contract::name::{CommandId, GroupName, NodeName};
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::record::{Cursor, GroupRecord, NodeRecord, Slot};
use contract::report::{EngineState, NodeFacts};
use contract::spec::PodSpec;
use contract::time::Timestamp;
use planner::placement::{Host, Need, Tenants};
use planner::ports::Claims;

use super::history::Histories;
use super::io::OUTCOME_KEPT;
use super::ports;

/// Intents, placements and nodes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) groups: BTreeMap<GroupName, Group>,
    /// Every node known from the store or from its reports.
    pub(super) hosts: BTreeMap<NodeName, Host>,
    /// Node records as stored, or about to be.
    pub(super) records: BTreeMap<NodeName, NodeRecord>,
    /// Which pods are placed on which node.
    pub(super) assigned: BTreeMap<NodeName, BTreeSet<PodId>>,
    pub(super) cursor: Cursor,
    /// Why the cursor cannot be read.
    pub(super) no_cursor: Option<String>,
    /// Groups whose record or placement cannot be read: they exist, and nobody touches what they have.
    pub(super) spared: BTreeSet<GroupName>,
    pub(super) callbacks: BTreeSet<String>,
    /// The engine's switches.
    pub(super) engine: EngineRecord,
    /// The stored switches cannot be read: the next change writes them anew.
    pub(super) engine_unread: bool,
    /// Constraints of every placement, by type.
    pub(super) constraints: BTreeMap<String, Constraint>,
    /// Who has and who waits for stream ports; follows from the groups' records.
    pub(super) claims: Claims,
    /// When containers started and stopped.
    pub(super) histories: Histories,
    pub(super) outcomes: Outcomes,
}

/// One group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) record: GroupRecord,
    /// The record's pod spec, shared with the orders that carry it.
    pub(super) pod: Arc<PodSpec>,
    pub(super) need: Need,
    slots: Vec<Slot>,
    /// When it was last planned by this leader.
    pub(super) planned_at: Timestamp,
    /// Nodes that had pods of a group that is being removed and have not said yet that they obey.
    pub(super) draining: BTreeSet<NodeName>,
}

impl Group {
    /// A group without instances.
    pub(super) fn new(record: GroupRecord, quota_cores: u32) -> Self {
        let pod = Arc::new(record.spec.pod.clone());
        let need = Need::of(&pod, quota_cores);
        Self { record, pod, need, slots: Vec::new(), planned_at: Timestamp::NEVER, draining: BTreeSet::new() }
    }
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }
    /// It only waits for its last containers to go; to users it does not exist.
    pub(super) fn is_removing(&self) -> bool {
        self.record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Removing)
    }
}

/// The pod in a group's slot `index`.
pub(super) fn pod_id(group: &GroupName, index: usize, slot: &Slot) -> PodId {
    // At most 5,000 instances: the number always fits.
    let instance = u32::try_from(index + 1).unwrap_or(u32::MAX);
    PodId { group: group.clone(), instance, version: slot.version, drift: slot.drift }
}

impl State {
    /// Puts a group in place; its slots are kept if there is one of that name already.
    pub(super) fn put_group(&mut self, name: &GroupName, record: GroupRecord, quota_cores: u32) {
        let slots = self.groups.get(name).map(|group| group.slots.clone()).unwrap_or_default();
        let draining = self.groups.get(name).map(|group| group.draining.clone()).unwrap_or_default();
        self.drop_group(name);
        if let Some(claim) = ports::claim(&record) {
            self.claims.set(name, claim);
        }
        self.groups.insert(name.clone(), Group { draining, ..Group::new(record, quota_cores) });
        self.set_slots(name, slots);
    }

    /// Forgets a group and gives back what it used.
    pub(super) fn drop_group(&mut self, name: &GroupName) {
        self.set_slots(name, Vec::new());
        self.claims.cancel(name);
        self.groups.remove(name);
    }

    /// Changes where a group's instances are, and every index with it.
    pub(super) fn set_slots(&mut self, name: &GroupName, slots: Vec<Slot>) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let need = group.need;
        let before = std::mem::replace(&mut group.slots, slots);
        for (index, slot) in before.iter().enumerate() {
            let Some(node) = &slot.node else { continue };
            if let Some(pods) = self.assigned.get_mut(node) {
                pods.remove(&pod_id(name, index, slot));
            }
            if let Some(host) = self.hosts.get_mut(node) {
                host.used = host.used.minus(need);
            }
        }
        for (index, slot) in group.slots.iter().enumerate() {
            let Some(node) = &slot.node else { continue };
            self.assigned.entry(node.clone()).or_default().insert(pod_id(name, index, slot));
            if let Some(host) = self.hosts.get_mut(node) {
                host.used = host.used.plus(need);
            }
        }
    }

    /// Updates what a node has, and makes it known if it was not. Returns whether anything changed.
    pub(super) fn put_host(&mut self, name: &NodeName, facts: &NodeFacts, engine: EngineState) -> bool {
        if let Some(host) = self.hosts.get_mut(name) {
            let changed = host.facts != *facts || host.engine != engine;
            if changed {
                host.facts = facts.clone();
                host.engine = engine;
            }
            return changed;
        }
        let host = Host { facts: facts.clone(), used: self.used_on(name), liveness: Liveness::Unknown, engine };
        self.hosts.insert(name.clone(), host);
        true
    }

    fn used_on(&self, name: &NodeName) -> Need {
        let pods = self.assigned.get(name).into_iter().flatten();
        let needs = pods.filter_map(|pod| self.groups.get(&pod.group)).map(|group| group.need);
        needs.fold(Need::default(), Need::plus)
    }

    /// The groups with an instance placed on the node.
    pub(super) fn groups_on(&self, node: &NodeName) -> BTreeSet<GroupName> {
        self.assigned.get(node).into_iter().flatten().map(|pod| pod.group.clone()).collect()
    }
}

impl Tenants for State {
    fn visit(&self, node: &NodeName, see: &mut dyn FnMut(&PodId, &PodSpec)) {
        for pod in self.assigned.get(node).into_iter().flatten() {
            if let Some(group) = self.groups.get(&pod.group) {
                see(pod, &group.pod);
            }
        }
    }
}

/// What became of the commands of the last hour.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    by_id: BTreeMap<CommandId, Outcome>,
    by_age: BTreeSet<(Timestamp, CommandId)>,
}

impl Outcomes {
    pub(super) fn get(&self, id: &CommandId) -> Option<&Outcome> {
        self.by_id.get(id)
    }
    pub(super) fn insert(&mut self, outcome: Outcome) {
        self.remove(&outcome.id);
        self.by_age.insert((outcome.at, outcome.id.clone()));
        self.by_id.insert(outcome.id.clone(), outcome);
    }
    pub(super) fn remove(&mut self, id: &CommandId) {
        if let Some(old) = self.by_id.remove(id) {
            self.by_age.remove(&(old.at, old.id));
        }
    }
    /// Forgets what the store has forgotten too.
    pub(super) fn forget_old(&mut self, now: Timestamp) {
        while let Some((at, id)) = self.by_age.first().filter(|(at, _)| now.since(*at) > OUTCOME_KEPT).cloned() {
            self.by_age.remove(&(at, id.clone()));
            self.by_id.remove(&id);
        }
    }
}
