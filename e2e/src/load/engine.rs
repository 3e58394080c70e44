//! An engine that only keeps a list of containers: each action succeeds after a delay.
//!
//! A container view is computed on demand from a small record, so that a million containers fit into one process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agent::core::io::{Action as Step, ContainerSeen, Phase};
use contract::labels::Identity;
use contract::pod_id::{InstanceKey, PodId};
use contract::spec::PodSpec;
use contract::state::HealthState;
use contract::time::Timestamp;

use crate::load::specs::Specs;

#[derive(Debug, Clone)]
struct Container {
    pod: PodId,
    index: usize,
    phase: Phase,
    started_at: Timestamp,
    finished_at: Timestamp,
    spec_digest: Arc<str>,
}

#[derive(Debug, Default)]
pub(crate) struct Engine {
    /// Makes this engine's container ids unique.
    number: u32,
    made: u32,
    containers: BTreeMap<u32, Container>,
    specs: Arc<Specs>,
    /// Actions in flight, by the time they end.
    in_flight: VecDeque<(Timestamp, InstanceKey, Step)>,
}

/// An action that ended, with the container afterwards; none if that is gone.
pub(crate) type Done = (InstanceKey, Step, Option<ContainerSeen>);

impl Engine {
    pub(crate) fn new(number: u32, specs: Arc<Specs>) -> Self {
        Self { number, specs, ..Self::default() }
    }

    /// Starts an action that ends at `at`; actions end in the sequence in which they started.
    pub(crate) fn begin(&mut self, instance: InstanceKey, step: Step, at: Timestamp) {
        self.in_flight.push_back((at, instance, step));
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.in_flight.front().map(|(at, _, _)| *at)
    }

    pub(crate) fn ended(&mut self, now: Timestamp) -> Vec<Done> {
        let mut done = Vec::new();
        while let Some((_, instance, step)) = self.in_flight.pop_front_if(|(at, _, _)| *at <= now) {
            let seen = self.perform(&step, now);
            done.push((instance, step, seen));
        }
        done
    }

    pub(crate) fn inventory(&self) -> Vec<ContainerSeen> {
        self.containers.keys().filter_map(|number| self.look(*number)).collect()
    }

    fn perform(&mut self, step: &Step, now: Timestamp) -> Option<ContainerSeen> {
        match step {
            Step::Create { pod, index, spec, .. } => self.make(pod, *index, spec, now),
            Step::Replace { old, pod, index, spec, .. } => {
                self.containers.remove(&number(old)?);
                self.make(pod, *index, spec, now)
            }
            Step::Update { id, .. } | Step::ReadEnd { id } => self.look(number(id)?),
            Step::Start { id } => {
                let container = self.containers.get_mut(&number(id)?)?;
                (container.phase, container.started_at) = (Phase::Running, now);
                self.look(number(id)?)
            }
            Step::Stop { id, .. } => {
                let container = self.containers.get_mut(&number(id)?)?;
                (container.phase, container.finished_at) = (Phase::Exited, now);
                self.look(number(id)?)
            }
            Step::Remove { id, .. } => {
                self.containers.remove(&number(id)?);
                None
            }
        }
    }

    fn make(&mut self, pod: &PodId, index: usize, spec: &Arc<PodSpec>, now: Timestamp) -> Option<ContainerSeen> {
        self.made += 1;
        let spec_digest = self.specs.digest(&pod.spec_key(), spec);
        let (phase, finished_at) = (Phase::Running, Timestamp::NEVER);
        let made = Container { pod: pod.clone(), index, phase, started_at: now, finished_at, spec_digest };
        self.containers.insert(self.made, made);
        self.look(self.made)
    }

    fn look(&self, number: u32) -> Option<ContainerSeen> {
        let container = self.containers.get(&number)?;
        let runs = container.phase == Phase::Running;
        let ip = if runs { format!("172.20.{}.{}", number >> 8 & 255, number & 255) } else { String::new() };
        Some(ContainerSeen {
            id: self.id(number),
            identity: Identity { pod: container.pod.clone(), index: container.index },
            phase: container.phase,
            health: HealthState::None,
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
            started_at: container.started_at,
            finished_at: container.finished_at,
            ip,
            node_port: 0,
            spec_digest: container.spec_digest.as_ref().to_owned(),
            last_line: String::new(),
        })
    }

    /// As long as a real id, which is a large part of a report.
    fn id(&self, number: u32) -> String {
        format!("{number:08x}{:0>56x}", self.number)
    }
}

fn number(id: &str) -> Option<u32> {
    u32::from_str_radix(id.get(..8)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_created_and_removed_after_the_delay() {
        let mut engine = Engine::new(7, Arc::default());
        let pod: PodId = "a.v1-i1-d0".parse().unwrap();
        let (spec, address) = (Arc::default(), String::new());
        let create = Step::Create { pod: pod.clone(), index: 0, spec, address, hardening: None };
        engine.begin(pod.key(), create, Timestamp::from_millis(5));
        assert!(engine.ended(Timestamp::from_millis(4)).is_empty());
        let (_, _, seen) = engine.ended(Timestamp::from_millis(5)).remove(0);
        let seen = seen.unwrap();
        assert_eq!((seen.id.len(), seen.phase, seen.identity.pod.clone()), (64, Phase::Running, pod.clone()));
        assert_eq!(engine.inventory(), std::slice::from_ref(&seen));
        let remove = Step::Remove { id: seen.id, grace: std::time::Duration::ZERO };
        engine.begin(pod.key(), remove, Timestamp::from_millis(6));
        assert_eq!(engine.ended(Timestamp::from_millis(6)).len(), 1);
        assert!(engine.inventory().is_empty());
    }
}
