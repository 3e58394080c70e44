//! Tells what one pod looks like from outside: state, health and containers, from what the engine shows and what is
//! remembered. The surprise: a refused step outranks everything the engine shows, because it says why; only when the
//! engine keeps its own words about a start that failed do those stand.

use contract::order::Assignment;
use contract::report::{ContainerFacts, PodFacts};
use contract::spec::PodSpec;
use contract::state::{HealthState, RunState, TargetState};
use contract::time::Timestamp;

use super::images::Images;
use super::io::{ContainerSeen, Phase, PodMemory};
use super::observe::digest_of;

/// Text for a container that vanished before its id was ever known.
const MISSING_WITHOUT_ID: &str = "Missing container, without the container id.";

/// What is known about one pod.
pub(super) struct Known<'a> {
    /// Its place in the order; none when it is not in it.
    pub(super) ordered: Option<(&'a Assignment, &'a PodSpec)>,
    /// An order was accepted, so a pod outside it is on its way out.
    pub(super) obeying: bool,
    /// Its containers, best of each index first.
    pub(super) containers: Vec<&'a ContainerSeen>,
    /// A container of it is being made at this moment, wanted or not any more.
    pub(super) making: bool,
    /// What is remembered.
    pub(super) memory: &'a PodMemory,
    /// What is known of images.
    pub(super) images: &'a Images,
    /// What the lane's last failed removal or stop said.
    pub(super) trouble: &'a str,
    /// When it is started again, if it is crash-looping; never when no start is planned.
    pub(super) next_attempt: Timestamp,
    /// What was reported last.
    pub(super) before: Option<&'a PodFacts>,
    /// The time.
    pub(super) now: Timestamp,
}

/// The pod's facts; `updated_at` is left to whoever compares them with the facts before. None when nothing is left
/// to tell.
pub(super) fn of(known: &Known<'_>) -> Option<PodFacts> {
    if known.ordered.is_none() && known.containers.is_empty() && !known.making {
        return None;
    }
    let containers = container_facts(known);
    let (state, last_error) = state(known);
    let health = known.containers.iter().map(|c| c.health).max_by_key(|health| severity(*health)).unwrap_or_default();
    let fetch = known.ordered.and_then(|(assignment, _)| assignment.fetch.as_ref());
    let unmade = known.ordered.filter(|_| !known.memory.created);
    Some(PodFacts {
        state,
        health,
        leaving: known.obeying && known.ordered.is_none(),
        containers,
        refusals: known.memory.failures,
        restarts: known.memory.restarts,
        restarted_at: known.memory.restarted_at,
        is_crash_looping: known.memory.is_crash_looping,
        next_attempt: known.next_attempt,
        starts_done: known.memory.starts_done,
        restarts_done: known.memory.restarts_done,
        healthy_since: if health == HealthState::Healthy { known.memory.well.since } else { Timestamp::NEVER },
        image_is_hopeless: unmade.is_some_and(|(_, spec)| known.images.are_hopeless(spec.images())),
        fetched: fetch.map(|fetch| known.images.fetched(fetch, known.now)),
        last_error,
        ..Default::default()
    })
}

/// What to say of an ordered pod before the engine was ever asked.
pub(super) fn unknown(memory: &PodMemory) -> PodFacts {
    PodFacts {
        state: RunState::Pending,
        refusals: memory.failures,
        restarts: memory.restarts,
        restarted_at: memory.restarted_at,
        is_crash_looping: memory.is_crash_looping,
        starts_done: memory.starts_done,
        restarts_done: memory.restarts_done,
        last_error: memory.last_error.clone(),
        ..Default::default()
    }
}

fn container_facts(known: &Known<'_>) -> Vec<ContainerFacts> {
    let highest = known.containers.iter().map(|c| c.identity.index + 1).max().unwrap_or(0);
    (0..highest)
        .map(|index| match known.containers.iter().find(|c| c.identity.index == index) {
            None => ContainerFacts::default(),
            Some(seen) => one_container(known.memory, seen),
        })
        .collect()
}

fn one_container(memory: &PodMemory, seen: &ContainerSeen) -> ContainerFacts {
    let running = seen.phase == Phase::Running;
    ContainerFacts {
        id: seen.id.clone(),
        running,
        ip: if running { seen.ip.clone() } else { String::new() },
        node_port: if running { seen.node_port } else { 0 },
        exit_code: seen.exit_code,
        oom_killed: seen.oom_killed,
        error: seen.error.clone(),
        started_at: seen.started_at,
        finished_at: seen.finished_at,
        spec_digest: digest_of(Some(memory), seen).to_owned(),
        last_exit: memory.exits.get(&seen.identity.index).cloned(),
    }
}

fn state(known: &Known<'_>) -> (RunState, String) {
    if known.memory.failures > 0 {
        let failed = known.containers.iter().find(|seen| seen.phase != Phase::Running && !seen.error.is_empty());
        if let Some(failed) = failed {
            return (RunState::Fail, failed.error.clone());
        }
        return (RunState::Error, known.memory.last_error.clone());
    }
    if let Some((assignment, spec)) = known.ordered
        && let Some(absent) = absent(known, assignment, spec)
    {
        return absent;
    }
    let worst = known.containers.iter().map(|seen| state_of(seen)).max_by_key(|(state, _)| rank(*state));
    let (state, error) = worst.unwrap_or((RunState::Pending, ""));
    let told = [error, &known.memory.live.last_error, known.trouble].into_iter().find(|text| !text.is_empty());
    (state, told.map_or_else(|| address_text(known), str::to_owned))
}

/// What to say of a container that runs with another address than the one it was to have.
fn address_text(known: &Known<'_>) -> String {
    let lease = |index: usize| known.ordered.and_then(|(assignment, _)| assignment.addresses.get(index));
    let other = known.containers.iter().find_map(|seen| {
        let lease = lease(seen.identity.index).filter(|lease| !lease.is_empty() && **lease != seen.ip)?;
        (seen.phase == Phase::Running)
            .then(|| format!("Cannot keep the address {lease}, the container has {:?}", seen.ip))
    });
    other.unwrap_or_default()
}

/// The state when a container is not there: missing when it once was, pending when it is still to be made, and an error
/// when that waits for an image that cannot be had.
fn absent(known: &Known<'_>, assignment: &Assignment, spec: &PodSpec) -> Option<(RunState, String)> {
    let there = |index: usize| known.containers.iter().any(|c| c.identity.index == index);
    let index = (0..spec.containers.len()).find(|index| !there(*index))?;
    match assignment.target {
        TargetState::Stop if known.containers.is_empty() => Some((RunState::Exit, String::new())),
        TargetState::Stop => None,
        TargetState::Run if known.memory.created && !known.memory.outdated => {
            Some((RunState::Missing, missing_text(known.before, index)))
        }
        TargetState::Run => {
            let trouble = known.images.trouble(spec.images()).filter(|_| !known.making);
            let waits = || (RunState::Pending, String::new());
            Some(trouble.map_or_else(waits, |text| (RunState::Error, format!("Cannot pull image, {text}"))))
        }
    }
}

fn missing_text(before: Option<&PodFacts>, index: usize) -> String {
    let id = before.and_then(|facts| facts.containers.get(index)).map_or("", |container| container.id.as_str());
    match before {
        Some(facts) if facts.state == RunState::Missing => facts.last_error.clone(),
        Some(_) | None if id.is_empty() => MISSING_WITHOUT_ID.to_owned(),
        Some(_) | None => format!("Missing container {id:?}, no such container"),
    }
}

fn state_of(seen: &ContainerSeen) -> (RunState, &str) {
    match seen.phase {
        Phase::Running => (RunState::Success, ""),
        Phase::Created => (RunState::Pending, seen.error.as_str()),
        Phase::Exited | Phase::Removing | Phase::Dead if seen.error.is_empty() => (RunState::Exit, ""),
        Phase::Exited | Phase::Removing | Phase::Dead => (RunState::Fail, seen.error.as_str()),
    }
}

/// Worse is higher.
fn rank(state: RunState) -> u8 {
    match state {
        RunState::Success => 0,
        RunState::Paused | RunState::Removed | RunState::Drift | RunState::Inconsistent => 1,
        RunState::Pending => 2,
        RunState::Exit => 3,
        RunState::Fail => 4,
        RunState::Error => 5,
        RunState::Missing => 6,
    }
}

fn severity(health: HealthState) -> u8 {
    match health {
        HealthState::None => 0,
        HealthState::Healthy => 1,
        HealthState::Starting => 2,
        HealthState::Unhealthy => 3,
    }
}
