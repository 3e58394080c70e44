//! Reconciles the containers of one instance on one node: desired pods and observed containers in, the next action out.
//!
//! The agent calls [`InstanceInput::next_action`], performs the action, observes the result and calls it again, so every answer is the first
//! difference between desired and observed state. Example: version 1 runs, version 2 is desired and its image is missing:
//! `PullImage`, then `Replace`, then `Nothing`.
//!
//! * Containers that are not desired go first, but a running pod stays until the images of its successor are present. Usually
//!   they are present before, because the order of the old pod names them (`next_images`).
//! * If one container replaces one other, that is one action (`Replace`): the engine creates the new one while the old one
//!   stops.
//! * A container that was created and vanished is *missing*. The scheduler decides about an instance; the agent recreates it
//!   only when no decision arrived by `recreate_at`. A dependency pod (instance 0) is recreated by the agent alone.
//! * A restart is a stop and a start, so an agent that crashed in between sees what is left to do.
//! * The agent reads how a container exited before it starts it again, because the engine then forgets exit code and output.

mod change;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::labels::Identity;
use contract::order::Assignment;
use contract::pod_id::PodId;
use contract::spec::PodSpec;
use contract::state::TargetState;
use contract::switches::Switches;
use contract::time::Timestamp;

use crate::restart::{self, ContainerExit, RestartCount, RestartDecision, RestartLimits, RestartRule};
pub use change::{can_be_updated, makes_other_containers};

/// The input of [`InstanceInput::next_action`].
#[derive(Debug, Clone)]
pub struct InstanceInput<'a> {
    /// The pods that the order has for this instance: the current one, and the surge pod during a rollout.
    pub desired: Vec<DesiredPod<'a>>,
    /// The containers of the instance on this node.
    pub observed: Vec<ObservedContainer<'a>>,
    pub limits: RestartLimits,
    /// The actions that the operator has switched off.
    pub switches: Switches,
}

#[derive(Debug, Clone)]
pub struct DesiredPod<'a> {
    pub pod: &'a PodId,
    pub assignment: Assignment,
    pub spec: &'a PodSpec,
    /// What the agent's ledger has on the pod.
    pub memory: RememberedPod,
    /// When the agent recreates a missing container without waiting for the scheduler any longer.
    pub recreate_at: Timestamp,
    pub images: Images,
    /// Images of the pod that will replace this one.
    pub next_images: Images,
    /// The spec that running containers are updated to; none while all of them have the spec they were created from.
    pub live: Option<LiveUpdate>,
}

/// Whether the images of a pod are on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Images {
    Present,
    Pulling,
    /// The first image that is not known to be present.
    Missing {
        image: String,
        /// No attempt before this time.
        retry_at: Timestamp,
    },
}

/// A spec that existing containers are updated to without being recreated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveUpdate {
    pub digest: String,
    /// The engine refused the last update: no attempt before this time.
    pub retry_at: Timestamp,
}

/// The agent's memory of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RememberedPod {
    /// Its containers were created before.
    pub created: bool,
    /// Its containers were created from another spec of the same version and must be removed first.
    pub outdated: bool,
    /// Indexes of containers that an order stopped: their next start is requested and not a restart by policy.
    pub stopped_by_order: BTreeSet<usize>,
    /// The immediate restarts are used up.
    pub is_crash_looping: bool,
    /// The exits that the agent has read: exit time by the engine's clock, by container index.
    pub exits_read: BTreeMap<usize, Timestamp>,
    pub history: RestartCount,
    /// Nothing is created or started before this time.
    pub retry_at: Timestamp,
    /// Requested starts that are done.
    pub starts_done: u32,
    /// Requested restarts that are done.
    pub restarts_done: u32,
    /// When the last start or restart was requested; never if the pod's first order had it. A container that started later
    /// needs no restart.
    pub requested_at: Timestamp,
    /// Indexes of containers that were started since the request: the clock of the engine may differ from the agent's.
    pub started_since_request: BTreeSet<usize>,
}

#[derive(Debug, Clone)]
pub struct ObservedContainer<'a> {
    pub id: &'a str,
    pub identity: &'a Identity,
    pub activity: Activity,
    /// How it exited, if it did.
    pub end: ContainerExit,
    pub started_at: Timestamp,
    /// Time between the stop signal and the kill.
    pub grace: Duration,
    /// Digest of the spec that it was created from or last updated to.
    pub spec_digest: &'a str,
    /// A startup or liveness check of the agent fails.
    pub fails_check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    Running,
    Exited,
    /// Created and never started.
    Created,
    /// The engine is removing it, or failed to.
    Leaving,
}

/// The next action for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceAction {
    /// Observed and desired state agree.
    Nothing,
    WaitUntil(Timestamp),
    /// Start pulling this image and call again: other actions continue meanwhile.
    PullImage(String),
    /// Create and start this container.
    Create(Identity),
    /// Create this container and start it once the old one has stopped.
    Replace {
        old: String,
        grace: Duration,
        new: Identity,
    },
    /// Give the existing container the resource limits of its pod's spec.
    Update {
        id: String,
        identity: Identity,
    },
    /// Start the existing container.
    Start {
        id: String,
        identity: Identity,
        /// The restarts of the pod including this start.
        history: RestartCount,
    },
    Stop {
        id: String,
        grace: Duration,
    },
    Remove {
        id: String,
        grace: Duration,
    },
    /// Read how this container exited, then call again.
    ReadExit {
        id: String,
    },
    /// Remember that this pod is crash-looping, then call again.
    CrashLooping(PodId),
    /// Remember that the crash loop of this pod is over, then call again.
    Recovered(PodId),
    /// Remember that the requested start or restart is done as far as possible, then call again.
    RequestDone {
        pod: PodId,
        /// The restarts of the pod including this one.
        history: RestartCount,
    },
}

impl<'a> InstanceInput<'a> {
    /// Decides the next action.
    pub fn next_action(&self, now: Timestamp) -> InstanceAction {
        let mut wait = None;
        // Pulling ahead delays no other action.
        for desired in &self.desired {
            match &desired.next_images {
                Images::Present | Images::Pulling => {}
                Images::Missing { image, retry_at } if now >= *retry_at => {
                    return InstanceAction::PullImage(image.clone());
                }
                Images::Missing { retry_at, .. } => wait = earlier(wait, *retry_at),
            }
        }
        let mut surplus = self.observed.iter().filter(|container| self.is_surplus(container));
        if let Some(surplus) = surplus.find(|container| !self.keeps_serving(container)) {
            let remove = || InstanceAction::Remove { id: surplus.id.to_owned(), grace: surplus.grace };
            return self.replacement(surplus, now).unwrap_or_else(remove);
        }
        for desired in &self.desired {
            let action = self.next_of_pod(desired, now);
            if let InstanceAction::WaitUntil(time) = action {
                wait = earlier(wait, time);
            } else if action != InstanceAction::Nothing {
                return action;
            }
        }
        wait.map_or(InstanceAction::Nothing, InstanceAction::WaitUntil)
    }

    /// A container that is not desired, was created from another spec, exceeds the spec's containers, or duplicates another one.
    fn is_surplus(&self, container: &ObservedContainer<'_>) -> bool {
        let Some(desired) = self.desired.iter().find(|desired| *desired.pod == container.identity.pod) else {
            return true;
        };
        let out_of_range = container.identity.index >= desired.spec.containers.len();
        out_of_range
            || desired.memory.outdated
            || self.kept_container(container.identity).is_some_and(|kept| kept.id != container.id)
    }

    /// One running container is replaced by the only desired one. Everything else takes several actions: pods of several
    /// containers, and a pod that was created from another spec under the same name.
    fn replacement(&self, surplus: &ObservedContainer<'_>, now: Timestamp) -> Option<InstanceAction> {
        let ([_], [desired]) = (self.observed.as_slice(), self.desired.as_slice()) else { return None };
        let is_plain = surplus.activity == Activity::Running && desired.spec.containers.len() == 1;
        if !is_plain || surplus.identity.pod == *desired.pod {
            return None;
        }
        let identity = Identity { pod: desired.pod.clone(), index: 0 };
        let InstanceAction::Create(new) = self.next_of_absent(desired, identity, now) else { return None };
        Some(InstanceAction::Replace { old: surplus.id.to_owned(), grace: surplus.grace, new })
    }

    /// A running pod that is not desired any more stays while no successor has its images.
    fn keeps_serving(&self, container: &ObservedContainer<'_>) -> bool {
        let ordered = self.desired.iter().any(|desired| *desired.pod == container.identity.pod);
        let mut successors =
            self.desired.iter().filter(|desired| desired.assignment.target == TargetState::Run).peekable();
        let waits = |desired: &DesiredPod<'_>| desired.images != Images::Present && self.pulls_images_first(desired);
        !ordered && container.activity == Activity::Running && successors.peek().is_some() && successors.all(waits)
    }

    /// While another pod of the instance runs, the images of a new one are pulled first: that may take minutes, in which the
    /// other pod serves and is restarted if necessary.
    fn pulls_images_first(&self, desired: &DesiredPod<'_>) -> bool {
        let mut others = self.observed.iter().filter(|container| container.identity.pod != *desired.pod);
        let is_new = desired.assignment.target == TargetState::Run && !desired.memory.created;
        is_new && others.any(|container| container.activity == Activity::Running)
    }

    /// The container that is kept for `identity`: running before others, then the one that started first.
    fn kept_container(&self, identity: &Identity) -> Option<&ObservedContainer<'a>> {
        let same = self.observed.iter().filter(|container| container.identity == identity);
        same.min_by_key(|container| (container.activity, container.started_at, container.id))
    }

    fn next_of_pod(&self, desired: &DesiredPod<'_>, now: Timestamp) -> InstanceAction {
        let mut wait: Option<Timestamp> = None;
        let mut count = desired.spec.containers.len();
        match &desired.images {
            Images::Pulling if self.pulls_images_first(desired) => return InstanceAction::Nothing,
            Images::Missing { image, retry_at } if self.pulls_images_first(desired) => {
                if now >= *retry_at {
                    return InstanceAction::PullImage(image.clone());
                }
                (wait, count) = (Some(*retry_at), 0);
            }
            Images::Present | Images::Pulling | Images::Missing { .. } => {}
        }
        for index in 0..count {
            let identity = Identity { pod: desired.pod.clone(), index };
            let next = match self.kept_container(&identity) {
                None => self.next_of_absent(desired, identity, now),
                Some(container) => self.next_with_live_update(desired, container, now),
            };
            // Containers are created in index order: one that waits delays the creation of the following ones.
            let is_blocked = wait.is_some() && matches!(next, InstanceAction::Create(_));
            if let InstanceAction::WaitUntil(time) = next {
                wait = earlier(wait, time);
            } else if next != InstanceAction::Nothing && !is_blocked {
                return next;
            }
        }
        if has_request(desired) {
            // Also while the pod waits: then the engine refused, or the scheduler decides about the missing container.
            return InstanceAction::RequestDone {
                pod: desired.pod.clone(),
                history: self.history_after_request(desired, now),
            };
        }
        match self.recovers_at(desired, now) {
            Some(at) if at <= now => return InstanceAction::Recovered(desired.pod.clone()),
            Some(at) => wait = earlier(wait, at),
            None => {}
        }
        wait.map_or(InstanceAction::Nothing, InstanceAction::WaitUntil)
    }

    /// When the crash loop is over: every container has run for long enough or exited as its policy expects.
    fn recovers_at(&self, desired: &DesiredPod<'_>, now: Timestamp) -> Option<Timestamp> {
        if !desired.memory.is_crash_looping {
            return None;
        }
        let stable_at = desired.memory.history.restarted_at + self.limits.stable_run();
        let mut whole = Timestamp::NEVER;
        for index in 0..desired.spec.containers.len() {
            let container = self.kept_container(&Identity { pod: desired.pod.clone(), index })?;
            whole = whole.max(match container.activity {
                Activity::Running => stable_at,
                Activity::Exited if self.decide_restart(desired, container, now) == RestartDecision::LeaveStopped => {
                    Timestamp::NEVER
                }
                Activity::Exited | Activity::Created | Activity::Leaving => return None,
            });
        }
        Some(whole)
    }

    /// When a crash-looping pod is started again; none if no start is planned.
    pub fn next_attempt(&self, pod: &PodId, now: Timestamp) -> Option<Timestamp> {
        let desired = self.desired.iter().find(|desired| desired.pod == pod)?;
        if !desired.memory.is_crash_looping || restarts_are_paused(self.switches, pod) {
            return None;
        }
        let own = self.observed.iter().filter(|container| container.identity.pod == *pod);
        let exited = own.filter(|container| container.activity == Activity::Exited);
        let attempts = exited.filter_map(|container| match self.decide_restart(desired, container, now) {
            RestartDecision::LeaveStopped | RestartDecision::Restart(_) => None,
            RestartDecision::BackOff { until, .. } => Some(until.max(desired.memory.retry_at)),
        });
        attempts.min()
    }

    /// A request counts as one restart however many containers it started, and not at all if it started none.
    fn history_after_request(&self, desired: &DesiredPod<'_>, now: Timestamp) -> RestartCount {
        let (memory, target) = (&desired.memory, desired.assignment.target);
        let mut own = self.observed.iter().filter(|container| container.identity.pod == *desired.pod);
        let counts = target == TargetState::Run
            && memory.requested_at.happened()
            && own.any(|container| is_started_since_request(desired, container));
        if counts { restart::counted(memory.history, self.limits, now) } else { memory.history }
    }

    fn next_of_absent(&self, desired: &DesiredPod<'_>, identity: Identity, now: Timestamp) -> InstanceAction {
        match desired.assignment.target {
            TargetState::Stop => InstanceAction::Nothing,
            TargetState::Run if desired.memory.created && recreation_is_paused(self.switches, desired.pod) => {
                InstanceAction::Nothing
            }
            TargetState::Run if desired.memory.created && is_dependency(desired.pod) => {
                not_before(desired.memory.retry_at, now, InstanceAction::Create(identity))
            }
            // Only the scheduler decides to recreate an instance that is bound to its data.
            TargetState::Run if desired.memory.created && desired.spec.stateful => InstanceAction::Nothing,
            TargetState::Run if desired.memory.created => {
                not_before(desired.recreate_at.max(desired.memory.retry_at), now, InstanceAction::Create(identity))
            }
            TargetState::Run => not_before(desired.memory.retry_at, now, InstanceAction::Create(identity)),
        }
    }

    /// Resource limits are updated before anything else; a refused update delays no other action.
    fn next_with_live_update(
        &self,
        desired: &DesiredPod<'_>,
        container: &ObservedContainer<'_>,
        now: Timestamp,
    ) -> InstanceAction {
        let behind =
            |live: &&LiveUpdate| live.digest != container.spec_digest && container.activity != Activity::Leaving;
        let Some(live) = desired.live.as_ref().filter(behind) else {
            return self.next_of_present(desired, container, now);
        };
        if now >= live.retry_at {
            return InstanceAction::Update { id: container.id.to_owned(), identity: container.identity.clone() };
        }
        let next = self.next_of_present(desired, container, now);
        if let InstanceAction::WaitUntil(time) = next {
            InstanceAction::WaitUntil(time.min(live.retry_at))
        } else if next == InstanceAction::Nothing {
            InstanceAction::WaitUntil(live.retry_at)
        } else {
            next
        }
    }

    fn next_of_present(
        &self,
        desired: &DesiredPod<'_>,
        container: &ObservedContainer<'_>,
        now: Timestamp,
    ) -> InstanceAction {
        let memory = &desired.memory;
        let renew = has_restart_request(desired) && !is_started_since_request(desired, container);
        let stop = || InstanceAction::Stop { id: container.id.to_owned(), grace: container.grace };
        match (container.activity, desired.assignment.target) {
            (Activity::Leaving, _) => InstanceAction::Remove { id: container.id.to_owned(), grace: container.grace },
            (Activity::Running, TargetState::Stop) => stop(),
            (Activity::Running, TargetState::Run) if renew => stop(),
            // The restart policy then starts it again, with back-off.
            (Activity::Running, TargetState::Run)
                if container.fails_check && !restarts_are_paused(self.switches, desired.pod) =>
            {
                stop()
            }
            (Activity::Running, TargetState::Run) | (Activity::Created | Activity::Exited, TargetState::Stop) => {
                InstanceAction::Nothing
            }
            (Activity::Created, TargetState::Run) => start(desired, container, memory.history, now),
            (Activity::Exited, TargetState::Run) if renew => start(desired, container, memory.history, now),
            (Activity::Exited, TargetState::Run) if memory.stopped_by_order.contains(&container.identity.index) => {
                let counted_later = has_request(desired);
                let counted = || restart::counted(memory.history, self.limits, now);
                start(desired, container, if counted_later { memory.history } else { counted() }, now)
            }
            // An exit that the engine caused when it went down says nothing about the container.
            (Activity::Exited, TargetState::Run) if !container.end.excused && !is_exit_read(desired, container) => {
                InstanceAction::ReadExit { id: container.id.to_owned() }
            }
            (Activity::Exited, TargetState::Run) => self.next_by_policy(desired, container, now),
        }
    }

    fn decide_restart(
        &self,
        desired: &DesiredPod<'_>,
        container: &ObservedContainer<'_>,
        now: Timestamp,
    ) -> RestartDecision {
        let Assignment { target, restart_policy: policy, .. } = desired.assignment;
        // A starting agent excuses every exit that it finds, except those that it read before it stopped.
        let end =
            ContainerExit { excused: container.end.excused && !is_exit_read(desired, container), ..container.end };
        restart::decide(RestartRule { pod: desired.pod, target, policy }, end, desired.memory.history, self.limits, now)
    }

    fn next_by_policy(
        &self,
        desired: &DesiredPod<'_>,
        container: &ObservedContainer<'_>,
        now: Timestamp,
    ) -> InstanceAction {
        if restarts_are_paused(self.switches, desired.pod) {
            return InstanceAction::Nothing;
        }
        match self.decide_restart(desired, container, now) {
            RestartDecision::LeaveStopped => InstanceAction::Nothing,
            RestartDecision::Restart(history) => start(desired, container, history, now),
            RestartDecision::BackOff { .. } if !desired.memory.is_crash_looping => {
                InstanceAction::CrashLooping(desired.pod.clone())
            }
            RestartDecision::BackOff { until, history } => {
                not_before(until, now, start(desired, container, history, now))
            }
        }
    }
}

fn earlier(wait: Option<Timestamp>, time: Timestamp) -> Option<Timestamp> {
    Some(wait.map_or(time, |wait| wait.min(time)))
}

/// A start or restart is requested and not done.
fn has_request(desired: &DesiredPod<'_>) -> bool {
    desired.assignment.starts_requested > desired.memory.starts_done || has_restart_request(desired)
}

fn has_restart_request(desired: &DesiredPod<'_>) -> bool {
    desired.assignment.restarts_requested > desired.memory.restarts_done
}

fn is_started_since_request(desired: &DesiredPod<'_>, container: &ObservedContainer<'_>) -> bool {
    desired.memory.started_since_request.contains(&container.identity.index)
        || container.started_at > desired.memory.requested_at
}

/// Dependency pods run beside instances and have the number 0.
fn is_dependency(pod: &PodId) -> bool {
    pod.instance == 0
}

fn restarts_are_paused(switches: Switches, pod: &PodId) -> bool {
    switches.paused || (switches.hold_restarts && !is_dependency(pod))
}

fn recreation_is_paused(switches: Switches, pod: &PodId) -> bool {
    switches.paused || (switches.hold_missing && !is_dependency(pod))
}

fn is_exit_read(desired: &DesiredPod<'_>, container: &ObservedContainer<'_>) -> bool {
    desired.memory.exits_read.get(&container.identity.index) == Some(&container.end.finished_at)
}

fn start(
    desired: &DesiredPod<'_>,
    container: &ObservedContainer<'_>,
    history: RestartCount,
    now: Timestamp,
) -> InstanceAction {
    let action = InstanceAction::Start { id: container.id.to_owned(), identity: container.identity.clone(), history };
    not_before(desired.memory.retry_at, now, action)
}

fn not_before(time: Timestamp, now: Timestamp, action: InstanceAction) -> InstanceAction {
    if now < time { InstanceAction::WaitUntil(time) } else { action }
}

#[cfg(test)]
#[path = "instance_tests.rs"]
mod tests;
