//! A Docker engine in memory: the containers of one or more nodes, and the actions that agents request.
//!
//! Several nodes may share one engine, which may also have foreign containers, some with our labels. The engine obeys every
//! request unless a fault is set; a test decides which containers an agent must not touch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agent::core::io::{Action, ActionFailure, ContainerSeen, ImageTrouble, Phase};
use contract::digest::Digest;
use contract::labels::Owner;
use contract::pod_id::PodId;
use contract::report::EngineState;
use contract::spec::PodSpec;
use contract::state::HealthState;
use contract::time::Timestamp;
use planner::check::CheckResult;

use crate::container::{Container, ContainerBehaviour, Origin};
use crate::random::Random;

#[derive(Debug)]
pub struct FakeEngine {
    pub containers: BTreeMap<String, Container>,
    pub down: bool,
    /// Requests time out until then.
    pub hung_until: Option<Timestamp>,
    pub registry_away: bool,
    /// Probability in percent that the engine refuses an action.
    pub refuses: u64,
    /// Probability in percent that an answer is lost; the engine may have done the action.
    pub loses: u64,
    /// Results of the next actions that change something; empty means success.
    pub failures: VecDeque<ActionFailure>,
    /// Results of the next pulls; empty means success.
    pub fetch_failures: VecDeque<ActionFailure>,
    /// The last line of every container's log.
    pub last_line: String,
    id_prefix: String,
    id_digits: usize,
    made: u64,
    /// The current create loses its answer before the start.
    interrupt_before_start: bool,
}

#[derive(Debug)]
pub struct ActionResult {
    pub result: Result<Option<ContainerSeen>, ActionFailure>,
    /// Id of the container that the action changed.
    pub touched: Option<String>,
}

impl ActionResult {
    fn failed(failure: ActionFailure) -> Self {
        Self { result: Err(failure), touched: None }
    }
}

/// A container to create: its pod, its image, and its reserved address (empty means any).
#[derive(Clone, Copy)]
struct Wanted<'a> {
    owner: &'a Owner,
    pod: &'a PodId,
    index: usize,
    spec: &'a Arc<PodSpec>,
    address: &'a str,
}

/// How far a replacement gets before its answer is lost or the engine refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplaceProgress {
    /// The new container exists and was not started; the old one runs.
    Made,
    /// The old container has exited.
    Ended,
    /// The new container runs; the engine refuses to remove the old one.
    Started,
    All,
}

impl ReplaceProgress {
    fn of(answer_lost: bool, refuses: u64, random: &mut Random) -> Self {
        if answer_lost {
            return random.pick(&[Self::Made, Self::Ended, Self::Started, Self::All]).copied().unwrap_or(Self::All);
        }
        if random.chance(refuses) { Self::Started } else { Self::All }
    }
}

impl FakeEngine {
    /// The nth container gets an id of `prefix` and at least `digits` digits: `FakeEngine::new("c", 4)` creates c0001, c0002, ...
    pub fn new(prefix: &str, digits: usize) -> Self {
        Self {
            containers: BTreeMap::new(),
            down: false,
            hung_until: None,
            registry_away: false,
            refuses: 0,
            loses: 0,
            failures: VecDeque::new(),
            fetch_failures: VecDeque::new(),
            last_line: String::new(),
            id_prefix: prefix.to_owned(),
            id_digits: digits,
            made: 0,
            interrupt_before_start: false,
        }
    }

    pub fn add_foreign(&mut self, name: &str, labels: BTreeMap<String, String>, now: Timestamp) {
        let id = self.fresh_id();
        self.containers.insert(id, Container::foreign(name, labels, now));
    }

    /// Adds a container that an earlier agent of `owner` created.
    pub fn insert(&mut self, owner: &Owner, seen: &ContainerSeen) {
        self.containers.insert(seen.id.clone(), Container::found(owner, seen));
    }

    pub fn inventory(&self, owner: &Owner) -> Vec<ContainerSeen> {
        self.containers.iter().filter_map(|(id, container)| container.seen(owner, id)).collect()
    }

    /// One container, if `owner` owns it.
    pub fn look(&self, owner: &Owner, id: &str) -> Option<ContainerSeen> {
        self.containers.get(id)?.seen(owner, id)
    }

    /// The result of a check of the agent: it passes while the container runs, unless its image makes it ill.
    pub fn check(&self, id: &str) -> CheckResult {
        let Some(container) = self.containers.get(id) else { return CheckResult::Unknown };
        match (container.phase, container.behaviour()) {
            (Phase::Running, ContainerBehaviour::Ill) => CheckResult::Failed("status 503".to_owned()),
            (Phase::Running, _) => CheckResult::Passed,
            (Phase::Created | Phase::Exited | Phase::Removing | Phase::Dead, _) => {
                CheckResult::Failed("connection refused".to_owned())
            }
        }
    }

    /// Performs an action, refuses it, or performs it and loses the answer.
    pub fn perform(&mut self, owner: &Owner, action: &Action, now: Timestamp, random: &mut Random) -> ActionResult {
        let lost = || ActionFailure::Unreachable("no answer in time".to_owned());
        if self.down {
            return ActionResult::failed(ActionFailure::Unreachable("connection refused".to_owned()));
        }
        if !matches!(action, Action::ReadEnd { .. })
            && let Some(failure) = self.failures.pop_front()
        {
            return ActionResult::failed(failure);
        }
        if random.chance(self.refuses) {
            return ActionResult::failed(ActionFailure::Refused("no space left on device".to_owned()));
        }
        let answer_lost = random.chance(self.loses);
        if answer_lost && random.chance(50) {
            return ActionResult::failed(lost());
        }
        let done = match action {
            Action::Create { pod, index, spec, address, .. } => {
                // The answer may be lost between create and start: the container exists and never ran.
                self.interrupt_before_start = answer_lost && random.chance(50);
                self.create(Wanted { owner, pod, index: *index, spec, address }, now)
            }
            Action::Replace { old, pod, index, spec, address, .. } => {
                let progress = ReplaceProgress::of(answer_lost, self.refuses, random);
                self.replace((old, progress), Wanted { owner, pod, index: *index, spec, address }, now)
            }
            Action::Update { id, spec, .. } => self.update(owner, id, spec),
            Action::ReadEnd { id } => self.read_end(owner, id),
            Action::Start { id } => self.start(owner, id, now),
            Action::Stop { id, .. } => self.stop(owner, id, now),
            Action::Remove { id, .. } => self.remove(id),
        };
        if answer_lost { ActionResult { result: Err(lost()), ..done } } else { done }
    }

    /// Pulls an image unless the engine has it.
    pub fn fetch(&mut self, image: &str, random: &mut Random) -> Result<(), ActionFailure> {
        if let Some(failure) = self.fetch_failures.pop_front() {
            return Err(failure);
        }
        if self.state() != EngineState::Up {
            return Err(ActionFailure::Unreachable("no answer".to_owned()));
        }
        if random.chance(self.refuses) {
            return Err(ActionFailure::Refused("no space left on device".to_owned()));
        }
        self.find_image(image)
    }

    pub fn state(&self) -> EngineState {
        match (self.down, self.hung_until) {
            (true, _) => EngineState::Down,
            (false, Some(_)) => EngineState::Hung,
            (false, None) => EngineState::Up,
        }
    }

    fn find_image(&self, image: &str) -> Result<(), ActionFailure> {
        let is_here = || self.containers.values().any(|container| container.image() == image);
        if self.registry_away && ContainerBehaviour::of(image) != ContainerBehaviour::Broken && !is_here() {
            let text = format!("fetching {image}: i/o timeout");
            return Err(ActionFailure::NoImage { text, trouble: ImageTrouble::Passing });
        }
        let missing =
            || ActionFailure::NoImage { text: format!("No such image: {image}"), trouble: ImageTrouble::Denied };
        if ContainerBehaviour::of(image) == ContainerBehaviour::Broken { Err(missing()) } else { Ok(()) }
    }

    fn update(&mut self, owner: &Owner, id: &str, spec: &PodSpec) -> ActionResult {
        let Some(container) = self.containers.get_mut(id) else {
            return ActionResult { result: Ok(None), touched: None };
        };
        container.limits_of = Digest::of(spec).to_string().into();
        ActionResult { result: Ok(self.look(owner, id)), touched: Some(id.to_owned()) }
    }

    fn read_end(&self, owner: &Owner, id: &str) -> ActionResult {
        let last_line = self.last_line.clone();
        let result = Ok(self.look(owner, id).map(|seen| ContainerSeen { last_line, ..seen }));
        ActionResult { result, touched: None }
    }

    fn create(&mut self, wanted: Wanted<'_>, now: Timestamp) -> ActionResult {
        let id = match self.make(wanted) {
            Ok(id) => id,
            Err(failure) => return ActionResult::failed(failure),
        };
        if std::mem::take(&mut self.interrupt_before_start) {
            return ActionResult { result: Ok(None), touched: Some(id) };
        }
        // The container exists but did not start; the agent starts it with its next action.
        let done = self.start(wanted.owner, &id, now);
        if done.result.is_ok() {
            return done;
        }
        ActionResult { result: Ok(self.look(wanted.owner, &id)), touched: Some(id) }
    }

    /// Creates the new container while the old one stops, and starts it while the old one is removed.
    fn replace(
        &mut self,
        (old, progress): (&str, ReplaceProgress),
        wanted: Wanted<'_>,
        now: Timestamp,
    ) -> ActionResult {
        let made = self.make(wanted);
        if progress == ReplaceProgress::Made {
            return ActionResult { result: Ok(None), touched: made.ok() };
        }
        // Even if the create failed: real agents send both requests at the same time.
        self.end(old, 143, now);
        if progress == ReplaceProgress::All {
            self.containers.remove(old);
        }
        let id = match made {
            Err(failure) => return ActionResult { result: Err(failure), touched: Some(old.to_owned()) },
            Ok(id) if progress == ReplaceProgress::Ended => {
                return ActionResult { result: Ok(None), touched: Some(id) };
            }
            Ok(id) => id,
        };
        // The container exists but did not start; the agent starts it with its next action.
        drop(self.start(wanted.owner, &id, now));
        let refused = || Err(ActionFailure::Refused("device or resource busy".to_owned()));
        let result = if progress == ReplaceProgress::Started { refused() } else { Ok(self.look(wanted.owner, &id)) };
        ActionResult { result, touched: Some(id) }
    }

    /// Creates a container, or finds the one of that name.
    fn make(&mut self, Wanted { owner, pod, index, spec, address }: Wanted<'_>) -> Result<String, ActionFailure> {
        self.find_image(spec.containers.get(index).map_or("", |container| &container.image))?;
        let name = pod.container_name(index, spec.containers.len());
        let has_name = |container: &Container| match &container.origin {
            Origin::Pod { identity, .. } => identity.pod == *pod && container.name() == name,
            Origin::Foreign { name: other, .. } => *other == name,
        };
        let found = self.containers.iter().find(|(_, container)| has_name(container));
        if let Some((id, container)) = found {
            return match container.identity(owner) {
                Some(_) => Ok(id.clone()),
                None => Err(ActionFailure::Refused(format!("the name {name} is taken by {id}"))),
            };
        }
        let id = self.fresh_id();
        let any = || format!("172.20.{}.{}", self.made >> 8 & 255, self.made & 255);
        let address = if address.is_empty() { any() } else { address.to_owned() };
        self.containers.insert(id.clone(), Container::of_pod(owner, (pod, index), spec, address));
        Ok(id)
    }

    fn start(&mut self, owner: &Owner, id: &str, now: Timestamp) -> ActionResult {
        let Some(container) = self.containers.get_mut(id) else {
            return ActionResult { result: Ok(None), touched: None };
        };
        let touched = Some(id.to_owned());
        if container.behaviour() == ContainerBehaviour::Stubborn {
            "exec: no such file".clone_into(&mut container.error);
            return ActionResult { result: Err(ActionFailure::Refused(container.error.clone())), touched };
        }
        container.start(now);
        ActionResult { result: Ok(self.look(owner, id)), touched }
    }

    fn stop(&mut self, owner: &Owner, id: &str, now: Timestamp) -> ActionResult {
        self.end(id, 143, now);
        ActionResult { result: Ok(self.look(owner, id)), touched: Some(id.to_owned()) }
    }

    fn remove(&mut self, id: &str) -> ActionResult {
        self.containers.remove(id);
        ActionResult { result: Ok(None), touched: Some(id.to_owned()) }
    }

    /// A running container exits.
    pub fn end(&mut self, id: &str, exit_code: i64, now: Timestamp) {
        if let Some(container) = self.containers.get_mut(id).filter(|c| c.phase == Phase::Running) {
            container.phase = Phase::Exited;
            container.exit_code = exit_code;
            container.finished_at = now;
        }
    }

    /// The container shows the behaviour of its image, unless it was restarted since its start number `starts`.
    pub fn apply_behaviour(&mut self, id: &str, starts: u32, now: Timestamp) {
        let running = |c: &&mut Container| c.starts == starts && c.phase == Phase::Running;
        let Some(container) = self.containers.get_mut(id).filter(running) else { return };
        let health = match container.behaviour() {
            ContainerBehaviour::Dying => return self.end(id, 1, now),
            ContainerBehaviour::Ill => HealthState::Unhealthy,
            ContainerBehaviour::Well | ContainerBehaviour::Stubborn | ContainerBehaviour::Broken => {
                HealthState::Healthy
            }
        };
        if container.has_health_check() {
            container.health = health;
        }
    }

    fn fresh_id(&mut self) -> String {
        self.made += 1;
        format!("{}{:0digits$}", self.id_prefix, self.made, digits = self.id_digits)
    }
}
