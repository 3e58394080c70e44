//! Units, unschedulable pods, and nodes that are silent or lost.

use super::strategies::in_units;
use super::*;

#[test]
fn an_instance_whose_successor_does_not_fit_keeps_running_with_a_reason() {
    let mut cluster = cluster(2, &["a"], rolling(0, 1));
    cluster.world.candidate("a").facts.memory = 160 * MIB;
    cluster.patch(|pod| pod.containers[0].memory_limit = 128 << 20).run(10);
    assert_eq!((cluster.versions(), cluster.fewest), (all(0, 2), 2));
    let stuck: Vec<&Instance> =
        cluster.world.instances.iter().filter(|instance| instance.unplaced_since.happened()).collect();
    assert_eq!(stuck.len(), 1);
    assert_eq!(stuck[0].why, "it is not upgraded to version 1: no node fits: a: memory 32 MiB short");
    assert!(cluster.world.record.last_error.contains("is not upgraded to version 1: no node fits"));
    cluster.run(10);
    assert_eq!((cluster.status(), cluster.serving()), (RolloutStatus::Held(Cause::Unschedulable), 2));
    let held =
        "is unschedulable (it is not upgraded to version 1: no node fits: a: memory 32 MiB short); resume continues";
    assert!(cluster.world.record.last_error.contains(held), "{}", cluster.world.record.last_error);
    cluster.run(150);
    assert_eq!((cluster.status(), cluster.fewest), (RolloutStatus::Held(Cause::Unschedulable), 2));
    assert!(cluster.world.record.last_error.contains(held), "{}", cluster.world.record.last_error);
    cluster.say(Control::Resume).run(10);
    assert_eq!(
        (cluster.versions(), cluster.status()),
        (all(0, 2), RolloutStatus::Progressing),
        "the timeout starts again"
    );
    cluster.run(10);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::Unschedulable));
    cluster.world.candidate("a").facts.memory = 1024 * MIB;
    cluster.replan().run(10);
    assert_eq!(cluster.versions(), all(0, 2), "no user has resumed it");
    cluster.say(Control::Resume).run(40);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 2), RolloutStatus::Complete));
    assert_eq!(cluster.world.record.last_error, "");
    assert!(
        cluster.world.instances.iter().all(|instance| !instance.unplaced_since.happened() && instance.why.is_empty())
    );
}

#[test]
fn an_unschedulable_surge_pod_waits_while_the_current_pod_serves() {
    let mut cluster = cluster(1, &["a"], rolling(1, 0));
    cluster.world.candidate("a").facts.memory = 100 * MIB;
    cluster.patch(|_| ()).run(10);
    assert_eq!((cluster.versions(), cluster.fewest), (vec![vec![0, 1]], 1));
    let next = cluster.world.instances[0].next.clone().expect("a second pod");
    assert_eq!((next.node, next.unplaced_since.happened()), (None, true));
    assert!(cluster.last.waiting);
    cluster.run(10);
    assert_eq!((cluster.status(), cluster.fewest), (RolloutStatus::Held(Cause::Unschedulable), 1));
    let text = &cluster.world.record.last_error;
    assert!(text.contains("instance 1 is unschedulable (no node fits: a: memory 28 MiB short)"), "{text}");
    cluster.world.candidate("a").facts.memory = 1024 * MIB;
    cluster.replan().run(10);
    assert_eq!((cluster.versions(), cluster.fewest), (all(1, 1), 1), "it found one by itself");
    assert_eq!((cluster.status(), cluster.world.record.last_error.as_str()), (RolloutStatus::Complete, ""));
}

#[test]
fn a_version_that_fits_nowhere_is_rolled_back_without_touching_a_pod() {
    for strategy in [rolling(1, 0), rolling(0, 1), batches(StrategyType::Batch, 2)] {
        let mut cluster = cluster(3, &["a", "b"], strategy);
        cluster.world.record.spec.failure_action = Some(FailureAction::Rollback);
        let before = cluster.containers.clone();
        cluster.patch(|pod| pod.containers[0].memory_limit = 1 << 50).run(30);
        let (record, text) = (&cluster.world.record, &cluster.world.record.last_error);
        assert_eq!((record.spec.version, cluster.status()), (2, RolloutStatus::Complete), "{text}");
        assert!(text.starts_with("rolled back from revision 1 to revision 0: instance"), "{text}");
        assert!(text.contains("a: memory") && text.contains("b: memory"), "{text}");
        assert_eq!((&cluster.containers, cluster.fewest), (&before, 3));
    }
}

#[test]
fn an_unschedulable_instance_is_skipped_with_failure_action_continue() {
    let mut cluster = cluster(3, &["a", "b", "c"], rolling(0, 1));
    cluster.world.record.spec.failure_action = Some(FailureAction::Continue);
    let full = cluster.world.instances[0].node.clone().expect("a place");
    for node in ["a", "b", "c"] {
        cluster.world.candidate(node).facts.memory = if name(node) == full { 64 * MIB } else { 128 * MIB };
    }
    cluster.patch(|pod| pod.containers[0].memory_limit = 128 << 20).run(150);
    assert_eq!((cluster.versions(), cluster.fewest), (vec![vec![0], vec![1], vec![1]], 2));
    cluster.world.candidate(full.as_str()).facts.memory = 128 * MIB;
    cluster.replan().run(30);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
}

#[test]
fn with_automatic_rescheduling_no_instance_fails_as_unschedulable() {
    let mut cluster = in_units(4, rolling(1, 0));
    let topology = cluster.world.record.spec.topology.as_mut().expect("units");
    topology.auto_reschedule = Some(AutoReschedule { enable: true, ..AutoReschedule::default() });
    cluster.patch(|pod| pod.containers[0].memory_limit = 1 << 50).run(60);
    assert_eq!((cluster.status(), cluster.fewest), (RolloutStatus::Progressing, 4));
    cluster.run(80);
    assert_eq!((cluster.status(), cluster.fewest), (RolloutStatus::Held(Cause::DeadlineExceeded), 4));
}

#[test]
fn instances_leave_a_removed_unit_one_by_one_within_the_budget() {
    let mut cluster = in_units(4, rolling(1, 0));
    let topology = cluster.world.record.spec.topology.as_mut().expect("units");
    topology.values = vec!["B".to_owned()];
    cluster.replan().run(60);
    assert_eq!((cluster.units(), cluster.fewest), (vec!["B"; 4], 4));
    for instance in &cluster.world.instances {
        assert!(instance.node.as_ref().is_some_and(|node| node.as_str().starts_with('b')), "{instance:?}");
    }
    assert_eq!(cluster.containers.len(), 4);
}

#[test]
fn free_numbers_are_reused_only_when_needed() {
    let mut cluster = in_units(4, rolling(1, 0));
    assert_eq!(cluster.units(), ["A", "A", "B", "B"]);
    let topology = cluster.world.record.spec.topology.as_mut().expect("units");
    topology.unit_replicas.insert("A".to_owned(), Amount::Count(0));
    cluster.scale(2).run(40);
    let fillings: Vec<Presence> = cluster.world.instances.iter().map(|instance| instance.presence).collect();
    assert_eq!(cluster.world.instances.iter().flat_map(Instance::pods).count(), 2);
    assert_eq!((fillings.last(), cluster.serving()), (Some(&Presence::Pod), 2), "{fillings:?}");
    assert!(fillings.contains(&Presence::Free));
    cluster.scale(4).run(20);
    assert_eq!((cluster.versions(), cluster.serving()), (all(0, 4), 4));
}

#[test]
fn units_are_derived_from_nodes_when_a_topology_is_added_later() {
    let mut cluster = fresh(4, &["a1", "b1"], rolling(1, 0));
    label(&mut cluster, &[("a1", "A"), ("b1", "B")]);
    cluster.run(20);
    assert_eq!(cluster.units(), [""; 4]);
    let containers = cluster.containers.clone();
    cluster.world.record.spec.topology = Some(zones(&["A", "B"]));
    cluster.replan().run(20);
    let mut units = cluster.units();
    units.sort_unstable();
    assert_eq!((units, cluster.containers.len()), (vec!["A", "A", "B", "B"], 4));
    assert_eq!(cluster.containers, containers, "no instance had to move");
}

#[test]
fn the_quota_of_a_full_unit_moves_to_one_with_free_resources() {
    let mut cluster = in_units(4, rolling(1, 0));
    let topology = cluster.world.record.spec.topology.as_mut().expect("units");
    topology.auto_reschedule =
        Some(AutoReschedule { enable: true, initial_delay_seconds: 30, ..AutoReschedule::default() });
    for node in ["a1", "a2"] {
        cluster.world.candidate(node).facts.memory = 64 * MIB;
    }
    cluster.scale(8).run(4);
    assert_eq!(cluster.serving(), 6);
    cluster.run(30);
    let count = |unit: &str| cluster.units().iter().filter(|it| **it == unit).count();
    assert_eq!((cluster.serving(), count("A"), count("B")), (8, 2, 6));
}

#[test]
fn a_pod_without_a_memory_limit_has_room_on_a_node_without_free_memory() {
    let mut cluster = in_units(2, rolling(1, 0));
    let topology = cluster.world.record.spec.topology.as_mut().expect("units");
    topology.auto_reschedule = Some(AutoReschedule { enable: true, ..AutoReschedule::default() });
    for node in ["a1", "a2"] {
        let candidate = cluster.world.candidate(node);
        candidate.used.memory = candidate.facts.memory;
    }
    cluster.world.candidate("b1").cordon = Some("cordoned".to_owned());
    cluster.world.instances[0].unplaced_since = at(1);
    let free_capacity = |cluster: &TestCluster| -> Vec<Option<i64>> {
        cluster.controller_facts().units.iter().map(|unit| unit.free_capacity).collect()
    };
    assert_eq!(free_capacity(&cluster), [Some(0), Some(16)], "a1 and a2 are full, b2 has 1 GiB for pods of 64 MiB");
    cluster.world.record.spec.pod.containers[0].memory_limit = 0;
    assert_eq!(
        free_capacity(&cluster),
        [Some(31), Some(16)],
        "by CPU alone: 8 cores for pods of half a core, one of which runs"
    );
}

#[test]
fn nothing_follows_from_a_silent_node() {
    let mut cluster = cluster(4, &["a", "b"], rolling(0, 1));
    cluster.world.candidate("a").liveness = Liveness::Suspect;
    cluster.world.candidate("b").liveness = Liveness::Suspect;
    let containers = cluster.containers.clone();
    cluster.patch(|_| ()).run(20);
    assert_eq!((cluster.versions(), &cluster.containers), (all(0, 4), &containers));
    cluster.world.candidate("a").liveness = Liveness::Alive;
    cluster.world.candidate("b").liveness = Liveness::Alive;
    cluster.replan().run(60);
    assert_eq!((cluster.versions(), cluster.fewest), (all(1, 4), 3));
}

#[test]
fn pods_of_a_lost_node_are_recreated_at_their_version_during_a_rollout() {
    let mut cluster = cluster(4, &["a", "b", "c"], rolling(1, 0));
    cluster.patch(|_| ()).run(2);
    cluster.world.candidate("b").liveness = Liveness::Lost;
    cluster.replan().run(80);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 4), RolloutStatus::Complete));
    assert!(cluster.world.instances.iter().all(|instance| instance.node != Some(name("b"))));
}
