//! Extracts container starts and stops from reports.
//!
//! The engine keeps the last start and the last exit of a container, so every report repeats them; the caller drops those it
//! knows. Only a container that vanished while it ran has no exit: it counts as stopped when the leader notices.

use contract::history::Happened;
use contract::report::{ContainerFacts, PodFacts};
use contract::state::RunState;
use contract::time::Timestamp;

/// A start or stop of one container of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    pub container: u32,
    pub happened: Happened,
    pub at: Timestamp,
}

/// The starts and stops in one report.
pub fn reported(facts: &PodFacts) -> Vec<Transition> {
    let mut transitions = Vec::new();
    for (container, seen) in (0..).zip(&facts.containers) {
        for (happened, at) in [(Happened::Start, seen.started_at), (Happened::Stop, seen.finished_at)] {
            if at.happened() {
                transitions.push(Transition { container, happened, at });
            }
        }
    }
    transitions
}

/// Containers that ran in the earlier report and are gone in the later one; they stopped now.
pub fn vanished(before: Option<&PodFacts>, after: Option<&PodFacts>, now: Timestamp) -> Vec<Transition> {
    let Some(before) = before else { return Vec::new() };
    // An agent that has not queried its engine yet reports a pod without containers, which proves nothing.
    let gone = match after {
        None => true,
        Some(after) => after.state == RunState::Missing,
    };
    let still = |id: &str| after.is_some_and(|after| after.containers.iter().any(|container| container.id == id));
    let ended = |(_, was): &(u32, &ContainerFacts)| gone && was.running && !still(&was.id);
    let stop = |(container, _)| Transition { container, happened: Happened::Stop, at: now };
    (0..).zip(&before.containers).filter(ended).map(stop).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }
    fn pod(state: RunState, running: bool, started_at: Timestamp, finished_at: Timestamp) -> PodFacts {
        let container = ContainerFacts { id: "c1".to_owned(), running, started_at, finished_at, ..Default::default() };
        PodFacts { state, containers: vec![container], ..Default::default() }
    }
    fn stop(second: i64) -> Transition {
        Transition { container: 0, happened: Happened::Stop, at: at(second) }
    }

    #[test]
    fn a_report_contains_the_last_start_and_the_last_stop() {
        let start = Transition { container: 0, happened: Happened::Start, at: at(5) };
        assert_eq!(reported(&pod(RunState::Success, true, at(5), Timestamp::NEVER)), [start]);
        assert_eq!(reported(&pod(RunState::Success, true, at(5), at(4))), [start, stop(4)]);
        assert_eq!(reported(&PodFacts::default()), []);
    }

    #[test]
    fn a_container_that_vanished_while_running_stops_when_the_leader_notices() {
        let ran = pod(RunState::Success, true, at(5), Timestamp::NEVER);
        let missing = PodFacts { state: RunState::Missing, ..Default::default() };
        assert_eq!(vanished(Some(&ran), None, at(9)), [stop(9)]);
        assert_eq!(vanished(Some(&ran), Some(&missing), at(9)), [stop(9)]);
        let ended = pod(RunState::Exit, false, at(5), at(6));
        assert_eq!(vanished(Some(&ended), None, at(9)), [], "the engine reported its exit");
        assert_eq!(vanished(Some(&ran), Some(&ran), at(9)), []);
        assert_eq!(vanished(None, None, at(9)), []);
    }

    #[test]
    fn a_report_without_an_inventory_stops_nothing() {
        let ran = pod(RunState::Success, true, at(5), Timestamp::NEVER);
        assert_eq!(vanished(Some(&ran), Some(&PodFacts::default()), at(9)), []);
    }
}
