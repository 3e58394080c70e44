//! Decides whether an instance is ready, and when it has been unready for too long; used for the status that users see.
//!
//! "Too long" is `SetupTime + MinReadySeconds + 30 s`. SetupTime 5, MinReadySeconds 10: an instance that is unhealthy for 46
//! s is overdue, one that is unhealthy for 44 s is not.

use std::time::Duration;

use contract::record::Instance;
use contract::report::PodFacts;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::{HealthState, RunState, TargetState};
use contract::time::Timestamp;

const GRACE: Duration = Duration::from_secs(30);
/// After this many restarts in one window, an instance that just started again counts as crash-looping.
const CRASH_LOOP: u32 = 3;
/// Longer setup times are cut, in seconds.
const LONGEST_SETUP: i64 = 300;

/// One pod to check.
#[derive(Debug, Clone, Copy)]
pub struct ReadinessCheck<'a> {
    pub group: &'a PodGroupSpec,
    pub pod: &'a PodSpec,
    pub instance: &'a Instance,
    pub facts: &'a PodFacts,
    pub now: Timestamp,
}

impl ReadinessCheck<'_> {
    /// It runs, its health check passes or its setup time is over, and its gates are open.
    pub fn is_ready(self) -> bool {
        let is_well = match self.facts.health {
            HealthState::Healthy => true,
            HealthState::None => self.started_at() + self.setup() <= self.now,
            HealthState::Starting | HealthState::Unhealthy => false,
        };
        let is_open = self.group.readiness_gates.iter().all(|gate| self.instance.gates.contains_key(gate));
        self.facts.state == RunState::Success && is_well && is_open && self.instance.draining.is_none()
    }

    /// Why the pod is overdue: it is crash-looping, or it has been unready for longer than its grace period.
    pub fn overdue(self) -> Option<String> {
        if self.instance.target == TargetState::Stop || self.instance.draining.is_some() {
            return None;
        }
        let grace = self.setup() + self.group.min_ready() + GRACE;
        let (restarts, uptime) = (self.facts.restarts, self.now.since(self.started_at()));
        let is_crash_looping = self.facts.state == RunState::Success && restarts >= CRASH_LOOP && uptime <= grace;
        if is_crash_looping {
            return Some(format!("crash-looping: {restarts} restarts, the last {} s ago", uptime.as_secs()));
        }
        if let Some(exit) = self.facts.present_exit().filter(|_| self.facts.state != RunState::Success) {
            let word = if restarts >= CRASH_LOOP { "crash-looping: " } else { "" };
            return Some(format!("{word}{}", exit.describe(self.now)));
        }
        let since = self.instance.since.max(self.started_at()).max(self.facts.updated_at);
        let unready = self.now.since(since);
        (!self.is_ready() && unready > grace).then(|| self.reason(unready))
    }

    fn reason(self, unready: Duration) -> String {
        let known = since(unready);
        let problem = match (self.facts.state, self.facts.health) {
            (RunState::Success, HealthState::Unhealthy) => format!("unhealthy{known}"),
            (RunState::Success, HealthState::Starting) => format!("its health check has not passed{known}"),
            (RunState::Success, HealthState::None | HealthState::Healthy) => {
                format!("a readiness gate is closed{known}")
            }
            _ => format!("not running{known}"),
        };
        match self.facts.last_error.as_str() {
            "" => problem,
            error => format!("{problem}: {error}"),
        }
    }

    fn setup(self) -> Duration {
        seconds(self.pod.setup_time, LONGEST_SETUP)
    }

    fn started_at(self) -> Timestamp {
        self.facts.containers.iter().map(|container| container.started_at).max().unwrap_or_default()
    }
}

/// Empty if the time is unknown.
fn since(span: Duration) -> String {
    const YEARS: Duration = Duration::from_secs(20 * 365 * 24 * 3600);
    if span > YEARS { String::new() } else { format!(" for {} s", span.as_secs()) }
}

fn seconds(count: i64, most: i64) -> Duration {
    Duration::from_secs(count.clamp(0, most).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use contract::report::ContainerFacts;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
    }

    /// Whether a pod that started and last changed at 0 is ready `now` seconds later, and why it is overdue.
    fn look(facts: PodFacts, now: i64) -> (bool, Option<String>) {
        let container = ContainerFacts { running: true, started_at: at(0), ..ContainerFacts::default() };
        let facts = PodFacts { containers: vec![container], updated_at: at(0), ..facts };
        let group = PodGroupSpec { min_ready_seconds: Some(10), ..PodGroupSpec::default() };
        let pod = PodSpec { setup_time: 5, ..PodSpec::default() };
        let instance = Instance { since: at(-60), ..Instance::default() };
        let look = ReadinessCheck { group: &group, pod: &pod, instance: &instance, facts: &facts, now: at(now) };
        (look.is_ready(), look.overdue())
    }

    fn running(health: HealthState) -> PodFacts {
        PodFacts { state: RunState::Success, health, ..PodFacts::default() }
    }

    #[test]
    fn readiness_follows_the_health_check_or_the_setup_time() {
        assert!(look(running(HealthState::Healthy), 0).0);
        assert!(!look(running(HealthState::Starting), 100).0);
        assert!(!look(running(HealthState::Unhealthy), 100).0);
        assert!(!look(running(HealthState::None), 4).0);
        assert!(look(running(HealthState::None), 5).0);
        assert!(!look(PodFacts { state: RunState::Exit, ..running(HealthState::None) }, 100).0);
    }

    #[test]
    fn an_unhealthy_instance_is_overdue_after_setup_time_min_ready_and_thirty_seconds() {
        assert_eq!(look(running(HealthState::Unhealthy), 45).1, None);
        assert_eq!(look(running(HealthState::Unhealthy), 46).1.as_deref(), Some("unhealthy for 46 s"));
        assert_eq!(look(running(HealthState::Healthy), 1000).1, None);
        let down = PodFacts { state: RunState::Exit, last_error: "exited (3)".to_owned(), ..PodFacts::default() };
        assert_eq!(look(down, 50).1.as_deref(), Some("not running for 50 s: exited (3)"));
    }

    #[test]
    fn a_crash_loop_is_overdue_immediately_and_a_long_run_ends_it() {
        let looping = |restarts| PodFacts { restarts, ..running(HealthState::None) };
        assert_eq!(look(looping(2), 8).1, None);
        let why = look(looping(3), 8).1;
        assert_eq!(why.as_deref(), Some("crash-looping: 3 restarts, the last 8 s ago"));
        assert_eq!(look(looping(3), 46).1, None);
    }

    #[test]
    fn a_stopped_or_draining_instance_is_never_overdue_and_a_closed_gate_makes_it_unready() {
        let facts = running(HealthState::None);
        let pod = PodSpec::default();
        let group = PodGroupSpec { readiness_gates: vec!["lb".to_owned()], ..PodGroupSpec::default() };
        let overdue = |instance: &Instance| {
            ReadinessCheck { group: &group, pod: &pod, instance, facts: &facts, now: at(100) }.overdue()
        };
        let open = Instance { since: at(0), ..Instance::default() };
        assert_eq!(overdue(&open).as_deref(), Some("a readiness gate is closed for 100 s"));
        assert_eq!(overdue(&Instance { target: TargetState::Stop, ..open.clone() }), None);
        let draining = contract::record::Draining { since: at(0), is_answered: false, is_final: false };
        assert_eq!(overdue(&Instance { draining: Some(draining), ..open }), None);
    }
}
