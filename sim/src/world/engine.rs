//! Simulated Docker: containers with labels, limits and a fate, and the steps an agent may ask for.
//!
//! Several nodes may share one engine, and containers of strangers live there too, some dressed like ours. The
//! engine does what it is told to anybody; the invariants watch who was touched.

use std::collections::BTreeMap;

use agent::core::io::{Action as Step, ActionFailure as StepFailure, ContainerSeen, ImageTrouble, Phase};
use contract::digest::Digest;
use contract::labels::{self, Owner};
use contract::pod_id::PodId;
use contract::report::EngineState;
use contract::spec::PodSpec;
use contract::state::HealthState;
use contract::time::Timestamp;

use crate::random::Random;
use crate::workload::specs::ContainerBehaviour;

/// One container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Unique on the engine.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// What it is doing.
    pub phase: Phase,
    /// Exit code of the last end.
    pub exit_code: i64,
    /// Last start.
    pub started_at: Timestamp,
    /// Last end.
    pub finished_at: Timestamp,
    /// How often it was started.
    pub starts: u32,
    /// What it runs.
    pub image: String,
    /// What the health check says, if there is one.
    pub health: HealthState,
    /// Somebody checks its health.
    pub checked: bool,
    /// The kernel ended it.
    pub oom_killed: bool,
    /// The engine's own words about a start that failed.
    pub error: String,
    /// It is bound to its data.
    pub stateful: bool,
    /// When its group was created: a name may come back.
    pub life: Timestamp,
    /// Digest of the spec whose limits it has: the one it was made from, or was updated to.
    pub limits_of: String,
}

/// One Docker engine.
#[derive(Debug, Default)]
pub struct Engine {
    /// By id.
    pub containers: BTreeMap<String, Container>,
    /// It answers nobody.
    pub down: bool,
    /// It answers nobody until then.
    pub hung_until: Option<Timestamp>,
    /// No image can be fetched.
    pub registry_away: bool,
    /// Chance in percent that it refuses a step.
    pub refuses: u64,
    /// Chance in percent that a step's answer is lost; the step may have been done.
    pub loses: u64,
    made: u64,
    /// The present create ends before its start.
    interrupt_before_start: bool,
}

/// How a step went, and what it touched.
#[derive(Debug)]
pub struct ActionResult {
    /// What the agent is told.
    pub result: Result<Option<ContainerSeen>, StepFailure>,
    /// The container that was changed.
    pub touched: Option<String>,
}

/// How far a replacement gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplaceProgress {
    /// The new one stands there and was not started, the old one runs.
    Made,
    /// The old one has ended.
    Ended,
    /// The new one runs, and the old one cannot be removed.
    Started,
    /// The old one is gone.
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

impl Engine {
    /// A container the engine had before us.
    pub fn add_foreign(&mut self, name: &str, labels: BTreeMap<String, String>, now: Timestamp) {
        let id = self.fresh_id();
        let container = Container {
            name: name.to_owned(),
            labels,
            phase: Phase::Running,
            exit_code: 0,
            started_at: now,
            finished_at: Timestamp::NEVER,
            starts: 1,
            image: name.to_owned(),
            health: HealthState::None,
            checked: false,
            oom_killed: false,
            error: String::new(),
            stateful: false,
            life: Timestamp::NEVER,
            limits_of: String::new(),
        };
        self.containers.insert(id, container);
    }

    /// Every container of `owner`.
    pub fn inventory(&self, owner: &Owner) -> Vec<ContainerSeen> {
        self.containers.keys().filter_map(|id| self.look(owner, id)).collect()
    }

    /// One container, when it is `owner`'s.
    pub fn look(&self, owner: &Owner, id: &str) -> Option<ContainerSeen> {
        let container = self.containers.get(id)?;
        let identity = labels::identify(owner, |key| container.labels.get(key).map(String::as_str))?;
        let running = container.phase == Phase::Running;
        Some(ContainerSeen {
            id: id.to_owned(),
            identity,
            phase: container.phase,
            health: if running { container.health } else { HealthState::None },
            exit_code: container.exit_code,
            oom_killed: container.oom_killed,
            error: container.error.clone(),
            started_at: container.started_at,
            finished_at: container.finished_at,
            ip: if running { "172.20.0.9".to_owned() } else { String::new() },
            node_port: 0,
            spec_digest: container.labels.get(labels::SPEC_DIGEST).cloned().unwrap_or_default(),
            last_line: String::new(),
        })
    }

    /// Does a step, or fails to, or does it and loses the answer.
    pub fn perform(&mut self, owner: &Owner, step: &Step, now: Timestamp, random: &mut Random) -> ActionResult {
        let lost = || StepFailure::Unreachable("no answer in time".to_owned());
        if self.down {
            return ActionResult {
                result: Err(StepFailure::Unreachable("connection refused".to_owned())),
                touched: None,
            };
        }
        if random.chance(self.refuses) {
            return ActionResult {
                result: Err(StepFailure::Refused("no space left on device".to_owned())),
                touched: None,
            };
        }
        let answer_lost = random.chance(self.loses);
        if answer_lost && random.chance(50) {
            return ActionResult { result: Err(lost()), touched: None };
        }
        let done = match step {
            Step::Create { pod, index, spec, .. } => {
                // The answer may be lost between create and start: the container is there and never ran.
                self.interrupt_before_start = answer_lost && random.chance(50);
                self.create(owner, (pod, *index), spec, now)
            }
            Step::Replace { old, pod, index, spec, .. } => {
                let progress = ReplaceProgress::of(answer_lost, self.refuses, random);
                self.replace(owner, (old, progress), (pod, *index, spec), now)
            }
            Step::Update { id, spec, .. } => self.update(owner, id, spec),
            Step::ReadEnd { id } => ActionResult { result: Ok(self.look(owner, id)), touched: None },
            Step::Start { id } => self.start(owner, id, now),
            Step::Stop { id, .. } => self.stop(owner, id, now),
            Step::Remove { id, .. } => self.remove(id),
        };
        if answer_lost { ActionResult { result: Err(lost()), ..done } } else { done }
    }

    /// Sees to it that an image is here, or fails to.
    pub fn fetch(&self, image: &str, random: &mut Random) -> Result<(), StepFailure> {
        if self.state() != EngineState::Up {
            return Err(StepFailure::Unreachable("no answer".to_owned()));
        }
        if random.chance(self.refuses) {
            return Err(StepFailure::Refused("no space left on device".to_owned()));
        }
        self.find_image(image)
    }

    /// How it is to whoever asks.
    pub fn state(&self) -> EngineState {
        match (self.down, self.hung_until) {
            (true, _) => EngineState::Down,
            (false, Some(_)) => EngineState::Hung,
            (false, None) => EngineState::Up,
        }
    }

    fn find_image(&self, image: &str) -> Result<(), StepFailure> {
        let is_here = || self.containers.values().any(|container| container.image == image);
        if self.registry_away && ContainerBehaviour::of(image) != ContainerBehaviour::Broken && !is_here() {
            let text = format!("fetching {image}: i/o timeout");
            return Err(StepFailure::NoImage { text, trouble: ImageTrouble::Passing });
        }
        let missing =
            || StepFailure::NoImage { text: format!("No such image: {image}"), trouble: ImageTrouble::Denied };
        if ContainerBehaviour::of(image) == ContainerBehaviour::Broken { Err(missing()) } else { Ok(()) }
    }

    fn update(&mut self, owner: &Owner, id: &str, spec: &PodSpec) -> ActionResult {
        let Some(container) = self.containers.get_mut(id) else {
            return ActionResult { result: Ok(None), touched: None };
        };
        container.limits_of = Digest::of(spec).to_string();
        ActionResult { result: Ok(self.look(owner, id)), touched: Some(id.to_owned()) }
    }

    fn create(&mut self, owner: &Owner, (pod, index): (&PodId, usize), spec: &PodSpec, now: Timestamp) -> ActionResult {
        let id = match self.make(owner, (pod, index), spec) {
            Ok(id) => id,
            Err(failure) => return ActionResult { result: Err(failure), touched: None },
        };
        if std::mem::take(&mut self.interrupt_before_start) {
            return ActionResult { result: Ok(None), touched: Some(id) };
        }
        // Made but not started: the agent's hands leave it for a start of its own.
        let done = self.start(owner, &id, now);
        if done.result.is_err() { ActionResult { result: Ok(self.look(owner, &id)), touched: Some(id) } } else { done }
    }

    /// The new one is made while the old one ends, and started while that is removed, as far as it gets.
    fn replace(
        &mut self,
        owner: &Owner,
        (old, progress): (&str, ReplaceProgress),
        (pod, index, spec): (&PodId, usize, &PodSpec),
        now: Timestamp,
    ) -> ActionResult {
        let made = self.make(owner, (pod, index), spec);
        if progress == ReplaceProgress::Made {
            return ActionResult { result: Ok(None), touched: made.ok() };
        }
        // Also when the new one could not be made: nobody waits for the other to know.
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
        // Made but not started: the agent's hands leave it for a start of its own.
        drop(self.start(owner, &id, now));
        let refused = || Err(StepFailure::Refused("device or resource busy".to_owned()));
        let result = if progress == ReplaceProgress::Started { refused() } else { Ok(self.look(owner, &id)) };
        ActionResult { result, touched: Some(id) }
    }

    /// Makes a container, or finds the one of that name.
    fn make(&mut self, owner: &Owner, (pod, index): (&PodId, usize), spec: &PodSpec) -> Result<String, StepFailure> {
        let name = pod.container_name(index, spec.containers.len());
        let image = spec.containers.get(index).map(|container| container.image.clone()).unwrap_or_default();
        self.find_image(&image)?;
        let found = self.containers.iter().find(|(_, c)| c.name == name).map(|(id, _)| id.clone());
        let id = match found {
            Some(id) if self.look(owner, &id).is_none() => {
                return Err(StepFailure::Refused(format!("the name {name} is taken by {id}")));
            }
            Some(id) => id,
            None => {
                let id = self.fresh_id();
                let container = Container {
                    name,
                    labels: labels::of(owner, pod, spec, index),
                    phase: Phase::Created,
                    exit_code: 0,
                    started_at: Timestamp::NEVER,
                    finished_at: Timestamp::NEVER,
                    starts: 0,
                    image,
                    health: HealthState::None,
                    checked: !spec.health_config.cmd.is_empty(),
                    oom_killed: false,
                    error: String::new(),
                    stateful: spec.is_stateful(),
                    life: spec.created_at,
                    limits_of: Digest::of(spec).to_string(),
                };
                self.containers.insert(id.clone(), container);
                id
            }
        };
        Ok(id)
    }

    fn start(&mut self, owner: &Owner, id: &str, now: Timestamp) -> ActionResult {
        let Some(container) = self.containers.get_mut(id) else {
            return ActionResult {
                result: Err(StepFailure::Refused(format!("no such container: {id}"))),
                touched: None,
            };
        };
        if ContainerBehaviour::of(&container.image) == ContainerBehaviour::Stubborn {
            "exec: no such file".clone_into(&mut container.error);
            return ActionResult {
                result: Err(StepFailure::Refused(container.error.clone())),
                touched: Some(id.to_owned()),
            };
        }
        if container.phase != Phase::Running {
            container.phase = Phase::Running;
            container.started_at = now;
            container.starts += 1;
            container.oom_killed = false;
            container.health = if container.checked { HealthState::Starting } else { HealthState::None };
        }
        ActionResult { result: Ok(self.look(owner, id)), touched: Some(id.to_owned()) }
    }

    fn stop(&mut self, owner: &Owner, id: &str, now: Timestamp) -> ActionResult {
        self.end(id, 143, now);
        ActionResult { result: Ok(self.look(owner, id)), touched: Some(id.to_owned()) }
    }

    fn remove(&mut self, id: &str) -> ActionResult {
        self.containers.remove(id);
        ActionResult { result: Ok(None), touched: Some(id.to_owned()) }
    }

    /// A running container ends.
    pub fn end(&mut self, id: &str, exit_code: i64, now: Timestamp) {
        if let Some(container) = self.containers.get_mut(id).filter(|c| c.phase == Phase::Running) {
            container.phase = Phase::Exited;
            container.exit_code = exit_code;
            container.finished_at = now;
        }
    }

    /// What becomes of a container some time after its start number `starts`.
    pub fn apply_behaviour(&mut self, id: &str, starts: u32, now: Timestamp) {
        let running = |c: &&mut Container| c.starts == starts && c.phase == Phase::Running;
        let Some(container) = self.containers.get_mut(id).filter(running) else { return };
        match ContainerBehaviour::of(&container.image) {
            ContainerBehaviour::Well | ContainerBehaviour::Stubborn | ContainerBehaviour::Broken
                if container.checked =>
            {
                container.health = HealthState::Healthy
            }
            ContainerBehaviour::Ill if container.checked => container.health = HealthState::Unhealthy,
            ContainerBehaviour::Well
            | ContainerBehaviour::Stubborn
            | ContainerBehaviour::Broken
            | ContainerBehaviour::Ill => {}
            ContainerBehaviour::Dying => self.end(id, 1, now),
        }
    }

    fn fresh_id(&mut self) -> String {
        self.made += 1;
        format!("c{:04}", self.made)
    }
}
