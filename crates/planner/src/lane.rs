//! Decides the next step in one lane: one instance of one group on one node.
//!
//! A lane works one step at a time and is asked again after each, so every answer is "the first thing that is not
//! as ordered". What is not in the order goes first: two versions of an instance run side by side only while both
//! are ordered, or while the images of the new one are fetched: what runs is not touched for one that cannot be made.
//! Where one container takes the place of one other, that is one step, so that the engine can make the new one while the
//! old one ends (`Replace`).
//! Usually they are on the node before the new one is ordered, because the old one's order asked for them (`ahead`). A
//! container that was made once and vanished is *missing*: of an instance that is the scheduler's to answer, and the
//! lane makes it again only when nobody answered (`alone_at`); a dependency pod (instance 0) is the node's own business.
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

use crate::restart::{self, End, History, Limits, Verdict, Wish};
pub use change::{can_be_updated, makes_other_containers};

/// Everything known about one lane.
#[derive(Debug, Clone)]
pub struct Lane<'a> {
    /// The pods of the instance that are ordered; usually one.
    pub wanted: Vec<Wanted<'a>>,
    /// The containers of the instance that are there.
    pub seen: Vec<Seen<'a>>,
    /// Restart budget.
    pub limits: Limits,
    /// What is left undone for now.
    pub switches: Switches,
}

/// One ordered pod.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// Which.
    pub pod: &'a PodId,
    /// What it shall do.
    pub assignment: Assignment,
    /// What it is.
    pub spec: &'a PodSpec,
    /// What is remembered of it.
    pub memory: Memory,
    /// From then on nobody is expected to answer for a missing container, and the lane makes it again.
    pub alone_at: Timestamp,
    /// Whether what it is made of is on the node.
    pub images: Images,
    /// Whether what the pod that is to take its place is made of is on the node.
    pub ahead: Images,
    /// The spec its containers are updated to while they stand; none when they have always been as they were made.
    pub live: Option<Live>,
}

/// Whether what a pod is made of is on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Images {
    /// All of it.
    Here,
    /// Some of it is being fetched.
    Coming,
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
pub struct Live {
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
    pub halted: BTreeSet<usize>,
    /// It is crash-looping: the immediate restarts are spent.
    pub is_crash_looping: bool,
    /// When containers ended by themselves and the agent read how, by container index and the engine's clock.
    pub ends_read: BTreeMap<usize, Timestamp>,
    /// Restarts so far.
    pub history: History,
    /// Nothing is made or started before this.
    pub retry_at: Timestamp,
    /// Starts asked for that were done.
    pub starts_done: u32,
    /// Restarts asked for that were done.
    pub restarts_done: u32,
    /// When the last start or restart was asked for; never when it was ordered so from its first moment. A container
    /// that was started later needs no restart.
    pub asked_at: Timestamp,
    /// Containers that were started since then, by index: the engine's clock may say otherwise.
    pub renewed: BTreeSet<usize>,
}

/// One container that is there.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// The engine's id.
    pub id: &'a str,
    /// Which container of which pod.
    pub identity: &'a Identity,
    /// What it is doing.
    pub activity: Activity,
    /// How it ended, when it did.
    pub end: End,
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
pub enum Next {
    /// All is as ordered, as far as the lane can tell.
    Nothing,
    /// Nothing before that time.
    WaitUntil(Timestamp),
    /// Fetch this image, then ask again; the lane goes on meanwhile.
    Fetch(String),
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
        history: History,
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
    ReadEnd {
        /// The engine's id.
        id: String,
    },
    /// Remember that this pod is crash-looping, then ask again.
    CrashLooping(PodId),
    /// Remember that this pod is not crash-looping any more and has no restarts, then ask again.
    Recovered(PodId),
    /// Remember that what was asked of this pod was done, as far as it can be, then ask again.
    Answered {
        /// Which.
        pod: PodId,
        /// Its restarts, counting this one.
        history: History,
    },
}

/// The next step of the lane.
pub fn next_step(lane: &Lane<'_>, now: Timestamp) -> Next {
    let mut wait = None;
    // First, because it holds nothing up.
    for wanted in &lane.wanted {
        match &wanted.ahead {
            Images::Here | Images::Coming => {}
            Images::Missing { image, retry_at } if now >= *retry_at => return Next::Fetch(image.clone()),
            Images::Missing { retry_at, .. } => wait = earlier(wait, *retry_at),
        }
    }
    let mut surplus = lane.seen.iter().filter(|seen| is_surplus(lane, seen));
    if let Some(surplus) = surplus.find(|seen| !serves_on(lane, seen)) {
        let remove = || Next::Remove { id: surplus.id.to_owned(), grace: surplus.grace };
        return replacement(lane, surplus, now).unwrap_or_else(remove);
    }
    for wanted in &lane.wanted {
        match next_of_pod(lane, wanted, now) {
            Next::Nothing => {}
            Next::WaitUntil(time) => wait = earlier(wait, time),
            step @ (Next::Fetch(_)
            | Next::Create(_)
            | Next::Replace { .. }
            | Next::Update { .. }
            | Next::Start { .. }
            | Next::Stop { .. }
            | Next::Remove { .. }
            | Next::ReadEnd { .. }
            | Next::CrashLooping(_)
            | Next::Recovered(_)
            | Next::Answered { .. }) => return step,
        }
    }
    wait.map_or(Next::Nothing, Next::WaitUntil)
}

fn earlier(wait: Option<Timestamp>, time: Timestamp) -> Option<Timestamp> {
    Some(wait.map_or(time, |wait| wait.min(time)))
}

/// Not ordered, made from another spec, beyond the spec's containers, or the lesser of two of a kind.
fn is_surplus(lane: &Lane<'_>, seen: &Seen<'_>) -> bool {
    let Some(wanted) = lane.wanted.iter().find(|wanted| *wanted.pod == seen.identity.pod) else { return true };
    let out_of_range = seen.identity.index >= wanted.spec.containers.len();
    out_of_range || wanted.memory.outdated || best(lane, seen.identity).is_some_and(|kept| kept.id != seen.id)
}

/// The one container that runs gives way to the only one that is ordered. Anything else, pods of several containers, one
/// that was made from another spec under the same name, goes step by step.
fn replacement(lane: &Lane<'_>, surplus: &Seen<'_>, now: Timestamp) -> Option<Next> {
    let ([_], [wanted]) = (lane.seen.as_slice(), lane.wanted.as_slice()) else { return None };
    let is_plain = surplus.activity == Activity::Running && wanted.spec.containers.len() == 1;
    if !is_plain || surplus.identity.pod == *wanted.pod {
        return None;
    }
    let identity = Identity { pod: wanted.pod.clone(), index: 0 };
    let Next::Create(new) = next_of_absent(lane, wanted, identity, now) else { return None };
    Some(Next::Replace { old: surplus.id.to_owned(), grace: surplus.grace, new })
}

/// Not ordered any more, but it runs, and none of its successors can be made yet.
fn serves_on(lane: &Lane<'_>, seen: &Seen<'_>) -> bool {
    let ordered = lane.wanted.iter().any(|wanted| *wanted.pod == seen.identity.pod);
    let mut successors = lane.wanted.iter().filter(|wanted| wanted.assignment.target == TargetState::Run).peekable();
    let waits = |wanted: &Wanted<'_>| wanted.images != Images::Here && is_fetched_first(lane, wanted);
    !ordered && seen.activity == Activity::Running && successors.peek().is_some() && successors.all(waits)
}

/// While another pod of the instance runs, the images of one that is to be made come first: they may take minutes, in
/// which the other serves and is looked after.
fn is_fetched_first(lane: &Lane<'_>, wanted: &Wanted<'_>) -> bool {
    let mut others = lane.seen.iter().filter(|seen| seen.identity.pod != *wanted.pod);
    let to_be_made = wanted.assignment.target == TargetState::Run && !wanted.memory.created;
    to_be_made && others.any(|seen| seen.activity == Activity::Running)
}

/// The container that stands for `identity`: a running one before others, then the one that started first.
fn best<'a, 'b>(lane: &'b Lane<'a>, identity: &Identity) -> Option<&'b Seen<'a>> {
    let same = lane.seen.iter().filter(|seen| seen.identity == identity);
    same.min_by_key(|seen| (seen.activity, seen.started_at, seen.id))
}

fn next_of_pod(lane: &Lane<'_>, wanted: &Wanted<'_>, now: Timestamp) -> Next {
    let mut wait: Option<Timestamp> = None;
    let mut count = wanted.spec.containers.len();
    match &wanted.images {
        Images::Coming if is_fetched_first(lane, wanted) => return Next::Nothing,
        Images::Missing { image, retry_at } if is_fetched_first(lane, wanted) => {
            if now >= *retry_at {
                return Next::Fetch(image.clone());
            }
            (wait, count) = (Some(*retry_at), 0);
        }
        Images::Here | Images::Coming | Images::Missing { .. } => {}
    }
    for index in 0..count {
        let identity = Identity { pod: wanted.pod.clone(), index };
        let next = match best(lane, &identity) {
            None => next_of_absent(lane, wanted, identity, now),
            Some(seen) => next_of_standing(lane, wanted, seen, now),
        };
        match next {
            Next::Nothing => {}
            // Containers are made in index order: one that waits holds back the making of those after it.
            Next::Create(_) if wait.is_some() => {}
            Next::WaitUntil(time) => wait = earlier(wait, time),
            step @ (Next::Fetch(_)
            | Next::Create(_)
            | Next::Replace { .. }
            | Next::Update { .. }
            | Next::Start { .. }
            | Next::Stop { .. }
            | Next::Remove { .. }
            | Next::ReadEnd { .. }
            | Next::CrashLooping(_)
            | Next::Recovered(_)
            | Next::Answered { .. }) => return step,
        }
    }
    if is_asked(wanted) {
        // Also when it waits: then the engine refused, or what is missing is not the lane's to make.
        return Next::Answered { pod: wanted.pod.clone(), history: history_once_answered(lane, wanted, now) };
    }
    match recovers_at(lane, wanted, now) {
        Some(at) if at <= now => return Next::Recovered(wanted.pod.clone()),
        Some(at) => wait = earlier(wait, at),
        None => {}
    }
    wait.map_or(Next::Nothing, Next::WaitUntil)
}

/// When the crash loop of a pod is over: all its containers have run for long enough, or ended as their policy wants.
fn recovers_at(lane: &Lane<'_>, wanted: &Wanted<'_>, now: Timestamp) -> Option<Timestamp> {
    if !wanted.memory.is_crash_looping {
        return None;
    }
    let stable_at = wanted.memory.history.restarted_at + lane.limits.stable_run();
    let mut whole = Timestamp::NEVER;
    for index in 0..wanted.spec.containers.len() {
        let seen = best(lane, &Identity { pod: wanted.pod.clone(), index })?;
        whole = whole.max(match seen.activity {
            Activity::Running => stable_at,
            Activity::Exited if judge(lane, wanted, seen, now) == Verdict::Stay => Timestamp::NEVER,
            Activity::Exited | Activity::Created | Activity::Leaving => return None,
        });
    }
    Some(whole)
}

/// When a crash-looping pod is started again; none when no start is planned.
pub fn next_attempt(lane: &Lane<'_>, pod: &PodId, now: Timestamp) -> Option<Timestamp> {
    let wanted = lane.wanted.iter().find(|wanted| wanted.pod == pod)?;
    if !wanted.memory.is_crash_looping || restarts_are_held(lane.switches, pod) {
        return None;
    }
    let ended = lane.seen.iter().filter(|seen| seen.identity.pod == *pod && seen.activity == Activity::Exited);
    let attempts = ended.filter_map(|seen| match judge(lane, wanted, seen, now) {
        Verdict::Stay | Verdict::Restart(_) => None,
        Verdict::BackOff { until, .. } => Some(until.max(wanted.memory.retry_at)),
    });
    attempts.min()
}

/// A start or a restart was asked for and is not done.
fn is_asked(wanted: &Wanted<'_>) -> bool {
    wanted.assignment.starts_requested > wanted.memory.starts_done || is_restart_asked(wanted)
}

fn is_restart_asked(wanted: &Wanted<'_>) -> bool {
    wanted.assignment.restarts_requested > wanted.memory.restarts_done
}

/// Started since somebody asked.
fn is_renewed(wanted: &Wanted<'_>, seen: &Seen<'_>) -> bool {
    wanted.memory.renewed.contains(&seen.identity.index) || seen.started_at > wanted.memory.asked_at
}

/// What was asked for counts once, however many containers it started, and not when it started none.
fn history_once_answered(lane: &Lane<'_>, wanted: &Wanted<'_>, now: Timestamp) -> History {
    let (memory, wish) = (&wanted.memory, wanted.assignment.target);
    let mut own = lane.seen.iter().filter(|seen| seen.identity.pod == *wanted.pod);
    let counts = wish == TargetState::Run && memory.asked_at.happened() && own.any(|seen| is_renewed(wanted, seen));
    if counts { restart::counted(memory.history, lane.limits, now) } else { memory.history }
}

/// A dependency pod: it stands beside instances and has no number among them.
fn is_dependency(pod: &PodId) -> bool {
    pod.instance == 0
}

fn restarts_are_held(switches: Switches, pod: &PodId) -> bool {
    switches.paused || (switches.hold_restarts && !is_dependency(pod))
}

fn missing_are_held(switches: Switches, pod: &PodId) -> bool {
    switches.paused || (switches.hold_missing && !is_dependency(pod))
}

fn next_of_absent(lane: &Lane<'_>, wanted: &Wanted<'_>, identity: Identity, now: Timestamp) -> Next {
    match wanted.assignment.target {
        TargetState::Stop => Next::Nothing,
        TargetState::Run if wanted.memory.created && missing_are_held(lane.switches, wanted.pod) => Next::Nothing,
        TargetState::Run if wanted.memory.created && is_dependency(wanted.pod) => {
            not_before(wanted.memory.retry_at, now, Next::Create(identity))
        }
        // An instance that is bound to its data is never made again behind the scheduler's back.
        TargetState::Run if wanted.memory.created && wanted.spec.stateful => Next::Nothing,
        TargetState::Run if wanted.memory.created => {
            not_before(wanted.alone_at.max(wanted.memory.retry_at), now, Next::Create(identity))
        }
        TargetState::Run => not_before(wanted.memory.retry_at, now, Next::Create(identity)),
    }
}

/// A container that stands gets its limits first, whatever it does; a refusal holds nothing else up.
fn next_of_standing(lane: &Lane<'_>, wanted: &Wanted<'_>, seen: &Seen<'_>, now: Timestamp) -> Next {
    let behind = |live: &&Live| live.digest != seen.spec_digest && seen.activity != Activity::Leaving;
    let Some(live) = wanted.live.as_ref().filter(behind) else { return next_of_present(lane, wanted, seen, now) };
    if now >= live.retry_at {
        return Next::Update { id: seen.id.to_owned(), identity: seen.identity.clone() };
    }
    match next_of_present(lane, wanted, seen, now) {
        Next::Nothing => Next::WaitUntil(live.retry_at),
        Next::WaitUntil(time) => Next::WaitUntil(time.min(live.retry_at)),
        step @ (Next::Fetch(_)
        | Next::Create(_)
        | Next::Replace { .. }
        | Next::Update { .. }
        | Next::Start { .. }
        | Next::Stop { .. }
        | Next::Remove { .. }
        | Next::ReadEnd { .. }
        | Next::CrashLooping(_)
        | Next::Recovered(_)
        | Next::Answered { .. }) => step,
    }
}

fn next_of_present(lane: &Lane<'_>, wanted: &Wanted<'_>, seen: &Seen<'_>, now: Timestamp) -> Next {
    let memory = &wanted.memory;
    let renew = is_restart_asked(wanted) && !is_renewed(wanted, seen);
    match (seen.activity, wanted.assignment.target) {
        (Activity::Leaving, _) => Next::Remove { id: seen.id.to_owned(), grace: seen.grace },
        (Activity::Running, TargetState::Stop) => Next::Stop { id: seen.id.to_owned(), grace: seen.grace },
        (Activity::Running, TargetState::Run) if renew => Next::Stop { id: seen.id.to_owned(), grace: seen.grace },
        (Activity::Running, TargetState::Run) | (Activity::Created | Activity::Exited, TargetState::Stop) => {
            Next::Nothing
        }
        (Activity::Created, TargetState::Run) => start(wanted, seen, memory.history, now),
        (Activity::Exited, TargetState::Run) if renew => start(wanted, seen, memory.history, now),
        (Activity::Exited, TargetState::Run) if memory.halted.contains(&seen.identity.index) => {
            let counted_later = is_asked(wanted);
            let counted = || restart::counted(memory.history, lane.limits, now);
            start(wanted, seen, if counted_later { memory.history } else { counted() }, now)
        }
        // An end that the engine brought about when it went down says nothing of the container.
        (Activity::Exited, TargetState::Run) if !seen.end.excused && !is_end_read(wanted, seen) => {
            Next::ReadEnd { id: seen.id.to_owned() }
        }
        (Activity::Exited, TargetState::Run) => next_by_policy(lane, wanted, seen, now),
    }
}

fn is_end_read(wanted: &Wanted<'_>, seen: &Seen<'_>) -> bool {
    wanted.memory.ends_read.get(&seen.identity.index) == Some(&seen.end.finished_at)
}

fn judge(lane: &Lane<'_>, wanted: &Wanted<'_>, seen: &Seen<'_>, now: Timestamp) -> Verdict {
    let Assignment { target, restart_policy: policy, .. } = wanted.assignment;
    // An agent that starts excuses every end that it finds; one that was read before was the container's own.
    let end = End { excused: seen.end.excused && !is_end_read(wanted, seen), ..seen.end };
    restart::judge(Wish { pod: wanted.pod, target, policy }, end, wanted.memory.history, lane.limits, now)
}

fn next_by_policy(lane: &Lane<'_>, wanted: &Wanted<'_>, seen: &Seen<'_>, now: Timestamp) -> Next {
    if restarts_are_held(lane.switches, wanted.pod) {
        return Next::Nothing;
    }
    match judge(lane, wanted, seen, now) {
        Verdict::Stay => Next::Nothing,
        Verdict::Restart(history) => start(wanted, seen, history, now),
        Verdict::BackOff { .. } if !wanted.memory.is_crash_looping => Next::CrashLooping(wanted.pod.clone()),
        Verdict::BackOff { until, history } => not_before(until, now, start(wanted, seen, history, now)),
    }
}

fn start(wanted: &Wanted<'_>, seen: &Seen<'_>, history: History, now: Timestamp) -> Next {
    let step = Next::Start { id: seen.id.to_owned(), identity: seen.identity.clone(), history };
    not_before(wanted.memory.retry_at, now, step)
}

fn not_before(time: Timestamp, now: Timestamp, step: Next) -> Next {
    if now < time { Next::WaitUntil(time) } else { step }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
