//! One group: its record, its instances and its rollout. Nothing here decides.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use contract::command::{Operation, Removal};
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::record::{GroupRecord, Instance, RevisionsRecord};
use contract::spec::PodSpec;
use planner::group::Revision;
use planner::placement::Need;
use planner::rollout::controller::{RolloutReport, RolloutState};

/// One group.
#[derive(Debug, Clone)]
pub(in crate::core) struct Group {
    pub(in crate::core) record: GroupRecord,
    /// The record's pod specs by version, shared with the orders that carry them.
    pub(in crate::core) revisions: BTreeMap<u32, Revision>,
    pub(super) instances: Vec<Instance>,
    /// The progress of its rollout.
    pub(in crate::core) release: Option<RolloutState>,
    /// Its revisions as stored, or about to be.
    pub(in crate::core) past: RevisionsRecord,
    /// The report of the last plan of this leader about the rollout.
    pub(in crate::core) report: Option<RolloutReport>,
    /// Nodes that have not confirmed yet that the pods of this removed group are gone.
    pub(in crate::core) unconfirmed_nodes: BTreeSet<NodeName>,
}

impl Group {
    /// A group without instances.
    pub(in crate::core) fn new(record: GroupRecord, quota_cores: u32) -> Self {
        let pods = record.former.iter().map(|(version, pod)| (*version, pod));
        let pods = pods.chain([(record.spec.version, &record.spec.pod)]);
        let revision = |pod: &PodSpec| Revision::new(Arc::new(pod.clone()), Need::of(pod, quota_cores));
        let revisions = pods.map(|(version, pod)| (version, revision(pod))).collect();
        Self {
            record,
            revisions,
            instances: Vec::new(),
            release: None,
            past: RevisionsRecord::default(),
            report: None,
            unconfirmed_nodes: BTreeSet::new(),
        }
    }
    /// Every pod spec that its record and its revisions refer to.
    pub(in crate::core) fn specs(&self) -> impl Iterator<Item = &PodSpec> {
        let past = self.past.revisions.iter().map(|revision| &revision.pod);
        self.record.former.values().chain([&self.record.spec.pod]).chain(past)
    }
    /// The same group with another record.
    pub(in crate::core) fn with_record(&self, record: GroupRecord, quota_cores: u32) -> Self {
        let Self { instances, release, past, report, unconfirmed_nodes, .. } = self.clone();
        Self { instances, release, past, report, unconfirmed_nodes, ..Self::new(record, quota_cores) }
    }
    /// The same group with its instances elsewhere.
    pub(in crate::core) fn with_instances(&self, instances: Vec<Instance>) -> Self {
        Self { instances, ..self.clone() }
    }
    /// What one instance of a version takes; the present one's when that version is not known any more.
    pub(in crate::core) fn need(&self, version: u32) -> Need {
        self.revision(version).map(|revision| revision.need).unwrap_or_default()
    }
    /// The pod spec of a version; the present one's when that version is not known any more.
    pub(in crate::core) fn pod(&self, version: u32) -> Option<&Arc<PodSpec>> {
        self.revision(version).map(|revision| &revision.pod)
    }
    fn revision(&self, version: u32) -> Option<&Revision> {
        self.revisions.get(&version).or_else(|| self.revisions.get(&self.record.spec.version))
    }
    pub(in crate::core) fn instances(&self) -> &[Instance] {
        &self.instances
    }
    /// The version a pod of it has; for one that is on its way out, the version in its name.
    pub(in crate::core) fn version_of(&self, pod: &PodId) -> u32 {
        let index = usize::try_from(pod.instance).unwrap_or(0).checked_sub(1);
        let mut pods = index.and_then(|index| self.instances.get(index)).into_iter().flat_map(Instance::pods);
        let same = |instance: &&Instance| (instance.named_version(), instance.drift) == (pod.version, pod.drift);
        pods.find(same).map_or(pod.version, |instance| instance.version)
    }
    /// The highest number an instance of it has or is to have.
    pub(in crate::core) fn highest_number(&self) -> u32 {
        let wanted = u32::try_from(self.record.spec.num_instances).unwrap_or(0);
        let instances = u32::try_from(self.instances.len()).unwrap_or(u32::MAX);
        // The numbers of a group with a strategy may have gaps; surplus instances of a serial group are about to be removed.
        if self.record.spec.has_strategy() { wanted.max(instances) } else { wanted }
    }
    /// Its pods that have a place, with where that is.
    pub(in crate::core) fn placed<'a>(
        &'a self,
        name: &'a GroupName,
    ) -> impl Iterator<Item = (&'a NodeName, PodId, &'a Instance)> {
        let pods = self
            .instances
            .iter()
            .enumerate()
            .flat_map(|(index, instance)| instance.pods().map(move |pod| (index, pod)));
        pods.filter_map(move |(index, pod)| Some((pod.node.as_ref()?, pod_id(name, index, pod), pod)))
    }
    /// It only waits for its last containers to go; to users it does not exist.
    pub(in crate::core) fn is_removing(&self) -> bool {
        is_removal(&self.record)
    }
    /// It was removed and its containers keep running until a new group adopts them; users do not see it.
    pub(in crate::core) fn is_orphan(&self) -> bool {
        self.record.removal == Removal::Orphan && !self.is_removing()
    }
    /// It appears in lists, also during a removal that keeps its name.
    pub(in crate::core) fn is_listed(&self) -> bool {
        self.is_present() || (self.is_removing() && self.record.removal == Removal::Foreground)
    }
    /// Not orphaned and not being removed: the API shows it.
    pub(in crate::core) fn is_present(&self) -> bool {
        !self.is_removing() && !self.is_orphan()
    }
}

/// The operation on the group is its removal.
pub(in crate::core) fn is_removal(record: &GroupRecord) -> bool {
    record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Removing)
}

/// Range of all possible pod ids of these instances.
pub(in crate::core) fn pods_of(group: &GroupName, instances: RangeInclusive<u32>) -> RangeInclusive<PodId> {
    let pod = |instance, number| PodId { group: group.clone(), instance, version: number, drift: number };
    pod(*instances.start(), 0)..=pod(*instances.end(), u32::MAX)
}

/// Whether an instance's pods are placed as they were: same nodes, names and versions.
pub(super) fn is_as_placed(before: &Instance, after: &Instance) -> bool {
    fn placed(instance: &Instance) -> (Option<&NodeName>, u32, u32, u32) {
        (instance.node.as_ref(), instance.version, instance.named_version(), instance.drift)
    }
    before.pods().map(placed).eq(after.pods().map(placed))
}

/// The pod in a group's instance `index`.
pub(in crate::core) fn pod_id(group: &GroupName, index: usize, instance: &Instance) -> PodId {
    // At most 5,000 instances: the number always fits.
    let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
    PodId { group: group.clone(), instance: number, version: instance.named_version(), drift: instance.drift }
}
