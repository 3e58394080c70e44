//! Simulated Docker: containers with labels and limits, and the actions that an agent requests.
//!
//! Several nodes may share one engine, which also has foreign containers, some with our labels. The engine obeys every request;
//! the checks find containers that an agent must not touch.

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub phase: Phase,
    pub exit_code: i64,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    pub starts: u32,
    pub image: String,
    pub health: HealthState,
    /// It has a health check.
    pub checked: bool,
    pub oom_killed: bool,
    /// The engine's message about a failed start.
    pub error: String,
    pub stateful: bool,
    /// When its group was created; a later group may have the same name.
    pub life: Timestamp,
    /// Digest of the spec that it was made from or last updated to.
    pub limits_of: String,
}

#[derive(Debug, Default)]
pub struct Engine {
    pub containers: BTreeMap<String, Container>,
    pub down: bool,
    /// Requests time out until then.
    pub hung_until: Option<Timestamp>,
    pub registry_away: bool,
    /// Probability in percent that the engine refuses an action.
    pub refuses: u64,
    /// Probability in percent that an answer is lost; the engine may have done the action.
    pub loses: u64,
    made: u64,
    /// The current create loses its answer before the start.
    interrupt_before_start: bool,
}

#[derive(Debug)]
pub struct ActionResult {
    pub result: Result<Option<ContainerSeen>, StepFailure>,
    pub touched: Option<String>,
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

impl Engine {
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

    pub fn inventory(&self, owner: &Owner) -> Vec<ContainerSeen> {
        self.containers.keys().filter_map(|id| self.look(owner, id)).collect()
    }

    /// One container, if `owner` owns it.
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

    /// Performs an action, refuses it, or performs it and loses the answer.
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
                // The answer may be lost between create and start: the container exists and never ran.
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

    /// Pulls an image unless the engine has it.
    pub fn fetch(&self, image: &str, random: &mut Random) -> Result<(), StepFailure> {
        if self.state() != EngineState::Up {
            return Err(StepFailure::Unreachable("no answer".to_owned()));
        }
        if random.chance(self.refuses) {
            return Err(StepFailure::Refused("no space left on device".to_owned()));
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
        // The container exists but did not start; the agent starts it with its next action.
        let done = self.start(owner, &id, now);
        if done.result.is_err() { ActionResult { result: Ok(self.look(owner, &id)), touched: Some(id) } } else { done }
    }

    /// Creates the new container while the old one stops, and starts it while the old one is removed.
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
        drop(self.start(owner, &id, now));
        let refused = || Err(StepFailure::Refused("device or resource busy".to_owned()));
        let result = if progress == ReplaceProgress::Started { refused() } else { Ok(self.look(owner, &id)) };
        ActionResult { result, touched: Some(id) }
    }

    /// Creates a container, or finds the one of that name.
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
