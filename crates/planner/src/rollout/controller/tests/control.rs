//! Commands of users, and when they are refused.

use super::*;

#[test]
fn a_confirmation_names_the_batch_that_waits() {
    let mut cluster = RolloutCluster::settled(confirmed(2, false), &[3, 3]);
    cluster.roll_out(2).decide();
    let say = |cluster: &RolloutCluster, control| apply(&cluster.facts.state, control, cluster.facts.now);
    assert_eq!(say(&cluster, Control::Confirm(1)), Err(Refusal::NotWaiting), "the batch is not done");
    cluster.run(3);
    assert_eq!(say(&cluster, Control::Confirm(2)), Err(Refusal::OtherBatch { current: 1 }));
    cluster.say(Control::Confirm(1));
    let once = cluster.facts.state.clone();
    cluster.say(Control::Confirm(1));
    assert_eq!(cluster.facts.state, once);
    cluster.decide();
    cluster.say(Control::Confirm(1));
    assert_eq!(cluster.facts.state.batch, 2, "a repeated confirmation confirms nothing else");
    cluster.run(3);
    assert_eq!(cluster.last.expect("asked").report.status, RolloutStatus::WaitingForConfirm { batch: 2 });
}

#[test]
fn every_command_is_idempotent() {
    let mut cluster = RolloutCluster::settled(confirmed(2, false), &[3, 3]);
    cluster.roll_out(2).run(3);
    for control in
        [Control::Pause, Control::Resume, Control::Freeze, Control::Unfreeze, Control::Skip(1), Control::Abort]
    {
        cluster.say(control);
        let once = cluster.facts.state.clone();
        cluster.say(control);
        assert_eq!(cluster.facts.state, once, "{control:?}");
    }
}

#[test]
fn a_freeze_stops_scaling_too() {
    let mut cluster = RolloutCluster::settled(confirmed(2, false), &[3, 3]);
    cluster.roll_out(2).decide();
    cluster.say(Control::Freeze);
    cluster.facts.replicas = 2;
    cluster.pass();
    let decision = cluster.decide();
    assert_eq!((decision.actions, decision.report.status), (vec![], RolloutStatus::Frozen));
    cluster.say(Control::Unfreeze);
    assert_eq!(cluster.decide().actions.len(), 4);
}

#[test]
fn a_rollout_does_not_wait_for_a_skipped_batch() {
    let mut cluster = RolloutCluster::settled(batches(2, false), &[2, 2]);
    cluster.broken.insert(2);
    cluster.roll_out(2).run(3);
    assert_eq!(cluster.facts.state.batch, 1);
    assert_eq!(
        apply(&cluster.facts.state, Control::Skip(2), cluster.facts.now),
        Err(Refusal::OtherBatch { current: 1 })
    );
    cluster.say(Control::Skip(1));
    assert_eq!(cluster.decide().state.batch, 2);
}

#[test]
fn an_abort_keeps_the_mix_permanently() {
    let mut cluster = RolloutCluster::settled(confirmed(2, false), &[3, 3]);
    cluster.roll_out(2).run(3);
    cluster.say(Control::Abort);
    assert_eq!(cluster.run(5).report.status, RolloutStatus::Aborted);
    assert_eq!(cluster.revisions().iter().filter(|revision| **revision == 2).count(), 2);
    assert_eq!(apply(&cluster.facts.state, Control::Skip(1), cluster.facts.now), Err(Refusal::Over));
    let mut done = RolloutCluster::settled(confirmed(2, false), &[1]);
    done.decide();
    assert_eq!(apply(&done.facts.state, Control::Abort, done.facts.now), Err(Refusal::Over));
}

#[test]
fn in_a_pause_scaling_still_works_and_crashed_pods_keep_their_revision() {
    let mut cluster = RolloutCluster::settled(confirmed(2, false), &[3, 3]);
    cluster.roll_out(2).run(3);
    cluster.say(Control::Pause);
    cluster.facts.replicas = 8;
    let decision = cluster.decide();
    let created: Vec<u32> = decision
        .actions
        .iter()
        .filter_map(|action| match action {
            RolloutAction::Create { revision, .. } => Some(*revision),
            _ => None,
        })
        .collect();
    assert_eq!(created, [1, 1], "a third of each unit is updated, and two more keep it so");
}
