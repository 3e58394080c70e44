//! The bench: a core with an in-memory disk, Docker and scheduler.
//!
//! `feed` passes one input and returns the effects; `settle` performs effects and their consequences until none is left. The
//! scheduler's copy of the report is folded from the published messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use contract::digest::Digest;
use contract::fence::{Fence, Term};
use contract::labels::{Identity, Owner};
use contract::order::{Assignment, Fetch, Order, OrderMessage, OrderReply};
use contract::pod_id::PodId;
use contract::report::{EngineState, NodeFacts, PodFacts, Report, ReportMessage};
use contract::spec::{ContainerSpec, PodSpec};
use contract::state::{HealthState, RestartPolicy, TargetState};
use contract::switches::Switches;
use contract::time::Timestamp;

use crate::core::Core;
use crate::core::io::{Action, ActionFailure, ContainerSeen, Effect, Input, Ledger, Phase, Settings};

pub(super) fn pod(text: &str) -> PodId {
    text.parse().expect("a pod id")
}
pub(super) fn fence(term: u64, generation: u64) -> Fence {
    Fence { term: Term(term), generation }
}
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
        mutant: None,
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
    pub(super) engine: BTreeMap<String, ContainerSeen>,
    pub(super) replies: Vec<(String, OrderReply)>,
    pub(super) published: Vec<ReportMessage>,
    pub(super) actions: Vec<Action>,
    /// Results of the next actions; empty means success.
    pub(super) failures: VecDeque<ActionFailure>,
    /// Requested pulls.
    pub(super) fetches: Vec<String>,
    /// Results of the next pulls; empty means success.
    pub(super) fetch_failures: VecDeque<ActionFailure>,
    /// The last line of every container's log.
    pub(super) logged: String,
    pub(super) copy: Option<Report>,
    made: u32,
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
            engine: BTreeMap::new(),
            replies: Vec::new(),
            published: Vec::new(),
            actions: Vec::new(),
            failures: VecDeque::new(),
            fetches: Vec::new(),
            fetch_failures: VecDeque::new(),
            logged: String::new(),
            copy: None,
            made: 0,
        }
    }
    /// The agent restarts with the ledger on disk.
    pub(super) fn restart(&mut self, incarnation: &str) {
        let settings = Settings { incarnation: incarnation.to_owned(), ..settings() };
        self.core = Core::new(settings, self.disk.clone());
    }
    pub(super) fn has(mut self, container: ContainerSeen) -> Self {
        self.engine.insert(container.id.clone(), container);
        self
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
        let (mut queue, mut actions): (VecDeque<Effect>, Vec<Effect>) = (effects.into(), Vec::new());
        while let Some(effect) = queue.pop_front() {
            if matches!(effect, Effect::Perform { .. } | Effect::Fetch { .. }) {
                actions.push(effect);
            } else if let Some(input) = self.perform(effect) {
                queue.extend(self.feed(input));
            }
        }
        actions
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
                if let Action::ReadEnd { id } = &action {
                    // Not recorded: it changes nothing.
                    let seen = self.engine.get(id).cloned();
                    let seen = seen.map(|seen| ContainerSeen { last_line: self.logged.clone(), ..seen });
                    return Some(Input::ActionDone { instance, result: Ok(seen), action });
                }
                self.actions.push(action.clone());
                let result = match self.failures.pop_front() {
                    Some(failure) => Err(failure),
                    None => Ok(self.action(&action)),
                };
                Some(Input::ActionDone { instance, action, result })
            }
            Effect::Fetch { image } => {
                self.fetches.push(image.clone());
                let result = self.fetch_failures.pop_front().map_or(Ok(()), Err);
                Some(Input::Fetched { image, result })
            }
            Effect::TakeInventory => Some(Input::Inventory(self.engine.values().cloned().collect())),
            Effect::Publish(message) => {
                self.receive(&message);
                self.published.push(message);
                None
            }
        }
    }
    fn action(&mut self, action: &Action) -> Option<ContainerSeen> {
        match action {
            Action::Create { pod, index, spec, address, .. } => {
                self.made += 1;
                let mut container = seen(&format!("m{}", self.made), &pod.to_string(), Phase::Running);
                container.identity.index = *index;
                container.started_at = self.now;
                container.spec_digest = Digest::of(spec.as_ref()).to_string();
                if !address.is_empty() {
                    container.ip.clone_from(address);
                }
                self.engine.insert(container.id.clone(), container.clone());
                Some(container)
            }
            Action::Replace { old, pod, index, spec, address, hardening, .. } => {
                self.engine.remove(old);
                let (pod, index, spec, address) = (pod.clone(), *index, Arc::clone(spec), address.clone());
                self.action(&Action::Create { pod, index, spec, address, hardening: hardening.clone() })
            }
            Action::Update { id, .. } | Action::ReadEnd { id } => self.engine.get(id).cloned(),
            Action::Start { id } => {
                let container = self.engine.get_mut(id)?;
                container.phase = Phase::Running;
                container.started_at = self.now;
                Some(container.clone())
            }
            Action::Stop { id, .. } => self.end(id, 0),
            Action::Remove { id, .. } => {
                self.engine.remove(id);
                None
            }
        }
    }
    /// The container exits.
    pub(super) fn end(&mut self, id: &str, exit_code: i64) -> Option<ContainerSeen> {
        let now = self.now;
        let container = self.engine.get_mut(id)?;
        container.phase = Phase::Exited;
        container.exit_code = exit_code;
        container.finished_at = now + Duration::from_millis(1);
        Some(container.clone())
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

pub(super) fn actions_in(effects: &[Effect]) -> Vec<&Action> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Perform { action, .. } = effect { Some(action) } else { None })
        .collect()
}
