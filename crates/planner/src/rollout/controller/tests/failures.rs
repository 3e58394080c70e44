//! Deadlines and failures: when a rollout is stuck or failed, and what follows.

use super::*;

/// Four instances, two at a time, to a revision that never becomes ready.
fn broken(action: FailureAction) -> RolloutCluster {
    let mut cluster = RolloutCluster::settled(batches(2, false), &[2, 2]);
    cluster.facts.settings.failure_action = action;
    cluster.facts.settings.deadline = Some(Duration::from_secs(10));
    cluster.broken.insert(2);
    cluster.roll_out(2);
    cluster
}

fn crash(cluster: &mut RolloutCluster) {
    for instance in &mut cluster.facts.instances {
        if let Some(main) = instance.main.as_mut().filter(|main| main.revision == 2) {
            main.signs.restarts = 3;
        }
    }
}

#[test]
fn a_crash_loop_is_a_failure_long_before_the_deadline() {
    let mut cluster = broken(FailureAction::Hold);
    cluster.run(2);
    crash(&mut cluster);
    let decision = cluster.decide();
    assert_eq!(
        (decision.response, decision.report.status),
        (FailureResponse::Hold(Cause::Crashing), RolloutStatus::Held(Cause::Crashing))
    );
    assert_eq!(cluster.run(30).state.batch, 1, "nothing more is touched");
}

#[test]
fn each_visible_failure_has_its_cause() {
    let named = |how: fn(&mut RolloutPod)| {
        let mut cluster = broken(FailureAction::Hold);
        cluster.facts.settings.placement_patience = Some(Duration::from_secs(2));
        cluster.run(3);
        cluster
            .facts
            .instances
            .iter_mut()
            .filter_map(|instance| instance.main.as_mut())
            .filter(|main| main.revision == 2)
            .for_each(how);
        cluster.decide().response
    };
    assert_eq!(named(|pod| pod.signs.image_is_hopeless = true), FailureResponse::Hold(Cause::ImageHopeless));
    assert_eq!(named(|pod| pod.signs.early_exits = 2), FailureResponse::Hold(Cause::Crashing));
    assert_eq!(named(|pod| pod.is_hook_overdue = true), FailureResponse::Hold(Cause::HookOverdue));
    assert_eq!(named(|pod| pod.is_gate_overdue = true), FailureResponse::Hold(Cause::GateOverdue));
    let unplaced = |pod: &mut RolloutPod| pod.unschedulable_since = Some(Moment::from_secs(1_000));
    assert_eq!(named(unplaced), FailureResponse::Hold(Cause::Unschedulable));
}

#[test]
fn with_rollback_a_failed_rollout_rolls_back_and_a_rollback_never_does() {
    let mut cluster = broken(FailureAction::Rollback);
    cluster.run(2);
    crash(&mut cluster);
    assert_eq!(cluster.decide().response, FailureResponse::Rollback(Cause::Crashing));
    cluster.facts.is_rollback = true;
    assert_eq!(cluster.decide().response, FailureResponse::Hold(Cause::Crashing));
    cluster.facts.is_rollback = false;
    cluster.facts.can_roll_back = false;
    assert_eq!(cluster.decide().response, FailureResponse::Hold(Cause::Crashing));
}

#[test]
fn with_continue_a_rollout_skips_failed_instances() {
    let mut cluster = broken(FailureAction::Continue);
    cluster.run(2);
    crash(&mut cluster);
    let decision = cluster.decide();
    assert_eq!((decision.response, decision.state.batch), (FailureResponse::Continue(Cause::Crashing), 2));
    cluster.pass();
    crash(&mut cluster);
    assert_eq!(cluster.run(4).report.status, RolloutStatus::Complete);
}

#[test]
fn without_progress_the_deadline_passes_but_not_in_a_pause() {
    let mut cluster = broken(FailureAction::Hold);
    cluster.run(5);
    cluster.say(Control::Pause);
    cluster.run(50);
    cluster.say(Control::Resume);
    assert_eq!(cluster.run(5).report.status, RolloutStatus::Progressing);
    assert_eq!(cluster.run(10).response, FailureResponse::Hold(Cause::DeadlineExceeded));
    assert_eq!(cluster.facts.state.failure.as_ref().expect("it failed").instances.len(), 2);
    cluster.say(Control::Resume);
    assert_eq!(cluster.run(5).response, FailureResponse::Fine, "it gets its time again");
    cluster.broken.clear();
    assert_eq!(cluster.run(10).report.status, RolloutStatus::Complete);
}

#[test]
fn a_slow_rollout_recovers_when_it_progresses() {
    let mut cluster = broken(FailureAction::Hold);
    assert_eq!(cluster.run(20).response, FailureResponse::Hold(Cause::DeadlineExceeded));
    cluster.broken.clear();
    assert_eq!(cluster.run(10).report.status, RolloutStatus::Complete);
}

#[test]
fn pods_within_the_threshold_may_be_missing_at_the_deadline() {
    let mut cluster = broken(FailureAction::Hold);
    cluster.facts.settings.failure_threshold = Amount::Percent(100);
    assert_eq!(cluster.run(60).report.status, RolloutStatus::Complete, "each batch ends at its deadline");
    assert_eq!(cluster.revisions(), [2, 2, 2, 2]);
}

#[test]
fn a_crash_loop_that_is_ready_at_times_does_not_postpone_the_deadline() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[3]);
    cluster.facts.settings.deadline = Some(Duration::from_secs(10));
    cluster.facts.settings.min_ready = Duration::from_secs(3);
    cluster.broken.insert(2);
    cluster.roll_out(2);
    let mut response = FailureResponse::Fine;
    for tick in 0..20 {
        let pod = cluster.facts.instances[0].next.as_mut().map(|next| &mut next.pod.ready);
        if let Some(ready) = pod {
            (ready.ready, ready.since) = (tick % 2 == 0, Some(cluster.facts.now));
        }
        response = cluster.decide().response;
        cluster.pass();
    }
    assert_eq!(response, FailureResponse::Hold(Cause::DeadlineExceeded));
    assert_eq!(cluster.available(), 3, "all old ones serve");
}

#[test]
fn a_slow_batch_makes_progress_with_each_pod() {
    let mut cluster = RolloutCluster::settled(batches(8, false), &[8]);
    cluster.facts.settings.deadline = Some(Duration::from_secs(10));
    cluster.broken.insert(2);
    cluster.roll_out(2);
    for tick in 0..56 {
        if tick % 7 == 6 {
            let late = cluster
                .facts
                .instances
                .iter_mut()
                .filter_map(|instance| instance.main.as_mut())
                .find(|main| !main.ready.ready);
            let ready = &mut late.expect("one is not ready").ready;
            (ready.ready, ready.since) = (true, Some(cluster.facts.now));
        }
        assert_eq!(cluster.decide().response, FailureResponse::Fine, "tick {tick}");
        cluster.pass();
    }
    assert_eq!(cluster.decide().report.status, RolloutStatus::Complete);
}

#[test]
fn old_restarts_of_an_instance_do_not_fail_the_rollback_to_its_revision() {
    let mut cluster = broken(FailureAction::Hold);
    cluster.facts.instances[3].main.as_mut().expect("one").signs.restarts = 7;
    cluster.run(2);
    assert_eq!(cluster.undo(3).run(10).report.status, RolloutStatus::Complete);
}

#[test]
fn a_crash_while_waiting_for_confirmation_is_a_failure() {
    let mut cluster = broken(FailureAction::Hold);
    cluster.facts.settings.strategy = confirmed(2, false);
    cluster.broken.clear();
    assert_eq!(cluster.run(4).report.status, RolloutStatus::WaitingForConfirm { batch: 1 });
    crash(&mut cluster);
    cluster.say(Control::Confirm(1));
    assert_eq!(cluster.decide().report.status, RolloutStatus::Held(Cause::Crashing));
    cluster.say(Control::Resume);
    assert_eq!(cluster.decide().state.batch, 2, "the confirmation was kept");
}
