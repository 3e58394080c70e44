//! The reported facts of one pod: state, health and containers, from Docker's view and the ledger.
//!
//! The error of a refused action wins over Docker's state, because it explains it; only Docker's own error text of a failed
//! start wins over both.

use contract::order::Assignment;
use contract::report::{ContainerFacts, PodFacts};
use contract::spec::PodSpec;
use contract::state::{HealthState, RunState, TargetState};
use contract::time::Timestamp;

use super::images::Images;
use super::io::{ContainerSeen, Phase, PodMemory};
use super::observe::digest_of;

/// For a container that vanished before the agent knew its id.
const MISSING_WITHOUT_ID: &str = "Missing container, without the container id.";

/// Everything the facts of one pod depend on.
pub(super) struct Known<'a> {
    /// None when the pod is not in the order.
    pub(super) ordered: Option<(&'a Assignment, &'a PodSpec)>,
    /// The agent has an order, so a pod outside it is being removed.
    pub(super) obeying: bool,
    /// One container per index.
    pub(super) containers: Vec<&'a ContainerSeen>,
    /// The worst health of them.
    pub(super) health: HealthState,
    /// A check of the agent that fails, and why; empty when none does.
    pub(super) failing_check: String,
    /// A container of it is being created, ordered or not.
    pub(super) creating: bool,
    pub(super) memory: &'a PodMemory,
    pub(super) images: &'a Images,
    /// Error of the instance's last failed removal or stop.
    pub(super) last_error: &'a str,
    /// Next start of a crash-looping pod; never when none is planned.
    pub(super) next_attempt: Timestamp,
    /// The facts reported before.
    pub(super) before: Option<&'a PodFacts>,
    pub(super) now: Timestamp,
}

/// The pod's facts without `updated_at`, which the reporter sets. None when the pod is gone.
pub(super) fn of(known: &Known<'_>) -> Option<PodFacts> {
    if known.ordered.is_none() && known.containers.is_empty() && !known.creating {
        return None;
    }
    let containers = container_facts(known);
    let (state, last_error) = state(known);
    let health = known.health;
    let fetch = known.ordered.and_then(|(assignment, _)| assignment.fetch.as_ref());
    let not_created = known.ordered.filter(|_| !known.memory.created);
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
        image_is_hopeless: not_created.is_some_and(|(_, spec)| known.images.are_hopeless(spec.images())),
        fetched: fetch.map(|fetch| known.images.fetched(fetch, known.now)),
        last_error,
        ..Default::default()
    })
}

/// The facts of an ordered pod before the first inventory.
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
    let errors = [error, &known.memory.live.last_error, known.last_error, &known.failing_check];
    let error = errors.into_iter().find(|text| !text.is_empty());
    (state, error.map_or_else(|| address_text(known), str::to_owned))
}

/// The error of a container that runs without its reserved address.
fn address_text(known: &Known<'_>) -> String {
    let reserved = |index: usize| known.ordered.and_then(|(assignment, _)| assignment.addresses.get(index));
    let other = known.containers.iter().find_map(|seen| {
        let reserved = reserved(seen.identity.index).filter(|address| !address.is_empty() && **address != seen.ip)?;
        (seen.phase == Phase::Running)
            .then(|| format!("Cannot keep the address {reserved}, the container has {:?}", seen.ip))
    });
    other.unwrap_or_default()
}

/// The state when a container is absent: missing when it existed, pending when it is to be created, error when its image
/// cannot be pulled.
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
            let error = known.images.error_of(spec.images()).filter(|_| !known.creating);
            let waits = || (RunState::Pending, String::new());
            Some(error.map_or_else(waits, |text| (RunState::Error, format!("Cannot pull image, {text}"))))
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

/// A worse state has a higher rank.
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

/// A worse health has a higher severity.
pub(super) fn severity(health: HealthState) -> u8 {
    match health {
        HealthState::None => 0,
        HealthState::Healthy => 1,
        HealthState::Starting => 2,
        HealthState::Unhealthy => 3,
    }
}
