//! Derives incidents and conditions from the reports on a pod.
//!
//! An incident is a change between two reports: a pod that is reported for the first time may have restarted long ago, and an
//! earlier leader reported that. A condition persists; the scheduler decides when and how often to report it.

use std::time::Duration;

use contract::history::Condition;
use contract::notice::{Incident, NoticeBody};
use contract::pod_id::PodId;
use contract::report::PodFacts;
use contract::spec::PodSpec;
use contract::state::{HealthState, RunState};
use contract::time::Timestamp;

/// A running container without an address for longer than this has lost it: joining a network takes less.
const ADDRESS_WITHIN: Duration = Duration::from_secs(5);
/// Networks on which a container has no address of its own.
const WITHOUT_ADDRESS: [&str; 2] = ["none", "host"];
/// A notice is sent after this many polls with a failing health check.
const POLLS: u32 = 5;

/// The level of every notice.
pub const LEVEL: &str = "Error";

/// An incident and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    pub incident: Incident,
    pub at: Timestamp,
}

/// The incidents between two reports of one pod.
pub fn incidents_between(before: &PodFacts, after: &PodFacts) -> Vec<Occurrence> {
    let at = ended_at(before, after);
    let mut occurrences = Vec::new();
    // A requested start counts as a restart and is confirmed in the same report; the user who requested it needs no notice.
    let asked = after.starts_done > before.starts_done || after.restarts_done > before.restarts_done;
    let restarted =
        after.restarts > before.restarts || (after.restarted_at > before.restarted_at && after.restarts > 0);
    // Single attempts of a crash loop are not reported: the condition CrashLooping is.
    if restarted && !asked && !before.is_crash_looping {
        // The engine forgets the flag when it starts the container again: perhaps only the earlier report has it.
        let memory = [before, after].iter().any(|facts| facts.containers.iter().any(|c| c.oom_killed));
        let incident = if memory { Incident::DownWithOom } else { Incident::Down };
        occurrences.push(Occurrence { incident, at });
    }
    occurrences
}

/// A restart that no leader has reported: the container exited after the newest stored start or stop of the instance. So a
/// new leader reports restarts that happened while there was none.
pub fn missed(facts: &PodFacts, newest_known: Option<Timestamp>) -> Option<Occurrence> {
    if facts.restarts == 0 || facts.leaving || facts.is_crash_looping {
        return None;
    }
    let ended_at = facts.containers.iter().map(|container| container.finished_at).max();
    let at = ended_at.filter(|at| at.happened()).unwrap_or(facts.restarted_at);
    let memory = facts.containers.iter().any(|container| container.oom_killed);
    let incident = if memory { Incident::DownWithOom } else { Incident::Down };
    newest_known.is_none_or(|known| known < at).then_some(Occurrence { incident, at })
}

/// When a condition may be reported; none if it does not hold. `seen_at` is when the leader first observed it.
pub fn reportable_at(
    condition: Condition,
    facts: &PodFacts,
    spec: &PodSpec,
    health_poll: Duration,
    seen_at: Timestamp,
) -> Option<Timestamp> {
    let runs = facts.state == RunState::Success && !facts.leaving;
    match condition {
        Condition::CrashLooping => (facts.is_crash_looping && !facts.leaving).then_some(seen_at),
        Condition::LostAddress => (runs && lacks_address(facts, spec)).then_some(seen_at + ADDRESS_WITHIN),
        Condition::Unhealthy => {
            let started_at = facts.containers.iter().map(|container| container.started_at).max()?;
            let unhealthy = runs && facts.health == HealthState::Unhealthy;
            unhealthy.then_some(started_at + spec.setup().max(health_poll).saturating_mul(POLLS))
        }
    }
}

fn lacks_address(facts: &PodFacts, spec: &PodSpec) -> bool {
    let gives = !WITHOUT_ADDRESS.contains(&spec.network_name());
    gives && facts.containers.iter().any(|container| container.running && container.ip.is_empty())
}

/// The timestamp of a notice about a condition.
pub fn notice_time(condition: Condition, facts: &PodFacts, now: Timestamp) -> Timestamp {
    if condition == Condition::CrashLooping { ended_at(facts, facts) } else { now }
}

/// The body of the notice.
pub fn body(namespace: &str, pod: &PodId, occurrence: Occurrence) -> NoticeBody {
    NoticeBody {
        level: LEVEL.to_owned(),
        namespace: namespace.to_owned(),
        pod_name: pod.group.to_string(),
        instance_no: pod.instance,
        timestamp: occurrence.at,
        message: occurrence.incident.text().into_owned(),
    }
}

/// When the last container exited; the time of the report if the engine gave no time.
fn ended_at(before: &PodFacts, after: &PodFacts) -> Timestamp {
    let ends = [after, before].into_iter().flat_map(|facts| facts.containers.iter().map(|c| c.finished_at));
    ends.filter(|time| time.happened()).max().unwrap_or(after.updated_at)
}

#[cfg(test)]
mod tests {
    use contract::report::ContainerFacts;

    use super::*;

    const POLL: Duration = Duration::from_secs(20);

    fn facts(restarts: u32, oom_killed: bool) -> PodFacts {
        let finished_at = Timestamp::from_millis(7_000);
        PodFacts {
            restarts,
            containers: vec![ContainerFacts { oom_killed, finished_at, ..Default::default() }],
            ..Default::default()
        }
    }
    fn incidents(before: &PodFacts, after: &PodFacts) -> Vec<Incident> {
        incidents_between(before, after).into_iter().map(|occurrence| occurrence.incident).collect()
    }

    fn running(ip: &str, health: HealthState) -> PodFacts {
        let started_at = Timestamp::from_millis(1_000);
        let container = ContainerFacts { running: true, ip: ip.to_owned(), started_at, ..Default::default() };
        PodFacts { state: RunState::Success, health, containers: vec![container], ..Default::default() }
    }
    fn on_network(network: &str) -> PodSpec {
        PodSpec { namespace: "hello".to_owned(), network: network.to_owned(), ..PodSpec::default() }
    }
    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    #[test]
    fn a_restart_is_reported_once_with_the_exit_time() {
        let happened = incidents_between(&facts(0, false), &facts(1, false));
        assert_eq!(happened, [Occurrence { incident: Incident::Down, at: Timestamp::from_millis(7_000) }]);
        assert!(incidents_between(&facts(1, false), &facts(1, false)).is_empty());
        assert!(incidents_between(&facts(3, false), &facts(0, false)).is_empty());
    }

    #[test]
    fn a_requested_restart_is_not_reported() {
        let asked = |starts_done, restarts_done| PodFacts { starts_done, restarts_done, ..facts(1, false) };
        assert!(incidents_between(&facts(0, false), &asked(1, 0)).is_empty());
        assert!(incidents_between(&facts(0, false), &asked(0, 1)).is_empty());
        let later = PodFacts { restarts: 2, ..asked(1, 0) };
        assert_eq!(incidents(&asked(1, 0), &later), [Incident::Down], "the next end is its own");
    }

    #[test]
    fn a_restart_is_missed_if_its_exit_is_newer_than_all_stored_events() {
        let down = Occurrence { incident: Incident::Down, at: at(7) };
        assert_eq!(missed(&facts(1, false), None), Some(down));
        assert_eq!(missed(&facts(1, false), Some(at(6))), Some(down));
        assert_eq!(missed(&facts(1, false), Some(at(7))), None, "a leader stored that end");
        assert_eq!(missed(&facts(1, false), Some(at(8))), None, "a leader stored the start after it");
        assert_eq!(missed(&facts(0, false), None), None, "it never ended");
        assert_eq!(missed(&PodFacts { leaving: true, ..facts(1, false) }, None), None);
        let memory = Occurrence { incident: Incident::DownWithOom, ..down };
        assert_eq!(missed(&facts(1, true), None), Some(memory));
    }

    #[test]
    fn attempts_of_a_crash_loop_are_not_reported_one_by_one() {
        let looping = |restarts| PodFacts { is_crash_looping: true, ..facts(restarts, false) };
        assert_eq!(incidents(&facts(2, false), &looping(3)), [Incident::Down], "the last immediate restart");
        assert!(incidents_between(&looping(3), &looping(4)).is_empty());
        assert!(incidents_between(&looping(9), &facts(0, false)).is_empty(), "it recovered");
    }

    #[test]
    fn an_oom_kill_is_reported_even_if_the_engine_forgot_it() {
        assert_eq!(incidents(&facts(0, true), &facts(1, false)), [Incident::DownWithOom]);
    }

    #[test]
    fn a_crash_loop_persists_until_recovery_or_removal() {
        let gone = PodFacts { is_crash_looping: true, ..facts(3, false) };
        let reportable_at =
            |facts: &PodFacts| reportable_at(Condition::CrashLooping, facts, &on_network(""), POLL, at(9));
        assert_eq!(reportable_at(&gone), Some(at(9)));
        assert_eq!(notice_time(Condition::CrashLooping, &gone, at(9)), at(7), "the end is reported");
        assert_eq!(reportable_at(&facts(3, false)), None);
        assert_eq!(reportable_at(&PodFacts { leaving: true, ..gone }), None);
    }

    #[test]
    fn an_address_is_expected_only_on_a_network_that_assigns_one() {
        let lost = |facts: &PodFacts, network: &str| {
            reportable_at(Condition::LostAddress, facts, &on_network(network), POLL, at(9))
        };
        let without = running("", HealthState::None);
        assert_eq!((lost(&without, ""), lost(&without, "calico")), (Some(at(14)), Some(at(14))));
        assert_eq!((lost(&without, "host"), lost(&without, "none")), (None, None));
        assert_eq!(lost(&running("10.0.0.2", HealthState::None), ""), None);
        assert_eq!(lost(&PodFacts { state: RunState::Exit, ..without }, ""), None);
    }

    #[test]
    fn a_failing_health_check_has_five_polls_or_five_setup_times() {
        let due = |facts: &PodFacts, setup_time: i64| {
            let spec = PodSpec { setup_time, ..on_network("") };
            reportable_at(Condition::Unhealthy, facts, &spec, POLL, at(9))
        };
        let ill = running("10.0.0.2", HealthState::Unhealthy);
        assert_eq!((due(&ill, 0), due(&ill, 300), due(&ill, -1)), (Some(at(101)), Some(at(1_501)), Some(at(101))));
        assert_eq!(due(&running("10.0.0.2", HealthState::Starting), 0), None);
        assert_eq!(due(&ill, i64::MAX), Some(at(1_501)), "a setup time of any size is used as 300 s");
    }
}
