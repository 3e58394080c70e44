//! Remembers how steps ended.
//!
//! A refusal of the engine counts against the pod and is told; an engine that cannot be asked counts against nobody,
//! the lane only waits a little.

use std::time::Duration;

use contract::digest::Digest;
use contract::exit::ExitFacts;
use contract::pod_id::{InstanceKey, PodId};
use contract::spec::PodSpec;
use contract::state::TargetState;
use contract::time::Timestamp;
use planner::restart::History;
use tracing::warn;

use super::Core;
use super::images::waiting_for;
use super::io::{Action, ActionFailure, ContainerSeen, ImageTrouble, LiveMemory, Phase, Updated};

/// Back-off after the engine refused a create, a start, an update or a fetch: 10 s doubling to 5 min. The scheduler
/// usually answers a pod that cannot be made with a new drift before.
pub(super) const REFUSED: BackOff = BackOff { first: Duration::from_secs(10), most: Duration::from_secs(300) };
/// Back-off after the engine could not be asked: 1 s doubling to 30 s.
pub(super) const UNREACHABLE: BackOff = BackOff { first: Duration::from_secs(1), most: Duration::from_secs(30) };

/// How long to wait after failures.
pub(super) struct BackOff {
    first: Duration,
    most: Duration,
}

impl BackOff {
    /// After so many failures in a row.
    pub(super) fn after(&self, failures: u32) -> Duration {
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1).min(16));
        self.first.saturating_mul(doubled).min(self.most)
    }
}

impl Core {
    /// A step ended.
    pub(super) fn action_done(
        &mut self,
        key: &InstanceKey,
        action: &Action,
        result: Result<Option<ContainerSeen>, ActionFailure>,
        now: Timestamp,
    ) {
        self.cache.touch(key);
        self.cache.mark(key);
        let state = self.cache.state_mut(key);
        let history = match state.busy.take() {
            Some(busy) if busy.action == *action => busy.history,
            // The end of a step of an earlier run: what it left behind is still true.
            other => {
                state.busy = other;
                None
            }
        };
        match result {
            Ok(left) => self.action_succeeded(key, action, (left, history), now),
            Err(failure) => self.action_failed(key, action, failure, now),
        }
    }

    fn action_succeeded(
        &mut self,
        key: &InstanceKey,
        action: &Action,
        (left, history): (Option<ContainerSeen>, Option<History>),
        now: Timestamp,
    ) {
        let state = self.cache.state_mut(key);
        state.unreachable_count = 0;
        state.hold_until = Timestamp::NEVER;
        state.trouble.clear();
        let pod = self.pod_of(action);
        let started = left.as_ref().map(|seen| seen.identity.index);
        match left {
            Some(seen) => self.cache.put(seen),
            None => target_of(action).into_iter().for_each(|id| self.cache.gone(id)),
        }
        if let Action::Replace { old, .. } = action {
            self.cache.gone(old);
        }
        if let Action::Create { spec, index, .. } | Action::Replace { spec, index, .. } = action {
            spec.containers.get(*index).into_iter().for_each(|container| self.images.used(&container.image, now));
        }
        let Some(pod) = pod.filter(|pod| self.ledger.order.pods.contains_key(pod)) else { return };
        match action {
            Action::Update { id, index, spec, .. } if started.is_some() => self.updated(&pod, (id, *index), spec),
            Action::ReadEnd { id } => self.end_read(&pod, id, now),
            Action::Create { .. } | Action::Replace { .. } | Action::Start { .. } => {
                let most = self.settings.most_restarts;
                let asked = self.is_asked(&pod);
                let memory = self.memory_mut(&pod);
                memory.failures = 0;
                memory.retry_at = Timestamp::NEVER;
                memory.last_error.clear();
                // An attempt of a crash loop does not end it.
                memory.is_crash_looping &= history.is_some_and(|history| history.restarts > most);
                if let Some(History { restarts, restarted_at }) = history {
                    memory.restarts = restarts;
                    memory.restarted_at = restarted_at;
                }
                if let Some(index) = started {
                    memory.stopped_by_order.remove(&index);
                    if asked {
                        memory.renewed.insert(index);
                    }
                }
            }
            Action::Update { .. } | Action::Stop { .. } | Action::Remove { .. } => {}
        }
    }

    fn action_failed(&mut self, key: &InstanceKey, action: &Action, failure: ActionFailure, now: Timestamp) {
        let pod = self.pod_of(action);
        let (refused, text) = match failure {
            ActionFailure::Refused(text) => (true, text),
            ActionFailure::NoImage { text, trouble } => {
                self.image_lacked(action, &text, trouble, now);
                (true, text)
            }
            ActionFailure::Unreachable(text) => (false, text),
        };
        warn!(lane = %key, refused, reason = %text, "a step failed");
        let ordered = pod.filter(|pod| self.ledger.order.pods.contains_key(pod));
        match (action, ordered) {
            (Action::Create { .. }, Some(pod)) if refused => {
                self.making_refused(&pod, format!("Cannot create container, {text}"), now);
            }
            (Action::Start { .. }, Some(pod)) if refused => {
                // The engine keeps its own words about it with the container.
                self.inventory_due_now = true;
                self.making_refused(&pod, format!("Cannot start container, {text}"), now);
            }
            (Action::Update { .. }, Some(pod)) if refused => {
                let live = &mut self.memory_mut(&pod).live;
                live.failures = live.failures.saturating_add(1);
                live.retry_at = now + REFUSED.after(live.failures);
                live.last_error = format!("Cannot update container, {text}");
            }
            (Action::Stop { id, .. }, Some(pod)) if refused && self.is_to_run(&pod) => {
                self.restart_refused(&pod, id);
                self.back_off(key, format!("Cannot restart container, {text}"), now);
            }
            (Action::Replace { .. }, _) => {
                // Whatever it was that failed, it is tried again step by step, and counts against nobody before.
                self.inventory_due_now = true;
                let trouble = if refused { format!("Cannot replace container, {text}") } else { String::new() };
                self.back_off(key, trouble, now);
            }
            (Action::Remove { .. }, _) if refused => {
                // It may have ended before the refusal.
                self.inventory_due_now = true;
                self.back_off(key, format!("Fail to remove container, {text}"), now);
            }
            (Action::Stop { .. }, _) if refused => {
                self.inventory_due_now = true;
                self.back_off(key, format!("Cannot stop container, {text}"), now);
            }
            (
                Action::Create { .. }
                | Action::Update { .. }
                | Action::ReadEnd { .. }
                | Action::Start { .. }
                | Action::Stop { .. }
                | Action::Remove { .. },
                _,
            ) => self.back_off(key, String::new(), now),
        }
        if !refused {
            // Nobody knows what the step left behind.
            self.inventory_due_now = true;
        }
        match action {
            Action::Create { pod, .. } if !refused => self.cache.state_mut(key).unsure = Some(pod.clone()),
            // Made, perhaps, before something else was refused.
            Action::Replace { pod, .. } => self.cache.state_mut(key).unsure = Some(pod.clone()),
            Action::Create { .. }
            | Action::Update { .. }
            | Action::ReadEnd { .. }
            | Action::Start { .. }
            | Action::Stop { .. }
            | Action::Remove { .. } => {}
        }
    }

    /// Remembers how a container of `pod` ended by itself.
    fn end_read(&mut self, pod: &PodId, id: &str, now: Timestamp) {
        let Some(seen) = self.cache.container(id).filter(|seen| seen.phase == Phase::Exited) else { return };
        let (index, exit) = (seen.identity.index, exit_of(seen));
        let memory = self.memory_mut(pod);
        memory.exits.insert(index, exit);
        memory.exits_seen.insert(index, now);
    }

    /// A standing container has the limits of `spec` now.
    fn updated(&mut self, pod: &PodId, (id, index): (&str, usize), spec: &PodSpec) {
        let digest = Digest::of(spec).to_string();
        let made_so = self.cache.container(id).is_some_and(|seen| seen.spec_digest == digest);
        let live = &mut self.memory_mut(pod).live;
        if made_so {
            live.updated.remove(&index);
        } else {
            live.updated.insert(index, Updated { id: id.to_owned(), digest });
        }
        *live = LiveMemory { updated: std::mem::take(&mut live.updated), ..LiveMemory::default() };
    }

    fn image_lacked(&mut self, action: &Action, text: &str, trouble: ImageTrouble, now: Timestamp) {
        if let Action::Create { spec, index, .. } | Action::Replace { spec, index, .. } = action
            && let Some(container) = spec.containers.get(*index)
        {
            self.images.lacked(&container.image, text, trouble, now);
        }
    }

    /// A fetch ended: whoever waits for the image is looked at again.
    pub(super) fn fetched(&mut self, image: &str, result: Result<(), ActionFailure>, now: Timestamp) {
        if let Err(reason) = &result {
            warn!(%image, ?reason, "an image could not be fetched");
        }
        self.images.ended(image, result, now);
        waiting_for(&self.ledger.order, image).for_each(|pod| self.cache.mark(&pod.key()));
    }

    fn making_refused(&mut self, pod: &PodId, text: String, now: Timestamp) {
        let memory = self.memory_mut(pod);
        memory.failures = memory.failures.saturating_add(1);
        memory.retry_at = now + REFUSED.after(memory.failures);
        memory.last_error = text;
    }

    /// A container that shall be restarted cannot be ended: that is the answer. Should it have ended after all, its
    /// start is still somebody's wish.
    fn restart_refused(&mut self, pod: &PodId, id: &str) {
        let index = self.cache.container(id).map(|seen| seen.identity.index);
        let memory = self.memory_mut(pod);
        memory.stopped_by_order.extend(index);
        let history = History { restarts: memory.restarts, restarted_at: memory.restarted_at };
        self.answered(pod, history);
        self.inventory_due_now = true;
    }

    fn back_off(&mut self, key: &InstanceKey, trouble: String, now: Timestamp) {
        let state = self.cache.state_mut(key);
        state.unreachable_count = state.unreachable_count.saturating_add(1);
        state.hold_until = now + UNREACHABLE.after(state.unreachable_count);
        state.trouble = trouble;
    }

    fn is_to_run(&self, pod: &PodId) -> bool {
        self.ledger.order.pods.get(pod).is_some_and(|assignment| assignment.target == TargetState::Run)
    }

    /// A start or a restart of `pod` was asked for and is not done.
    fn is_asked(&self, pod: &PodId) -> bool {
        let answered = self.ledger.memory.get(pod).map_or((0, 0), |m| (m.starts_done, m.restarts_done));
        let asked = self.ledger.order.pods.get(pod).map_or((0, 0), |a| (a.starts_requested, a.restarts_requested));
        asked.0 > answered.0 || asked.1 > answered.1
    }

    fn pod_of(&self, action: &Action) -> Option<PodId> {
        match action {
            Action::Create { pod, .. } | Action::Replace { pod, .. } | Action::Update { pod, .. } => Some(pod.clone()),
            Action::ReadEnd { id } | Action::Start { id } | Action::Stop { id, .. } | Action::Remove { id, .. } => {
                self.cache.container(id).map(|seen| seen.identity.pod.clone())
            }
        }
    }
}

/// How a container ended, as it is reported.
fn exit_of(seen: &ContainerSeen) -> ExitFacts {
    ExitFacts {
        code: seen.exit_code,
        out_of_memory: seen.oom_killed,
        at: seen.finished_at,
        last_line: seen.last_line.clone(),
    }
}

fn target_of(action: &Action) -> Option<&str> {
    match action {
        Action::Create { .. } | Action::Replace { .. } => None,
        Action::Update { id, .. }
        | Action::ReadEnd { id }
        | Action::Start { id }
        | Action::Stop { id, .. }
        | Action::Remove { id, .. } => Some(id),
    }
}
