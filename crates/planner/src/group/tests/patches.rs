//! A patch during an upgrade replaces the rest of the upgrade and takes down no second instance.

use super::world::*;

/// Three instances; the second was just given version 1 when the user asks for version 2.
fn patched_twice() -> TestGroup {
    let mut world = world(3, &["a"]).all_healthy();
    world.patch(10, |_| ());
    world.settle(10);
    world.observed[0] = healthy(11);
    world.settle(11);
    assert_eq!(world.versions(), [1, 1, 0]);
    world.patch(12, |_| ());
    world
}

#[test]
fn the_first_instance_is_not_taken_down_while_another_is_starting() {
    let mut world = patched_twice();
    world.settle(12);
    assert_eq!(world.versions(), [1, 1, 0], "the second is not up yet");
    world.observed[1] = starting(13);
    world.settle(13);
    assert_eq!(world.versions(), [1, 1, 0], "it is not well yet");
    world.observed[1] = healthy(13);
    world.settle(14);
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
    world.patch(10, |_| ());
    world.settle(10);
    world.patch(11, |_| ());
    world.settle(11);
    assert_eq!(world.versions(), [2, 0, 0]);
}
