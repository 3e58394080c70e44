//! Works the lanes: asks the planner for the next step, remembers how steps ended, and keeps the facts of every pod
//! that something happened to.
//!
//! A refusal of the engine counts against the pod and is told; an engine that cannot be asked counts against nobody,
//! the lane only waits a little.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use contract::fence::Fence;
use contract::labels::Identity;
use contract::pod_id::{InstanceKey, PodId};
use contract::report::EngineState;
use contract::state::{RunState, TargetState};
use contract::time::Timestamp;
use planner::lane::{Activity, Lane, Memory, Next, Seen, Wanted, next_step};
use planner::restart::{End, History, Limits};
use tracing::{info, warn};

use super::io::{ContainerSeen, Effect, Phase, PodMemory, Step, StepFailure};
use super::world::Busy;
use super::{Core, Sight, facts, lane_range};

/// Grace of a container whose spec is not known any more.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// Back-off after the engine refused a create or a start: 10 s doubling to 5 min. The scheduler usually answers with
/// a new drift before.
const REFUSED: BackOff = BackOff { first: Duration::from_secs(10), most: Duration::from_secs(300) };
/// Back-off after the engine could not be asked: 1 s doubling to 30 s.
const UNREACHABLE: BackOff = BackOff { first: Duration::from_secs(1), most: Duration::from_secs(30) };

struct BackOff {
    first: Duration,
    most: Duration,
}

impl BackOff {
    /// After so many failures in a row.
    fn after(&self, failures: u32) -> Duration {
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1).min(16));
        self.first.saturating_mul(doubled).min(self.most)
    }
}

impl Core {
    /// Looks at every lane something happened to: starts its next step, refreshes its facts.
    pub(super) fn work(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let can_act = self.engine == EngineState::Up
            && matches!(self.sight, Sight::Clear { .. })
            && self.ledger.order.fence != Fence::default();
        for lane in self.world.take_dirty() {
            if can_act && !self.ledger.order.spared.contains(&lane.group) {
                self.work_lane(&lane, now, out);
            }
            self.refresh_facts(&lane, now);
            self.world.tidy(&lane);
        }
    }

    fn work_lane(&mut self, key: &InstanceKey, now: Timestamp, out: &mut Vec<Effect>) {
        self.note_what_stands(key);
        let (busy, hold_until) = match self.world.lane(key) {
            None => (false, Timestamp::NEVER),
            Some(lane) => (lane.busy.is_some(), lane.hold_until),
        };
        if busy {
            return;
        }
        if now < hold_until {
            return self.world.wait(key, Some(hold_until));
        }
        let mut next = next_step(&self.planned_lane(key, now), now);
        // Each let-go settles one of the lane's pods, so this ends.
        while let Next::LetGo(pod) = next {
            info!(%pod, "restart budget is spent, the pod is let go");
            self.memory_mut(&pod).let_go = true;
            next = next_step(&self.planned_lane(key, now), now);
        }
        self.begin(key, next, out);
    }

    fn begin(&mut self, key: &InstanceKey, next: Next, out: &mut Vec<Effect>) {
        let (step, history) = match next {
            Next::Nothing | Next::LetGo(_) => return self.world.wait(key, None),
            Next::WaitUntil(time) => return self.world.wait(key, Some(time)),
            Next::Create(Identity { pod, index }) => {
                let Some(spec) = self.ledger.order.specs.get(&pod.spec_key()) else { return };
                (Step::Create { spec: Arc::clone(spec), pod, index }, None)
            }
            Next::Start { id, history, .. } => (Step::Start { id }, Some(history)),
            Next::Stop { id, grace } => (Step::Stop { id, grace }, None),
            Next::Remove { id, grace } => (Step::Remove { id, grace }, None),
        };
        self.world.begin(key, Busy { step: step.clone(), history });
        out.push(Effect::Perform { lane: key.clone(), step });
    }

    /// Remembers what follows from the containers that stand there.
    fn note_what_stands(&mut self, key: &InstanceKey) {
        let pods: Vec<(PodId, usize)> = self.ordered(key).map(|(pod, count)| (pod.clone(), count)).collect();
        for (pod, count) in pods {
            let of_pod = || self.world.containers(key).filter(|seen| seen.identity.pod == pod);
            let there: BTreeSet<usize> = of_pod().map(|seen| seen.identity.index).collect();
            let running =
                of_pod().filter(|seen| seen.phase == Phase::Running).map(|seen| seen.identity.index).collect();
            self.note_pod(&pod, (0..count).all(|index| there.contains(&index)), there.is_empty(), &running);
        }
    }

    fn note_pod(&mut self, pod: &PodId, complete: bool, nothing: bool, running: &BTreeSet<usize>) {
        let nobody = PodMemory::default();
        let memory = self.ledger.memory.get(pod).unwrap_or(&nobody);
        let wanted = self.ledger.order.pods.get(pod).is_some_and(|assignment| assignment.target == TargetState::Run);
        if memory.outdated && nothing {
            let memory = self.memory_mut(pod);
            *memory = PodMemory { halted: std::mem::take(&mut memory.halted), ..PodMemory::default() };
        } else if !memory.outdated && complete && !memory.created {
            self.memory_mut(pod).created = true;
        }
        let halted = self.ledger.memory.get(pod).map_or(&nobody.halted, |memory| &memory.halted);
        if wanted && halted.intersection(running).next().is_some() {
            self.memory_mut(pod).halted.retain(|index| !running.contains(index));
        }
    }

    fn ordered(&self, key: &InstanceKey) -> impl Iterator<Item = (&PodId, usize)> {
        let count = |pod: &PodId| self.ledger.order.specs.get(&pod.spec_key()).map_or(0, |spec| spec.containers.len());
        self.ledger.order.pods.range(lane_range(key)).map(move |(pod, _)| (pod, count(pod)))
    }

    fn planned_lane(&self, key: &InstanceKey, now: Timestamp) -> Lane<'_> {
        let order = &self.ledger.order;
        let wanted = order.pods.range(lane_range(key)).filter_map(|(pod, assignment)| {
            let spec = order.specs.get(&pod.spec_key())?;
            let memory = self.ledger.memory.get(pod).map(remembered).unwrap_or_default();
            Some(Wanted { pod, assignment: *assignment, spec, memory, alone_at: self.alone_at(pod, now) })
        });
        Lane {
            wanted: wanted.collect(),
            seen: self.world.containers(key).map(|seen| self.planned_container(seen)).collect(),
            limits: Limits { most: self.settings.most_restarts, window: self.settings.restart_window },
            brakes: order.brakes,
        }
    }

    fn planned_container<'a>(&self, seen: &'a ContainerSeen) -> Seen<'a> {
        Seen {
            id: &seen.id,
            identity: &seen.identity,
            activity: match seen.phase {
                Phase::Created => Activity::Created,
                Phase::Running => Activity::Running,
                Phase::Exited => Activity::Exited,
                Phase::Removing | Phase::Dead => Activity::Leaving,
            },
            end: End {
                exit_code: seen.exit_code,
                engine_error: !seen.error.is_empty(),
                finished_at: seen.finished_at,
                excused: self.world.is_excused(&seen.id),
            },
            started_at: seen.started_at,
            grace: self.grace(&seen.identity.pod),
        }
    }

    fn grace(&self, pod: &PodId) -> Duration {
        let spec = self.ledger.order.specs.get(&pod.spec_key());
        let kept = || self.graces.get(pod).copied().unwrap_or(DEFAULT_GRACE);
        spec.map_or_else(kept, |spec| spec.kill_grace())
    }

    /// From when on a missing container of `pod` is nobody else's to answer for. Connected, the schedulers get their
    /// time from the moment they could know; cut off, silence counts from their last word.
    fn alone_at(&self, pod: &PodId, now: Timestamp) -> Timestamp {
        let told_at = match self.reporter.get(pod) {
            Some(facts) if facts.state == RunState::Missing => facts.updated_at,
            Some(_) | None => now,
        };
        let since = if self.connected { self.last_word.max(told_at) } else { self.last_word };
        since + self.settings.alone_after
    }

    /// A step ended.
    pub(super) fn stepped(
        &mut self,
        key: &InstanceKey,
        step: &Step,
        result: Result<Option<ContainerSeen>, StepFailure>,
        now: Timestamp,
    ) {
        self.world.touch(key);
        self.world.mark(key);
        let lane = self.world.lane_mut(key);
        let history = match lane.busy.take() {
            Some(busy) if busy.step == *step => busy.history,
            // The end of a step of an earlier run: what it left behind is still true.
            other => {
                lane.busy = other;
                None
            }
        };
        match result {
            Ok(left) => self.step_worked(key, step, left, history),
            Err(failure) => self.step_failed(key, step, failure, now),
        }
    }

    fn step_worked(&mut self, key: &InstanceKey, step: &Step, left: Option<ContainerSeen>, history: Option<History>) {
        let lane = self.world.lane_mut(key);
        lane.stumbles = 0;
        lane.hold_until = Timestamp::NEVER;
        lane.trouble.clear();
        let pod = self.pod_of(step);
        let started = left.as_ref().map(|seen| seen.identity.index);
        match left {
            Some(seen) => self.world.put(seen),
            None => step_target(step).into_iter().for_each(|id| self.world.gone(id)),
        }
        let Some(pod) = pod.filter(|pod| self.ledger.order.pods.contains_key(pod)) else { return };
        match step {
            Step::Create { .. } | Step::Start { .. } => {
                let memory = self.memory_mut(&pod);
                memory.failures = 0;
                memory.retry_at = Timestamp::NEVER;
                memory.last_error.clear();
                memory.let_go = false;
                if let Some(History { restarts, restarted_at }) = history {
                    memory.restarts = restarts;
                    memory.restarted_at = restarted_at;
                }
                if let Some(index) = started {
                    memory.halted.remove(&index);
                }
            }
            Step::Stop { .. } | Step::Remove { .. } => {}
        }
    }

    fn step_failed(&mut self, key: &InstanceKey, step: &Step, failure: StepFailure, now: Timestamp) {
        let pod = self.pod_of(step);
        let (refused, text) = match failure {
            StepFailure::Refused(text) => (true, text),
            StepFailure::Unreachable(text) => (false, text),
        };
        warn!(lane = %key, refused, reason = %text, "a step failed");
        let (text, makes) = match step {
            Step::Create { .. } => (format!("Cannot create container, {text}"), true),
            Step::Start { .. } => (format!("Cannot start container, {text}"), true),
            Step::Stop { .. } => (format!("Cannot stop container, {text}"), false),
            Step::Remove { .. } => (format!("Fail to remove container, {text}"), false),
        };
        if let Some(pod) = pod.filter(|pod| refused && makes && self.ledger.order.pods.contains_key(pod)) {
            let memory = self.memory_mut(&pod);
            memory.failures = memory.failures.saturating_add(1);
            memory.retry_at = now + REFUSED.after(memory.failures);
            memory.last_error = text;
            return;
        }
        if !refused {
            // Nobody knows what the step left behind.
            self.look_again = true;
        }
        let lane = self.world.lane_mut(key);
        lane.stumbles = lane.stumbles.saturating_add(1);
        lane.hold_until = now + UNREACHABLE.after(lane.stumbles);
        lane.trouble = if refused { text } else { String::new() };
    }

    fn pod_of(&self, step: &Step) -> Option<PodId> {
        match step {
            Step::Create { pod, .. } => Some(pod.clone()),
            Step::Start { id } | Step::Stop { id, .. } | Step::Remove { id, .. } => {
                self.world.container(id).map(|seen| seen.identity.pod.clone())
            }
        }
    }

    /// What is remembered of `pod`, to change it; the ledger will be written.
    fn memory_mut(&mut self, pod: &PodId) -> &mut PodMemory {
        self.desk.remember();
        self.ledger.memory.entry(pod.clone()).or_default()
    }

    /// Takes restarts back that were counted while the engine was already going down.
    pub(super) fn forgive_restarts_since(&mut self, since: Timestamp) {
        for memory in self.ledger.memory.values_mut() {
            if memory.restarts > 0 && memory.restarted_at >= since {
                memory.restarts -= 1;
                self.desk.remember();
            }
        }
    }

    fn refresh_facts(&mut self, key: &InstanceKey, now: Timestamp) {
        let mut pods: BTreeSet<PodId> = self.reporter.pods_of(key).cloned().collect();
        pods.extend(self.ordered(key).map(|(pod, _)| pod.clone()));
        pods.extend(self.world.containers(key).map(|seen| seen.identity.pod.clone()));
        for pod in pods {
            let facts = self.facts_of(key, &pod);
            if facts.is_none() {
                self.graces.remove(&pod);
            }
            self.reporter.set(&pod, facts, now);
        }
    }

    fn facts_of(&self, key: &InstanceKey, pod: &PodId) -> Option<contract::report::PodFacts> {
        let nothing = PodMemory::default();
        let memory = self.ledger.memory.get(pod).unwrap_or(&nothing);
        if !self.ever_seen() {
            return self.ledger.order.pods.contains_key(pod).then(|| facts::unknown(memory));
        }
        let spec = self.ledger.order.specs.get(&pod.spec_key());
        let mut containers: Vec<&ContainerSeen> =
            self.world.containers(key).filter(|seen| seen.identity.pod == *pod).collect();
        containers.sort_by_key(|seen| (seen.identity.index, seen.phase != Phase::Running, seen.started_at, &seen.id));
        containers.dedup_by_key(|seen| seen.identity.index);
        facts::of(&facts::Known {
            ordered: self.ledger.order.pods.get(pod).zip(spec.map(Arc::as_ref)),
            obeying: self.ledger.order.fence != Fence::default(),
            containers,
            memory,
            trouble: self.world.lane(key).map_or("", |lane| lane.trouble.as_str()),
            before: self.reporter.get(pod),
        })
    }
}

fn step_target(step: &Step) -> Option<&str> {
    match step {
        Step::Create { .. } => None,
        Step::Start { id } | Step::Stop { id, .. } | Step::Remove { id, .. } => Some(id),
    }
}

fn remembered(memory: &PodMemory) -> Memory {
    Memory {
        created: memory.created,
        outdated: memory.outdated,
        halted: memory.halted.clone(),
        let_go: memory.let_go,
        history: History { restarts: memory.restarts, restarted_at: memory.restarted_at },
        retry_at: memory.retry_at,
    }
}
