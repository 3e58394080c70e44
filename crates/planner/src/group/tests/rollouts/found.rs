//! Findings of the simulator, each reduced to a small test.

use super::*;

#[test]
fn a_requested_start_survives_the_promotion_of_the_surge_pod() {
    let mut cluster = cluster(2, &["a", "b"], rolling(1, 0));
    cluster.patch(|_| ()).run(1);
    assert!(cluster.world.instances[0].next.is_some());
    cluster.instance(1).starts_requested = 1;
    cluster.replan().run(60);
    assert_eq!((cluster.versions(), cluster.world.instances[0].starts_requested), (all(1, 2), 1));
}

#[test]
fn an_unreachable_pod_is_not_replaced_by_an_unready_one() {
    let mut cluster = cluster(4, &["a", "b"], rolling(2, 2));
    cluster.behaviour.insert(1, PodBehaviour::Unwell);
    cluster.patch(|_| ()).run(4);
    cluster.world.candidate("a").liveness = Liveness::Suspect;
    let silent = |cluster: &TestCluster| -> Vec<usize> {
        let is_silent = |instance: &Instance| {
            instance.version == 0 && instance.node == Some(name("a")) && instance.draining.is_none()
        };
        (1..)
            .zip(&cluster.world.instances)
            .filter(|(_, instance)| is_silent(instance))
            .map(|(number, _)| number)
            .collect()
    };
    let before = silent(&cluster);
    assert!(
        before.iter().any(|number| cluster.world.instances[number - 1].next.is_some()),
        "{:?}",
        cluster.world.instances
    );
    cluster.patch(|_| ()).run(4);
    assert_eq!(silent(&cluster), before);
}

#[test]
fn a_clock_that_is_far_ahead_does_not_delay_availability() {
    let mut cluster = cluster(1, &["a"], rolling(1, 0));
    cluster.world.record.spec.min_ready_seconds = Some(10);
    let observed = cluster.world.observed[0].as_mut().expect("it runs");
    observed.healthy_since = at(cluster.now + 600);
    let available = |cluster: &TestCluster| {
        let plan = cluster.world.plan(cluster.now);
        plan.report.expect("a report").units.iter().map(|unit| unit.available).sum::<i64>()
    };
    assert_eq!(available(&cluster), 1);
    let observed = cluster.world.observed[0].as_mut().expect("it runs");
    observed.healthy_since = at(cluster.now + 1);
    assert_eq!(available(&cluster), 0, "one that is a little ahead is believed");
}

#[test]
fn the_grace_period_of_a_drain_starts_at_its_commit() {
    let mut cluster = cluster(3, &["a", "b"], rolling(0, 1));
    cluster.world.record.spec.drain = Some(Drain { grace_seconds: 5, needs_answer: false, timeout_seconds: None });
    cluster.patch(|_| ()).tick();
    let is_drained = |cluster: &TestCluster| cluster.world.instances.iter().any(|instance| instance.draining.is_some());
    assert!(is_drained(&cluster));
    cluster.world.is_uncommitted = true;
    cluster.run(20);
    assert_eq!((cluster.versions(), is_drained(&cluster)), (all(0, 3), true), "no watcher could have seen it");
    cluster.world.is_uncommitted = false;
    cluster.replan().run(60);
    assert_eq!(cluster.versions(), all(1, 3));
}

#[test]
fn a_pod_whose_node_does_not_know_that_it_is_desired_is_not_down() {
    let mut cluster = cluster(3, &["a", "b"], rolling(0, 1));
    let observed = cluster.world.observed[2].as_mut().expect("it runs");
    observed.leaving = true;
    cluster.world.patch(cluster.now, |_| ());
    cluster.world.record.operation = None;
    let plan = cluster.world.plan(cluster.now);
    assert_eq!(plan.statuses[2], PodStatus::Unreachable);
    assert_eq!(plan.instances[2].version, 0, "it may well serve");
}

#[test]
fn a_skipped_instance_without_its_image_is_drained_first() {
    let mut cluster = cluster(2, &["a", "b"], batches(StrategyType::Batch, 1));
    cluster.world.record.spec.failure_action = Some(FailureAction::Continue);
    cluster.world.record.spec.drain = Some(Drain { grace_seconds: 5, needs_answer: true, timeout_seconds: Some(100) });
    cluster.behaviour.insert(1, PodBehaviour::NoImage);
    cluster.patch(|pod| pod.containers[0].image = "bad".to_owned()).run(16);
    let drained = cluster.world.instances.iter().filter(|instance| instance.draining.is_some()).count();
    assert_eq!((cluster.versions(), drained > 0), (all(0, 2), true), "the answer may still arrive");
    cluster.run(10);
    assert!(
        cluster.world.instances.iter().any(|instance| instance.version == 1),
        "no answer: {:?}",
        cluster.world.instances
    );
}

#[test]
fn a_promoted_pod_without_a_node_waits_for_its_predecessor() {
    let mut cluster = cluster(4, &["a", "b", "c", "d", "e", "f"], rolling(2, 1));
    cluster.world.record.spec.pod_replacement = Some(PodReplacement::Complete);
    cluster.patch(|pod| pod.containers[0].memory_limit = 1 << 50).run(8);
    let waits = |instance: &Instance| instance.next.as_ref().is_some_and(|next| next.node.is_none());
    let index = cluster.world.instances.iter().position(waits).expect("one that waits for a place");
    let old = cluster.world.instances[index].node.clone();
    cluster.world.observed[index].as_mut().expect("it runs").health = HealthState::Unhealthy;
    cluster.world.constraints.extend(old.as_ref().map(|old| format!("constraint:node!={old}")));
    cluster.patch(|pod| pod.containers[0].memory_limit = 1 << 20);
    let plan = cluster.world.plan(cluster.now);
    let instance = &plan.instances[index];
    assert_eq!((instance.version, instance.next.is_none()), (2, true), "{:?}", plan.instances);
    assert_eq!(instance.leaves, old, "one more than there may be: {instance:?}");
}

#[test]
fn a_rollout_that_counts_terminating_pods_waits_for_unheard_nodes() {
    let kinds = [
        (rolling(1, 0), PodReplacement::Complete, true),
        (strategy(StrategyType::Recreate), PodReplacement::Complete, true),
        (rolling(1, 0), PodReplacement::Started, false),
    ];
    for (strategy, replacement, waits) in kinds {
        let mut cluster = cluster(2, &["a", "b", "c"], strategy);
        cluster.world.record.spec.pod_replacement = Some(replacement);
        let is_free =
            |node: &NodeName| !cluster.world.instances.iter().any(|instance| instance.node.as_ref() == Some(node));
        let free = cluster.world.nodes.keys().find(|node| is_free(node)).expect("a free node").clone();
        cluster.world.candidate(free.as_str()).liveness = Liveness::Unknown;
        cluster.patch(|_| ()).run(20);
        let versions = if waits { all(0, 2) } else { all(1, 2) };
        assert_eq!((cluster.versions(), cluster.serving()), (versions, 2), "{replacement:?}");
        cluster.world.candidate(free.as_str()).liveness = Liveness::Alive;
        cluster.replan().run(20);
        assert_eq!(cluster.versions(), all(1, 2));
    }
}

#[test]
fn a_pod_that_its_policy_does_not_restart_is_permanently_down() {
    let ended = |exit_code, is_crash_looping| {
        let containers = vec![ContainerFacts { exit_code, finished_at: at(1), ..Default::default() }];
        PodFacts { state: RunState::Exit, containers, is_crash_looping, ..Default::default() }
    };
    let cases = [
        (RestartPolicy::Never, ended(1, false), true),
        (RestartPolicy::OnFail, ended(0, false), true),
        (RestartPolicy::OnFail, ended(1, false), false),
        (RestartPolicy::OnFail, ended(1, true), true),
        (RestartPolicy::Always, ended(0, false), false),
        (RestartPolicy::Always, ended(0, true), true),
    ];
    for (policy, observed, is_finished) in cases {
        let mut cluster = cluster(2, &["a"], rolling(0, 1));
        cluster.world.record.spec.restart_policy = policy;
        cluster.world.observed[0] = Some(observed);
        let main = cluster.controller_facts().instances[0].main.clone().expect("a pod");
        assert_eq!(main.phase.is_finished(), is_finished, "{policy:?}");
    }
}

#[test]
fn a_failed_attempt_to_create_a_pod_counts_like_a_failed_start() {
    for (failures, restarts, counted) in [(3, 1, 3), (1, 2, 2)] {
        let mut cluster = cluster(1, &["a"], rolling(0, 1));
        cluster.instance(1).failures = failures;
        cluster.world.observed[0].as_mut().expect("it runs").restarts = restarts;
        let main = cluster.controller_facts().instances[0].main.clone().expect("a pod");
        assert_eq!(main.signs.restarts, counted);
    }
}

#[test]
fn a_stuck_instance_does_not_overwrite_the_error_of_a_refused_patch() {
    let mut cluster = cluster(2, &["a"], rolling(0, 1));
    cluster.world.candidate("a").facts.memory = 160 * MIB;
    cluster.patch(|pod| pod.containers[0].memory_limit = 128 << 20).run(3);
    assert!(cluster.world.record.last_error.contains("is not upgraded to version 1"));
    let said = "port 9001 is taken by another group";
    said.clone_into(&mut cluster.world.record.last_error);
    cluster.replan().tick();
    assert_eq!(cluster.world.record.last_error, said);
    cluster.world.candidate("a").facts.memory = 1024 * MIB;
    cluster.replan().run(60);
    assert_eq!((cluster.versions(), cluster.world.record.last_error.as_str()), (all(1, 2), said));
}
