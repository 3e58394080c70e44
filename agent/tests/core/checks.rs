//! Health checks that the agent performs: readiness, restarts by liveness, and a restart of the agent.

use contract::check::{Check, CheckKind};
use contract::order::OrderMessage;
use contract::spec::HealthConfig;
use contract::state::{HealthState, RunState};

use super::bench::{A, Bench, order, secs};
use agent::core::io::{Action, Effect, Input, Phase};

fn check() -> Option<Check> {
    Some(Check { http: "/healthz".to_owned(), port: 8080, period: 5, ..Check::default() })
}

fn readiness() -> HealthConfig {
    HealthConfig { readiness: check(), ..HealthConfig::default() }
}

fn liveness() -> HealthConfig {
    HealthConfig { liveness: check(), ..HealthConfig::default() }
}

fn ordered(health: &HealthConfig) -> OrderMessage {
    order(1, 1).pod(A).respecify(|spec| spec.health_config = health.clone()).whole()
}

/// A pod runs with these checks; `failure` is why they fail.
fn running_with(health: &HealthConfig, failure: Option<&str>) -> Bench {
    let mut bench = Bench::new().start();
    bench.check_failure = failure.map(str::to_owned);
    bench.order(ordered(health));
    bench
}

fn stops(bench: &Bench) -> usize {
    bench.actions.iter().filter(|action| matches!(action, Action::Stop { .. })).count()
}

#[test]
fn a_pod_is_healthy_as_soon_as_its_readiness_check_passes() {
    let mut bench = running_with(&readiness(), Some("connection refused"));
    assert_eq!(bench.reported(A).health, HealthState::Starting);
    bench.pass(secs(3));
    bench.check_failure = None;
    bench.pass(secs(1));
    let facts = bench.reported(A);
    assert_eq!((facts.health, facts.state), (HealthState::Healthy, RunState::Success));
    assert_eq!(facts.healthy_since, bench.now);
}

#[test]
fn a_failing_readiness_check_is_reported_with_its_reason_and_restarts_nothing() {
    let mut bench = running_with(&readiness(), None);
    bench.check_failure = Some("GET :8080/healthz: status 503".to_owned());
    bench.pass(secs(30));
    let facts = bench.reported(A);
    assert_eq!((facts.health, facts.restarts, stops(&bench)), (HealthState::Unhealthy, 0, 0));
    assert_eq!(facts.last_error, "the readiness check fails: GET :8080/healthz: status 503");
    bench.check_failure = None;
    bench.pass(secs(6));
    let facts = bench.reported(A);
    assert_eq!((facts.health, facts.last_error.as_str()), (HealthState::Healthy, ""));
}

#[test]
fn a_failing_liveness_check_restarts_the_container_with_back_off_and_says_why() {
    let mut bench = running_with(&liveness(), None);
    bench.check_failure = Some("status 500".to_owned());
    bench.pass(secs(16));
    assert_eq!(stops(&bench), 1, "three failures, 5 s apart");
    assert_eq!(bench.engine.containers["m1"].phase, Phase::Running, "started again");
    let exit = bench.reported(A).containers[0].last_exit.clone().expect("an exit");
    assert!(exit.last_line.starts_with("the liveness check fails: status 500"), "{exit:?}");
    bench.pass(secs(24 * 3600));
    assert!(bench.reported(A).is_crash_looping);
    assert!((200..500).contains(&stops(&bench)), "back-off up to 5 min: {}", stops(&bench));
}

#[test]
fn liveness_restarts_nothing_while_restarts_are_switched_off_or_the_pod_is_stopped() {
    let mut bench = running_with(&liveness(), None);
    bench.check_failure = Some("status 500".to_owned());
    let held = order(1, 2).pod(A).switches(|switches| switches.hold_restarts = true);
    bench.order(held.respecify(|spec| spec.health_config = liveness()).whole());
    bench.pass(secs(60));
    assert_eq!((stops(&bench), bench.engine.containers["m1"].phase), (0, Phase::Running));
}

#[test]
fn an_agent_that_restarts_reports_a_healthy_pod_as_healthy_at_once() {
    let mut bench = running_with(&readiness(), None);
    bench.pass(secs(10));
    assert_eq!(bench.reported(A).health, HealthState::Healthy);
    bench.restart("run-2");
    bench.copy = None;
    bench.check_failure = Some("connection refused".to_owned());
    bench.run(Input::Tick);
    assert_eq!(bench.reported(A).health, HealthState::Healthy, "one failure is not three");
    bench.pass(secs(30));
    assert_eq!(bench.reported(A).health, HealthState::Unhealthy);
}

#[test]
fn a_result_from_before_a_restart_counts_for_nothing() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order { message: ordered(&readiness()), reply: "r".to_owned() });
    let kept = bench.settle_but(effects, |effect| matches!(effect, Effect::Check { .. }));
    let [Effect::Check { id, started_at, kind, .. }] = kept.as_slice() else { panic!("not one check: {kept:?}") };
    let late = Input::Checked {
        id: id.clone(),
        started_at: *started_at - secs(1),
        kind: *kind,
        result: planner::check::CheckResult::Passed,
    };
    bench.run(late);
    assert_eq!(bench.reported(A).health, HealthState::Starting);
}

#[test]
fn a_changed_check_replaces_no_container() {
    let mut bench = running_with(&readiness(), None);
    let before = bench.engine.containers["m1"].clone();
    let slower = Check { period: 60, ..check().expect("a check") };
    let health = HealthConfig { readiness: Some(slower), ..HealthConfig::default() };
    let next = order(1, 2).pod(A).updated_to(A, 2, |spec| spec.health_config = health.clone());
    bench.order(next.whole());
    bench.checks.clear();
    bench.pass(secs(59));
    assert_eq!(bench.engine.containers["m1"].started_at, before.started_at);
    assert!(bench.checks.len() <= 2, "once a minute: {:?}", bench.checks);
    assert!(bench.checks.iter().all(|kind| *kind == CheckKind::Readiness));
}
