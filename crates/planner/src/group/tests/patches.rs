//! A patch during an upgrade replaces the rest of the upgrade and takes down no second instance.

use super::world::*;

/// Three instances; the second was just given version 1 when the user asks for version 2.
fn patched_twice() -> TestGroup {
    let mut world = world(3, &["a"]).all_healthy();
    world.upgrade(10, |_| ());
    world.report(0, healthy(11), 11);
    assert_eq!(world.versions(), [1, 1, 0]);
    world.patch(12, |_| ());
    world
}

#[test]
fn the_first_instance_is_not_taken_down_while_another_is_starting() {
    let mut world = patched_twice();
    world.settle(12);
    assert_eq!(world.versions(), [1, 1, 0], "the second is not up yet");
    world.report(1, starting(13), 13);
    assert_eq!(world.versions(), [1, 1, 0], "it is not well yet");
    world.report(1, healthy(13), 14);
    assert_eq!(world.versions(), [2, 1, 0]);
}

#[test]
fn the_wait_for_an_instance_that_does_not_start_is_limited() {
    let mut world = patched_twice();
    let plan = world.settle(12);
    assert_eq!((world.versions(), plan.wake_at), (vec![1, 1, 0], Some(at(111))), "five polls after its turn");
    world.settle(111);
    assert_eq!(world.versions(), [2, 1, 0]);
}

#[test]
fn an_instance_that_is_down_gets_the_newest_version_immediately() {
    let mut world = world(3, &["a"]).all_healthy();
    world.upgrade(10, |_| ());
    world.upgrade(11, |_| ());
    assert_eq!(world.versions(), [2, 0, 0]);
}
