//! Failed rollouts: paused or rolled back, without touching other instances.

use super::*;

fn broken(manner: PodBehaviour, action: FailureAction) -> TestCluster {
    let mut cluster = cluster(4, &["a", "b"], rolling(1, 1));
    cluster.world.record.spec.failure_action = Some(action);
    cluster.behaviour.insert(1, manner);
    cluster.patch(|pod| pod.containers[0].image = "bad".to_owned());
    cluster
}

#[test]
fn a_crash_looping_version_pauses_the_rollout_and_the_error_names_the_remedy() {
    let mut cluster = broken(PodBehaviour::Crashes, FailureAction::Hold);
    cluster.run(60);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::Crashing));
    assert_eq!((cluster.fewest, cluster.serving()), (3, 3), "the others keep serving");
    let text = &cluster.world.record.last_error;
    assert!(text.starts_with("the rollout is paused: revision 1: instance"), "{text}");
    assert!(text.contains("crash-looping") && text.contains("exited (3), "), "{text}");
    assert!(text.contains(" restarts: cannot open /etc/app.conf"), "{text}");
    assert!(text.ends_with("; resume continues with it, undo goes back"), "{text}");
    assert_eq!(cluster.incidents, []);
}

#[test]
fn a_new_spec_clears_the_failure_and_its_text() {
    let mut cluster = broken(PodBehaviour::NoImage, FailureAction::Hold);
    cluster.run(10);
    cluster.patch(|pod| pod.containers[0].image = "good".to_owned()).run(60);
    assert_eq!((cluster.versions(), cluster.status()), (all(2, 4), RolloutStatus::Complete));
    assert_eq!((cluster.world.record.last_error.as_str(), cluster.fewest), ("", 3));
}

#[test]
fn a_resumed_rollout_waits_for_the_failed_instance() {
    let mut cluster = broken(PodBehaviour::Crashes, FailureAction::Hold);
    cluster.run(60);
    cluster.behaviour.clear();
    cluster.say(Control::Resume).run(60);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 4), RolloutStatus::Complete));
    assert_eq!(cluster.world.record.last_error, "");
}

#[test]
fn a_rollback_touches_only_failed_instances() {
    let mut cluster = broken(PodBehaviour::Crashes, FailureAction::Rollback);
    let untouched: Vec<usize> = {
        cluster.run(4);
        let instances = cluster.world.instances.iter().enumerate();
        instances.filter(|(_, instance)| instance.version == 0).map(|(index, _)| index).collect()
    };
    assert!(!untouched.is_empty());
    let containers = |cluster: &TestCluster| -> Vec<i64> {
        untouched
            .iter()
            .map(|index| {
                let instance = number(*index);
                let oldest =
                    cluster.containers.iter().filter(|((_, id), _)| id.instance == instance && id.version == 0);
                oldest.map(|(_, it)| it.up_at).min().expect("it runs")
            })
            .collect()
    };
    let before = containers(&cluster);
    cluster.run(80);
    let record = &cluster.world.record;
    assert_eq!((record.spec.version, record.spec.pod.containers[0].image.as_str()), (2, "i"));
    assert_eq!((&record.equals, record.proven), (&BTreeSet::from([0]), Some(2)));
    assert!(record.last_error.starts_with("rolled back from revision 1 to revision 0: instance"));
    assert_eq!((containers(&cluster), cluster.status()), (before, RolloutStatus::Complete), "they were never touched");
    assert_eq!(cluster.incidents.len(), 1, "reported once");
    assert!(matches!(cluster.incidents[0].1, Incident::BadUpgrade { version: 1 }));
    assert!(cluster.versions().iter().all(|versions| *versions == [0] || *versions == [2]), "{:?}", cluster.versions());
    assert_eq!(cluster.fewest, 3);
}

#[test]
fn without_a_completed_revision_a_rollback_pauses() {
    let mut cluster = fresh(2, &["a"], rolling(1, 0));
    cluster.world.record.spec.failure_action = Some(FailureAction::Rollback);
    cluster.behaviour.insert(0, PodBehaviour::NoImage);
    cluster.run(20);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::ImageHopeless));
    let text = &cluster.world.record.last_error;
    assert!(text.ends_with("cannot pull the image; resume continues with it"), "nothing to undo: {text}");
}

#[test]
fn a_paused_group_starts_no_rollout_but_scales() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    cluster.world.record.spec.paused = true;
    cluster.patch(|_| ()).run(20);
    assert_eq!((cluster.versions(), cluster.status()), (all(0, 3), RolloutStatus::Paused));
    cluster.scale(4).run(20);
    assert_eq!((cluster.versions().len(), cluster.serving()), (4, 4));
    cluster.world.record.spec.paused = false;
    cluster.say(Control::Resume).run(60);
    assert_eq!((cluster.versions(), cluster.status(), cluster.fewest), (all(1, 4), RolloutStatus::Complete, 3));
}
