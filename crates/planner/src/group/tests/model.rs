//! Nodes that obey every order after some time.
//!
//! A plan is made only after a report or at a wake-up, so a plan that forgets its wake-up stands still and the test fails.

use super::world::*;
use super::*;
use contract::report::ContainerFacts;

/// Seconds between two reports.
const TICK: i64 = 5;

/// How long nodes take, and whether pods become healthy.
#[derive(Debug, Clone)]
pub(super) struct NodeBehaviour {
    /// Ticks until a container runs.
    pub(super) start: i64,
    /// Ticks until a container is gone.
    pub(super) stop: i64,
    /// Ticks until a running container is healthy; none without a health check.
    pub(super) health: Option<i64>,
    /// A version that never becomes healthy.
    pub(super) bad: Option<u32>,
}

/// A container of an instance on a node.
#[derive(Debug, Clone, PartialEq)]
struct ModelPod {
    version: u32,
    drift: u32,
    up_at: i64,
    /// When it is gone, once it is being removed.
    gone_at: Option<i64>,
    starts: u32,
    restarts: u32,
}

#[derive(Debug, Clone)]
pub(super) struct NodeModel {
    pub(super) world: TestGroup,
    pub(super) now: i64,
    behaviour: NodeBehaviour,
    pods: BTreeMap<(NodeName, usize), ModelPod>,
    wake_at: Option<Timestamp>,
    /// The highest number of instances that should run and did not, at any time.
    pub(super) most_down: usize,
    pub(super) incidents: Vec<(u32, Incident)>,
}

impl NodeModel {
    /// All instances of the world run.
    pub(super) fn new(world: TestGroup, behaviour: NodeBehaviour) -> Self {
        let pod = |slot: &Slot| ModelPod {
            version: slot.version,
            drift: slot.drift,
            up_at: -1_000,
            gone_at: None,
            starts: slot.starts_requested,
            restarts: slot.restarts_requested,
        };
        let slots = world.slots.iter().enumerate();
        let pods = slots.filter(|(_, slot)| slot.target == TargetState::Run);
        let pods = pods.filter_map(|(index, slot)| Some(((slot.node.clone()?, index), pod(slot)))).collect();
        let mut model = Self { world, now: 1_000, behaviour, pods, wake_at: None, most_down: 0, incidents: Vec::new() };
        model.report();
        model
    }

    /// Runs until nothing changes any more.
    pub(super) fn run(&mut self) {
        self.plan();
        for _ in 0..600 {
            self.now += TICK;
            let before = (self.world.observed.clone(), self.world.still_on_old_node.clone());
            self.obey();
            self.report();
            self.watch();
            let changed = before != (self.world.observed.clone(), self.world.still_on_old_node.clone());
            if changed || self.wake_at.is_some_and(|wake| wake <= at(self.now)) {
                self.plan();
            }
        }
    }

    fn plan(&mut self) {
        for _ in 0..20 {
            let plan = self.world.plan(self.now);
            self.incidents.extend(plan.incidents.iter().copied());
            self.world.take(&plan);
            self.wake_at = plan.wake_at;
            if plan.wake_at.is_none_or(|wake| wake > at(self.now)) {
                let again = self.world.plan(self.now);
                assert!(!again.store && again.record.is_none(), "{plan:?}\n{again:?}");
                return;
            }
        }
        panic!("planning does not come to rest: {:?}", self.world);
    }

    /// The order for an instance on its node.
    fn order(&self, node: &NodeName, index: usize) -> Option<&Slot> {
        self.world.slots.get(index).filter(|slot| slot.node.as_ref() == Some(node) && slot.leaves.is_none())
    }

    fn obey(&mut self) {
        let now = self.now;
        let stop = self.behaviour.stop * TICK;
        let keys: Vec<(NodeName, usize)> = self.pods.keys().cloned().collect();
        for key in keys {
            let order = self.order(&key.0, key.1).cloned();
            let Some(pod) = self.pods.get_mut(&key) else { continue };
            let wanted = order.filter(|slot| (slot.version, slot.drift) == (pod.version, pod.drift));
            match wanted.filter(|slot| slot.target == TargetState::Run) {
                None => pod.gone_at = Some(pod.gone_at.unwrap_or(now + stop)),
                Some(slot) if slot.restarts_requested > pod.restarts => {
                    pod.up_at = now + self.behaviour.start * TICK;
                    pod.restarts = slot.restarts_requested;
                }
                Some(slot) => pod.starts = slot.starts_requested,
            }
            if pod.gone_at.is_some_and(|gone| gone <= now) {
                self.pods.remove(&key);
            }
        }
        let slots: Vec<Slot> = self.world.slots.clone();
        for (index, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.leaves.is_none()) {
            let Some(node) = slot.node.clone().filter(|_| slot.target == TargetState::Run) else { continue };
            // The old container of an instance goes first.
            self.pods.entry((node, index)).or_insert(ModelPod {
                version: slot.version,
                drift: slot.drift,
                up_at: now + self.behaviour.start * TICK,
                gone_at: None,
                starts: slot.starts_requested,
                restarts: slot.restarts_requested,
            });
        }
    }

    fn report(&mut self) {
        for index in 0..self.world.slots.len() {
            let slot = &self.world.slots[index];
            let node = slot.node.clone();
            self.world.observed[index] =
                node.filter(|_| slot.leaves.is_none()).and_then(|node| self.facts(node, index));
            if let Some(left) = self.world.slots[index].leaves.clone()
                && self.pods.contains_key(&(left, index))
            {
                self.world.still_on_old_node.insert(index);
            } else {
                self.world.still_on_old_node.remove(&index);
            }
        }
    }

    fn facts(&self, node: NodeName, index: usize) -> Option<PodFacts> {
        let slot = &self.world.slots[index];
        let Some(pod) = self.pods.get(&(node, index)) else {
            return reported(RunState::Exit).filter(|_| slot.target == TargetState::Stop);
        };
        if (pod.version, pod.drift) != (slot.version, slot.drift) {
            return None;
        }
        let up = self.now >= pod.up_at;
        let health = match self.behaviour.health {
            None => HealthState::None,
            Some(_) if self.behaviour.bad == Some(pod.version) => HealthState::Unhealthy,
            Some(ticks) if self.now < pod.up_at + ticks * TICK => HealthState::Starting,
            Some(_) => HealthState::Healthy,
        };
        let container = ContainerFacts { running: up, started_at: at(pod.up_at), ..Default::default() };
        Some(PodFacts {
            state: if up { RunState::Success } else { RunState::Pending },
            health,
            containers: vec![container],
            starts_done: pod.starts,
            restarts_done: pod.restarts,
            ..Default::default()
        })
    }

    /// An instance never has two containers, and at most one is down at a time.
    fn watch(&mut self) {
        let mut runs = vec![0; self.world.slots.len()];
        for ((_, index), pod) in &self.pods {
            runs[*index] += usize::from(self.now >= pod.up_at);
        }
        assert!(self.pods.keys().zip(self.pods.keys().skip(1)).all(|(one, two)| one != two));
        let mut nodes: BTreeMap<usize, usize> = BTreeMap::new();
        self.pods.keys().for_each(|(_, index)| *nodes.entry(*index).or_default() += 1);
        assert!(nodes.values().all(|count| *count == 1), "two copies: {:?}", self.pods);
        let down =
            self.world.slots.iter().zip(&runs).filter(|(slot, runs)| slot.target == TargetState::Run && **runs == 0);
        self.most_down = self.most_down.max(down.count());
    }
}
