//! A group and its world, built up by the tests: they say what nodes report and look at what is planned.

use contract::name::GroupName;
use contract::pod_id::PodId;
use contract::report::{ContainerFacts, NodeFacts};
use contract::spec::{ContainerSpec, PodGroupSpec};

use super::*;

pub(super) struct Nobody;
impl Tenants for Nobody {
    fn visit(&self, _: &NodeName, _: &mut dyn FnMut(&PodId, &PodSpec)) {}
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) record: GroupRecord,
    pub(super) slots: Vec<Slot>,
    pub(super) seen: Vec<Option<PodFacts>>,
    /// Slots whose old node still has them.
    pub(super) clinging: BTreeSet<usize>,
    pub(super) lingers: bool,
    pub(super) beside: Vec<Option<PodFacts>>,
    pub(super) leaving: Vec<u32>,
    pub(super) strays: u32,
    /// What was decided is not stored yet.
    pub(super) is_unstored: bool,
    /// When it was stored; at once when nothing is said.
    pub(super) stored_at: Option<i64>,
    pub(super) release: Option<RolloutState>,
    pub(super) guarding: bool,
    pub(super) constraints: Vec<String>,
    pub(super) hosts: BTreeMap<NodeName, Candidate>,
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

pub(super) fn world(instances: i64, nodes: &[&str]) -> World {
    let group: GroupName = "web".parse().expect("a name");
    let container = ContainerSpec { image: "i".to_owned(), cpu_limit: 1, memory_limit: 64 << 20, ..Default::default() };
    let pod = PodSpec { name: group.to_string(), containers: vec![container], ..Default::default() };
    let facts = NodeFacts { memory: 1024 * MIB, cpu_millis: 8_000, ..Default::default() };
    let host = Candidate {
        facts,
        used: Need::default(),
        liveness: Liveness::Alive,
        engine: EngineState::Up,
        cordon: None,
        decommissioned: false,
    };
    World {
        record: GroupRecord {
            spec: PodGroupSpec { name: group.to_string(), num_instances: instances, pod, ..Default::default() },
            operation: Some(OperationRecord::new(Operation::Deploying, at(0))),
            ..Default::default()
        },
        slots: Vec::new(),
        seen: Vec::new(),
        clinging: BTreeSet::new(),
        lingers: false,
        beside: Vec::new(),
        leaving: Vec::new(),
        strays: 0,
        is_unstored: false,
        stored_at: None,
        release: None,
        guarding: true,
        constraints: Vec::new(),
        hosts: nodes.iter().map(|node| (name(node), host.clone())).collect(),
    }
}

impl GroupPlan {
    /// The operation is over, or the group is gone.
    pub(super) fn finished(&self) -> bool {
        self.gone || self.record.as_ref().is_some_and(|record| record.operation.is_none())
    }
}

impl World {
    pub(super) fn revisions(&self) -> BTreeMap<u32, Revision> {
        let pods = self.record.former.iter().map(|(version, pod)| (*version, pod));
        let pods = pods.chain([(self.record.spec.version, &self.record.spec.pod)]);
        pods.map(|(version, pod)| (version, Revision::new(Arc::new(pod.clone()), Need::of(pod, 8)))).collect()
    }
    pub(super) fn plan(&self, now: i64) -> GroupPlan {
        self.look(|facts| plan_group(facts, at(now)))
    }
    /// What can be said of everything there is to plan from.
    pub(super) fn look<T>(&self, say: impl FnOnce(&GroupFacts<'_>) -> T) -> T {
        let seen: Vec<Option<&PodFacts>> = self.seen.iter().map(Option::as_ref).collect();
        let beside: Vec<Option<&PodFacts>> = self.beside.iter().map(Option::as_ref).collect();
        let vacated: Vec<bool> = (0..self.slots.len()).map(|index| !self.clinging.contains(&index)).collect();
        let decisions = self.slots.iter().flat_map(decided).filter(|_| !self.is_unstored);
        let stored = decisions.map(|at_once| (at_once, self.stored_at.map_or(at_once, at))).collect();
        let facts = GroupFacts {
            record: &self.record,
            revisions: &self.revisions(),
            patience: Patience {
                operation: Duration::from_secs(600),
                health_poll: Duration::from_secs(20),
                early_exit: Duration::from_secs(10),
            },
            slots: &self.slots,
            seen: &seen,
            vacated: &vacated,
            lingers: self.lingers,
            beside: &beside,
            leaving: &self.leaving,
            strays: self.strays,
            stored: &stored,
            release: self.release.as_ref(),
            guarding: self.guarding,
            constraints: &self.constraints,
            hosts: &self.hosts,
            standings: None,
            tenants: &Nobody,
        };
        say(&facts)
    }
    /// Carries the plan out: the accounts follow, new pods are not reported yet, and who leaves a node is still there.
    pub(super) fn take(&mut self, plan: &GroupPlan) {
        self.account(Need::minus);
        self.seen.resize(plan.slots.len(), None);
        for (index, slot) in plan.slots.iter().enumerate() {
            let who = |slot: &Slot| (slot.node.clone(), slot.version, slot.drift);
            if self.slots.get(index).is_none_or(|old| who(old) != who(slot)) {
                self.seen[index] = None;
            }
            if slot.leaves.is_some() && self.slots.get(index).is_none_or(|old| old.leaves != slot.leaves) {
                self.clinging.insert(index);
            }
        }
        self.slots.clone_from(&plan.slots);
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
        for slot in self.slots.iter().flat_map(Slot::pods) {
            let Some(host) = slot.node.as_ref().and_then(|node| self.hosts.get_mut(node)) else { continue };
            let revision = revisions.get(&slot.version).unwrap_or_else(|| &revisions[&self.record.spec.version]);
            host.used = change(host.used, revision.need);
        }
    }
    pub(super) fn settle(&mut self, now: i64) -> GroupPlan {
        let plan = self.plan(now);
        self.take(&plan);
        plan
    }
    /// Everything was deployed, runs and completed; nothing holds the lock.
    pub(super) fn all_running(mut self) -> Self {
        self.settle(0);
        self.seen = vec![reported(RunState::Success); self.slots.len()];
        self.settle(1);
        self.settle(10);
        self
    }
    /// As [`World::all_running`], with health checks that say yes.
    pub(super) fn all_healthy(mut self) -> Self {
        self.settle(0);
        self.seen = vec![healthy(0); self.slots.len()];
        self.settle(1);
        self.settle(10);
        self
    }
    /// What the scheduler makes of a spec patch.
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
    pub(super) fn operate(&mut self, kind: Operation, range: std::ops::RangeInclusive<u32>, now: i64) {
        self.record.operation =
            Some(OperationRecord { kind, since: at(now), next: *range.start(), last: *range.end() });
    }
    pub(super) fn places(&self) -> Vec<Option<&str>> {
        self.slots.iter().map(|slot| slot.node.as_ref().map(NodeName::as_str)).collect()
    }
    pub(super) fn versions(&self) -> Vec<u32> {
        self.slots.iter().map(|slot| slot.version).collect()
    }
    pub(super) fn drifts(&self) -> Vec<u32> {
        self.slots.iter().map(|slot| slot.drift).collect()
    }
    pub(super) fn leaves(&self, index: usize) -> Option<&str> {
        self.slots[index].leaves.as_ref().map(NodeName::as_str)
    }
    pub(super) fn host(&mut self, node: &str) -> &mut Candidate {
        self.hosts.get_mut(&name(node)).expect("a node")
    }
    pub(super) fn operation(&self) -> Option<Operation> {
        self.record.operation.as_ref().map(|operation| operation.kind)
    }
}
