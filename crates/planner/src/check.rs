//! The health checks that an agent performs on one running container: results and time in, what to check next out.
//!
//! Each check waits, passes or fails. It waits from the start of the container until its first success. Example with a period
//! of 10 s, 3 failures and 1 success: the agent checks every second until the first success, for at most 30 s, then every 10 s.
//! After three failures in a row the check fails, and one success makes it pass again.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::check::{Check, CheckKind};
use contract::state::HealthState;
use contract::time::Timestamp;

/// Interval of a check that waits for its first success.
const WAITING: Duration = Duration::from_secs(1);

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    Passed,
    /// Why it failed.
    Failed(String),
    /// The agent could not check.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckState {
    Waiting,
    Passing,
    Failing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CheckMemory {
    check: Check,
    state: CheckState,
    /// Results in a row that contradict the state.
    streak: u32,
    /// When the next check is due; none while one is in progress.
    due: Option<Timestamp>,
    /// Until when it may wait for the first success.
    deadline: Timestamp,
    /// Why the last check failed.
    failure: String,
}

/// The checks of one container since its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerChecks {
    memory: BTreeMap<CheckKind, CheckMemory>,
    setup: Duration,
    /// From 0 to 99: spreads the checks of many containers over the period.
    phase: u32,
}

impl ContainerChecks {
    /// The checks of a container that the agent sees running since `now`. `was_healthy`: it was when the agent last saw it.
    pub fn new(
        checks: impl IntoIterator<Item = (CheckKind, Check)>,
        setup: Duration,
        (now, was_healthy): (Timestamp, bool),
        phase: u32,
    ) -> Self {
        let state = if was_healthy { CheckState::Passing } else { CheckState::Waiting };
        let memory = |check: Check| {
            let deadline = now + check.first_pass_within().max(setup);
            CheckMemory { check, state, streak: 0, due: Some(now), deadline, failure: String::new() }
        };
        let memory = checks.into_iter().map(|(kind, check)| (kind, memory(check))).collect();
        Self { memory, setup, phase: phase % 100 }
    }

    /// Whether the container has these checks.
    pub fn has(&self, checks: &[(CheckKind, Check)]) -> bool {
        self.memory.len() == checks.len()
            && checks.iter().all(|(kind, check)| self.memory.get(kind).is_some_and(|memory| memory.check == *check))
    }

    /// When the next check is due; none while all are in progress or over.
    pub fn next_due(&self) -> Option<Timestamp> {
        let active = self.memory.iter().filter(|(kind, _)| self.is_active(**kind));
        active.filter_map(|(_, memory)| memory.due).min()
    }

    /// Takes the checks that are due; each is in progress until [`Self::finished`].
    pub fn take_due(&mut self, now: Timestamp) -> Vec<(CheckKind, Check)> {
        let is_due = |kind: &CheckKind| {
            self.is_active(*kind) && self.memory.get(kind).and_then(|memory| memory.due).is_some_and(|due| due <= now)
        };
        let due: Vec<CheckKind> = CheckKind::ALL.into_iter().filter(is_due).collect();
        let taken = due.into_iter().filter_map(|kind| {
            let memory = self.memory.get_mut(&kind)?;
            memory.due = None;
            Some((kind, memory.check.clone()))
        });
        taken.collect()
    }

    /// A startup check ends with its first success; the others begin with it.
    fn is_active(&self, kind: CheckKind) -> bool {
        let startup = self.memory.get(&CheckKind::Startup).map(|memory| memory.state);
        match kind {
            CheckKind::Startup => startup != Some(CheckState::Passing),
            CheckKind::Readiness | CheckKind::Liveness => startup.is_none_or(|state| state == CheckState::Passing),
        }
    }

    /// A check ended.
    pub fn finished(&mut self, kind: CheckKind, result: CheckResult, now: Timestamp) {
        let phase = self.phase;
        let Some(memory) = self.memory.get_mut(&kind) else { return };
        let before = memory.state;
        memory.note(result, now);
        memory.due = Some(now + memory.interval(before, phase));
        let has_started =
            kind == CheckKind::Startup && before != CheckState::Passing && memory.state == CheckState::Passing;
        if has_started {
            let setup = self.setup;
            for (_, waiting) in self.memory.iter_mut().filter(|(kind, _)| **kind != CheckKind::Startup) {
                waiting.due = Some(now);
                waiting.deadline = now + waiting.check.first_pass_within().max(setup);
            }
        }
    }

    /// Health by the startup and the readiness check. A liveness check says nothing about it.
    pub fn health(&self) -> HealthState {
        let state = |kind| self.memory.get(&kind).map(|memory| memory.state);
        match (state(CheckKind::Startup), state(CheckKind::Readiness)) {
            (None, None) => HealthState::None,
            (Some(CheckState::Failing), _) | (_, Some(CheckState::Failing)) => HealthState::Unhealthy,
            (Some(CheckState::Waiting), _) | (_, Some(CheckState::Waiting)) => HealthState::Starting,
            (None | Some(CheckState::Passing), None | Some(CheckState::Passing)) => HealthState::Healthy,
        }
    }

    /// Why the container must be restarted; none while it need not be.
    pub fn restart_reason(&self) -> Option<String> {
        self.failing(&[CheckKind::Startup, CheckKind::Liveness])
    }

    /// The check that fails, and why.
    pub fn problem(&self) -> Option<String> {
        self.failing(&CheckKind::ALL)
    }

    fn failing(&self, kinds: &[CheckKind]) -> Option<String> {
        let failing = |kind: &CheckKind| {
            self.memory.get(kind).filter(|memory| memory.state == CheckState::Failing).map(|memory| (*kind, memory))
        };
        let (kind, memory) = kinds.iter().find_map(failing)?;
        Some(format!("the {} check fails: {}", kind.word(), memory.failure))
    }
}

impl CheckMemory {
    fn note(&mut self, result: CheckResult, now: Timestamp) {
        match (result, self.state) {
            (CheckResult::Unknown, _) => {}
            (CheckResult::Passed, CheckState::Passing) => self.streak = 0,
            (CheckResult::Passed, CheckState::Waiting | CheckState::Failing) => {
                self.count(self.check.least_successes(), CheckState::Passing);
            }
            (CheckResult::Failed(reason), CheckState::Passing) => {
                self.failure = reason;
                self.count(self.check.most_failures(), CheckState::Failing);
            }
            (CheckResult::Failed(reason), CheckState::Waiting) => {
                self.failure = reason;
                self.streak = 0;
                if now >= self.deadline {
                    self.state = CheckState::Failing;
                }
            }
            (CheckResult::Failed(reason), CheckState::Failing) => {
                self.failure = reason;
                self.streak = 0;
            }
        }
    }

    fn count(&mut self, needed: u32, next: CheckState) {
        self.streak = self.streak.saturating_add(1);
        if self.streak >= needed {
            (self.state, self.streak) = (next, 0);
        }
    }

    /// Time until the next check. The first interval after a change from waiting is shorter, by the container's phase, so that
    /// containers that started together are not checked together.
    fn interval(&self, before: CheckState, phase: u32) -> Duration {
        let period = self.check.every();
        match (before, self.state) {
            (_, CheckState::Waiting) => period.min(WAITING),
            (CheckState::Waiting, CheckState::Passing | CheckState::Failing) => period * (phase + 1) / 100,
            (CheckState::Passing | CheckState::Failing, CheckState::Passing | CheckState::Failing) => period,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckKind::{Liveness, Readiness, Startup};

    const START: Timestamp = Timestamp::from_millis(1_000_000);

    fn at(seconds: u64) -> Timestamp {
        START + Duration::from_secs(seconds)
    }

    fn check(period: i64) -> Check {
        Check { port: 80, period, ..Check::default() }
    }

    fn checks(kinds: &[CheckKind]) -> ContainerChecks {
        let checks = kinds.iter().map(|kind| (*kind, check(10)));
        ContainerChecks::new(checks, Duration::ZERO, (START, false), 99)
    }

    fn failed() -> CheckResult {
        CheckResult::Failed("refused".to_owned())
    }

    fn kinds(taken: &[(CheckKind, Check)]) -> Vec<CheckKind> {
        taken.iter().map(|(kind, _)| *kind).collect()
    }

    #[test]
    fn a_container_is_healthy_with_the_first_success_and_unhealthy_after_three_failures_in_a_row() {
        let mut container = checks(&[Readiness]);
        assert_eq!((container.health(), kinds(&container.take_due(at(0)))), (HealthState::Starting, vec![Readiness]));
        assert_eq!(container.next_due(), None, "one at a time");
        container.finished(Readiness, failed(), at(0));
        assert_eq!(container.next_due(), Some(at(1)), "every second until the first success");
        container.finished(Readiness, CheckResult::Passed, at(1));
        assert_eq!((container.health(), container.next_due()), (HealthState::Healthy, Some(at(11))));
        container.finished(Readiness, failed(), at(11));
        container.finished(Readiness, failed(), at(21));
        assert_eq!(container.health(), HealthState::Healthy);
        container.finished(Readiness, CheckResult::Passed, at(31));
        for time in [41, 51, 61] {
            container.finished(Readiness, failed(), at(time));
        }
        assert_eq!(container.health(), HealthState::Unhealthy);
        assert_eq!(container.problem().as_deref(), Some("the readiness check fails: refused"));
        assert_eq!(container.restart_reason(), None, "readiness restarts nothing");
        container.finished(Readiness, CheckResult::Passed, at(71));
        assert_eq!((container.health(), container.problem()), (HealthState::Healthy, None));
    }

    #[test]
    fn a_container_has_failures_times_period_and_at_least_its_setup_time_to_pass_first() {
        for (setup, last) in [(0, 30), (45, 45)] {
            let checks = [(Readiness, check(10))];
            let mut container = ContainerChecks::new(checks, Duration::from_secs(setup), (START, false), 0);
            for second in 0..last {
                container.finished(Readiness, failed(), at(second));
            }
            assert_eq!(container.health(), HealthState::Starting);
            container.finished(Readiness, failed(), at(last));
            assert_eq!(container.health(), HealthState::Unhealthy);
        }
    }

    #[test]
    fn the_other_checks_wait_for_the_startup_check() {
        let mut container = checks(&[Startup, Readiness, Liveness]);
        assert_eq!(kinds(&container.take_due(at(0))), [Startup]);
        container.finished(Startup, CheckResult::Passed, at(25));
        assert_eq!(kinds(&container.take_due(at(25))), [Readiness, Liveness]);
        container.finished(Readiness, CheckResult::Passed, at(25));
        // 30 s from the end of the startup, not from the start of the container.
        container.finished(Liveness, failed(), at(54));
        assert_eq!((container.restart_reason(), container.health()), (None, HealthState::Healthy));
        container.finished(Liveness, failed(), at(55));
        assert_eq!(container.restart_reason().as_deref(), Some("the liveness check fails: refused"));
    }

    #[test]
    fn a_startup_that_fails_asks_for_a_restart() {
        let mut container = checks(&[Startup]);
        container.finished(Startup, failed(), at(30));
        assert_eq!(container.restart_reason().as_deref(), Some("the startup check fails: refused"));
        assert_eq!(container.health(), HealthState::Unhealthy);
    }

    #[test]
    fn a_check_that_could_not_be_made_changes_nothing() {
        let mut container = checks(&[Readiness]);
        container.finished(Readiness, CheckResult::Passed, at(0));
        for time in 1..20 {
            container.finished(Readiness, CheckResult::Unknown, at(time));
        }
        assert_eq!((container.health(), container.next_due()), (HealthState::Healthy, Some(at(29))));
    }

    #[test]
    fn a_container_that_was_healthy_stays_so_while_a_new_agent_has_not_checked_it() {
        let mut container = ContainerChecks::new([(Readiness, check(10))], Duration::ZERO, (START, true), 0);
        assert_eq!((container.health(), container.next_due()), (HealthState::Healthy, Some(START)));
        container.finished(Readiness, failed(), at(0));
        assert_eq!(container.health(), HealthState::Healthy);
    }

    #[test]
    fn containers_that_started_together_are_checked_at_different_times() {
        let next = |phase| {
            let mut container = ContainerChecks::new([(Readiness, check(10))], Duration::ZERO, (START, false), phase);
            container.finished(Readiness, CheckResult::Passed, at(0));
            container.next_due().map(|due| due.as_millis() - START.as_millis())
        };
        assert_eq!([next(0), next(49), next(99), next(149)], [Some(100), Some(5_000), Some(10_000), Some(5_000)]);
    }

    #[test]
    fn liveness_alone_says_nothing_about_health() {
        assert_eq!(checks(&[Liveness]).health(), HealthState::None);
    }
}
