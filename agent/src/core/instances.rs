//! Reconciles instances: asks the planner for the next action and refreshes the facts of their pods.
//!
//! An instance has at most one action in progress.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use contract::digest::Digest;
use contract::fence::Fence;
use contract::labels::Identity;
use contract::name::GroupName;
use contract::order::Assignment;
use contract::pod_id::{InstanceKey, PodId};
use contract::report::EngineState;
use contract::spec::PodSpec;
use contract::state::RunState;
use contract::time::Timestamp;
use planner::instance::{
    Activity, DesiredPod, Images, InstanceAction, InstanceInput, LiveUpdate, ObservedContainer, RememberedPod,
};
use planner::restart::{ContainerExit, RestartCount, RestartLimits};
use tracing::{error, info};

use super::cache::Busy;
use super::io::{Action, ContainerSeen, Effect, Mutant, Phase, PodMemory};
use super::observe::digest_of;
use super::{Core, Inventory, facts, instance_range};

/// Kill timeout of a container whose spec is unknown.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// Pause of an instance whose reconciliation panicked.
const AFTER_PANIC: Duration = Duration::from_secs(60);

impl Core {
    /// Reconciles every queued instance: starts its next action and refreshes its facts.
    pub(super) fn reconcile(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let can_act = self.engine == EngineState::Up
            && matches!(self.inventory, Inventory::Current { .. })
            && self.ledger.order.fence != Fence::default();
        for key in self.cache.take_dirty() {
            let acts = can_act && !is_spared(&self.ledger.order.spared, &key);
            let worked = catch_unwind(AssertUnwindSafe(|| {
                self.update_checks(&key, now);
                if acts {
                    self.reconcile_instance(&key, now, out);
                }
                self.refresh_facts(&key, now);
            }));
            if worked.is_err() {
                // One bad instance does not stop the others; its containers stay as they are.
                error!(group = %key.group, instance = key.instance, "the reconciliation of an instance panicked; retrying in 60 s");
                self.cache.wait(&key, Some(now + AFTER_PANIC));
            }
            self.cache.tidy(&key);
        }
    }

    fn reconcile_instance(&mut self, key: &InstanceKey, now: Timestamp, out: &mut Vec<Effect>) {
        self.settings.faults.panic_on(key);
        let (busy, retry_at) = match self.cache.state(key) {
            None => (false, Timestamp::NEVER),
            Some(state) => (state.busy.is_some(), state.retry_at),
        };
        if !busy && now < retry_at {
            // The cache may be older than the failed action: decide nothing from it.
            return self.cache.wait(key, Some(retry_at));
        }
        self.observe_instance(key, now);
        if busy && !self.settings.faults.has(Mutant::ActsTwice) {
            return;
        }
        // Each round that continues settles one fact about one pod, so the loop ends.
        loop {
            match self.planner_input(key, now).next_action(now) {
                InstanceAction::CrashLooping(pod) => {
                    info!(%pod, "the pod is crash-looping; it restarts with back-off");
                    self.memory_mut(&pod).is_crash_looping = true;
                }
                InstanceAction::Recovered(pod) => {
                    info!(%pod, "the pod has recovered from its crash loop");
                    let memory = self.memory_mut(&pod);
                    memory.is_crash_looping = false;
                    memory.restarts = 0;
                }
                InstanceAction::RequestDone { pod, history } => self.requests_done(&pod, history),
                InstanceAction::PullImage(image) => {
                    self.images.begin(&image);
                    out.push(Effect::Fetch { image });
                }
                next @ (InstanceAction::Nothing
                | InstanceAction::WaitUntil(_)
                | InstanceAction::Create(_)
                | InstanceAction::Replace { .. }
                | InstanceAction::Update { .. }
                | InstanceAction::ReadExit { .. }
                | InstanceAction::Start { .. }
                | InstanceAction::Stop { .. }
                | InstanceAction::Remove { .. }) => return self.begin(key, next, out),
            }
        }
    }

    /// Marks the requested starts and restarts of `pod` as done.
    pub(super) fn requests_done(&mut self, pod: &PodId, history: RestartCount) {
        let Some(requested) = self.ledger.order.pods.get(pod).cloned() else { return };
        info!(%pod, starts = requested.starts_requested, restarts = requested.restarts_requested, "done with the requested starts and restarts");
        let memory = self.memory_mut(pod);
        memory.starts_done = requested.starts_requested;
        memory.restarts_done = requested.restarts_requested;
        memory.restarts = history.restarts;
        memory.restarted_at = history.restarted_at;
        memory.renewed.clear();
    }

    fn begin(&mut self, key: &InstanceKey, next: InstanceAction, out: &mut Vec<Effect>) {
        let (action, history) = match next {
            InstanceAction::Nothing
            | InstanceAction::CrashLooping(_)
            | InstanceAction::Recovered(_)
            | InstanceAction::RequestDone { .. }
            | InstanceAction::PullImage(_) => {
                return self.cache.wait(key, None);
            }
            InstanceAction::WaitUntil(time) => return self.cache.wait(key, Some(time)),
            InstanceAction::Create(Identity { pod, index }) => {
                let Some((spec, address)) = self.spec_and_address(&pod, index) else { return };
                let hardening = self.ledger.order.hardening.get(&pod.group).cloned();
                (Action::Create { pod, index, spec, address, hardening }, None)
            }
            InstanceAction::Replace { old, grace, new: Identity { pod, index } } => {
                let Some((spec, address)) = self.spec_and_address(&pod, index) else { return };
                let hardening = self.ledger.order.hardening.get(&pod.group).cloned();
                (Action::Replace { old, grace, pod, index, spec, address, hardening }, None)
            }
            InstanceAction::Update { id, identity: Identity { pod, index } } => {
                let Some(spec) = self.ledger.order.spec_of(&pod).cloned() else { return };
                (Action::Update { id, pod, index, spec }, None)
            }
            InstanceAction::ReadExit { id } => (Action::ReadEnd { id }, None),
            InstanceAction::Start { id, history, .. } => (Action::Start { id }, Some(history)),
            InstanceAction::Stop { id, grace } => (Action::Stop { id, grace }, None),
            InstanceAction::Remove { id, grace } => (Action::Remove { id, grace }, None),
        };
        self.cache.begin(key, Busy { action: action.clone(), history });
        out.push(Effect::Perform { instance: key.clone(), action });
    }

    /// The spec of a container and its reserved address.
    fn spec_and_address(&self, pod: &PodId, index: usize) -> Option<(Arc<PodSpec>, String)> {
        let addresses = self.ledger.order.pods.get(pod).map(|assignment| &assignment.addresses);
        let address = addresses.and_then(|all| all.get(index)).cloned().unwrap_or_default();
        Some((self.ledger.order.spec_of(pod)?.clone(), address))
    }

    /// The ordered pods of an instance and their numbers of containers.
    pub(super) fn ordered(&self, key: &InstanceKey) -> impl Iterator<Item = (&PodId, usize)> {
        let order = &self.ledger.order;
        let count = |pod: &PodId, a: &Assignment| order.spec_for(pod, a).map_or(0, |spec| spec.containers.len());
        order.pods.range(instance_range(key)).map(move |(pod, assignment)| (pod, count(pod, assignment)))
    }

    fn planner_input(&self, key: &InstanceKey, now: Timestamp) -> InstanceInput<'_> {
        let order = &self.ledger.order;
        let wanted = order.pods.range(instance_range(key)).filter_map(|(pod, assignment)| {
            let spec = order.spec_for(pod, assignment)?;
            let memory = self.ledger.memory.get(pod);
            Some(DesiredPod {
                pod,
                assignment: assignment.clone(),
                spec,
                memory: memory.map(remembered).unwrap_or_default(),
                recreate_at: self.alone_at(pod, now),
                images: self.images.of(spec.images(), now),
                next_images: self.ahead(assignment, now),
                live: live(assignment, spec, memory),
            })
        });
        InstanceInput {
            desired: wanted.collect(),
            observed: self.cache.containers(key).map(|seen| self.planned_container(seen, now)).collect(),
            limits: RestartLimits { most: self.settings.most_restarts, window: self.settings.restart_window },
            switches: order.switches,
        }
    }

    /// Whether the images of the pod's next revision are on the node.
    fn ahead(&self, assignment: &Assignment, now: Timestamp) -> Images {
        let names = assignment.fetch.iter().flat_map(|fetch| &fetch.images).map(String::as_str);
        self.images.of(names, now)
    }

    fn planned_container<'a>(&'a self, seen: &'a ContainerSeen, now: Timestamp) -> ObservedContainer<'a> {
        let memory = self.ledger.memory.get(&seen.identity.pod);
        ObservedContainer {
            id: &seen.id,
            identity: &seen.identity,
            activity: match seen.phase {
                Phase::Created => Activity::Created,
                Phase::Running => Activity::Running,
                Phase::Exited => Activity::Exited,
                Phase::Removing | Phase::Dead => Activity::Leaving,
            },
            end: ContainerExit {
                exit_code: seen.exit_code,
                engine_error: !seen.error.is_empty(),
                finished_at: seen.finished_at,
                seen_at: memory.and_then(|memory| exit_seen_at(memory, seen)).unwrap_or(now),
                excused: self.cache.is_excused(&seen.id),
            },
            started_at: seen.started_at,
            grace: self.grace(&seen.identity.pod),
            spec_digest: digest_of(memory, seen),
            fails_check: self.checks.demand_restart(&seen.id),
        }
    }

    fn grace(&self, pod: &PodId) -> Duration {
        let spec = self.ledger.order.spec_of(pod);
        let kept = || self.graces.get(pod).copied().unwrap_or(DEFAULT_GRACE);
        spec.map_or_else(kept, |spec| spec.kill_grace())
    }

    /// When the agent recreates a missing container of `pod` without the schedulers: `alone_after` after their last message.
    /// While connected, also at the earliest `alone_after` after the report that the container is missing.
    fn alone_at(&self, pod: &PodId, now: Timestamp) -> Timestamp {
        let reported_at = match self.reporter.get(pod) {
            Some(facts) if facts.state == RunState::Missing => facts.updated_at,
            Some(_) | None => now,
        };
        let since = if self.connected { self.last_contact.max(reported_at) } else { self.last_contact };
        since + self.settings.alone_after
    }

    /// The stored memory of `pod`, to change it; the ledger will be written.
    pub(super) fn memory_mut(&mut self, pod: &PodId) -> &mut PodMemory {
        self.intake.ledger_changed();
        Arc::make_mut(&mut self.ledger.memory).entry(pod.clone()).or_default()
    }

    /// Uncounts restarts that happened while the engine was shutting down.
    pub(super) fn forgive_restarts_since(&mut self, since: Timestamp) {
        for memory in Arc::make_mut(&mut self.ledger.memory).values_mut() {
            if memory.restarts > 0 && memory.restarted_at >= since {
                memory.restarts -= 1;
                self.intake.ledger_changed();
            }
        }
    }

    fn refresh_facts(&mut self, key: &InstanceKey, now: Timestamp) {
        let mut pods: Vec<PodId> = self.reporter.pods_of(key).cloned().collect();
        pods.extend(self.ledger.order.pods.range(instance_range(key)).map(|(pod, _)| pod.clone()));
        pods.extend(self.cache.containers(key).map(|seen| seen.identity.pod.clone()));
        pods.extend(self.in_flight.pods_of(key).cloned());
        pods.sort_unstable();
        pods.dedup();
        for pod in pods {
            let facts = self.facts_of(key, &pod, now);
            if facts.is_none() {
                self.graces.remove(&pod);
            }
            self.reporter.set(&pod, facts, now);
        }
    }

    /// Next start of a crash-looping pod; never when none is planned.
    fn next_attempt(&self, key: &InstanceKey, pod: &PodId, memory: &PodMemory, now: Timestamp) -> Timestamp {
        let attempt = memory.is_crash_looping.then(|| self.planner_input(key, now).next_attempt(pod, now)).flatten();
        attempt.unwrap_or_default()
    }

    fn facts_of(&self, key: &InstanceKey, pod: &PodId, now: Timestamp) -> Option<contract::report::PodFacts> {
        let nothing = PodMemory::default();
        let memory = self.ledger.memory.get(pod).unwrap_or(&nothing);
        if !self.had_inventory() {
            return self.ledger.order.pods.contains_key(pod).then(|| facts::unknown(memory));
        }
        let ordered = self.ledger.order.pods.get(pod);
        let spec = ordered.and_then(|assignment| self.ledger.order.spec_for(pod, assignment));
        let mut containers: Vec<&ContainerSeen> =
            self.cache.containers(key).filter(|seen| seen.identity.pod == *pod).collect();
        containers.sort_by_key(|seen| (seen.identity.index, seen.phase != Phase::Running, seen.started_at, &seen.id));
        containers.dedup_by_key(|seen| seen.identity.index);
        let healths = containers.iter().map(|seen| self.checks.health(seen));
        facts::of(&facts::Known {
            ordered: ordered.zip(spec.map(Arc::as_ref)),
            health: healths.max_by_key(|health| facts::severity(*health)).unwrap_or_default(),
            failing_check: containers.iter().find_map(|seen| self.checks.problem(&seen.id)).unwrap_or_default(),
            obeying: self.ledger.order.fence != Fence::default(),
            containers,
            creating: self.in_flight.contains(pod) || self.cache.state(key).is_some_and(|state| state.is_creating(pod)),
            memory,
            images: &self.images,
            last_error: self.cache.state(key).map_or("", |state| state.last_error.as_str()),
            next_attempt: self.next_attempt(key, pod, memory, now),
            before: self.reporter.get(pod),
            now,
        })
    }
}

/// The spec to which the pod's existing containers are updated in place, also on the way back to the revision in its name.
fn live(assignment: &Assignment, spec: &PodSpec, memory: Option<&PodMemory>) -> Option<LiveUpdate> {
    let was_updated = memory.is_some_and(|memory| !memory.live.updated.is_empty());
    (assignment.updated_to.is_some() || was_updated).then(|| LiveUpdate {
        digest: Digest::of(spec).to_string(),
        retry_at: memory.map_or(Timestamp::NEVER, |memory| memory.live.retry_at),
    })
}

/// Whether the agent leaves this instance alone. The group of a dependency pod is named `<dependency>-<node>-<namespace>`.
fn is_spared(spared: &BTreeSet<GroupName>, key: &InstanceKey) -> bool {
    let serves =
        |name: &GroupName| key.group.as_str().strip_prefix(name.as_str()).is_some_and(|place| place.starts_with('-'));
    spared.contains(&key.group) || (key.instance == 0 && spared.iter().any(serves))
}

/// When the agent recorded this exit; none when it has not.
fn exit_seen_at(memory: &PodMemory, seen: &ContainerSeen) -> Option<Timestamp> {
    let index = seen.identity.index;
    let exit = memory.exits.get(&index).filter(|exit| exit.at == seen.finished_at)?;
    Some(memory.exits_seen.get(&index).copied().unwrap_or(exit.at))
}

fn remembered(memory: &PodMemory) -> RememberedPod {
    RememberedPod {
        created: memory.created,
        outdated: memory.outdated,
        stopped_by_order: memory.stopped_by_order.clone(),
        is_crash_looping: memory.is_crash_looping,
        exits_read: memory.exits.iter().map(|(index, exit)| (*index, exit.at)).collect(),
        history: RestartCount { restarts: memory.restarts, restarted_at: memory.restarted_at },
        retry_at: memory.retry_at,
        starts_done: memory.starts_done,
        restarts_done: memory.restarts_done,
        requested_at: memory.asked_at,
        started_since_request: memory.renewed.clone(),
    }
}
