//! A group and its nodes: tests set the reports and check the plans.

use contract::name::GroupName;
use contract::pod_id::PodId;
use contract::report::{ContainerFacts, NodeFacts};
use contract::spec::{ContainerSpec, PodGroupSpec};

use super::*;

pub(super) struct NoPods;
impl PlacedPods for NoPods {
    fn visit(&self, _: &NodeName, _: &mut dyn FnMut(&PodId, &PodSpec)) {}
}

#[derive(Debug, Clone)]
pub(super) struct TestGroup {
    pub(super) record: GroupRecord,
    pub(super) instances: Vec<Instance>,
    pub(super) observed: Vec<Option<PodFacts>>,
    /// Instances whose old node still has them.
    pub(super) still_on_old_node: BTreeSet<usize>,
    pub(super) has_leftovers: bool,
    pub(super) observed_surge: Vec<Option<PodFacts>>,
    pub(super) leaving: Vec<u32>,
    pub(super) terminating_removed: u32,
    /// The decisions are not committed yet.
    pub(super) is_uncommitted: bool,
    /// When the decisions were committed; immediately if not set.
    pub(super) committed_at: Option<i64>,
    pub(super) release: Option<RolloutState>,
    pub(super) guard_enabled: bool,
    pub(super) constraints: Vec<String>,
    pub(super) nodes: BTreeMap<NodeName, Candidate>,
}

pub(super) const MIB: u64 = 1 << 20;

pub(super) fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}
pub(super) fn reported(state: RunState) -> Option<PodFacts> {
    Some(PodFacts { state, last_error: "E".to_owned(), ..Default::default() })
}
/// Running since a time, with that health.
pub(super) fn running(health: HealthState, since: i64) -> Option<PodFacts> {
    let container = ContainerFacts { running: true, started_at: at(since), ..Default::default() };
    Some(PodFacts { state: RunState::Success, health, containers: vec![container], ..Default::default() })
}
pub(super) fn healthy(since: i64) -> Option<PodFacts> {
    running(HealthState::Healthy, since)
}
pub(super) fn starting(since: i64) -> Option<PodFacts> {
    running(HealthState::Starting, since)
}

pub(super) fn world(instances: i64, nodes: &[&str]) -> TestGroup {
    let group: GroupName = "web".parse().expect("a name");
    let container = ContainerSpec { image: "i".to_owned(), cpu_limit: 1, memory_limit: 64 << 20, ..Default::default() };
    let pod = PodSpec { name: group.to_string(), containers: vec![container], ..Default::default() };
    let facts = NodeFacts { memory: 1024 * MIB, cpu_millis: 8_000, ..Default::default() };
    let candidate = Candidate::alive(facts);
    TestGroup {
        record: GroupRecord {
            spec: PodGroupSpec { name: group.to_string(), num_instances: instances, pod, ..Default::default() },
            operation: Some(OperationRecord::new(Operation::Deploying, at(0))),
            ..Default::default()
        },
        instances: Vec::new(),
        observed: Vec::new(),
        still_on_old_node: BTreeSet::new(),
        has_leftovers: false,
        observed_surge: Vec::new(),
        leaving: Vec::new(),
        terminating_removed: 0,
        is_uncommitted: false,
        committed_at: None,
        release: None,
        guard_enabled: true,
        constraints: Vec::new(),
        nodes: nodes.iter().map(|node| (name(node), candidate.clone())).collect(),
    }
}

impl GroupPlan {
    /// The operation is over, or the group is gone.
    pub(super) fn finished(&self) -> bool {
        self.gone || self.record.as_ref().is_some_and(|record| record.operation.is_none())
    }
}

impl TestGroup {
    pub(super) fn revisions(&self) -> BTreeMap<u32, Revision> {
        let pods = self.record.former.iter().map(|(version, pod)| (*version, pod));
        let pods = pods.chain([(self.record.spec.version, &self.record.spec.pod)]);
        pods.map(|(version, pod)| (version, Revision::new(Arc::new(pod.clone()), Need::of(pod, 8)))).collect()
    }
    pub(super) fn plan(&self, now: i64) -> GroupPlan {
        self.with_facts(|facts| plan_group(facts, at(now)))
    }
    /// Calls a function with the planner's input.
    pub(super) fn with_facts<T>(&self, say: impl FnOnce(&GroupFacts<'_>) -> T) -> T {
        let observed: Vec<Option<&PodFacts>> = self.observed.iter().map(Option::as_ref).collect();
        let observed_surge: Vec<Option<&PodFacts>> = self.observed_surge.iter().map(Option::as_ref).collect();
        let vacated: Vec<bool> =
            (0..self.instances.len()).map(|index| !self.still_on_old_node.contains(&index)).collect();
        let decisions = self.instances.iter().flat_map(decided).filter(|_| !self.is_uncommitted);
        let stored = decisions.map(|at_once| (at_once, self.committed_at.map_or(at_once, at))).collect();
        let facts = GroupFacts {
            record: &self.record,
            revisions: &self.revisions(),
            timeouts: GroupTimeouts {
                operation: Duration::from_secs(600),
                health_poll: Duration::from_secs(20),
                early_exit: Duration::from_secs(10),
            },
            instances: &self.instances,
            observed: &observed,
            vacated: &vacated,
            has_leftovers: self.has_leftovers,
            observed_surge: &observed_surge,
            leaving: &self.leaving,
            terminating_removed: self.terminating_removed,
            committed: &stored,
            release: self.release.as_ref(),
            guard_enabled: self.guard_enabled,
            constraints: &self.constraints,
            nodes: &self.nodes,
            ranking: None,
            placed_pods: &NoPods,
        };
        say(&facts)
    }
    /// Applies the plan: the load of the nodes changes, new pods are not reported yet, and moving instances still have their
    /// old pod.
    pub(super) fn take(&mut self, plan: &GroupPlan) {
        self.account(Need::minus);
        self.observed.resize(plan.instances.len(), None);
        for (index, instance) in plan.instances.iter().enumerate() {
            let who = |instance: &Instance| (instance.node.clone(), instance.version, instance.drift);
            if self.instances.get(index).is_none_or(|old| who(old) != who(instance)) {
                self.observed[index] = None;
            }
            if instance.leaves.is_some() && self.instances.get(index).is_none_or(|old| old.leaves != instance.leaves) {
                self.still_on_old_node.insert(index);
            }
        }
        self.instances.clone_from(&plan.instances);
        if let Some(record) = &plan.record {
            self.record = record.clone();
        }
        if let Some(release) = &plan.release {
            self.release = Some(release.clone());
        }
        self.account(Need::plus);
    }
    fn account(&mut self, change: fn(Need, Need) -> Need) {
        let revisions = self.revisions();
        for instance in self.instances.iter().flat_map(Instance::pods) {
            let Some(candidate) = instance.node.as_ref().and_then(|node| self.nodes.get_mut(node)) else { continue };
            let revision = revisions.get(&instance.version).unwrap_or_else(|| &revisions[&self.record.spec.version]);
            candidate.used = change(candidate.used, revision.need);
        }
    }
    pub(super) fn settle(&mut self, now: i64) -> GroupPlan {
        let plan = self.plan(now);
        self.take(&plan);
        plan
    }
    /// A node reports on an instance, and the scheduler plans.
    pub(super) fn report(&mut self, index: usize, facts: Option<PodFacts>, now: i64) -> GroupPlan {
        self.observed[index] = facts;
        self.settle(now)
    }
    /// Old nodes confirm that moving instances are gone, and the scheduler plans.
    pub(super) fn vacate(&mut self, now: i64) -> GroupPlan {
        self.still_on_old_node.clear();
        self.settle(now)
    }
    /// A spec patch and the plan for it.
    pub(super) fn upgrade(&mut self, now: i64, change: impl FnOnce(&mut PodSpec)) -> GroupPlan {
        self.patch(now, change);
        self.settle(now)
    }
    /// A command for some instances and the plan for it.
    pub(super) fn operate(&mut self, kind: Operation, range: std::ops::RangeInclusive<u32>, now: i64) -> GroupPlan {
        self.run_operation(kind, range, now);
        self.settle(now)
    }
    /// All instances are deployed, running and completed; no operation holds the lock.
    pub(super) fn all_running(mut self) -> Self {
        self.settle(0);
        self.observed = vec![reported(RunState::Success); self.instances.len()];
        self.settle(1);
        self.settle(10);
        self
    }
    /// As [`TestGroup::all_running`], with passing health checks.
    pub(super) fn all_healthy(mut self) -> Self {
        self.settle(0);
        self.observed = vec![healthy(0); self.instances.len()];
        self.settle(1);
        self.settle(10);
        self
    }
    /// What the scheduler does for a spec patch.
    pub(super) fn patch(&mut self, now: i64, change: impl FnOnce(&mut PodSpec)) {
        let record = &mut self.record;
        record.former.insert(record.spec.version, record.spec.pod.clone());
        record.spec.version += 1;
        record.spec.pod.version = record.spec.version;
        change(&mut record.spec.pod);
        record.equals.clear();
        record.last_error.clear();
        record.operation = Some(OperationRecord::new(Operation::Upgrading, at(now)));
    }
    pub(super) fn run_operation(&mut self, kind: Operation, range: std::ops::RangeInclusive<u32>, now: i64) {
        self.record.operation =
            Some(OperationRecord { kind, since: at(now), next: *range.start(), last: *range.end() });
    }
    pub(super) fn places(&self) -> Vec<Option<&str>> {
        self.instances.iter().map(|instance| instance.node.as_ref().map(NodeName::as_str)).collect()
    }
    pub(super) fn versions(&self) -> Vec<u32> {
        self.instances.iter().map(|instance| instance.version).collect()
    }
    pub(super) fn drifts(&self) -> Vec<u32> {
        self.instances.iter().map(|instance| instance.drift).collect()
    }
    pub(super) fn leaves(&self, index: usize) -> Option<&str> {
        self.instances[index].leaves.as_ref().map(NodeName::as_str)
    }
    pub(super) fn candidate(&mut self, node: &str) -> &mut Candidate {
        self.nodes.get_mut(&name(node)).expect("a node")
    }
    pub(super) fn operation(&self) -> Option<Operation> {
        self.record.operation.as_ref().map(|operation| operation.kind)
    }
}
