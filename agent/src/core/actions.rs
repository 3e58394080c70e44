//! Records the results of actions.
//!
//! A refusal by Docker counts as a failure of the pod and is reported. When Docker does not answer, only the instance backs
//! off.

use std::time::Duration;

use contract::digest::Digest;
use contract::exit::ExitFacts;
use contract::pod_id::{InstanceKey, PodId};
use contract::spec::PodSpec;
use contract::state::TargetState;
use contract::time::Timestamp;
use planner::restart::RestartCount;
use tracing::warn;

use super::Core;
use super::images::waiting_for;
use super::io::{Action, ActionFailure, ContainerSeen, ImageTrouble, LiveMemory, Phase, Updated};

/// Back-off after Docker refused a create, start, update or pull: 10 s doubling to 5 min. The leader usually moves a pod
/// that cannot be created earlier.
pub(super) const REFUSED: BackOff = BackOff { first: Duration::from_secs(10), most: Duration::from_secs(300) };
/// Back-off after Docker did not answer: 1 s doubling to 30 s.
pub(super) const UNREACHABLE: BackOff = BackOff { first: Duration::from_secs(1), most: Duration::from_secs(30) };

pub(super) struct BackOff {
    first: Duration,
    most: Duration,
}

impl BackOff {
    /// The wait after this many failures in a row.
    pub(super) fn after(&self, failures: u32) -> Duration {
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1).min(16));
        self.first.saturating_mul(doubled).min(self.most)
    }
}

impl Core {
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
            // The result of an action of an earlier process: its container is still as reported.
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
        (left, history): (Option<ContainerSeen>, Option<RestartCount>),
        now: Timestamp,
    ) {
        let state = self.cache.state_mut(key);
        state.failures = 0;
        state.retry_at = Timestamp::NEVER;
        state.last_error.clear();
        let pod = self.pod_of(action);
        let started = left.as_ref().map(|seen| seen.identity.index);
        match left {
            Some(seen) => self.cache.put(seen),
            None => target_of(action).into_iter().for_each(|id| self.cache.remove(id)),
        }
        if let Action::Replace { old, .. } = action {
            self.cache.remove(old);
        }
        if let Action::Create { spec, index, .. } | Action::Replace { spec, index, .. } = action {
            spec.containers.get(*index).into_iter().for_each(|container| self.images.used(&container.image, now));
        }
        let Some(pod) = pod.filter(|pod| self.ledger.order.pods.contains_key(pod)) else { return };
        match action {
            Action::Update { id, index, spec, .. } if started.is_some() => self.updated(&pod, (id, *index), spec),
            Action::ReadEnd { id } => self.exit_read(&pod, id, now),
            Action::Create { .. } | Action::Replace { .. } | Action::Start { .. } => {
                let most = self.settings.most_restarts;
                let requested = self.has_request(&pod);
                let memory = self.memory_mut(&pod);
                memory.failures = 0;
                memory.retry_at = Timestamp::NEVER;
                memory.last_error.clear();
                // One restart does not end a crash loop.
                memory.is_crash_looping &= history.is_some_and(|history| history.restarts > most);
                if let Some(RestartCount { restarts, restarted_at }) = history {
                    memory.restarts = restarts;
                    memory.restarted_at = restarted_at;
                }
                if let Some(index) = started {
                    memory.stopped_by_order.remove(&index);
                    if requested {
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
                self.image_missing(action, &text, trouble, now);
                (true, text)
            }
            ActionFailure::Unreachable(text) => (false, text),
        };
        warn!(instance = %key, refused, reason = %text, "the action failed");
        let ordered = pod.filter(|pod| self.ledger.order.pods.contains_key(pod));
        match (action, ordered) {
            (Action::Create { .. }, Some(pod)) if refused => {
                self.create_refused(&pod, format!("Cannot create container, {text}"), now);
            }
            (Action::Start { .. }, Some(pod)) if refused => {
                // Docker stores its own error text with the container.
                self.inventory_due_now = true;
                self.create_refused(&pod, format!("Cannot start container, {text}"), now);
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
                // The planner retries it as separate actions; only their failures count.
                self.inventory_due_now = true;
                let error = if refused { format!("Cannot replace container, {text}") } else { String::new() };
                self.back_off(key, error, now);
            }
            (Action::Remove { .. }, _) if refused => {
                // The container may have exited before the refusal.
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
            // The effect of the action is unknown.
            self.inventory_due_now = true;
        }
        match action {
            Action::Create { pod, .. } if !refused => self.cache.state_mut(key).maybe_created = Some(pod.clone()),
            // The container may exist although a later part was refused.
            Action::Replace { pod, .. } => self.cache.state_mut(key).maybe_created = Some(pod.clone()),
            Action::Create { .. }
            | Action::Update { .. }
            | Action::ReadEnd { .. }
            | Action::Start { .. }
            | Action::Stop { .. }
            | Action::Remove { .. } => {}
        }
    }

    /// Records the exit of a container of `pod`.
    fn exit_read(&mut self, pod: &PodId, id: &str, now: Timestamp) {
        let Some(seen) = self.cache.container(id).filter(|seen| seen.phase == Phase::Exited) else { return };
        let (index, mut exit) = (seen.identity.index, exit_of(seen));
        if let Some(reason) = self.checks.take_restart_reason(id) {
            exit.last_line =
                [reason, exit.last_line].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
        }
        let memory = self.memory_mut(pod);
        memory.exits.insert(index, exit);
        memory.exits_seen.insert(index, now);
    }

    /// An existing container now has the limits of `spec`.
    fn updated(&mut self, pod: &PodId, (id, index): (&str, usize), spec: &PodSpec) {
        let digest = Digest::of(spec).to_string();
        let created_so = self.cache.container(id).is_some_and(|seen| seen.spec_digest == digest);
        let live = &mut self.memory_mut(pod).live;
        if created_so {
            live.updated.remove(&index);
        } else {
            live.updated.insert(index, Updated { id: id.to_owned(), digest });
        }
        *live = LiveMemory { updated: std::mem::take(&mut live.updated), ..LiveMemory::default() };
    }

    fn image_missing(&mut self, action: &Action, text: &str, trouble: ImageTrouble, now: Timestamp) {
        if let Action::Create { spec, index, .. } | Action::Replace { spec, index, .. } = action
            && let Some(container) = spec.containers.get(*index)
        {
            self.images.missing_for_create(&container.image, text, trouble, now);
        }
    }

    /// A pull ended: queues the instances that wait for the image.
    pub(super) fn fetched(&mut self, image: &str, result: Result<(), ActionFailure>, now: Timestamp) {
        if let Err(reason) = &result {
            warn!(%image, ?reason, "could not pull the image");
        }
        self.images.ended(image, result, now);
        waiting_for(&self.ledger.order, image).for_each(|pod| self.cache.mark(&pod.key()));
    }

    fn create_refused(&mut self, pod: &PodId, text: String, now: Timestamp) {
        let memory = self.memory_mut(pod);
        memory.failures = memory.failures.saturating_add(1);
        memory.retry_at = now + REFUSED.after(memory.failures);
        memory.last_error = text;
    }

    /// A container that Docker refuses to stop cannot be restarted: the request counts as done. If it stopped after all, the
    /// agent starts it.
    fn restart_refused(&mut self, pod: &PodId, id: &str) {
        let index = self.cache.container(id).map(|seen| seen.identity.index);
        let memory = self.memory_mut(pod);
        memory.stopped_by_order.extend(index);
        let history = RestartCount { restarts: memory.restarts, restarted_at: memory.restarted_at };
        self.requests_done(pod, history);
        self.inventory_due_now = true;
    }

    fn back_off(&mut self, key: &InstanceKey, error: String, now: Timestamp) {
        let state = self.cache.state_mut(key);
        state.failures = state.failures.saturating_add(1);
        state.retry_at = now + UNREACHABLE.after(state.failures);
        state.last_error = error;
    }

    fn is_to_run(&self, pod: &PodId) -> bool {
        self.ledger.order.pods.get(pod).is_some_and(|assignment| assignment.target == TargetState::Run)
    }

    /// A requested start or restart of `pod` is not done yet.
    fn has_request(&self, pod: &PodId) -> bool {
        let done = self.ledger.memory.get(pod).map_or((0, 0), |m| (m.starts_done, m.restarts_done));
        let requested = self.ledger.order.pods.get(pod).map_or((0, 0), |a| (a.starts_requested, a.restarts_requested));
        requested.0 > done.0 || requested.1 > done.1
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
