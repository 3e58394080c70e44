//! Images are on the node before anything happens to the pod that serves there.

use super::*;

const SERVES: usize = 3;

fn with_image(pod: &mut PodSpec) {
    pod.containers[0].image = "j".to_owned();
}

/// Three instances that are updated in place, one at a time, after a drain of ten seconds.
fn in_place() -> TestCluster {
    let mut cluster = cluster(3, &["a", "b"], rolling(0, 1));
    cluster.world.record.spec.update_policy = UpdatePolicy::InPlaceIfPossible;
    cluster.world.record.spec.drain = Some(Drain { grace_seconds: 10, ..Drain::default() });
    cluster
}

fn fetching(cluster: &TestCluster) -> Vec<usize> {
    let instances = cluster.world.instances.iter().enumerate();
    instances.filter(|(_, instance)| instance.fetching.is_some()).map(|(index, _)| index + 1).collect()
}

#[test]
fn an_instance_pulls_then_drains_then_is_renewed() {
    let mut cluster = in_place();
    cluster.patch(with_image).tick();
    let turn = fetching(&cluster);
    assert_eq!((turn.len(), drained(&cluster), cluster.serving()), (1, Vec::new(), SERVES), "one step's worth");
    let asked = cluster.world.instances[turn[0] - 1].fetching;
    assert!(matches!(asked, Some(Fetching { version: 1, .. })));
    assert_eq!(cluster.last.report.as_ref().expect("a report").waits_for, [number(turn[0] - 1)]);
    cluster.tick();
    assert_eq!((fetching(&cluster), drained(&cluster), cluster.versions()), (Vec::new(), turn.clone(), all(0, 3)));
    cluster.run(2);
    assert_eq!((cluster.world.instances[turn[0] - 1].version, drained(&cluster)), (1, Vec::new()));
    cluster.run(60);
    assert_eq!((cluster.versions(), cluster.status(), cluster.fewest), (all(1, 3), RolloutStatus::Complete, 2));
    assert_eq!(fetching(&cluster), Vec::<usize>::new());
}

#[test]
fn an_image_that_cannot_be_pulled_pauses_the_rollout_without_touching_a_pod() {
    let strategies = [rolling(0, 1), batches(StrategyType::Batch, 2), strategy(StrategyType::Recreate)];
    for (strategy, policy) in
        strategies.iter().flat_map(|it| [(it, UpdatePolicy::ReCreate), (it, UpdatePolicy::InPlaceOnly)])
    {
        let mut cluster = cluster(3, &["a", "b"], strategy.clone());
        cluster.world.record.spec.update_policy = policy;
        let before = cluster.containers.clone();
        cluster.behaviour.insert(1, PodBehaviour::NoImage);
        cluster.patch(with_image).run(30);
        assert_eq!(
            (cluster.status(), cluster.fewest),
            (RolloutStatus::Held(Cause::ImageHopeless), SERVES),
            "{strategy:?}"
        );
        assert_eq!((&cluster.containers, fetching(&cluster)), (&before, Vec::new()), "{strategy:?}");
        let text = &cluster.world.record.last_error;
        assert!(text.contains(" cannot pull the image (") && text.contains("manifest unknown)"), "{text}");
    }
}

#[test]
fn an_undo_touches_no_pod() {
    let mut cluster = in_place();
    let before = cluster.containers.clone();
    cluster.world.record.spec.failure_action = Some(FailureAction::Rollback);
    cluster.behaviour.insert(1, PodBehaviour::NoImage);
    cluster.patch(with_image).run(30);
    assert_eq!((cluster.world.record.spec.version, cluster.status()), (2, RolloutStatus::Complete));
    assert_eq!((&cluster.containers, fetching(&cluster), cluster.fewest), (&before, Vec::new(), SERVES));
}

#[test]
fn pulls_are_cancelled_when_no_pod_is_to_be_replaced() {
    for word in [Control::Abort, Control::Freeze] {
        let mut cluster = in_place();
        cluster.fetches = PullBehaviour::Endlessly;
        cluster.patch(with_image).run(5);
        assert_eq!((fetching(&cluster).len(), cluster.serving()), (1, SERVES));
        cluster.say(word).tick();
        assert_eq!(fetching(&cluster), Vec::<usize>::new(), "{word:?}");
    }
    let mut cluster = in_place();
    cluster.fetches = PullBehaviour::Endlessly;
    cluster.patch(with_image).run(5);
    cluster.patch(|pod| pod.containers[0].image = "i".to_owned()).tick();
    let asked: Vec<u32> =
        cluster.world.instances.iter().filter_map(|instance| Some(instance.fetching?.version)).collect();
    assert_eq!(asked, Vec::<u32>::new(), "its node has that image");
}

#[test]
fn a_pull_that_takes_too_long_fails_at_the_deadline() {
    let mut cluster = in_place();
    cluster.fetches = PullBehaviour::Endlessly;
    cluster.patch(with_image).run(110);
    assert_eq!((cluster.status(), cluster.serving()), (RolloutStatus::Progressing, SERVES));
    cluster.run(20);
    assert_eq!((cluster.status(), cluster.fewest), (RolloutStatus::Held(Cause::DeadlineExceeded), SERVES));
    cluster.fetches = PullBehaviour::AtOnce;
    cluster.say(Control::Resume).run(60);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
}

#[test]
fn agents_that_cannot_pull_ahead_or_do_not_answer_delay_little() {
    let mut cluster = in_place();
    cluster.world.nodes.values_mut().for_each(|candidate| candidate.facts.fetches_ahead = false);
    cluster.patch(with_image).tick();
    assert_eq!((fetching(&cluster), drained(&cluster).len()), (Vec::new(), 1));
    let mut cluster = in_place();
    cluster.fetches = PullBehaviour::Silently;
    cluster.patch(with_image).run(12);
    assert_eq!((fetching(&cluster).len(), cluster.serving()), (1, SERVES));
    cluster.tick();
    assert_eq!((fetching(&cluster), drained(&cluster).len()), (Vec::new(), 1), "a minute is over");
    cluster.run(90);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
}

#[test]
fn only_missing_images_are_pulled_and_only_for_serving_pods() {
    let mut cluster = cluster(3, &["a", "b"], rolling(0, 1));
    cluster.patch(|pod| pod.containers[0].env = vec!["A=b".to_owned()]).tick();
    assert_eq!((fetching(&cluster), cluster.versions().concat().contains(&1)), (Vec::new(), true));
    cluster.run(40);
    cluster.behaviour.insert(1, PodBehaviour::Unwell);
    cluster.replan().tick();
    cluster.patch(with_image).tick();
    assert_eq!(
        (fetching(&cluster), cluster.versions().concat().contains(&2)),
        (Vec::new(), true),
        "no instance serves"
    );
}

#[test]
fn a_recreate_rollout_waits_for_the_last_image() {
    let mut cluster = cluster(3, &["a", "b"], strategy(StrategyType::Recreate));
    cluster.world.candidate("b").facts.fetches_ahead = false;
    cluster.fetches = PullBehaviour::Endlessly;
    cluster.patch(with_image).run(20);
    assert_eq!((cluster.serving(), cluster.versions()), (SERVES, all(0, 3)));
    cluster.fetches = PullBehaviour::AtOnce;
    cluster.run(30);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
}

#[test]
fn a_skipped_instance_does_not_wait_for_its_image() {
    let mut cluster = cluster(3, &["a", "b"], batches(StrategyType::Batch, 1));
    cluster.world.record.spec.failure_action = Some(FailureAction::Continue);
    cluster.behaviour.insert(1, PodBehaviour::NoImage);
    cluster.patch(with_image).run(100);
    assert_eq!(cluster.versions(), all(1, 3));
}
