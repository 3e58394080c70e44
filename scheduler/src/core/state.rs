//! What the scheduler knows of intents and placements, with the indexes that keep its work small.
//!
//! Slots are changed in one place, [`State::set_slots`], because three things must change together: the slots, what each
//! node has given away, and which pods are placed where. Nothing here decides.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use contract::backup::RestoreRecord;
use contract::command::{Operation, Outcome, Removal};
use contract::name::{CommandId, GroupName, NodeName};
use contract::node::NodeIntent;
use contract::pod_id::PodId;
use contract::progress::Progress;
use contract::query::Liveness;
use contract::record::{Cursor, GroupRecord, NodeRecord, RevisionsRecord, Slot};
use contract::report::{EngineState, NodeFacts};
use contract::spec::PodSpec;
use contract::store::StoreRecord;
use contract::switches::{Constraint, EngineRecord};
use contract::time::Timestamp;
use planner::group::Revision;
use planner::placement::{Candidate, Need, Tenants};
use planner::ports::Claims;
use planner::rollout::controller::{RolloutReport, RolloutState};

use super::dependencies::Dependencies;
use super::history::Histories;
use super::hosts::Hosts;
use super::ports;
use super::quarantine::Quarantine;

/// Intents, placements and nodes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) groups: BTreeMap<GroupName, Group>,
    /// Every node known from the store or from its reports.
    pub(super) hosts: Hosts,
    /// What operators say of nodes; nothing is said of the others.
    pub(super) intents: BTreeMap<NodeName, NodeIntent>,
    /// Nodes that are forgotten once nothing is placed there.
    pub(super) removing: BTreeSet<NodeName>,
    /// Node records as stored, or about to be.
    pub(super) records: BTreeMap<NodeName, NodeRecord>,
    /// Which pods are placed on which node, and the version each of them has: not always the one in its name.
    pub(super) assigned: BTreeMap<NodeName, BTreeMap<PodId, u32>>,
    pub(super) cursor: Cursor,
    /// Why the cursor cannot be read.
    pub(super) no_cursor: Option<String>,
    /// Which store this is.
    pub(super) store: StoreRecord,
    /// The commits it holds; none when only older schedulers have led over it.
    pub(super) progress: Option<Progress>,
    /// A backup that is to be put in place.
    pub(super) restore: Option<RestoreRecord>,
    /// Why nobody may lead over what is stored: which store it is, or whether half a backup is in it, cannot be read.
    pub(super) unsound: Option<String>,
    /// What is wrong with the control plane itself, as `deployctl status` says it.
    pub(super) warnings: BTreeMap<Warning, String>,
    /// Nodes that obey another store.
    pub(super) foreign_store: BTreeSet<NodeName>,
    /// Groups whose record or placement cannot be read: they exist, and nobody touches what they have.
    pub(super) spared: BTreeSet<GroupName>,
    /// Dependency pods, and who needs them.
    pub(super) dependencies: Dependencies,
    pub(super) callbacks: BTreeSet<String>,
    /// The record of the constraints cannot be read: nothing is placed until it is written anew.
    pub(super) constraints_unread: bool,
    /// The record of the callbacks cannot be read.
    pub(super) callbacks_unread: bool,
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
    /// Objects that the leader does not reconcile because of an error.
    pub(super) quarantine: Quarantine,
}

/// What may be wrong with the control plane itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Warning {
    /// The store came back with an older state.
    StoreBehind,
    /// This scheduler's clock and that of NATS differ.
    Clock,
    /// The record of the constraints cannot be read.
    ConstraintsUnread,
    /// The record of the callbacks cannot be read.
    CallbacksUnread,
    /// The store has no space left and refuses every write.
    StoreFull,
}

/// One group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) record: GroupRecord,
    /// The record's pod specs by version, shared with the orders that carry them.
    pub(super) revisions: BTreeMap<u32, Revision>,
    slots: Vec<Slot>,
    /// How far its release is.
    pub(super) release: Option<RolloutState>,
    /// Its revisions as stored, or about to be.
    pub(super) past: RevisionsRecord,
    /// What the last plan of this leader said about its release.
    pub(super) report: Option<RolloutReport>,
    /// Nodes that had pods of a group that is being removed and have not let go of them yet.
    pub(super) draining: BTreeSet<NodeName>,
}

impl Group {
    /// A group without instances.
    pub(super) fn new(record: GroupRecord, quota_cores: u32) -> Self {
        let pods = record.former.iter().map(|(version, pod)| (*version, pod));
        let pods = pods.chain([(record.spec.version, &record.spec.pod)]);
        let revision = |pod: &PodSpec| Revision::new(Arc::new(pod.clone()), Need::of(pod, quota_cores));
        let revisions = pods.map(|(version, pod)| (version, revision(pod))).collect();
        Self {
            record,
            revisions,
            slots: Vec::new(),
            release: None,
            past: RevisionsRecord::default(),
            report: None,
            draining: BTreeSet::new(),
        }
    }
    /// Every pod spec that its record and its revisions refer to.
    pub(super) fn specs(&self) -> impl Iterator<Item = &PodSpec> {
        let past = self.past.revisions.iter().map(|revision| &revision.pod);
        self.record.former.values().chain([&self.record.spec.pod]).chain(past)
    }
    /// The same group with another record.
    pub(super) fn with_record(&self, record: GroupRecord, quota_cores: u32) -> Self {
        let Self { slots, release, past, report, draining, .. } = self.clone();
        Self { slots, release, past, report, draining, ..Self::new(record, quota_cores) }
    }
    /// The same group with its instances elsewhere.
    pub(super) fn with_slots(&self, slots: Vec<Slot>) -> Self {
        Self { slots, ..self.clone() }
    }
    /// What one instance of a version takes; the present one's when that version is not known any more.
    pub(super) fn need(&self, version: u32) -> Need {
        self.revision(version).map(|revision| revision.need).unwrap_or_default()
    }
    /// The pod spec of a version; the present one's when that version is not known any more.
    pub(super) fn pod(&self, version: u32) -> Option<&Arc<PodSpec>> {
        self.revision(version).map(|revision| &revision.pod)
    }
    fn revision(&self, version: u32) -> Option<&Revision> {
        self.revisions.get(&version).or_else(|| self.revisions.get(&self.record.spec.version))
    }
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }
    /// The version a pod of it has; for one that is on its way out, the version in its name.
    pub(super) fn version_of(&self, pod: &PodId) -> u32 {
        let index = usize::try_from(pod.instance).unwrap_or(0).checked_sub(1);
        let mut pods = index.and_then(|index| self.slots.get(index)).into_iter().flat_map(Slot::pods);
        let same = |slot: &&Slot| (slot.named_version(), slot.drift) == (pod.version, pod.drift);
        pods.find(same).map_or(pod.version, |slot| slot.version)
    }
    /// The highest number an instance of it has or is to have.
    pub(super) fn highest_number(&self) -> u32 {
        let wanted = u32::try_from(self.record.spec.num_instances).unwrap_or(0);
        let slots = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        // Numbers of a conducted group may have holes; slots of a serial one beyond the wanted are about to go.
        if self.record.spec.has_strategy() { wanted.max(slots) } else { wanted }
    }
    /// Its pods that have a place, with where that is.
    pub(super) fn placed<'a>(&'a self, name: &'a GroupName) -> impl Iterator<Item = (&'a NodeName, PodId, &'a Slot)> {
        let pods = self.slots.iter().enumerate().flat_map(|(index, slot)| slot.pods().map(move |pod| (index, pod)));
        pods.filter_map(move |(index, pod)| Some((pod.node.as_ref()?, pod_id(name, index, pod), pod)))
    }
    /// It only waits for its last containers to go; to users it does not exist.
    pub(super) fn is_removing(&self) -> bool {
        is_removal(&self.record)
    }
    /// It was removed and its containers stay until somebody adopts them; to users it does not exist.
    pub(super) fn is_orphan(&self) -> bool {
        self.record.removal == Removal::Orphan && !self.is_removing()
    }
    /// It stands in lists: also while it goes, as long as that keeps its name from others.
    pub(super) fn is_listed(&self) -> bool {
        self.is_present() || (self.is_removing() && self.record.removal == Removal::Foreground)
    }
    /// It exists to users.
    pub(super) fn is_present(&self) -> bool {
        !self.is_removing() && !self.is_orphan()
    }
}

/// The operation on the group is its removal.
pub(super) fn is_removal(record: &GroupRecord) -> bool {
    record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Removing)
}

/// Every pod some instances of a group may be.
pub(super) fn pods_of(group: &GroupName, instances: RangeInclusive<u32>) -> RangeInclusive<PodId> {
    let pod = |instance, number| PodId { group: group.clone(), instance, version: number, drift: number };
    pod(*instances.start(), 0)..=pod(*instances.end(), u32::MAX)
}

/// Whether a slot's pods are placed as they were: same nodes, names and versions.
fn is_as_placed(before: &Slot, after: &Slot) -> bool {
    fn placed(slot: &Slot) -> (Option<&NodeName>, u32, u32, u32) {
        (slot.node.as_ref(), slot.version, slot.named_version(), slot.drift)
    }
    before.pods().map(placed).eq(after.pods().map(placed))
}

/// The pod in a group's slot `index`.
pub(super) fn pod_id(group: &GroupName, index: usize, slot: &Slot) -> PodId {
    // At most 5,000 instances: the number always fits.
    let instance = u32::try_from(index + 1).unwrap_or(u32::MAX);
    PodId { group: group.clone(), instance, version: slot.named_version(), drift: slot.drift }
}

impl State {
    /// Puts a group in place; what else is known of one of that name is kept.
    pub(super) fn put_group(&mut self, name: &GroupName, record: GroupRecord, quota_cores: u32) {
        let before = self.groups.get(name).cloned();
        self.drop_group(name);
        if let Some(claim) = ports::claim(&record) {
            self.claims.set(name, claim);
        }
        let mut group = match before {
            Some(before) => before.with_record(record, quota_cores),
            None => Group::new(record, quota_cores),
        };
        let slots = std::mem::take(&mut group.slots);
        self.groups.insert(name.clone(), group);
        self.set_slots(name, slots);
    }

    /// Changes the record of a group; what follows from its specs and claims is worked out anew only if they changed.
    pub(super) fn set_record(&mut self, name: &GroupName, record: GroupRecord, quota_cores: u32) {
        let same = |group: &Group| {
            let before = &group.record;
            (&before.spec.pod, before.spec.version, &before.former, &before.taken_ports)
                == (&record.spec.pod, record.spec.version, &record.former, &record.taken_ports)
        };
        match self.groups.get_mut(name) {
            Some(group) if same(group) && !is_removal(&group.record) && !is_removal(&record) => group.record = record,
            Some(_) | None => self.put_group(name, record, quota_cores),
        }
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
        let before = std::mem::replace(&mut group.slots, slots);
        let mut moved = false;
        // A plan changes a few slots of many: only those are taken out and put in again.
        for index in 0..before.len().max(group.slots.len()) {
            let (old, new) = (before.get(index), group.slots.get(index));
            if old.zip(new).is_some_and(|(old, new)| is_as_placed(old, new)) {
                continue;
            }
            moved = true;
            for pod in old.into_iter().flat_map(Slot::pods) {
                let Some(node) = &pod.node else { continue };
                if let Some(pods) = self.assigned.get_mut(node) {
                    pods.remove(&pod_id(name, index, pod));
                }
                if let Some(host) = self.hosts.get_mut(node) {
                    host.used = host.used.minus(group.need(pod.version));
                }
            }
            for pod in new.into_iter().flat_map(Slot::pods) {
                let Some(node) = &pod.node else { continue };
                self.assigned.entry(node.clone()).or_default().insert(pod_id(name, index, pod), pod.version);
                if let Some(host) = self.hosts.get_mut(node) {
                    host.used = host.used.plus(group.need(pod.version));
                }
            }
        }
        if moved {
            self.dependencies.set_uses(name, group);
        }
    }

    /// Updates what a node has, and makes it known if it was not. Returns whether anything changed.
    pub(super) fn put_host(&mut self, name: &NodeName, facts: &NodeFacts, engine: EngineState) -> bool {
        let facts = self.labelled(name, facts);
        if self.hosts.get(name).is_some_and(|host| host.facts == *facts && host.engine == engine) {
            // As with nearly every report: the order of the nodes is not touched.
            return false;
        }
        let facts = facts.into_owned();
        if let Some(host) = self.hosts.get_mut(name) {
            (host.facts, host.engine) = (facts, engine);
            return true;
        }
        let (cordon, decommissioned) = self.standing_of(name);
        let (used, liveness) = (self.used_on(name), Liveness::Unknown);
        let host = Candidate { facts, used, liveness, engine, cordon, decommissioned };
        self.hosts.insert(name.clone(), host);
        true
    }

    pub(super) fn used_on(&self, name: &NodeName) -> Need {
        let pods = self.assigned.get(name).into_iter().flatten();
        let needs = pods.filter_map(|(pod, version)| Some(self.groups.get(&pod.group)?.need(*version)));
        needs.fold(self.dependencies.used_on(name), Need::plus)
    }

    /// The groups with an instance placed on the node.
    pub(super) fn groups_on(&self, node: &NodeName) -> BTreeSet<GroupName> {
        self.assigned.get(node).into_iter().flatten().map(|(pod, _)| pod.group.clone()).collect()
    }

    /// Groups nodes must leave alone: those whose record cannot be read, and those whose containers nobody owns.
    pub(super) fn untouchable(&self) -> BTreeSet<GroupName> {
        let orphans = self.groups.iter().filter(|(_, group)| group.is_orphan()).map(|(name, _)| name);
        self.spared.iter().chain(&self.dependencies.spared).chain(orphans).cloned().collect()
    }
}

impl Tenants for State {
    fn visit(&self, node: &NodeName, see: &mut dyn FnMut(&PodId, &PodSpec)) {
        for (pod, version) in self.assigned.get(node).into_iter().flatten() {
            if let Some(spec) = self.groups.get(&pod.group).and_then(|group| group.pod(*version)) {
                see(pod, spec);
            }
        }
    }
}

/// Outcomes that make room for one new.
const FORGOTTEN_AT_ONCE: usize = 2;
/// One pass over all outcomes finds the oldest hundredth of them.
const OLDEST_FRACTION: usize = 100;

/// What became of recent commands. Each is known until its etcd lease ends: no clock of ours decides that, because a clock that is
/// ahead would let a repeated command run twice. Clients that send commands without end must not fill the store, so there is a
/// limit too, and the oldest make room.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    by_id: BTreeMap<CommandId, Outcome>,
    /// The oldest when there were last too many, the oldest of them at the end.
    oldest: Vec<CommandId>,
}

impl Outcomes {
    /// Forgets a few of the oldest while there are more than `most`: those that are forgotten.
    pub(super) fn forget_surplus(&mut self, most: usize) -> Vec<CommandId> {
        let mut forgotten = Vec::new();
        while self.by_id.len() > most && forgotten.len() < FORGOTTEN_AT_ONCE {
            let Some(id) = self.oldest.pop() else {
                self.find_oldest();
                continue;
            };
            if self.by_id.remove(&id).is_some() {
                forgotten.push(id);
            }
        }
        forgotten
    }

    /// All outcomes are looked at, so it is done once for many that are forgotten.
    fn find_oldest(&mut self) {
        let mut by_age: Vec<(Timestamp, &CommandId)> =
            self.by_id.values().map(|outcome| (outcome.at, &outcome.id)).collect();
        let found = by_age.len().div_ceil(OLDEST_FRACTION);
        if let Some(last) = found.checked_sub(1) {
            by_age.select_nth_unstable(last);
        }
        by_age.truncate(found);
        by_age.sort_unstable_by(|one, other| other.cmp(one));
        self.oldest = by_age.into_iter().map(|(_, id)| id.clone()).collect();
    }
    pub(super) fn get(&self, id: &CommandId) -> Option<&Outcome> {
        self.by_id.get(id)
    }
    pub(super) fn insert(&mut self, outcome: Outcome) {
        self.by_id.insert(outcome.id.clone(), outcome);
    }
    pub(super) fn remove(&mut self, id: &CommandId) {
        self.by_id.remove(id);
    }
}
