//! The bench: a core with an in-memory disk, a fake engine and a scheduler.
//!
//! `feed` passes one input and returns the effects; `settle` performs effects and their consequences until none is left. The
//! scheduler's copy of the report is folded from the published messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use contract::check::CheckKind;
use contract::labels::{Identity, Owner};
use contract::order::{Assignment, Fetch, Order, OrderMessage, OrderReply};
use contract::report::{EngineState, NodeFacts, PodFacts, Report, ReportMessage};
use contract::spec::{ContainerSpec, PodSpec};
use contract::state::{HealthState, RestartPolicy, TargetState};
use contract::switches::Switches;
use contract::time::Timestamp;
use planner::check::CheckResult;
use testkit::engine::FakeEngine;
use testkit::random::Random;
pub(super) use testkit::samples::{fence, pod};

use agent::core::Core;
use agent::core::io::{Action, ContainerSeen, Effect, Faults, Input, Ledger, Phase, Settings};

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
}
pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn settings() -> Settings {
    Settings {
        owner: Owner { cluster: "c".to_owned(), node: "n1".parse().expect("a name") },
        identity: String::new(),
        incarnation: "run-1".to_owned(),
        facts: NodeFacts::default(),
        heartbeat: secs(3),
        reread: secs(30),
        most_restarts: 3,
        restart_window: secs(1800),
        alone_after: secs(60),
        faults: Faults::default(),
    }
}

pub(super) fn order(term: u64, generation: u64) -> OrderBuilder {
    OrderBuilder(Order { fence: fence(term, generation), ..Order::default() })
}

pub(super) struct OrderBuilder(pub(super) Order);

impl OrderBuilder {
    pub(super) fn pod(self, id: &str) -> Self {
        self.pod_with(id, 1, TargetState::Run, RestartPolicy::Always)
    }
    pub(super) fn pod_with(mut self, id: &str, count: usize, target: TargetState, policy: RestartPolicy) -> Self {
        let id = pod(id);
        let spec = PodSpec {
            name: id.group.to_string(),
            version: id.version,
            containers: vec![ContainerSpec { image: "i".to_owned(), ..Default::default() }; count],
            ..Default::default()
        };
        self.0.specs.insert(id.spec_key(), Arc::new(spec));
        self.0.pods.insert(id, Assignment { target, restart_policy: policy, ..Assignment::default() });
        self
    }
    /// Sets the requested starts and restarts of every pod.
    pub(super) fn asked(mut self, starts: u32, restarts: u32) -> Self {
        for assignment in self.0.pods.values_mut() {
            (assignment.starts_requested, assignment.restarts_requested) = (starts, restarts);
        }
        self
    }
    /// Updates the pod in place to this revision, which `change` derives from the one in its name.
    pub(super) fn updated_to(mut self, id: &str, version: u32, change: impl Fn(&mut PodSpec)) -> Self {
        let assignment = self.0.pods.get_mut(&pod(id)).expect("an ordered pod");
        assignment.updated_to = Some(version);
        let key = assignment.spec_key(&pod(id));
        let mut spec = self.0.specs.get(&pod(id).spec_key()).expect("its spec").clone();
        Arc::make_mut(&mut spec).version = version;
        change(Arc::make_mut(&mut spec));
        self.0.specs.insert(key, spec);
        self
    }
    pub(super) fn addressed(mut self, id: &str, address: &str) -> Self {
        self.0.pods.get_mut(&pod(id)).expect("an ordered pod").addresses = vec![address.to_owned()];
        self
    }
    /// The pod's next revision uses `image`.
    pub(super) fn fetching(mut self, id: &str, version: u32, image: &str) -> Self {
        let fetch = Fetch { version, images: [image.to_owned()].into() };
        self.0.pods.get_mut(&pod(id)).expect("an ordered pod").fetch = Some(fetch);
        self
    }
    pub(super) fn switches(mut self, change: impl FnOnce(&mut Switches)) -> Self {
        change(&mut self.0.switches);
        self
    }
    pub(super) fn spare(mut self, name: &str) -> Self {
        self.0.spared.insert(name.parse().expect("a name"));
        self
    }
    pub(super) fn respecify(mut self, change: impl Fn(&mut PodSpec)) -> Self {
        for spec in self.0.specs.values_mut() {
            change(Arc::make_mut(spec));
        }
        self
    }
    pub(super) fn whole(self) -> OrderMessage {
        OrderMessage::Whole(self.0)
    }
}

pub(super) fn seen(id: &str, of: &str, phase: Phase) -> ContainerSeen {
    ContainerSeen {
        id: id.to_owned(),
        identity: Identity { pod: pod(of), index: 0 },
        phase,
        health: HealthState::None,
        exit_code: 0,
        oom_killed: false,
        error: String::new(),
        started_at: if phase == Phase::Created { Timestamp::NEVER } else { at(-100) },
        finished_at: if phase == Phase::Exited { at(-50) } else { Timestamp::NEVER },
        ip: "10.0.0.2".to_owned(),
        node_port: 0,
        spec_digest: String::new(),
        last_line: String::new(),
    }
}

pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) now: Timestamp,
    pub(super) disk: Ledger,
    pub(super) engine: FakeEngine,
    pub(super) replies: Vec<(String, OrderReply)>,
    pub(super) published: Vec<ReportMessage>,
    pub(super) actions: Vec<Action>,
    /// Requested pulls.
    pub(super) fetches: Vec<String>,
    /// Checks that were made.
    pub(super) checks: Vec<CheckKind>,
    /// Why every check fails; none lets the engine decide.
    pub(super) check_failure: Option<String>,
    pub(super) copy: Option<Report>,
    random: Random,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(settings(), Ledger::default())
    }
    pub(super) fn with(settings: Settings, disk: Ledger) -> Self {
        Self {
            core: Core::new(settings, disk.clone()),
            now: at(0),
            disk,
            engine: FakeEngine::new("m", 1),
            replies: Vec::new(),
            published: Vec::new(),
            actions: Vec::new(),
            fetches: Vec::new(),
            checks: Vec::new(),
            check_failure: None,
            copy: None,
            random: Random::new(0),
        }
    }
    /// The agent restarts with the ledger on disk.
    pub(super) fn restart(&mut self, incarnation: &str) {
        let settings = Settings { incarnation: incarnation.to_owned(), ..settings() };
        self.core = Core::new(settings, self.disk.clone());
    }
    /// The engine has this container from the start.
    pub(super) fn has(mut self, container: ContainerSeen) -> Self {
        self.add(container);
        self
    }
    #[allow(clippy::needless_pass_by_value, reason = "tests read better without ampersands")]
    pub(super) fn add(&mut self, container: ContainerSeen) {
        self.engine.insert(&settings().owner, &container);
    }
    pub(super) fn look(&self, id: &str) -> Option<ContainerSeen> {
        self.engine.look(&settings().owner, id)
    }
    pub(super) fn inventory(&self) -> Vec<ContainerSeen> {
        self.engine.inventory(&settings().owner)
    }
    pub(super) fn feed(&mut self, input: Input) -> Vec<Effect> {
        self.core.on(input, self.now)
    }
    /// Feeds an input and performs all consequences; time stands still.
    pub(super) fn run(&mut self, input: Input) {
        let effects = self.feed(input);
        self.settle(effects);
    }
    pub(super) fn start(mut self) -> Self {
        self.run(Input::Tick);
        self
    }
    pub(super) fn order(&mut self, message: OrderMessage) -> OrderReply {
        self.run(Input::Order { message, reply: "r".to_owned() });
        self.replies.pop().expect("an answer").1
    }
    /// Advances time, with a tick whenever the core wakes.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(wake) = self.core.wake_at().filter(|wake| *wake <= end) {
            self.now = wake.max(self.now);
            self.run(Input::Tick);
        }
        self.now = end;
    }
    pub(super) fn settle(&mut self, effects: Vec<Effect>) {
        let mut queue: VecDeque<Effect> = effects.into();
        while let Some(effect) = queue.pop_front() {
            if let Some(input) = self.perform(effect) {
                queue.extend(self.feed(input));
            }
        }
    }
    /// As `settle`, but returns actions and pulls instead of performing them.
    pub(super) fn settle_but_actions(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        self.settle_but(effects, |effect| matches!(effect, Effect::Perform { .. } | Effect::Fetch { .. }))
    }
    /// As `settle`, but returns some effects instead of performing them.
    pub(super) fn settle_but(&mut self, effects: Vec<Effect>, keeps: impl Fn(&Effect) -> bool) -> Vec<Effect> {
        let (mut queue, mut kept): (VecDeque<Effect>, Vec<Effect>) = (effects.into(), Vec::new());
        while let Some(effect) = queue.pop_front() {
            if keeps(&effect) {
                kept.push(effect);
            } else if let Some(input) = self.perform(effect) {
                queue.extend(self.feed(input));
            }
        }
        kept
    }
    pub(super) fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Persist { id, ledger } => {
                self.disk = *ledger;
                Some(Input::Persisted { id, result: Ok(()) })
            }
            Effect::Reply { inbox, reply } => {
                self.replies.push((inbox, reply));
                None
            }
            Effect::Perform { instance, action } => {
                // Reading changes nothing.
                if !matches!(action, Action::ReadEnd { .. }) {
                    self.actions.push(action.clone());
                }
                let result = self.engine.perform(&settings().owner, &action, self.now, &mut self.random).result;
                Some(Input::ActionDone { instance, action, result })
            }
            Effect::Fetch { image } => {
                self.fetches.push(image.clone());
                let result = self.engine.fetch(&image, &mut self.random);
                Some(Input::Fetched { image, result })
            }
            Effect::Check { id, started_at, kind, .. } => {
                self.checks.push(kind);
                let failure = self.check_failure.clone().map(CheckResult::Failed);
                let result = failure.unwrap_or_else(|| self.engine.check(&id));
                Some(Input::Checked { id, started_at, kind, result })
            }
            Effect::TakeInventory => Some(Input::Inventory(self.inventory())),
            Effect::Publish(message) => {
                self.receive(&message);
                self.published.push(message);
                None
            }
        }
    }
    /// The container exits.
    pub(super) fn end(&mut self, id: &str, exit_code: i64) -> Option<ContainerSeen> {
        self.engine.end(id, exit_code, self.now + Duration::from_millis(1));
        self.look(id)
    }
    /// The container exits and the agent inspects it.
    pub(super) fn crash(&mut self, id: &str) {
        let seen = self.end(id, 1);
        self.run(Input::Inspected { id: id.to_owned(), seen });
    }
    fn receive(&mut self, message: &ReportMessage) {
        match message {
            ReportMessage::Whole(report) => self.copy = Some(report.clone()),
            ReportMessage::Delta(delta) => {
                let fits = self.copy.as_mut().is_some_and(|copy| copy.apply(delta));
                assert!(fits, "a delta that does not fit the copy: {delta:?}");
            }
            ReportMessage::Heartbeat(heartbeat) => {
                let copy = self.copy.as_ref().expect("a whole before the first heartbeat");
                assert_eq!(copy.digest(), heartbeat.digest, "the digest of the copy");
                assert_eq!(copy.head.stamp, heartbeat.stamp);
            }
        }
    }
    pub(super) fn facts(&self, id: &str) -> Option<&PodFacts> {
        self.copy.as_ref().and_then(|copy| copy.pods.get(&pod(id)))
    }
    pub(super) fn reported(&self, id: &str) -> &PodFacts {
        self.facts(id).expect("the pod was reported")
    }
    pub(super) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }
    pub(super) fn engine_is(&mut self, state: EngineState) {
        self.run(Input::Engine(state));
    }
}

pub(super) const A: &str = "a.v1-i1-d0";

/// A node that runs `A`.
pub(super) fn running() -> Bench {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(A).whole());
    bench.take_actions();
    bench
}

pub(super) fn actions_in(effects: &[Effect]) -> Vec<&Action> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Perform { action, .. } = effect { Some(action) } else { None })
        .collect()
}
