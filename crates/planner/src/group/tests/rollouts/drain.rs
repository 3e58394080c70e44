//! Groups with a drain: instances are drained before they are touched.

use super::strategies::in_units;
use super::*;

fn draining(grace_seconds: i64, needs_answer: bool) -> TestCluster {
    let mut cluster = cluster(3, &["a", "b"], rolling(0, 1));
    cluster.world.record.spec.drain = Some(Drain { grace_seconds, needs_answer, timeout_seconds: None });
    cluster
}

/// Two instances whose gates are all open.
fn gated(strategy: Strategy, gates: &[&str]) -> TestCluster {
    let mut cluster = cluster(2, &["a", "b"], strategy);
    cluster.world.record.spec.readiness_gates = gates.iter().map(|&gate| gate.to_owned()).collect();
    for instance in &mut cluster.world.instances {
        instance.gates = gates.iter().map(|&gate| (gate.to_owned(), at(100))).collect();
    }
    cluster
}

#[test]
fn an_instance_is_unready_for_the_grace_period_before_it_stops() {
    let mut cluster = draining(30, false);
    cluster.patch(|_| ()).tick();
    let out = drained(&cluster);
    assert_eq!((cluster.versions(), out.len(), cluster.serving()), (all(0, 3), 1, 2));
    for _ in 0..5 {
        cluster.tick();
        assert_eq!((cluster.versions(), drained(&cluster)), (all(0, 3), out.clone()));
    }
    cluster.tick();
    assert_eq!((cluster.world.instances[out[0] - 1].version, drained(&cluster)), (1, Vec::new()));
    cluster.run(60);
    assert_eq!((cluster.versions(), cluster.status(), cluster.fewest), (all(1, 3), RolloutStatus::Complete, 2));
}

#[test]
fn the_old_pod_is_drained_when_its_surge_pod_serves() {
    let mut cluster = draining(20, false);
    cluster.world.record.spec.strategy = Some(rolling(1, 0));
    cluster.forget();
    cluster.patch(|_| ()).run(80);
    assert_eq!((cluster.versions(), cluster.fewest, cluster.most), (all(1, 3), 3, 4));
}

#[test]
fn a_missing_drain_answer_pauses_the_rollout() {
    let mut cluster = draining(10, true);
    cluster.patch(|_| ()).run(20);
    let out = drained(&cluster);
    assert_eq!((cluster.versions(), out.len()), (all(0, 3), 1));
    cluster.instance(out[0]).draining.as_mut().expect("drained").is_answered = true;
    cluster.replan().tick();
    assert_eq!(cluster.world.instances[out[0] - 1].version, 1);
    cluster.run(80);
    assert_eq!(
        (cluster.status(), drained(&cluster)),
        (RolloutStatus::Held(Cause::HookOverdue), Vec::new()),
        "it serves again"
    );
    assert_eq!((cluster.serving(), cluster.fewest), (3, 2));
    assert!(
        cluster.world.record.last_error.contains("was not drained in time (no cmd=drained"),
        "{}",
        cluster.world.record.last_error
    );
    cluster.say(Control::Resume).run(10);
    for _ in 0..40 {
        for out in drained(&cluster) {
            cluster.instance(out).draining = Some(Draining { since: at(0), is_answered: true, is_final: false });
        }
        cluster.replan().tick();
    }
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
}

#[test]
fn a_resume_restarts_the_drain_timeout_once() {
    let mut cluster = draining(10, true);
    cluster.world.record.spec.drain.as_mut().expect("a drain").timeout_seconds = Some(100);
    cluster.patch(|_| ()).run(30);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::HookOverdue));
    let text = &cluster.world.record.last_error;
    assert!(text.contains("was not drained in time (no cmd=drained&instance="), "{text}");
    assert!(text.contains(" within 100 s)"), "{text}");
    cluster.say(Control::Resume).run(15);
    assert_eq!((cluster.status(), drained(&cluster).len()), (RolloutStatus::Progressing, 1));
    cluster.run(15);
    assert_eq!((cluster.status(), drained(&cluster)), (RolloutStatus::Held(Cause::HookOverdue), Vec::new()));
    assert_eq!((cluster.versions(), cluster.serving()), (all(0, 3), 3));
}

#[test]
fn a_gate_that_never_opens_fails_before_the_deadline_and_is_named() {
    let mut cluster = gated(rolling(0, 1), &["lb", "warm"]);
    cluster.patch(|_| ()).run(3);
    let renewed = (1..=2).find(|instance| cluster.world.instances[instance - 1].version == 1).expect("one is renewed");
    let now = at(cluster.now);
    cluster.instance(renewed).gates.insert("lb".to_owned(), now);
    cluster.replan().run(50);
    assert_eq!(cluster.status(), RolloutStatus::Progressing);
    cluster.run(15);
    assert_eq!((cluster.status(), cluster.serving()), (RolloutStatus::Held(Cause::GateOverdue), 1));
    let text = &cluster.world.record.last_error;
    assert!(text.contains("has a readiness gate that was not made true in time (gate warm)"), "{text}");
    cluster.say(Control::Resume).run(50);
    assert_eq!(cluster.status(), RolloutStatus::Progressing, "it gets its time again");
    cluster.run(15);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::GateOverdue));
    let now = at(cluster.now);
    cluster.instance(renewed).gates.insert("warm".to_owned(), now);
    cluster.replan().run(10);
    assert_eq!(cluster.status(), RolloutStatus::Progressing, "it opened late, but it did");
}

#[test]
fn a_closed_gate_has_its_own_timeout() {
    let mut cluster = gated(batches(StrategyType::Batch, 1), &["lb"]);
    cluster.world.record.spec.strategy.as_mut().expect("a strategy").need_waiting_for_confirm = true;
    cluster.patch(|_| ()).run(3);
    let renewed = (1..=2).find(|instance| cluster.world.instances[instance - 1].version == 1).expect("one is renewed");
    let now = at(cluster.now);
    cluster.instance(renewed).gates.insert("lb".to_owned(), now);
    cluster.replan().run(100);
    assert_eq!(cluster.status(), RolloutStatus::WaitingForConfirm { batch: 1 });
    let now = at(cluster.now);
    cluster.instance(renewed).gates.clear();
    cluster.instance(renewed).gates_closed_at = now;
    cluster.replan().run(50);
    assert_eq!(cluster.status(), RolloutStatus::WaitingForConfirm { batch: 1 });
    cluster.run(15);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::GateOverdue));
}

#[test]
fn gates_start_closed_and_an_instance_counts_when_all_are_open() {
    let mut cluster = gated(rolling(0, 1), &["lb"]);
    cluster.patch(|_| ()).run(20);
    let renewed: Vec<usize> = (1..=2).filter(|instance| cluster.world.instances[instance - 1].version == 1).collect();
    assert_eq!((renewed.len(), cluster.serving()), (1, 1), "the other waits for its gate");
    assert!(cluster.world.instances[renewed[0] - 1].gates.is_empty());
    for _ in 0..20 {
        let now = at(cluster.now);
        for instance in &mut cluster.world.instances {
            instance.gates.entry("lb".to_owned()).or_insert(now);
        }
        cluster.replan().run(3);
    }
    assert_eq!((cluster.versions(), cluster.status(), cluster.fewest), (all(1, 2), RolloutStatus::Complete, 1));
}

#[test]
fn a_cancelled_drain_ends_immediately() {
    let mut cluster = draining(100, false);
    cluster.patch(|_| ()).run(3);
    assert_eq!(cluster.serving(), 2);
    cluster.world.record.spec.paused = true;
    cluster.replan().tick();
    assert_eq!((drained(&cluster), cluster.serving()), (Vec::new(), 3));
}

#[test]
fn a_beta_keeps_the_instance_that_it_drains() {
    let mut cluster = in_units(6, batches(StrategyType::Beta, 2));
    cluster.world.record.spec.drain = Some(Drain { grace_seconds: 60, ..Drain::default() });
    cluster.patch(|_| ()).tick();
    let out = drained(&cluster);
    assert_eq!(out.len(), 2, "one of every unit");
    for _ in 0..11 {
        cluster.tick();
        assert_eq!(drained(&cluster), out);
    }
    cluster.run(150);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 6), RolloutStatus::Complete));
}

#[test]
fn a_removed_instance_is_drained_first() {
    let mut cluster = draining(20, false);
    cluster.scale(2).tick();
    assert_eq!((cluster.versions().len(), drained(&cluster)), (3, vec![3]));
    cluster.run(10);
    assert_eq!((cluster.versions(), cluster.containers.len()), (all(0, 2), 2));
}

#[test]
fn scale_down_keeps_its_choice_during_the_drain() {
    let mut cluster = fresh(1, &["n0", "n1", "n2", "n3"], batches(StrategyType::Batch, 1));
    (cluster.start, cluster.stop) = (0, 0);
    cluster.world.record.spec.drain = Some(Drain { grace_seconds: 0, needs_answer: true, timeout_seconds: Some(60) });
    cluster.run(5);
    cluster.scale(5).tick();
    cluster.patch(|pod| pod.containers[0].image = "0".to_owned()).tick();
    for instance in &mut cluster.world.instances {
        instance.draining.iter_mut().for_each(|draining| draining.is_answered = true);
    }
    cluster.replan().tick();
    cluster.scale(1).tick();
    let out = drained(&cluster);
    cluster.run(3);
    assert_eq!(drained(&cluster), out);
}

#[test]
fn scale_down_removes_an_undrained_instance_at_the_timeout_and_reports_it_once() {
    let mut cluster = draining(10, true);
    cluster.world.record.spec.drain.as_mut().expect("a drain").timeout_seconds = Some(100);
    cluster.scale(2).run(20);
    assert_eq!((cluster.versions(), drained(&cluster)), (all(0, 3), vec![3]), "the answer may still arrive");
    let mut reported = Vec::new();
    for _ in 0..10 {
        cluster.last.undrained.clear();
        cluster.tick();
        reported.extend(cluster.last.undrained.clone());
    }
    assert_eq!((reported, cluster.versions(), cluster.containers.len()), (vec![3], all(0, 2), 2));
    assert_eq!(cluster.status(), RolloutStatus::Complete);
}

#[test]
fn scale_down_does_not_fail_a_running_rollout() {
    let mut cluster = draining(10, true);
    cluster.world.record.spec.drain.as_mut().expect("a drain").timeout_seconds = Some(100);
    cluster.patch(|_| ()).scale(2).run(28);
    assert_eq!((cluster.containers.len(), cluster.status()), (2, RolloutStatus::Progressing));
}
