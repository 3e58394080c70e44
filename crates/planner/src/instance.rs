//! Decides the next step in one lane: one instance of one group on one node.
//!
//! A lane works one step at a time and is asked again after each, so every answer is "the first thing that is not
//! as ordered". What is not in the order goes first: two versions of an instance run side by side only while both
//! are ordered, or while the images of the new one are fetched: what runs is not touched for one that cannot be made.
//! Where one container takes the place of one other, that is one step, so that the engine can make the new one while the
//! old one ends (`Replace`).
//! Usually they are on the node before the new one is ordered, because the old one's order asked for them (`next_images`). A
//! container that was made once and vanished is *missing*: of an instance that is the scheduler's to answer, and the
//! lane makes it again only when nobody answered (`recreate_at`); a dependency pod (instance 0) is the node's own business.
//! The surprise: a restart is a stop and a start, because only then does an agent that died in between see what is left
//! to do. How a container ended by itself is read before it is started again: its engine forgets exit code and last words.

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

/// Everything known about one lane.
#[derive(Debug, Clone)]
pub struct InstanceInput<'a> {
    /// The pods of the instance that are ordered; usually one.
    pub desired: Vec<DesiredPod<'a>>,
    /// The containers of the instance that are there.
    pub observed: Vec<ObservedContainer<'a>>,
    /// Restart budget.
    pub limits: RestartLimits,
    /// What is left undone for now.
    pub switches: Switches,
}

/// One ordered pod.
#[derive(Debug, Clone)]
pub struct DesiredPod<'a> {
    /// Which.
    pub pod: &'a PodId,
    /// What it shall do.
    pub assignment: Assignment,
    /// What it is.
    pub spec: &'a PodSpec,
    /// What is remembered of it.
    pub memory: Memory,
    /// From then on nobody is expected to answer for a missing container, and the lane makes it again.
    pub recreate_at: Timestamp,
    /// Whether what it is made of is on the node.
    pub images: Images,
    /// Whether what the pod that is to take its place is made of is on the node.
    pub next_images: Images,
    /// The spec its containers are updated to while they stand; none when they have always been as they were made.
    pub live: Option<LiveUpdate>,
}

/// Whether what a pod is made of is on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Images {
    /// All of it.
    Present,
    /// Some of it is being fetched.
    Pulling,
    /// This one is not known to be here.
    Missing {
        /// The image.
        image: String,
        /// It is not asked for before this.
        retry_at: Timestamp,
    },
}

/// A spec that standing containers are updated to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveUpdate {
    /// Digest of the spec.
    pub digest: String,
    /// No update before this: the engine refused the last one.
    pub retry_at: Timestamp,
}

/// What is remembered of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its containers were made once.
    pub created: bool,
    /// What stands there was made from another spec of the same version and must go first.
    pub outdated: bool,
    /// Containers that were stopped by order, by index: their next start is somebody's wish and not a restart by
    /// policy.
    pub stopped_by_order: BTreeSet<usize>,
    /// It is crash-looping: the immediate restarts are spent.
    pub is_crash_looping: bool,
    /// When containers ended by themselves and the agent read how, by container index and the engine's clock.
    pub ends_read: BTreeMap<usize, Timestamp>,
    /// Restarts so far.
    pub history: RestartCount,
    /// Nothing is made or started before this.
    pub retry_at: Timestamp,
    /// Starts asked for that were done.
    pub starts_done: u32,
    /// Restarts asked for that were done.
    pub restarts_done: u32,
    /// When the last start or restart was asked for; never when it was ordered so from its first moment. A container
    /// that was started later needs no restart.
    pub requested_at: Timestamp,
    /// Containers that were started since then, by index: the engine's clock may say otherwise.
    pub started_since_request: BTreeSet<usize>,
}

/// One container that is there.
#[derive(Debug, Clone)]
pub struct ObservedContainer<'a> {
    /// The engine's id.
    pub id: &'a str,
    /// Which container of which pod.
    pub identity: &'a Identity,
    /// What it is doing.
    pub activity: Activity,
    /// How it ended, when it did.
    pub end: ContainerExit,
    /// When it was last started.
    pub started_at: Timestamp,
    /// What it gets between the request to end and the kill.
    pub grace: Duration,
    /// Digest of the spec it has: the one it was made from, or was updated to since.
    pub spec_digest: &'a str,
}

/// What a container is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Runs.
    Running,
    /// Ended.
    Exited,
    /// Made, never started.
    Created,
    /// On its way out, or stuck there.
    Leaving,
}

/// What to do next in a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceAction {
    /// All is as ordered, as far as the lane can tell.
    Nothing,
    /// Nothing before that time.
    WaitUntil(Timestamp),
    /// Fetch this image, then ask again; the lane goes on meanwhile.
    PullImage(String),
    /// Make and start this container.
    Create(Identity),
    /// Make and start this container in the place of another, which has ended before the new one starts.
    Replace {
        /// The engine's id of the one that goes.
        old: String,
        /// What it gets before the kill.
        grace: Duration,
        /// Which container comes.
        new: Identity,
    },
    /// Give the container that is there the limits of its pod's spec.
    Update {
        /// The engine's id.
        id: String,
        /// Which container.
        identity: Identity,
    },
    /// Start the container that is there.
    Start {
        /// The engine's id.
        id: String,
        /// Which container.
        identity: Identity,
        /// The pod's restarts once it runs.
        history: RestartCount,
    },
    /// Ask it to end.
    Stop {
        /// The engine's id.
        id: String,
        /// What it gets before the kill.
        grace: Duration,
    },
    /// Remove it.
    Remove {
        /// The engine's id.
        id: String,
        /// What it gets before the kill.
        grace: Duration,
    },
    /// Read how this container ended, then ask again.
    ReadExit {
        /// The engine's id.
        id: String,
    },
    /// Remember that this pod is crash-looping, then ask again.
    CrashLooping(PodId),
    /// Remember that this pod is not crash-looping any more and has no restarts, then ask again.
    Recovered(PodId),
    /// Remember that what was asked of this pod was done, as far as it can be, then ask again.
    RequestDone {
        /// Which.
        pod: PodId,
        /// Its restarts, counting this one.
        history: RestartCount,
    },
}

/// The next step of the lane.
pub fn next_action(input: &InstanceInput<'_>, now: Timestamp) -> InstanceAction {
    let mut wait = None;
    // First, because it holds nothing up.
    for desired in &input.desired {
        match &desired.next_images {
            Images::Present | Images::Pulling => {}
            Images::Missing { image, retry_at } if now >= *retry_at => return InstanceAction::PullImage(image.clone()),
            Images::Missing { retry_at, .. } => wait = earlier(wait, *retry_at),
        }
    }
    let mut surplus = input.observed.iter().filter(|container| is_surplus(input, container));
    if let Some(surplus) = surplus.find(|container| !keeps_serving(input, container)) {
        let remove = || InstanceAction::Remove { id: surplus.id.to_owned(), grace: surplus.grace };
        return replacement(input, surplus, now).unwrap_or_else(remove);
    }
    for desired in &input.desired {
        match next_of_pod(input, desired, now) {
            InstanceAction::Nothing => {}
            InstanceAction::WaitUntil(time) => wait = earlier(wait, time),
            action @ (InstanceAction::PullImage(_)
            | InstanceAction::Create(_)
            | InstanceAction::Replace { .. }
            | InstanceAction::Update { .. }
            | InstanceAction::Start { .. }
            | InstanceAction::Stop { .. }
            | InstanceAction::Remove { .. }
            | InstanceAction::ReadExit { .. }
            | InstanceAction::CrashLooping(_)
            | InstanceAction::Recovered(_)
            | InstanceAction::RequestDone { .. }) => return action,
        }
    }
    wait.map_or(InstanceAction::Nothing, InstanceAction::WaitUntil)
}

fn earlier(wait: Option<Timestamp>, time: Timestamp) -> Option<Timestamp> {
    Some(wait.map_or(time, |wait| wait.min(time)))
}

/// Not ordered, made from another spec, beyond the spec's containers, or the lesser of two of a kind.
fn is_surplus(input: &InstanceInput<'_>, container: &ObservedContainer<'_>) -> bool {
    let Some(desired) = input.desired.iter().find(|desired| *desired.pod == container.identity.pod) else {
        return true;
    };
    let out_of_range = container.identity.index >= desired.spec.containers.len();
    out_of_range
        || desired.memory.outdated
        || kept_container(input, container.identity).is_some_and(|kept| kept.id != container.id)
}

/// The one container that runs gives way to the only one that is ordered. Anything else, pods of several containers, one
/// that was made from another spec under the same name, goes step by step.
fn replacement(input: &InstanceInput<'_>, surplus: &ObservedContainer<'_>, now: Timestamp) -> Option<InstanceAction> {
    let ([_], [desired]) = (input.observed.as_slice(), input.desired.as_slice()) else { return None };
    let is_plain = surplus.activity == Activity::Running && desired.spec.containers.len() == 1;
    if !is_plain || surplus.identity.pod == *desired.pod {
        return None;
    }
    let identity = Identity { pod: desired.pod.clone(), index: 0 };
    let InstanceAction::Create(new) = next_of_absent(input, desired, identity, now) else { return None };
    Some(InstanceAction::Replace { old: surplus.id.to_owned(), grace: surplus.grace, new })
}

/// Not ordered any more, but it runs, and none of its successors can be made yet.
fn keeps_serving(input: &InstanceInput<'_>, container: &ObservedContainer<'_>) -> bool {
    let ordered = input.desired.iter().any(|desired| *desired.pod == container.identity.pod);
    let mut successors =
        input.desired.iter().filter(|desired| desired.assignment.target == TargetState::Run).peekable();
    let waits = |desired: &DesiredPod<'_>| desired.images != Images::Present && pulls_images_first(input, desired);
    !ordered && container.activity == Activity::Running && successors.peek().is_some() && successors.all(waits)
}

/// While another pod of the instance runs, the images of one that is to be made come first: they may take minutes, in
/// which the other serves and is looked after.
fn pulls_images_first(input: &InstanceInput<'_>, desired: &DesiredPod<'_>) -> bool {
    let mut others = input.observed.iter().filter(|container| container.identity.pod != *desired.pod);
    let to_be_made = desired.assignment.target == TargetState::Run && !desired.memory.created;
    to_be_made && others.any(|container| container.activity == Activity::Running)
}

/// The container that stands for `identity`: a running one before others, then the one that started first.
fn kept_container<'a, 'b>(input: &'b InstanceInput<'a>, identity: &Identity) -> Option<&'b ObservedContainer<'a>> {
    let same = input.observed.iter().filter(|container| container.identity == identity);
    same.min_by_key(|container| (container.activity, container.started_at, container.id))
}

fn next_of_pod(input: &InstanceInput<'_>, desired: &DesiredPod<'_>, now: Timestamp) -> InstanceAction {
    let mut wait: Option<Timestamp> = None;
    let mut count = desired.spec.containers.len();
    match &desired.images {
        Images::Pulling if pulls_images_first(input, desired) => return InstanceAction::Nothing,
        Images::Missing { image, retry_at } if pulls_images_first(input, desired) => {
            if now >= *retry_at {
                return InstanceAction::PullImage(image.clone());
            }
            (wait, count) = (Some(*retry_at), 0);
        }
        Images::Present | Images::Pulling | Images::Missing { .. } => {}
    }
    for index in 0..count {
        let identity = Identity { pod: desired.pod.clone(), index };
        let next = match kept_container(input, &identity) {
            None => next_of_absent(input, desired, identity, now),
            Some(container) => next_with_live_update(input, desired, container, now),
        };
        match next {
            InstanceAction::Nothing => {}
            // Containers are made in index order: one that waits holds back the making of those after it.
            InstanceAction::Create(_) if wait.is_some() => {}
            InstanceAction::WaitUntil(time) => wait = earlier(wait, time),
            action @ (InstanceAction::PullImage(_)
            | InstanceAction::Create(_)
            | InstanceAction::Replace { .. }
            | InstanceAction::Update { .. }
            | InstanceAction::Start { .. }
            | InstanceAction::Stop { .. }
            | InstanceAction::Remove { .. }
            | InstanceAction::ReadExit { .. }
            | InstanceAction::CrashLooping(_)
            | InstanceAction::Recovered(_)
            | InstanceAction::RequestDone { .. }) => return action,
        }
    }
    if has_request(desired) {
        // Also when it waits: then the engine refused, or what is missing is not the lane's to make.
        return InstanceAction::RequestDone {
            pod: desired.pod.clone(),
            history: history_after_request(input, desired, now),
        };
    }
    match recovers_at(input, desired, now) {
        Some(at) if at <= now => return InstanceAction::Recovered(desired.pod.clone()),
        Some(at) => wait = earlier(wait, at),
        None => {}
    }
    wait.map_or(InstanceAction::Nothing, InstanceAction::WaitUntil)
}

/// When the crash loop of a pod is over: all its containers have run for long enough, or ended as their policy wants.
fn recovers_at(input: &InstanceInput<'_>, desired: &DesiredPod<'_>, now: Timestamp) -> Option<Timestamp> {
    if !desired.memory.is_crash_looping {
        return None;
    }
    let stable_at = desired.memory.history.restarted_at + input.limits.stable_run();
    let mut whole = Timestamp::NEVER;
    for index in 0..desired.spec.containers.len() {
        let container = kept_container(input, &Identity { pod: desired.pod.clone(), index })?;
        whole = whole.max(match container.activity {
            Activity::Running => stable_at,
            Activity::Exited if decide_restart(input, desired, container, now) == RestartDecision::LeaveStopped => {
                Timestamp::NEVER
            }
            Activity::Exited | Activity::Created | Activity::Leaving => return None,
        });
    }
    Some(whole)
}

/// When a crash-looping pod is started again; none when no start is planned.
pub fn next_attempt(input: &InstanceInput<'_>, pod: &PodId, now: Timestamp) -> Option<Timestamp> {
    let desired = input.desired.iter().find(|desired| desired.pod == pod)?;
    if !desired.memory.is_crash_looping || restarts_are_paused(input.switches, pod) {
        return None;
    }
    let ended = input
        .observed
        .iter()
        .filter(|container| container.identity.pod == *pod && container.activity == Activity::Exited);
    let attempts = ended.filter_map(|container| match decide_restart(input, desired, container, now) {
        RestartDecision::LeaveStopped | RestartDecision::Restart(_) => None,
        RestartDecision::BackOff { until, .. } => Some(until.max(desired.memory.retry_at)),
    });
    attempts.min()
}

/// A start or a restart was asked for and is not done.
fn has_request(desired: &DesiredPod<'_>) -> bool {
    desired.assignment.starts_requested > desired.memory.starts_done || has_restart_request(desired)
}

fn has_restart_request(desired: &DesiredPod<'_>) -> bool {
    desired.assignment.restarts_requested > desired.memory.restarts_done
}

/// Started since somebody asked.
fn is_started_since_request(desired: &DesiredPod<'_>, container: &ObservedContainer<'_>) -> bool {
    desired.memory.started_since_request.contains(&container.identity.index)
        || container.started_at > desired.memory.requested_at
}

/// What was asked for counts once, however many containers it started, and not when it started none.
fn history_after_request(input: &InstanceInput<'_>, desired: &DesiredPod<'_>, now: Timestamp) -> RestartCount {
    let (memory, wish) = (&desired.memory, desired.assignment.target);
    let mut own = input.observed.iter().filter(|container| container.identity.pod == *desired.pod);
    let counts = wish == TargetState::Run
        && memory.requested_at.happened()
        && own.any(|container| is_started_since_request(desired, container));
    if counts { restart::counted(memory.history, input.limits, now) } else { memory.history }
}

/// A dependency pod: it stands beside instances and has no number among them.
fn is_dependency(pod: &PodId) -> bool {
    pod.instance == 0
}

fn restarts_are_paused(switches: Switches, pod: &PodId) -> bool {
    switches.paused || (switches.hold_restarts && !is_dependency(pod))
}

fn recreation_is_paused(switches: Switches, pod: &PodId) -> bool {
    switches.paused || (switches.hold_missing && !is_dependency(pod))
}

fn next_of_absent(
    input: &InstanceInput<'_>,
    desired: &DesiredPod<'_>,
    identity: Identity,
    now: Timestamp,
) -> InstanceAction {
    match desired.assignment.target {
        TargetState::Stop => InstanceAction::Nothing,
        TargetState::Run if desired.memory.created && recreation_is_paused(input.switches, desired.pod) => {
            InstanceAction::Nothing
        }
        TargetState::Run if desired.memory.created && is_dependency(desired.pod) => {
            not_before(desired.memory.retry_at, now, InstanceAction::Create(identity))
        }
        // An instance that is bound to its data is never made again behind the scheduler's back.
        TargetState::Run if desired.memory.created && desired.spec.stateful => InstanceAction::Nothing,
        TargetState::Run if desired.memory.created => {
            not_before(desired.recreate_at.max(desired.memory.retry_at), now, InstanceAction::Create(identity))
        }
        TargetState::Run => not_before(desired.memory.retry_at, now, InstanceAction::Create(identity)),
    }
}

/// A container that stands gets its limits first, whatever it does; a refusal holds nothing else up.
fn next_with_live_update(
    input: &InstanceInput<'_>,
    desired: &DesiredPod<'_>,
    container: &ObservedContainer<'_>,
    now: Timestamp,
) -> InstanceAction {
    let behind = |live: &&LiveUpdate| live.digest != container.spec_digest && container.activity != Activity::Leaving;
    let Some(live) = desired.live.as_ref().filter(behind) else {
        return next_of_present(input, desired, container, now);
    };
    if now >= live.retry_at {
        return InstanceAction::Update { id: container.id.to_owned(), identity: container.identity.clone() };
    }
    match next_of_present(input, desired, container, now) {
        InstanceAction::Nothing => InstanceAction::WaitUntil(live.retry_at),
        InstanceAction::WaitUntil(time) => InstanceAction::WaitUntil(time.min(live.retry_at)),
        action @ (InstanceAction::PullImage(_)
        | InstanceAction::Create(_)
        | InstanceAction::Replace { .. }
        | InstanceAction::Update { .. }
        | InstanceAction::Start { .. }
        | InstanceAction::Stop { .. }
        | InstanceAction::Remove { .. }
        | InstanceAction::ReadExit { .. }
        | InstanceAction::CrashLooping(_)
        | InstanceAction::Recovered(_)
        | InstanceAction::RequestDone { .. }) => action,
    }
}

fn next_of_present(
    input: &InstanceInput<'_>,
    desired: &DesiredPod<'_>,
    container: &ObservedContainer<'_>,
    now: Timestamp,
) -> InstanceAction {
    let memory = &desired.memory;
    let renew = has_restart_request(desired) && !is_started_since_request(desired, container);
    match (container.activity, desired.assignment.target) {
        (Activity::Leaving, _) => InstanceAction::Remove { id: container.id.to_owned(), grace: container.grace },
        (Activity::Running, TargetState::Stop) => {
            InstanceAction::Stop { id: container.id.to_owned(), grace: container.grace }
        }
        (Activity::Running, TargetState::Run) if renew => {
            InstanceAction::Stop { id: container.id.to_owned(), grace: container.grace }
        }
        (Activity::Running, TargetState::Run) | (Activity::Created | Activity::Exited, TargetState::Stop) => {
            InstanceAction::Nothing
        }
        (Activity::Created, TargetState::Run) => start(desired, container, memory.history, now),
        (Activity::Exited, TargetState::Run) if renew => start(desired, container, memory.history, now),
        (Activity::Exited, TargetState::Run) if memory.stopped_by_order.contains(&container.identity.index) => {
            let counted_later = has_request(desired);
            let counted = || restart::counted(memory.history, input.limits, now);
            start(desired, container, if counted_later { memory.history } else { counted() }, now)
        }
        // An end that the engine brought about when it went down says nothing of the container.
        (Activity::Exited, TargetState::Run) if !container.end.excused && !is_exit_read(desired, container) => {
            InstanceAction::ReadExit { id: container.id.to_owned() }
        }
        (Activity::Exited, TargetState::Run) => next_by_policy(input, desired, container, now),
    }
}

fn is_exit_read(desired: &DesiredPod<'_>, container: &ObservedContainer<'_>) -> bool {
    desired.memory.ends_read.get(&container.identity.index) == Some(&container.end.finished_at)
}

fn decide_restart(
    input: &InstanceInput<'_>,
    desired: &DesiredPod<'_>,
    container: &ObservedContainer<'_>,
    now: Timestamp,
) -> RestartDecision {
    let Assignment { target, restart_policy: policy, .. } = desired.assignment;
    // An agent that starts excuses every end that it finds; one that was read before was the container's own.
    let end = ContainerExit { excused: container.end.excused && !is_exit_read(desired, container), ..container.end };
    restart::decide(RestartRule { pod: desired.pod, target, policy }, end, desired.memory.history, input.limits, now)
}

fn next_by_policy(
    input: &InstanceInput<'_>,
    desired: &DesiredPod<'_>,
    container: &ObservedContainer<'_>,
    now: Timestamp,
) -> InstanceAction {
    if restarts_are_paused(input.switches, desired.pod) {
        return InstanceAction::Nothing;
    }
    match decide_restart(input, desired, container, now) {
        RestartDecision::LeaveStopped => InstanceAction::Nothing,
        RestartDecision::Restart(history) => start(desired, container, history, now),
        RestartDecision::BackOff { .. } if !desired.memory.is_crash_looping => {
            InstanceAction::CrashLooping(desired.pod.clone())
        }
        RestartDecision::BackOff { until, history } => not_before(until, now, start(desired, container, history, now)),
    }
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
