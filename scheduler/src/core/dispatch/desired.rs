//! The desired state of nodes: the assignments that follow from the placement of a group, and the difference between two
//! placements.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::name::{GroupName, NodeName};
use contract::order::{Assignment, Fetch};
use contract::pod_id::PodId;
use contract::record::Fetching;
use contract::spec::PodSpec;

use crate::core::commit::OrderChange;
use crate::core::state::{Group, State};

/// The assignments of one group.
#[derive(Debug, Default)]
pub(in crate::core) struct Assignments {
    pods: BTreeMap<(NodeName, PodId), (Assignment, Arc<PodSpec>)>,
}

/// The assignments of a group; none for an orphan.
pub(in crate::core) fn assignments(name: &GroupName, group: &Group) -> Assignments {
    if group.is_orphan() {
        return Assignments::default();
    }
    let present = &group.record.spec;
    let restart_policy = present.restart_policy;
    // An instance that leaves a node is ordered elsewhere only after that node confirmed that the pod is gone.
    let settled = group.placed(name).filter(|(_, _, instance)| instance.leaves.is_none());
    let images = || present.pod.images().map(str::to_owned).collect();
    let placed = settled.filter_map(|(node, pod, instance)| {
        let fetching = instance.fetching.filter(|fetching| fetching.version == present.version);
        let assignment = Assignment {
            target: instance.target,
            restart_policy,
            starts_requested: instance.starts_requested,
            restarts_requested: instance.restarts_requested,
            updated_to: instance.created_from.map(|_| instance.version),
            addresses: instance.reserved_addresses.clone(),
            fetch: fetching.map(|Fetching { version, .. }| Fetch { version, images: images() }),
        };
        Some(((node.clone(), pod), (assignment, Arc::clone(group.pod(instance.version)?))))
    });
    Assignments { pods: placed.collect() }
}

impl State {
    /// The assignments of a group; none when the group does not exist.
    pub(in crate::core) fn assignments(&self, name: &GroupName) -> Assignments {
        self.groups.get(name).map(|group| assignments(name, group)).unwrap_or_default()
    }
}

impl Assignments {
    /// What turns these into `after`.
    pub(in crate::core) fn changes_to(&self, after: &Self) -> Vec<OrderChange> {
        let gone = self.pods.keys().filter(|key| !after.pods.contains_key(*key));
        let gone = gone.map(|(node, pod)| OrderChange { node: node.clone(), pod: pod.clone(), what: None });
        let puts = after.pods.iter().filter(|(key, now)| !self.pods.get(*key).is_some_and(|before| same(before, now)));
        let puts = puts.map(|((node, pod), (assignment, spec))| {
            let what = Some((assignment.clone(), Arc::clone(spec)));
            OrderChange { node: node.clone(), pod: pod.clone(), what }
        });
        gone.chain(puts).collect()
    }

    /// Every assignment, for queues that are empty.
    pub(in crate::core) fn all(&self) -> Vec<OrderChange> {
        Self::default().changes_to(self)
    }
}

fn same(before: &(Assignment, Arc<PodSpec>), after: &(Assignment, Arc<PodSpec>)) -> bool {
    before.0 == after.0 && (Arc::ptr_eq(&before.1, &after.1) || before.1 == after.1)
}
