//! Works the lanes: asks the planner for the next step, and keeps the facts of every pod that something happened to.
//!
//! What the planner wants remembered is remembered on the way; a lane has at most one step under way.

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
use planner::lane::{Activity, Images, Lane, Live, Memory, Next, Seen, Wanted, next_attempt, next_step};
use planner::restart::{End, History, Limits};
use tracing::{error, info};

use super::cache::Busy;
use super::io::{Action, ContainerSeen, Effect, Mutant, Phase, PodMemory};
use super::observe::digest_of;
use super::{Core, Sight, facts, instance_range};

/// Grace of a container whose spec is not known any more.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// An instance that the agent panicked on is worked on again after this time.
const AFTER_PANIC: Duration = Duration::from_secs(60);

impl Core {
    /// Looks at every lane something happened to: starts its next step, refreshes its facts.
    pub(super) fn work(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let can_act = self.engine == EngineState::Up
            && matches!(self.sight, Sight::Clear { .. })
            && self.ledger.order.fence != Fence::default();
        for key in self.cache.take_dirty() {
            let acts = can_act && !is_spared(&self.ledger.order.spared, &key);
            let worked = catch_unwind(AssertUnwindSafe(|| {
                if acts {
                    self.reconcile_instance(&key, now, out);
                }
                self.refresh_facts(&key, now);
            }));
            if worked.is_err() {
                // One bad instance does not stop the others: its containers stay as they are until the next attempt.
                error!(group = %key.group, instance = key.instance, "working on an instance panicked; trying again later");
                self.cache.wait(&key, Some(now + AFTER_PANIC));
            }
            self.cache.tidy(&key);
        }
    }

    fn reconcile_instance(&mut self, key: &InstanceKey, now: Timestamp, out: &mut Vec<Effect>) {
        let fault = self.settings.mutant == Some(Mutant::PanicsOnPurpose);
        assert!(!(fault && key.group.as_str().starts_with("panic")), "on purpose");
        let (busy, hold_until) = match self.cache.state(key) {
            None => (false, Timestamp::NEVER),
            Some(state) => (state.busy.is_some(), state.hold_until),
        };
        if !busy && now < hold_until {
            // What is known of the lane may be older than the step that failed: nothing is concluded from it.
            return self.cache.wait(key, Some(hold_until));
        }
        self.observe_instance(key, now);
        if busy && self.settings.mutant != Some(Mutant::WorksTwice) {
            return;
        }
        // Each of these settles one thing about one of the lane's pods, so this ends.
        loop {
            match next_step(&self.planner_input(key, now), now) {
                Next::CrashLooping(pod) => {
                    info!(%pod, "the pod is crash-looping: further restarts follow with back-off");
                    self.memory_mut(&pod).is_crash_looping = true;
                }
                Next::Recovered(pod) => {
                    info!(%pod, "the pod is not crash-looping any more");
                    let memory = self.memory_mut(&pod);
                    memory.is_crash_looping = false;
                    memory.restarts = 0;
                }
                Next::Answered { pod, history } => self.answered(&pod, history),
                Next::Fetch(image) => {
                    self.images.begin(&image);
                    out.push(Effect::Fetch { image });
                }
                next @ (Next::Nothing
                | Next::WaitUntil(_)
                | Next::Create(_)
                | Next::Replace { .. }
                | Next::Update { .. }
                | Next::ReadEnd { .. }
                | Next::Start { .. }
                | Next::Stop { .. }
                | Next::Remove { .. }) => return self.begin(key, next, out),
            }
        }
    }

    /// What was asked of `pod` is done, as far as it can be.
    pub(super) fn answered(&mut self, pod: &PodId, history: History) {
        let Some(asked) = self.ledger.order.pods.get(pod).cloned() else { return };
        info!(%pod, starts = asked.starts_requested, restarts = asked.restarts_requested, "what was asked of the pod is done");
        let memory = self.memory_mut(pod);
        memory.starts_done = asked.starts_requested;
        memory.restarts_done = asked.restarts_requested;
        memory.restarts = history.restarts;
        memory.restarted_at = history.restarted_at;
        memory.renewed.clear();
    }

    fn begin(&mut self, key: &InstanceKey, next: Next, out: &mut Vec<Effect>) {
        let (action, history) = match next {
            Next::Nothing | Next::CrashLooping(_) | Next::Recovered(_) | Next::Answered { .. } | Next::Fetch(_) => {
                return self.cache.wait(key, None);
            }
            Next::WaitUntil(time) => return self.cache.wait(key, Some(time)),
            Next::Create(Identity { pod, index }) => {
                let Some((spec, address)) = self.makings(&pod, index) else { return };
                (Action::Create { pod, index, spec, address }, None)
            }
            Next::Replace { old, grace, new: Identity { pod, index } } => {
                let Some((spec, address)) = self.makings(&pod, index) else { return };
                (Action::Replace { old, grace, pod, index, spec, address }, None)
            }
            Next::Update { id, identity: Identity { pod, index } } => {
                let Some(spec) = self.ledger.order.spec_of(&pod).cloned() else { return };
                (Action::Update { id, pod, index, spec }, None)
            }
            Next::ReadEnd { id } => (Action::ReadEnd { id }, None),
            Next::Start { id, history, .. } => (Action::Start { id }, Some(history)),
            Next::Stop { id, grace } => (Action::Stop { id, grace }, None),
            Next::Remove { id, grace } => (Action::Remove { id, grace }, None),
        };
        self.cache.begin(key, Busy { action: action.clone(), history });
        out.push(Effect::Perform { instance: key.clone(), action });
    }

    /// What a container of an ordered pod is made of, and the address that is meant for it.
    fn makings(&self, pod: &PodId, index: usize) -> Option<(Arc<PodSpec>, String)> {
        let addresses = self.ledger.order.pods.get(pod).map(|assignment| &assignment.addresses);
        let address = addresses.and_then(|all| all.get(index)).cloned().unwrap_or_default();
        Some((self.ledger.order.spec_of(pod)?.clone(), address))
    }

    /// The ordered pods of a lane, and how many containers each has.
    pub(super) fn ordered(&self, key: &InstanceKey) -> impl Iterator<Item = (&PodId, usize)> {
        let order = &self.ledger.order;
        let count = |pod: &PodId, a: &Assignment| order.spec_for(pod, a).map_or(0, |spec| spec.containers.len());
        order.pods.range(instance_range(key)).map(move |(pod, assignment)| (pod, count(pod, assignment)))
    }

    fn planner_input(&self, key: &InstanceKey, now: Timestamp) -> Lane<'_> {
        let order = &self.ledger.order;
        let wanted = order.pods.range(instance_range(key)).filter_map(|(pod, assignment)| {
            let spec = order.spec_for(pod, assignment)?;
            let memory = self.ledger.memory.get(pod);
            Some(Wanted {
                pod,
                assignment: assignment.clone(),
                spec,
                memory: memory.map(remembered).unwrap_or_default(),
                alone_at: self.alone_at(pod, now),
                images: self.images.of(spec.images(), now),
                ahead: self.ahead(assignment, now),
                live: live(assignment, spec, memory),
            })
        });
        Lane {
            wanted: wanted.collect(),
            seen: self.cache.containers(key).map(|seen| self.planned_container(seen, now)).collect(),
            limits: Limits { most: self.settings.most_restarts, window: self.settings.restart_window },
            switches: order.switches,
        }
    }

    /// Whether what is to take the place of a pod is here.
    fn ahead(&self, assignment: &Assignment, now: Timestamp) -> Images {
        let names = assignment.fetch.iter().flat_map(|fetch| &fetch.images).map(String::as_str);
        self.images.of(names, now)
    }

    fn planned_container<'a>(&'a self, seen: &'a ContainerSeen, now: Timestamp) -> Seen<'a> {
        let memory = self.ledger.memory.get(&seen.identity.pod);
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
                seen_at: memory.and_then(|memory| end_seen_at(memory, seen)).unwrap_or(now),
                excused: self.cache.is_excused(&seen.id),
            },
            started_at: seen.started_at,
            grace: self.grace(&seen.identity.pod),
            spec_digest: digest_of(memory, seen),
        }
    }

    fn grace(&self, pod: &PodId) -> Duration {
        let spec = self.ledger.order.spec_of(pod);
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

    /// What is remembered of `pod`, to change it; the ledger will be written.
    pub(super) fn memory_mut(&mut self, pod: &PodId) -> &mut PodMemory {
        self.intake.remember();
        Arc::make_mut(&mut self.ledger.memory).entry(pod.clone()).or_default()
    }

    /// Takes restarts back that were counted while the engine was already going down.
    pub(super) fn forgive_restarts_since(&mut self, since: Timestamp) {
        for memory in Arc::make_mut(&mut self.ledger.memory).values_mut() {
            if memory.restarts > 0 && memory.restarted_at >= since {
                memory.restarts -= 1;
                self.intake.remember();
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

    /// When a crash-looping pod is started again; never when no start is planned.
    fn next_attempt(&self, key: &InstanceKey, pod: &PodId, memory: &PodMemory, now: Timestamp) -> Timestamp {
        let attempt = memory.is_crash_looping.then(|| next_attempt(&self.planner_input(key, now), pod, now)).flatten();
        attempt.unwrap_or_default()
    }

    fn facts_of(&self, key: &InstanceKey, pod: &PodId, now: Timestamp) -> Option<contract::report::PodFacts> {
        let nothing = PodMemory::default();
        let memory = self.ledger.memory.get(pod).unwrap_or(&nothing);
        if !self.ever_seen() {
            return self.ledger.order.pods.contains_key(pod).then(|| facts::unknown(memory));
        }
        let ordered = self.ledger.order.pods.get(pod);
        let spec = ordered.and_then(|assignment| self.ledger.order.spec_for(pod, assignment));
        let mut containers: Vec<&ContainerSeen> =
            self.cache.containers(key).filter(|seen| seen.identity.pod == *pod).collect();
        containers.sort_by_key(|seen| (seen.identity.index, seen.phase != Phase::Running, seen.started_at, &seen.id));
        containers.dedup_by_key(|seen| seen.identity.index);
        facts::of(&facts::Known {
            ordered: ordered.zip(spec.map(Arc::as_ref)),
            obeying: self.ledger.order.fence != Fence::default(),
            containers,
            making: self.in_flight.contains(pod) || self.cache.state(key).is_some_and(|state| state.is_making(pod)),
            memory,
            images: &self.images,
            trouble: self.cache.state(key).map_or("", |state| state.trouble.as_str()),
            next_attempt: self.next_attempt(key, pod, memory, now),
            before: self.reporter.get(pod),
            now,
        })
    }
}

/// The spec the pod's standing containers are updated to. One that goes back to the version in its name is updated like
/// one that leaves it.
fn live(assignment: &Assignment, spec: &PodSpec, memory: Option<&PodMemory>) -> Option<Live> {
    let was_updated = memory.is_some_and(|memory| !memory.live.updated.is_empty());
    (assignment.updated_to.is_some() || was_updated).then(|| Live {
        digest: Digest::of(spec).to_string(),
        retry_at: memory.map_or(Timestamp::NEVER, |memory| memory.live.retry_at),
    })
}

/// Whether what this node has in `lane` is left as it is. A dependency pod's group is called after the dependency, the
/// node and the namespace it serves.
fn is_spared(spared: &BTreeSet<GroupName>, key: &InstanceKey) -> bool {
    let serves =
        |name: &GroupName| key.group.as_str().strip_prefix(name.as_str()).is_some_and(|place| place.starts_with('-'));
    spared.contains(&key.group) || (key.instance == 0 && spared.iter().any(serves))
}

/// When the agent read how the container ended; none when it has not read this end.
fn end_seen_at(memory: &PodMemory, seen: &ContainerSeen) -> Option<Timestamp> {
    let index = seen.identity.index;
    let exit = memory.exits.get(&index).filter(|exit| exit.at == seen.finished_at)?;
    Some(memory.exits_seen.get(&index).copied().unwrap_or(exit.at))
}

fn remembered(memory: &PodMemory) -> Memory {
    Memory {
        created: memory.created,
        outdated: memory.outdated,
        halted: memory.stopped_by_order.clone(),
        is_crash_looping: memory.is_crash_looping,
        ends_read: memory.exits.iter().map(|(index, exit)| (*index, exit.at)).collect(),
        history: History { restarts: memory.restarts, restarted_at: memory.restarted_at },
        retry_at: memory.retry_at,
        starts_done: memory.starts_done,
        restarts_done: memory.restarts_done,
        asked_at: memory.asked_at,
        renewed: memory.renewed.clone(),
    }
}
