//! The fake cluster of all tests of groups: nodes that obey every order after some time.
//!
//! The leader changes before each plan: the state is written and read again, and nothing else survives. A second plan follows
//! each plan and must change nothing. A plan is made only after a report or at a wake-up, so a plan that forgets its wake-up
//! stands still and the test fails.

use contract::digest::Digest;
use contract::exit::ExitFacts;
use contract::record::PlacementRecord;
use contract::report::{ContainerFacts, FetchState, Fetched};
use contract::rollout::{FailureAction, Strategy};
use contract::state::RestartPolicy;

use super::world::*;
use super::*;
use crate::rollout::controller::{Control, RolloutFacts, RolloutStatus, apply};
use crate::rollout::moment::Moment;

/// Seconds between two reports.
pub(super) const TICK: i64 = 5;

/// How pods of a version behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodBehaviour {
    /// It runs and is never healthy.
    Unwell,
    /// It exits immediately after each start and is started again.
    Crashes,
    /// Its image cannot be pulled.
    NoImage,
    /// It is healthy for one tick after each start and then exits with code 3. The restart policy decides about the next
    /// start, one tick later.
    ExitsSoon,
}

/// How nodes pull images ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PullBehaviour {
    /// Immediately, with success or a permanent error.
    AtOnce,
    /// The pull never ends.
    Endlessly,
    /// They do not report on the pull.
    Silently,
}

/// Identifies a container on its node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContainerId {
    pub(super) instance: u32,
    pub(super) version: u32,
    pub(super) drift: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct TestContainer {
    pub(super) up_at: i64,
    gone_at: Option<i64>,
    /// The version whose spec it has.
    pub(super) has: u32,
    digest: String,
    /// Starts and restarts that it has done.
    answered: (u32, u32),
    pub(super) ip: String,
}

/// All reports: on current pods, on surge pods, and on pods that are leaving.
type NodeReports = (Vec<Option<PodFacts>>, Vec<Option<PodFacts>>, Vec<u32>, u32, BTreeSet<usize>);

#[derive(Debug, Clone)]
pub(super) struct TestCluster {
    pub(super) world: TestGroup,
    pub(super) now: i64,
    pub(super) containers: BTreeMap<(NodeName, ContainerId), TestContainer>,
    /// Ticks until a container runs, and until it is gone.
    pub(super) start: i64,
    pub(super) stop: i64,
    /// Ticks until a running container is healthy; none without a health check.
    pub(super) health: Option<i64>,
    pub(super) behaviour: BTreeMap<u32, PodBehaviour>,
    pub(super) fetches: PullBehaviour,
    /// Versions that nodes pull ahead, by the pod that will be replaced.
    pub(super) fetching: BTreeMap<(NodeName, ContainerId), u32>,
    wake_at: Option<Timestamp>,
    heard: Option<NodeReports>,
    /// The fewest serving instances and the most ordered pods since the last reset.
    pub(super) fewest: usize,
    pub(super) most: usize,
    /// The most instances without a running container that should run.
    pub(super) most_down: usize,
    pub(super) incidents: Vec<(u32, Incident)>,
    pub(super) last: GroupPlan,
    made: u32,
    /// The pods in the last order of each node: the node may create them until it gets the next order.
    obeyed: BTreeSet<(NodeName, ContainerId)>,
    /// The stopped pods in those orders.
    stopped: BTreeSet<(NodeName, ContainerId)>,
}

/// A group with that strategy whose instances all run version 0.
pub(super) fn cluster(instances: i64, nodes: &[&str], strategy: Strategy) -> TestCluster {
    let mut cluster = fresh(instances, nodes, strategy);
    cluster.run(40);
    assert_eq!(cluster.world.record.proven, Some(0), "{:?}", cluster.world);
    cluster.forget();
    cluster
}

/// A group that was just created.
pub(super) fn fresh(instances: i64, nodes: &[&str], strategy: Strategy) -> TestCluster {
    let mut world = world(instances, nodes);
    world.record.spec.strategy = Some(strategy);
    // Most tests are about one rule and not about the defaults.
    world.record.spec.min_ready_seconds = Some(0);
    world.record.spec.failure_action = Some(FailureAction::Hold);
    world.record.operation = None;
    world.nodes.values_mut().for_each(|candidate| candidate.facts.fetches_ahead = true);
    empty(world)
}

/// A group whose instances all run, except stopped ones.
pub(super) fn running_on_nodes(world: TestGroup) -> TestCluster {
    let mut cluster = empty(world);
    for (number, instance) in
        (1..).zip(&cluster.world.instances).filter(|(_, instance)| instance.target == TargetState::Run)
    {
        let Some(node) = instance.leaves.clone().or_else(|| instance.node.clone()) else { continue };
        let container = TestContainer {
            up_at: -1_000,
            gone_at: None,
            has: instance.version,
            digest: String::new(),
            answered: (instance.starts_requested, instance.restarts_requested),
            ip: String::new(),
        };
        cluster.containers.insert((node, id(number, instance)), container);
    }
    cluster
}

fn empty(world: TestGroup) -> TestCluster {
    TestCluster {
        world,
        now: 1_000,
        containers: BTreeMap::new(),
        start: 1,
        stop: 1,
        health: Some(0),
        behaviour: BTreeMap::new(),
        fetches: PullBehaviour::AtOnce,
        fetching: BTreeMap::new(),
        wake_at: None,
        heard: None,
        fewest: usize::MAX,
        most: 0,
        most_down: 0,
        incidents: Vec::new(),
        last: GroupPlan::default(),
        made: 0,
        obeyed: BTreeSet::new(),
        stopped: BTreeSet::new(),
    }
}

impl TestCluster {
    /// Lets this many ticks pass.
    pub(super) fn run(&mut self, ticks: usize) -> &mut Self {
        for _ in 0..ticks {
            self.tick();
        }
        self
    }

    /// Runs until no report changes and no wake-up is planned.
    pub(super) fn run_until_quiet(&mut self) {
        let mut quiet = 0;
        for _ in 0..600 {
            let before = self.heard.clone();
            self.tick();
            let is_quiet = self.wake_at.is_none() && self.heard == before;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet > self.start.max(self.stop) + self.health.unwrap_or(0) {
                return;
            }
        }
    }

    pub(super) fn tick(&mut self) {
        self.obey();
        self.listen();
        let heard = self.news();
        let is_due = self.wake_at.is_some_and(|wake| wake <= at(self.now));
        if self.heard.as_ref() != Some(&heard) || is_due {
            self.heard = Some(heard);
            self.plan();
        }
        self.watch();
        self.now += TICK;
    }

    /// The scheduler got a command: it plans immediately.
    pub(super) fn replan(&mut self) -> &mut Self {
        self.heard = None;
        self
    }

    /// Resets the counts.
    pub(super) fn forget(&mut self) {
        (self.fewest, self.most) = (usize::MAX, 0);
    }

    /// What the scheduler does for a spec patch.
    pub(super) fn patch(&mut self, change: impl FnOnce(&mut PodSpec)) -> &mut Self {
        self.world.patch(self.now, change);
        self.world.record.operation = None;
        self.replan()
    }

    pub(super) fn scale(&mut self, instances: i64) -> &mut Self {
        self.world.record.spec.num_instances = instances;
        self.replan()
    }

    /// What the scheduler does for a rollout command.
    pub(super) fn say(&mut self, control: Control) -> &mut Self {
        let release = self.world.release.as_ref().expect("a release");
        self.world.release = Some(apply(release, control, Moment::from(at(self.now))).expect("a word in place"));
        self.replan()
    }

    fn plan(&mut self) {
        for _ in 0..20 {
            self.change_leader();
            let plan = self.world.plan(self.now);
            self.incidents.extend(plan.incidents.iter().copied());
            self.world.take(&plan);
            self.world.observed_surge.resize(plan.instances.len(), None);
            self.world.leaving.resize(plan.instances.len(), 0);
            self.listen();
            self.wake_at = plan.wake_at;
            self.last = plan;
            // A node without a pod of the instance sends no report: the scheduler plans again immediately.
            let mut instances = self.world.instances.iter().enumerate();
            let has_vacancy = |(index, instance): (usize, &Instance)| {
                instance.leaves.is_some() && !self.world.still_on_old_node.contains(&index)
            };
            let is_vacant = instances.any(has_vacancy);
            if !is_vacant && self.wake_at.is_none_or(|wake| wake > at(self.now)) {
                let again = self.world.plan(self.now);
                let is_same = !again.store && again.record.is_none() && again.release.is_none();
                let reported = |plan: &GroupPlan| {
                    (
                        plan.record.clone().map(|it| (it.operation, it.drifts, it.proven, it.last_error)),
                        plan.release.clone(),
                        plan.report.clone(),
                    )
                };
                assert!(
                    is_same,
                    "\nfirst {:?}\nagain {:?}\n{:?}",
                    reported(&self.last),
                    reported(&again),
                    again.instances
                );
                self.heard = Some(self.news());
                return;
            }
        }
        panic!("planning does not come to rest: {:?}", self.last.report);
    }

    /// The next leader has the stored state and nothing else.
    fn change_leader(&mut self) {
        let text = serde_json::to_string(&PlacementRecord { instances: self.world.instances.clone() }).expect("JSON");
        self.world.instances = serde_json::from_str::<PlacementRecord>(&text).expect("instances").instances;
        let text = serde_json::to_string(&self.world.record).expect("JSON");
        self.world.record = serde_json::from_str(&text).expect("a record");
        let text = serde_json::to_string(&self.world.release).expect("JSON");
        self.world.release = serde_json::from_str(&text).expect("a release");
    }

    /// The ordered pods with that target state.
    fn orders(&self, target: TargetState) -> BTreeMap<(NodeName, ContainerId), Instance> {
        let instances = self.world.instances.iter().enumerate();
        let pods = instances.flat_map(|(index, instance)| instance.pods().map(move |pod| (number(index), pod)));
        let ordered = pods.filter(|(_, pod)| pod.leaves.is_none() && pod.target == target);
        ordered.filter_map(|(instance, pod)| Some(((pod.node.clone()?, id(instance, pod)), pod.clone()))).collect()
    }

    fn obey(&mut self) {
        let (now, stop) = (self.now, self.stop * TICK);
        let orders = self.orders(TargetState::Run);
        let revisions = self.world.revisions();
        let digest = |version: u32| Digest::of(&*revisions[&version].pod).to_string();
        let nodes = &self.world.nodes;
        let heard = |node: &NodeName| nodes[node].liveness == Liveness::Alive;
        for (key, container) in self.containers.iter_mut().filter(|((node, _), _)| heard(node)) {
            match orders.get(key) {
                None => container.gone_at = Some(container.gone_at.unwrap_or(now + stop)),
                Some(order) => {
                    if order.restarts_requested > container.answered.1 {
                        container.up_at = now + self.start * TICK;
                    }
                    container.has = order.version;
                    container.digest = digest(order.version);
                    container.answered = (order.starts_requested, order.restarts_requested);
                }
            }
        }
        self.containers.retain(|(node, _), it| {
            let is_lost = nodes[node].liveness == Liveness::Lost;
            !is_lost && (it.gone_at.is_none_or(|gone| gone > now) || !heard(node))
        });
        self.fetching.retain(|(node, _), _| !heard(node));
        let fetching = orders.iter().filter(|((node, _), _)| heard(node));
        self.fetching.extend(fetching.filter_map(|(key, order)| Some((key.clone(), order.fetching?.version))));
        let is_down = |key: &(NodeName, ContainerId)| heard(&key.0) && !self.containers.contains_key(key);
        self.stopped = self.orders(TargetState::Stop).into_keys().filter(is_down).collect();
        self.obeyed.retain(|(node, _)| nodes[node].liveness == Liveness::Suspect);
        self.obeyed.extend(orders.keys().filter(|(node, _)| heard(node)).cloned());
        for (key, order) in orders {
            let (node, id) = &key;
            let is_old = |(other, it): &&(NodeName, ContainerId)| other == node && it.instance == id.instance;
            let old_stands = self.containers.iter().any(|(it, old)| is_old(&it) && old.gone_at.is_some());
            if !self.containers.contains_key(&key) && !old_stands && heard(node) {
                let ip = order.reserved_addresses.first().cloned().unwrap_or_else(|| format!("10.0.0.{}", self.made));
                self.made += 1;
                let up_at = now + self.start * TICK;
                let asked = (order.starts_requested, order.restarts_requested);
                let (has, digest) = (order.version, digest(order.version));
                self.containers.insert(key, TestContainer { up_at, gone_at: None, has, digest, answered: asked, ip });
            }
        }
    }

    /// Collects the reports.
    fn listen(&mut self) {
        let orders = self.orders(TargetState::Run);
        let instances = self.world.instances.clone();
        let numbered = || (1..).zip(&instances);
        self.world.observed = numbered().map(|(number, instance)| self.facts(number, instance)).collect();
        self.world.observed_surge =
            numbered().map(|(number, instance)| self.facts(number, instance.next.as_deref()?)).collect();
        let goes = |key: &&(NodeName, ContainerId)| !orders.contains_key(*key);
        let is_instance = |instance: u32| {
            let instance = usize::try_from(instance - 1).ok().and_then(|index| instances.get(index));
            instance.is_some_and(|instance| instance.presence != Presence::Free)
        };
        let there: BTreeSet<(NodeName, ContainerId)> = self.containers.keys().chain(&self.obeyed).cloned().collect();
        let going: Vec<u32> = there.iter().filter(goes).map(|(_, id)| id.instance).collect();
        let count = |instance: u32| u32::try_from(going.iter().filter(|it| **it == instance).count()).expect("few");
        self.world.leaving =
            numbered().map(|(instance, _)| if is_instance(instance) { count(instance) } else { 0 }).collect();
        self.world.terminating_removed =
            u32::try_from(going.iter().filter(|it| !is_instance(**it)).count()).expect("few");
        let clings = |(index, instance): &(usize, &Instance)| {
            let left = instance.leaves.as_ref();
            left.is_some_and(|left| there.iter().any(|(node, id)| node == left && id.instance == number(*index)))
        };
        self.world.still_on_old_node = instances.iter().enumerate().filter(clings).map(|(index, _)| index).collect();
    }

    fn news(&self) -> NodeReports {
        let world = &self.world;
        (
            world.observed.clone(),
            world.observed_surge.clone(),
            world.leaving.clone(),
            world.terminating_removed,
            world.still_on_old_node.clone(),
        )
    }

    fn facts(&self, instance: u32, pod: &Instance) -> Option<PodFacts> {
        let node = pod.node.clone().filter(|_| pod.leaves.is_none() && pod.presence == Presence::Pod)?;
        let key = (node, id(instance, pod));
        let container = self.containers.get(&key);
        if pod.target == TargetState::Stop {
            return reported(RunState::Exit).filter(|_| self.stopped.contains(&key));
        }
        let container = container.filter(|it| it.gone_at.is_none())?;
        let manner = self.behaviour.get(&container.has).copied();
        let is_up = self.now >= container.up_at && manner != Some(PodBehaviour::NoImage);
        if manner == Some(PodBehaviour::ExitsSoon) && is_up {
            return Some(self.exiting(container));
        }
        let state = match manner {
            Some(PodBehaviour::NoImage) => RunState::Error,
            Some(PodBehaviour::Crashes) if is_up => RunState::Exit,
            Some(PodBehaviour::Unwell | PodBehaviour::Crashes | PodBehaviour::ExitsSoon) | None if is_up => {
                RunState::Success
            }
            Some(PodBehaviour::Unwell | PodBehaviour::Crashes | PodBehaviour::ExitsSoon) | None => RunState::Pending,
        };
        let well_at = container.up_at + self.health.unwrap_or(0) * TICK;
        let could_be_well = state == RunState::Success && manner.is_none();
        let is_well = could_be_well && self.health.is_some() && self.now >= well_at;
        let restarts =
            if manner == Some(PodBehaviour::Crashes) && is_up { (self.now - container.up_at) / TICK } else { 0 };
        let facts = ContainerFacts {
            running: state == RunState::Success,
            ip: if is_up { container.ip.clone() } else { String::new() },
            started_at: at(container.up_at),
            spec_digest: container.digest.clone(),
            last_exit: (restarts > 0).then(|| ExitFacts {
                code: 3,
                at: at(self.now - TICK),
                last_line: "cannot open /etc/app.conf".to_owned(),
                ..ExitFacts::default()
            }),
            ..ContainerFacts::default()
        };
        Some(PodFacts {
            state,
            health: match self.health {
                None => HealthState::None,
                Some(_) if is_well => HealthState::Healthy,
                Some(_) if could_be_well => HealthState::Starting,
                Some(_) => HealthState::Unhealthy,
            },
            healthy_since: if is_well { at(well_at) } else { Timestamp::NEVER },
            restarts: u32::try_from(restarts).expect("few"),
            image_is_hopeless: manner == Some(PodBehaviour::NoImage),
            fetched: self.fetched(&key),
            containers: vec![facts],
            starts_done: container.answered.0,
            restarts_done: container.answered.1,
            ..PodFacts::default()
        })
    }

    fn exiting(&self, container: &TestContainer) -> PodFacts {
        let age = (self.now - container.up_at) / TICK;
        let run = if self.world.record.spec.restart_policy == RestartPolicy::Never { 0 } else { age / 2 };
        let (started, is_up) = (container.up_at + run * 2 * TICK, age == run * 2);
        let facts = ContainerFacts {
            running: is_up,
            started_at: at(started),
            finished_at: if is_up { Timestamp::NEVER } else { at(started + TICK) },
            exit_code: if is_up { 0 } else { 3 },
            spec_digest: container.digest.clone(),
            ..ContainerFacts::default()
        };
        PodFacts {
            state: if is_up { RunState::Success } else { RunState::Exit },
            health: if is_up { HealthState::Healthy } else { HealthState::Unhealthy },
            healthy_since: if is_up { at(started) } else { Timestamp::NEVER },
            restarts: u32::try_from(run).expect("few"),
            containers: vec![facts],
            ..PodFacts::default()
        }
    }

    fn fetched(&self, key: &(NodeName, ContainerId)) -> Option<Fetched> {
        let version = *self.fetching.get(key)?;
        let state = match (self.fetches, self.behaviour.get(&version)) {
            (PullBehaviour::Silently, _) => return None,
            (PullBehaviour::Endlessly, _) => FetchState::Coming,
            (PullBehaviour::AtOnce, Some(PodBehaviour::NoImage)) => FetchState::Hopeless,
            (
                PullBehaviour::AtOnce,
                Some(PodBehaviour::Unwell | PodBehaviour::Crashes | PodBehaviour::ExitsSoon) | None,
            ) => FetchState::Here,
        };
        let error = if state == FetchState::Hopeless { "manifest unknown".to_owned() } else { String::new() };
        Some(Fetched { version, state, error })
    }

    /// Serving instances: a container runs, is healthy, and its gates are open.
    pub(super) fn serving(&self) -> usize {
        let serves = |instance: u32, pod: &Instance| {
            let is_well = self.facts(instance, pod).is_some_and(|facts| facts.health == HealthState::Healthy);
            let gates = self.world.record.spec.readiness_gates.iter().all(|gate| pod.gates.contains_key(gate));
            is_well && gates && pod.draining.is_none()
        };
        (1..)
            .zip(&self.world.instances)
            .filter(|(number, instance)| instance.pods().any(|pod| serves(*number, pod)))
            .count()
    }

    fn watch(&mut self) {
        self.fewest = self.fewest.min(self.serving());
        self.most = self.most.max(self.world.instances.iter().flat_map(Instance::pods).count());
        let (mut names, mut running) = (BTreeSet::new(), BTreeSet::new());
        for ((_, id), container) in &self.containers {
            assert!(names.insert(id.clone()), "two containers of one name: {:?}", self.containers);
            running.extend((container.up_at <= self.now).then_some(id.instance));
        }
        let instances: BTreeSet<u32> = names.iter().map(|id| id.instance).collect();
        let may_surge = self.world.record.spec.has_strategy();
        assert!(may_surge || instances.len() == names.len(), "two pods of an instance: {:?}", self.containers);
        let is_down =
            |(number, instance): &(u32, &Instance)| instance.target == TargetState::Run && !running.contains(number);
        self.most_down = self.most_down.max((1..).zip(&self.world.instances).filter(is_down).count());
        let used: BTreeMap<&NodeName, u64> =
            self.world.instances.iter().flat_map(Instance::pods).fold(BTreeMap::new(), |mut used, pod| {
                if let Some(node) = &pod.node {
                    *used.entry(node).or_default() +=
                        self.world.revisions().get(&pod.version).map_or(0, |it| it.need.memory);
                }
                used
            });
        for (node, memory) in used {
            assert!(memory <= self.world.nodes[node].facts.memory, "{node} is overcommitted");
        }
    }

    /// What the rollout controller decides from.
    pub(super) fn controller_facts(&self) -> RolloutFacts {
        self.world.with_facts(|facts| {
            let mut planning = Planning::new(facts, at(self.now));
            planning.load_instances();
            planning.controller_facts().0
        })
    }

    pub(super) fn status(&self) -> RolloutStatus {
        self.last.report.as_ref().expect("a report").status
    }

    /// Versions of the pods of every instance, the current one first.
    pub(super) fn versions(&self) -> Vec<Vec<u32>> {
        self.world.instances.iter().map(|instance| instance.pods().map(|pod| pod.version).collect()).collect()
    }

    pub(super) fn units(&self) -> Vec<&str> {
        self.world.instances.iter().map(|instance| instance.unit.as_str()).collect()
    }

    pub(super) fn instance(&mut self, instance: usize) -> &mut Instance {
        &mut self.world.instances[instance - 1]
    }
}

fn id(instance: u32, pod: &Instance) -> ContainerId {
    ContainerId { instance, version: pod.named_version(), drift: pod.drift }
}

/// Every instance has one pod of that version.
pub(super) fn all(version: u32, instances: usize) -> Vec<Vec<u32>> {
    vec![vec![version]; instances]
}
