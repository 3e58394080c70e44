//! What is held, what is taken back, and that it touches nobody it need not.

use contract::rollout::FailureAction;

use super::*;
use crate::rollout::controller::{Cause, Control, RolloutStatus};

fn broken(manner: Manner, action: FailureAction) -> Cluster {
    let mut cluster = cluster(4, &["a", "b"], rolling(1, 1));
    cluster.world.record.spec.failure_action = Some(action);
    cluster.manners.insert(1, manner);
    cluster.patch(|pod| pod.containers[0].image = "bad".to_owned());
    cluster
}

#[test]
fn a_crash_looping_version_is_held_and_the_error_names_what_to_do() {
    let mut cluster = broken(Manner::Crashes, FailureAction::Hold);
    cluster.run(60);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::Crashing));
    assert_eq!((cluster.fewest, cluster.serving()), (3, 3), "the others go on serving");
    let text = &cluster.world.record.last_error;
    assert!(text.starts_with("the release is held: revision 1: instance"), "{text}");
    assert!(text.contains("crash-looping") && text.contains("exited (3), "), "{text}");
    assert!(text.contains(" restarts: cannot open /etc/app.conf"), "{text}");
    assert!(text.ends_with("; resume goes on with it, undo goes back"), "{text}");
    assert_eq!(cluster.incidents, []);
}

#[test]
fn an_image_that_cannot_be_had_is_found_at_once() {
    let mut cluster = broken(Manner::NoImage, FailureAction::Hold);
    cluster.run(5);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::ImageHopeless));
    cluster.run(100);
    assert_eq!((cluster.status(), cluster.fewest), (RolloutStatus::Held(Cause::ImageHopeless), 4));
}

#[test]
fn what_is_never_well_is_found_at_the_deadline() {
    let mut cluster = broken(Manner::Unwell, FailureAction::Hold);
    cluster.run(100);
    assert_eq!(cluster.status(), RolloutStatus::Progressing);
    cluster.run(60);
    assert_eq!((cluster.status(), cluster.fewest), (RolloutStatus::Held(Cause::DeadlineExceeded), 3));
}

#[test]
fn a_new_spec_ends_the_failure_and_what_was_said_of_it() {
    let mut cluster = broken(Manner::NoImage, FailureAction::Hold);
    cluster.run(10);
    cluster.patch(|pod| pod.containers[0].image = "good".to_owned()).run(60);
    assert_eq!((cluster.versions(), cluster.status()), (all(2, 4), RolloutStatus::Complete));
    assert_eq!((cluster.world.record.last_error.as_str(), cluster.fewest), ("", 3));
}

#[test]
fn a_release_that_is_resumed_waits_for_who_failed() {
    let mut cluster = broken(Manner::Crashes, FailureAction::Hold);
    cluster.run(60);
    cluster.manners.clear();
    cluster.say(Control::Resume).run(60);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 4), RolloutStatus::Complete));
    assert_eq!(cluster.world.record.last_error, "");
}

#[test]
fn a_rollback_touches_only_what_is_bad() {
    let mut cluster = broken(Manner::Crashes, FailureAction::Rollback);
    let untouched: Vec<usize> = {
        cluster.run(4);
        let slots = cluster.world.slots.iter().enumerate();
        slots.filter(|(_, slot)| slot.version == 0).map(|(index, _)| index).collect()
    };
    assert!(!untouched.is_empty());
    let containers = |cluster: &Cluster| -> Vec<i64> {
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
    assert!(record.last_error.starts_with("revision 1 was taken back to revision 0: instance"));
    assert_eq!((containers(&cluster), cluster.status()), (before, RolloutStatus::Complete), "they were never touched");
    assert_eq!(cluster.incidents.len(), 1, "told once");
    assert!(matches!(cluster.incidents[0].1, Incident::BadUpgrade { version: 1 }));
    assert!(cluster.versions().iter().all(|versions| *versions == [0] || *versions == [2]), "{:?}", cluster.versions());
    assert_eq!(cluster.fewest, 3);
}

#[test]
fn without_anything_to_go_back_to_a_rollback_holds() {
    let mut cluster = fresh(2, &["a"], rolling(1, 0));
    cluster.world.record.spec.failure_action = Some(FailureAction::Rollback);
    cluster.manners.insert(0, Manner::NoImage);
    cluster.run(20);
    assert_eq!(cluster.status(), RolloutStatus::Held(Cause::ImageHopeless));
    let text = &cluster.world.record.last_error;
    assert!(text.ends_with("cannot have the image; resume goes on with it"), "nothing to undo: {text}");
}

#[test]
fn who_fails_is_left_behind_where_the_group_says_so() {
    let mut cluster = cluster(3, &["a", "b"], batches(StrategyType::Batch, 1));
    cluster.world.record.spec.failure_action = Some(FailureAction::Continue);
    cluster.manners.insert(1, Manner::NoImage);
    cluster.patch(|_| ()).run(100);
    assert_eq!(cluster.versions(), all(1, 3));
}

#[test]
fn a_paused_group_starts_nothing_and_is_scaled_all_the_same() {
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
