//! A removed stateful instance is remembered until its node confirms that it is gone.

use super::world::*;
use super::*;

/// Two stateful instances, the second on node b.
fn stateful() -> TestGroup {
    let mut world = world(2, &["a", "b", "c"]);
    world.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    let world = world.all_running();
    assert_eq!(world.places(), [Some("a"), Some("b")]);
    world
}

fn scale(world: &mut TestGroup, instances: i64, now: i64) -> GroupPlan {
    world.record.spec.num_instances = instances;
    world.settle(now)
}

/// The second instance is removed while its node is lost.
fn removed_on_a_lost_node() -> TestGroup {
    let mut world = stateful();
    world.candidate("b").liveness = Liveness::Lost;
    let plan = scale(&mut world, 1, 10);
    assert!(plan.store);
    assert_eq!((world.instances.len(), world.instances[1].presence, world.leaves(1)), (2, Presence::Free, Some("b")));
    world
}

#[test]
fn the_number_of_a_removed_stateful_instance_waits_for_the_node_that_has_its_data() {
    let mut world = removed_on_a_lost_node();
    assert!(!world.settle(11).store, "a tombstone alone changes nothing");
    scale(&mut world, 2, 12);
    assert_eq!((world.instances[1].presence, world.leaves(1), world.instances[1].drift), (Presence::Pod, Some("b"), 1));
    world.settle(13);
    assert_eq!(world.instances[1].why, "node b, which it leaves, is lost; the instance is stateful and waits for it");
    world.candidate("b").liveness = Liveness::Alive;
    world.settle(14);
    assert_eq!(world.leaves(1), Some("b"), "the node is back and still has it");
    world.vacate(15);
    assert_eq!((world.leaves(1), world.instances[1].node.is_some(), world.instances[1].drift), (None, true, 1));
}

#[test]
fn a_tombstone_goes_when_its_node_confirms_that_the_instance_is_gone() {
    let mut world = removed_on_a_lost_node();
    world.candidate("b").liveness = Liveness::Alive;
    world.still_on_old_node.clear();
    assert!(world.settle(12).store);
    assert_eq!(world.instances.len(), 1);
}

#[test]
fn a_tombstone_goes_with_a_node_that_is_removed_from_the_cluster() {
    let mut world = removed_on_a_lost_node();
    world.candidate("b").decommissioned = true;
    assert!(world.settle(12).store);
    assert_eq!(world.instances.len(), 1);
}

#[test]
fn a_tombstone_on_a_connected_node_keeps_a_second_copy_from_starting_too() {
    let mut world = stateful();
    scale(&mut world, 1, 10);
    scale(&mut world, 2, 11);
    assert_eq!((world.instances[1].presence, world.leaves(1)), (Presence::Pod, Some("b")));
    world.vacate(12);
    assert_eq!(world.leaves(1), None);
}

#[test]
fn a_removed_instance_without_data_leaves_no_tombstone() {
    let mut world = world(2, &["a", "b"]).all_running();
    world.candidate("b").liveness = Liveness::Lost;
    scale(&mut world, 1, 10);
    assert_eq!(world.instances.len(), 1);
}

#[test]
fn operations_skip_tombstones() {
    let mut world = removed_on_a_lost_node();
    world.operate(Operation::Stopping, 1..=1, 20);
    assert_eq!((world.instances[0].target, world.instances[1].target), (TargetState::Stop, TargetState::Run));
    world.upgrade(30, |_| ());
    assert_eq!((world.instances[0].version, world.instances[1].version, world.leaves(1)), (1, 0, Some("b")));
}

#[test]
fn a_tombstone_outlives_a_patch_that_takes_the_data_away() {
    let mut world = stateful();
    world.candidate("b").liveness = Liveness::Lost;
    world.patch(10, |pod| pod.containers[0].volumes.clear());
    scale(&mut world, 1, 10);
    for second in 11..20 {
        world.report(0, healthy(5), second);
    }
    assert_eq!(
        (world.instances[0].version, world.instances[1].presence, world.leaves(1)),
        (1, Presence::Free, Some("b"))
    );
}
