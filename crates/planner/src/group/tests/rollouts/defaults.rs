//! The defaults of a group that sets nothing but its strategy.

use super::*;

/// Four instances with `RollingUpdate` and its defaults; revision 1 exits with code 3 a few seconds after its start.
fn exiting(policy: RestartPolicy) -> TestCluster {
    let mut cluster = cluster(4, &["a", "b"], strategy(StrategyType::RollingUpdate));
    let spec = &mut cluster.world.record.spec;
    (spec.min_ready_seconds, spec.failure_action, spec.restart_policy) = (None, None, policy);
    cluster.behaviour.insert(1, PodBehaviour::ExitsSoon);
    cluster.patch(|pod| pod.containers[0].image = "bad".to_owned());
    cluster
}

#[test]
fn a_program_that_exits_soon_after_its_start_is_rolled_back_with_the_minimum_serving() {
    for policy in [RestartPolicy::Never, RestartPolicy::OnFail, RestartPolicy::Always] {
        let mut cluster = exiting(policy);
        cluster.run(40);
        let record = &cluster.world.record;
        assert_eq!((record.spec.version, record.proven), (2, Some(2)), "{policy:?}: {}", record.last_error);
        assert!(record.last_error.starts_with("rolled back from revision 1 to revision 0"), "{}", record.last_error);
        assert_eq!((cluster.status(), cluster.serving()), (RolloutStatus::Complete, 4), "{policy:?}");
        assert!(cluster.fewest >= 3, "{policy:?}: 25 % of 4 may be missing, {} served", cluster.fewest);
    }
}

#[test]
fn a_group_that_writes_zero_and_hold_keeps_the_old_meaning() {
    let mut cluster = exiting(RestartPolicy::Always);
    let spec = &mut cluster.world.record.spec;
    (spec.min_ready_seconds, spec.failure_action) = (Some(0), Some(FailureAction::Hold));
    cluster.run(40);
    assert_eq!(cluster.world.record.spec.version, 1, "it was not rolled back");
}

#[test]
fn the_default_wait_gives_way_to_a_short_progress_deadline() {
    let mut spec = cluster(1, &["a"], strategy(StrategyType::RollingUpdate)).world.record.spec;
    spec.min_ready_seconds = None;
    let seconds = |deadline: Option<i64>| {
        let spec = PodGroupSpec { progress_deadline_seconds: deadline, ..spec.clone() };
        spec.min_ready().as_secs()
    };
    assert_eq!((seconds(None), seconds(Some(20)), seconds(Some(8)), seconds(Some(1))), (10, 10, 4, 0));
    spec.strategy = None;
    assert_eq!(spec.min_ready().as_secs(), 0, "a serial group does not wait");
}

#[test]
fn the_first_deployment_asks_for_no_confirmation_and_the_next_rollout_does() {
    let confirmed = Strategy { need_waiting_for_confirm: true, ..batches(StrategyType::Batch, 2) };
    let mut cluster = fresh(6, &["a", "b"], confirmed);
    cluster.run(60);
    assert_eq!((cluster.status(), cluster.serving()), (RolloutStatus::Complete, 6));
    cluster.patch(|_| ()).run(60);
    assert_eq!(cluster.status(), RolloutStatus::WaitingForConfirm { batch: 1 });
    cluster.say(Control::Confirm(1)).run(60);
    assert_eq!(cluster.status(), RolloutStatus::WaitingForConfirm { batch: 2 });
}

#[test]
fn a_group_may_ask_for_confirmation_of_its_first_deployment() {
    let strategy = batches(StrategyType::Batch, 2);
    let confirmed = Strategy { need_waiting_for_confirm: true, confirm_first_deployment: true, ..strategy };
    let mut cluster = fresh(6, &["a", "b"], confirmed);
    cluster.run(60);
    assert_eq!((cluster.status(), cluster.serving()), (RolloutStatus::WaitingForConfirm { batch: 1 }, 2));
}

#[test]
fn a_second_revision_before_the_first_one_completed_asks_for_confirmation() {
    let confirmed = Strategy { need_waiting_for_confirm: true, ..batches(StrategyType::Batch, 2) };
    let mut cluster = fresh(6, &["a", "b"], confirmed);
    cluster.run(3);
    assert_eq!(cluster.world.record.proven, None, "the first deployment is not over");
    cluster.patch(|_| ()).run(60);
    assert_eq!(cluster.status(), RolloutStatus::WaitingForConfirm { batch: 1 });
}
