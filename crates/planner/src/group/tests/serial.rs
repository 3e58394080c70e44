//! Serial upgrades: failing versions, the end of the lock, completion.

use contract::report::{ContainerFacts, FetchState, Fetched};
use contract::state::RestartPolicy;

use super::world::*;
use super::*;

const ROLLED_BACK: &str = "Your Last upgrade is terrrible, so we won't upgrade it, please check your code carefully!!";

fn unhealthy(since: i64) -> Option<PodFacts> {
    running(HealthState::Unhealthy, since)
}

/// Runs without a health check.
fn unchecked(since: i64) -> Option<PodFacts> {
    running(HealthState::None, since)
}

/// A container that ran from one second to another and exited with a code, after earlier restarts.
fn exited(code: i64, from: i64, to: i64, restarts: u32) -> Option<PodFacts> {
    let container =
        ContainerFacts { exit_code: code, started_at: at(from), finished_at: at(to), ..ContainerFacts::default() };
    Some(PodFacts { state: RunState::Exit, containers: vec![container], restarts, ..PodFacts::default() })
}

/// The report on a running pod whose node pulls the images of a version.
fn fetching(version: u32, state: FetchState) -> Option<PodFacts> {
    let error = if state == FetchState::Hopeless { "manifest unknown".to_owned() } else { String::new() };
    let fetched = Some(Fetched { version, state, error });
    healthy(0).map(|facts| PodFacts { fetched, ..facts })
}

/// All instances run version 0 and none was ever healthy.
fn never_healthy(instances: i64) -> TestGroup {
    let mut world = world(instances, &["a", "b"]);
    world.settle(0);
    world.observed = vec![unhealthy(0); world.instances.len()];
    assert!(world.settle(1).finished());
    world.settle(3);
    world
}

/// All instances run version 0, which completed, under a restart policy.
fn completed(instances: i64, policy: RestartPolicy) -> TestGroup {
    let mut world = world(instances, &["a", "b"]);
    world.record.spec.restart_policy = policy;
    world.settle(0);
    world.observed = vec![unchecked(0); world.instances.len()];
    world.settle(1);
    world.settle(30);
    assert_eq!(world.record.proven, Some(0));
    world
}

/// As [`completed`], with agents that pull images ahead, and a patch with another image at 50.
fn changing_image(instances: i64) -> TestGroup {
    let mut world = completed(instances, RestartPolicy::Always);
    world.nodes.values_mut().for_each(|candidate| candidate.facts.fetches_ahead = true);
    world.observed = vec![healthy(0); world.instances.len()];
    world.upgrade(50, |pod| pod.containers[0].image = "next".to_owned());
    world
}

#[test]
fn a_single_instance_that_is_unhealthy_is_unlocked_as_soon_as_it_is_deployed() {
    let mut world = never_healthy(1);
    world.upgrade(10, |_| ());
    assert_eq!(world.operation(), Some(Operation::Upgrading), "it is not deployed yet");
    assert!(world.report(0, unhealthy(12), 12).finished());
    let plan = world.settle(700);
    assert_eq!((world.versions(), plan.incidents), (vec![1], vec![]), "there is no version that worked");
}

#[test]
fn a_group_that_was_never_healthy_is_rolled_back_after_five_polls_and_unlocked() {
    let mut world = never_healthy(3);
    world.record.proven = None;
    world.upgrade(10, |pod| pod.containers[0].env = vec!["A=1".to_owned()]);
    assert_eq!(world.report(0, unhealthy(12), 12).wake_at, Some(at(112)));
    let plan = world.settle(112);
    assert_eq!(plan.incidents, [(1, Incident::BadUpgrade { version: 1 })]);
    assert_eq!((world.versions(), &world.record.equals), (vec![2, 0, 0], &BTreeSet::from([0])));
    assert_eq!(world.record.last_error, ROLLED_BACK);
    assert!(world.report(0, unhealthy(114), 114).finished(), "the lock ends with the deploy of the old version");
    assert_eq!((world.versions(), world.record.last_error.as_str()), (vec![2, 0, 0], ROLLED_BACK));
}

#[test]
fn the_lock_ends_with_the_last_deploy_and_the_version_completes_ten_seconds_later() {
    let mut world = world(2, &["a"]).all_healthy();
    world.settle(20);
    assert_eq!(world.record.proven, Some(0));
    world.upgrade(30, |_| ());
    world.report(0, healthy(31), 31);
    assert_eq!(world.versions(), [1, 1]);
    assert!(!world.settle(32).finished(), "instance 2 is not deployed yet");
    assert!(world.report(1, starting(33), 33).finished());
    assert_eq!(world.record.proven, Some(0), "instance 2 is not healthy yet");
    assert_eq!((world.report(1, healthy(33), 36).wake_at, world.record.proven), (Some(at(43)), Some(0)));
    world.settle(43);
    assert_eq!((world.record.proven, world.record.former.len()), (Some(1), 0));
    assert_eq!(world.settle(44).record, None);
}

#[test]
fn a_version_whose_last_instance_exits_early_does_not_complete_and_last_error_says_why() {
    let mut world = completed(2, RestartPolicy::Always);
    world.upgrade(50, |_| ());
    world.report(0, unchecked(51), 51);
    world.settle(61);
    assert_eq!(world.versions(), [1, 1]);
    assert!(world.report(1, unchecked(62), 62).finished());
    world.report(1, exited(3, 66, 70, 1), 70);
    world.settle(400);
    assert_eq!((world.versions(), world.record.proven, world.operation()), (vec![1, 1], Some(0), None));
    let said = "instance 2 fails in version 1: it exited with code 3 within 10 s of its start, 2 times";
    assert_eq!(world.record.last_error, said);
}

#[test]
fn the_next_instance_is_not_replaced_before_the_last_one_ran_for_ten_seconds() {
    let mut world = completed(2, RestartPolicy::Always);
    world.upgrade(50, |_| ());
    assert_eq!(world.report(0, unchecked(52), 52).wake_at, Some(at(62)));
    world.settle(61);
    assert_eq!(world.versions(), [1, 0]);
    world.settle(62);
    assert_eq!(world.versions(), [1, 1]);
}

#[test]
fn two_early_exits_of_the_first_instance_roll_the_version_back() {
    for instances in [1, 3] {
        let mut world = completed(instances, RestartPolicy::Always);
        world.upgrade(50, |pod| pod.containers[0].env = vec!["A=1".to_owned()]);
        assert_eq!(
            (world.report(0, exited(3, 52, 56, 0), 56).incidents, world.record.spec.version),
            (vec![], 1),
            "it is restarted once"
        );
        let plan = world.report(0, exited(3, 56, 60, 1), 60);
        assert_eq!(plan.incidents, [(1, Incident::BadUpgrade { version: 1 })], "{instances}");
        let mut expected = vec![0; world.instances.len()];
        expected[0] = 2;
        assert_eq!((world.versions(), world.record.spec.pod.containers[0].env.len()), (expected, 0));
        let why = "instance 1: it exited with code 3 within 10 s of its start, 2 times";
        assert_eq!(world.record.last_error, format!("{ROLLED_BACK} ({why})"));
        assert!(world.report(0, unchecked(61), 61).finished());
    }
}

#[test]
fn an_exit_that_nothing_restarts_is_final() {
    let mut world = completed(1, RestartPolicy::Never);
    world.upgrade(50, |_| ());
    assert_eq!(world.report(0, exited(3, 52, 56, 0), 56).incidents.len(), 1);
    assert_eq!(world.versions(), [2]);
}

#[test]
fn an_exit_without_an_error_or_after_ten_seconds_is_no_early_exit() {
    for (code, to) in [(0, 56), (3, 62)] {
        let mut world = completed(2, RestartPolicy::Always);
        world.upgrade(50, |_| ());
        assert_eq!(world.report(0, exited(code, 52, to, 1), to).incidents, [], "{code} at {to}");
        assert_eq!(world.settle(150).incidents.len(), 1, "it had five polls to run: {code} at {to}");
    }
}

#[test]
fn a_first_version_that_is_replaced_by_a_broken_one_before_it_completed_is_what_a_rollback_returns_to() {
    let mut world = world(1, &["a"]);
    world.settle(0);
    world.report(0, unchecked(0), 1);
    world.upgrade(5, |pod| pod.containers[0].env = vec!["A=1".to_owned()]);
    world.settle(6);
    world.report(0, exited(3, 6, 8, 0), 8);
    assert_eq!((world.versions(), world.record.spec.pod.containers[0].env.len()), (vec![2], 0));
}

#[test]
fn an_instance_that_cannot_be_started_twice_rolls_the_version_back() {
    let mut world = completed(2, RestartPolicy::Always);
    world.upgrade(50, |_| ());
    let refused = |refusals| {
        let last_error = "exec: no such file".to_owned();
        Some(PodFacts { state: RunState::Fail, refusals, last_error, ..PodFacts::default() })
    };
    assert_eq!(world.report(0, refused(1), 52).incidents, []);
    world.report(0, refused(2), 62);
    assert_eq!(world.versions(), [2, 0]);
    let why = "instance 1: it could not be started, 2 times: exec: no such file";
    assert_eq!(world.record.last_error, format!("{ROLLED_BACK} ({why})"));
}

#[test]
fn an_instance_that_cannot_be_created_on_two_nodes_rolls_the_version_back() {
    let mut world = completed(2, RestartPolicy::Always);
    world.upgrade(50, |_| ());
    world.report(0, reported(RunState::Error), 52);
    world.vacate(62);
    assert_eq!((world.versions(), world.drifts()), (vec![1, 0], vec![1, 0]), "it is tried elsewhere");
    world.vacate(63);
    world.report(0, reported(RunState::Error), 64);
    assert_eq!(world.versions(), [2, 0]);
}

#[test]
fn a_later_instance_that_fails_pauses_the_upgrade_without_the_lock_until_it_works() {
    let mut world = completed(4, RestartPolicy::Always);
    world.upgrade(50, |_| ());
    world.report(0, unchecked(51), 61);
    let plan = world.report(1, exited(3, 66, 70, 1), 70);
    assert!(plan.finished());
    assert_eq!((world.versions(), plan.incidents), (vec![1, 1, 0, 0], vec![]));
    let said = "instance 2 fails in version 1: it exited with code 3 within 10 s of its start, 2 times; \
                the upgrade is paused and instances 3, 4 are not replaced";
    assert_eq!(world.record.last_error, said);
    world.report(1, unchecked(80), 80);
    assert_eq!(world.record.last_error, said, "it has not run for ten seconds yet");
    world.settle(90);
    assert_eq!((world.versions(), world.record.last_error.as_str()), (vec![1, 1, 1, 0], ""));
}

#[test]
fn the_old_container_serves_until_the_image_is_on_its_node() {
    let mut world = changing_image(2);
    assert_eq!((world.versions(), world.instances[0].fetching.map(|it| it.version)), (vec![0, 0], Some(1)));
    assert_eq!(world.instances[1].fetching, None, "only the instance whose turn it is");
    world.report(0, fetching(1, FetchState::Coming), 300);
    assert_eq!((world.versions(), world.operation()), (vec![0, 0], Some(Operation::Upgrading)));
    world.report(0, fetching(1, FetchState::Here), 301);
    assert_eq!((world.versions(), world.instances[0].fetching), (vec![1, 0], None));
}

#[test]
fn an_unhealthy_container_serves_until_the_image_is_on_its_node_too() {
    let mut world = never_healthy(2);
    world.nodes.values_mut().for_each(|candidate| candidate.facts.fetches_ahead = true);
    world.upgrade(10, |pod| pod.containers[0].image = "next".to_owned());
    assert_eq!((world.versions(), world.instances[0].fetching.is_some()), (vec![0, 0], true));
}

#[test]
fn an_image_that_cannot_be_pulled_is_rolled_back_and_no_instance_is_touched() {
    for instances in [1, 2] {
        let mut world = changing_image(instances);
        let before = world.places().into_iter().map(|it| it.map(str::to_owned)).collect::<Vec<_>>();
        let plan = world.report(0, fetching(1, FetchState::Hopeless), 52);
        assert_eq!(plan.incidents, [(1, Incident::BadUpgrade { version: 1 })]);
        assert_eq!((world.record.spec.version, world.record.spec.pod.containers[0].image.as_str()), (2, "i"));
        let why = "instance 1: its image cannot be pulled: manifest unknown";
        assert_eq!(world.record.last_error, format!("{ROLLED_BACK} ({why})"));
        world.report(0, healthy(0), 53);
        assert_eq!(world.operation(), None);
        assert_eq!(world.versions(), vec![0; world.instances.len()]);
        let after = world.places().into_iter().map(|it| it.map(str::to_owned)).collect::<Vec<_>>();
        assert_eq!(
            (after, world.drifts(), world.instances[0].fetching),
            (before, vec![0; world.instances.len()], None)
        );
    }
}

#[test]
fn a_later_instance_whose_image_cannot_be_pulled_keeps_its_version_and_frees_the_lock() {
    let mut world = changing_image(3);
    world.report(0, fetching(1, FetchState::Here), 51);
    world.report(0, healthy(52), 52);
    assert!(world.instances[1].fetching.is_some());
    assert!(world.report(1, fetching(1, FetchState::Hopeless), 54).finished());
    assert_eq!(world.versions(), [1, 0, 0]);
    let said = "instance 2 is not upgraded to version 1: its image cannot be pulled: manifest unknown";
    assert_eq!(world.record.last_error, said);
    world.report(1, fetching(1, FetchState::Here), 90);
    assert_eq!((world.versions(), world.record.last_error.as_str()), (vec![1, 1, 0], ""));
}
