//! An instance during a rollout: images are pulled first, two pods run side by side, limits are updated.

use super::*;

const OLD: &str = "a.v1-i1-d0";
const NEW: &str = "a.v2-i1-d0";

fn pull(image: &str) -> InstanceAction {
    InstanceAction::PullImage(image.to_owned())
}
fn replace(old: &str, new: &str) -> InstanceAction {
    InstanceAction::Replace { old: old.to_owned(), grace: GRACE, new: Identity { pod: pod(new), index: 0 } }
}
fn update(id: &str, of: &str) -> InstanceAction {
    InstanceAction::Update { id: id.to_owned(), identity: Identity { pod: pod(of), index: 0 } }
}

#[test]
fn a_running_pod_stays_until_the_images_of_its_successor_are_present() {
    let input = || facts().want(NEW, 1).see("x", OLD, 0, Activity::Running);
    assert_eq!(input().lacks("web:2", 0).next(), pull("web:2"));
    assert_eq!(input().images(Images::Pulling).next(), InstanceAction::Nothing);
    assert_eq!(
        input().lacks("web:2", 160).next(),
        InstanceAction::WaitUntil(at(160)),
        "it could not be had: the old one serves on"
    );
    assert_eq!(input().lacks("web:2", 160).next_at(at(160)), pull("web:2"));
    assert_eq!(input().next(), replace("x", NEW));
}

#[test]
fn images_of_the_successor_are_pulled_ahead_without_delaying_other_actions() {
    let missing = |retry_at: i64| Images::Missing { image: "web:2".to_owned(), retry_at: at(retry_at) };
    let input =
        |next_images: Images, activity| facts().want(OLD, 1).next_images(next_images).see("x", OLD, 0, activity);
    assert_eq!(input(missing(0), Activity::Running).next(), pull("web:2"));
    assert_eq!(input(missing(160), Activity::Running).next(), InstanceAction::WaitUntil(at(160)));
    assert_eq!(input(missing(160), Activity::Running).next_at(at(160)), pull("web:2"));
    assert_eq!(input(Images::Pulling, Activity::Running).next(), InstanceAction::Nothing);
    for next_images in [missing(160), Images::Pulling, Images::Present] {
        assert_eq!(input(next_images, Activity::Exited).next(), start("x", OLD, 1, at(100)), "it is looked after");
    }
}

#[test]
fn a_surplus_pod_is_removed_when_one_of_two_successors_can_be_created() {
    let input = facts().want("a.v1-i1-d1", 1).want(NEW, 1).lacks("web:2", 0).see("x", OLD, 0, Activity::Running);
    assert_eq!(input.next(), remove("x"));
    let neither = facts().want("a.v1-i1-d1", 1).lacks("web:1", 0).want(NEW, 1).lacks("web:2", 0);
    assert_eq!(neither.see("x", OLD, 0, Activity::Running).next(), pull("web:1"));
}

#[test]
fn a_requested_start_of_a_pod_without_its_image_is_confirmed() {
    let input = facts().want(NEW, 1).asked(1, 0).lacks("web:2", 160).see("x", OLD, 0, Activity::Running);
    assert_eq!(input.next(), request_done(NEW, 0, Timestamp::NEVER));
}

#[test]
fn a_pod_that_does_not_run_is_removed_without_waiting_for_images() {
    for activity in [Activity::Exited, Activity::Created, Activity::Leaving] {
        assert_eq!(facts().want(NEW, 1).lacks("web:2", 160).see("x", OLD, 0, activity).next(), remove("x"));
    }
    assert_eq!(facts().want(NEW, 1).lacks("web:2", 0).next(), create(NEW, 0));
    assert_eq!(facts().want(NEW, 1).images(Images::Pulling).next(), create(NEW, 0));
}

#[test]
fn a_pod_without_a_successor_is_removed_whatever_is_being_pulled() {
    assert_eq!(facts().see("x", OLD, 0, Activity::Running).next(), remove("x"));
    let stopped = facts().want(NEW, 1).stopped().lacks("web:2", 0).see("x", OLD, 0, Activity::Running);
    assert_eq!(stopped.next(), remove("x"));
    let statuses = facts().want(NEW, 1).lacks("web:2", 0).remember(|memory| memory.created = true);
    assert_eq!(statuses.see("y", NEW, 0, Activity::Running).see("x", OLD, 0, Activity::Running).next(), remove("x"));
}

#[test]
fn the_current_pod_is_restarted_while_the_surge_pod_waits_for_its_image() {
    let input = facts().want(OLD, 1).remember(|memory| memory.created = true).want(NEW, 2);
    let input = input.see("x", OLD, 0, Activity::Running);
    assert_eq!(input.next(), create(NEW, 0), "all images are here");
    let input = input.lacks("web:2", 0);
    assert_eq!(input.next(), pull("web:2"));
    let mut input = input.images(Images::Pulling);
    assert_eq!(input.next(), InstanceAction::Nothing);
    input.observed[0].2 = Activity::Exited;
    assert_eq!(input.next(), start("x", OLD, 1, at(100)));
}

#[test]
fn a_refused_create_of_one_pod_does_not_delay_the_other() {
    let input = facts().want(OLD, 1).remember(|memory| memory.created = true);
    let input = input.want(NEW, 1).remember(|memory| memory.retry_at = at(500));
    assert_eq!(input.see("x", OLD, 0, Activity::Exited).next(), start("x", OLD, 1, at(100)));
}

#[test]
fn an_existing_container_gets_new_limits_in_any_state() {
    for activity in [Activity::Running, Activity::Exited, Activity::Created] {
        let input = facts().want(OLD, 1).live("two", 0).see("x", OLD, 0, activity);
        assert_eq!(input.next(), update("x", OLD), "{activity:?}");
    }
    let stopped = facts().want(OLD, 1).stopped().live("two", 0).see("x", OLD, 0, Activity::Exited);
    assert_eq!(stopped.next(), update("x", OLD));
    assert_eq!(stopped.updated("x", "two").next(), InstanceAction::Nothing);
    assert_eq!(facts().want(OLD, 1).live("two", 0).see("x", OLD, 0, Activity::Leaving).next(), remove("x"));
}

#[test]
fn a_refused_update_is_retried_without_delaying_other_actions() {
    let input = || facts().want(OLD, 1).live("two", 160);
    assert_eq!(input().see("x", OLD, 0, Activity::Running).next(), InstanceAction::WaitUntil(at(160)));
    assert_eq!(input().see("x", OLD, 0, Activity::Running).next_at(at(160)), update("x", OLD));
    assert_eq!(input().see("x", OLD, 0, Activity::Exited).next(), start("x", OLD, 1, at(100)));
}

#[test]
fn only_limits_of_existing_containers_can_be_updated() {
    let change = |change: fn(&mut PodSpec)| {
        let (before, mut after) = (spec(1), spec(1));
        change(&mut after);
        (makes_other_containers(&before, &after), can_be_updated(&before, &after))
    };
    assert_eq!(change(|_| {}), (false, true));
    assert_eq!(change(|spec| spec.containers[0].memory_limit = 1 << 30), (true, true));
    assert_eq!(change(|spec| spec.containers[0].cpu_limit = 4), (true, true));
    assert_eq!(change(|spec| spec.version = 2), (false, true));
    assert_eq!(change(|spec| spec.containers[0].image = "web:2".to_owned()), (true, false));
    assert_eq!(change(|spec| spec.containers.push(ContainerSpec::default())), (true, false));
}

#[test]
fn one_container_replaces_one_other_in_one_action() {
    let upgrade = || facts().want(NEW, 1).see("x", OLD, 0, Activity::Running);
    assert_eq!(upgrade().next(), replace("x", NEW));
    assert_eq!(upgrade().stateful().next(), replace("x", NEW), "it starts when the old one has ended");
    assert_eq!(
        upgrade().switch(|switches| switches.paused = true).next(),
        replace("x", NEW),
        "the order has it anyway"
    );
}

#[test]
fn other_replacements_take_several_actions() {
    let upgrade = || facts().want(NEW, 1).see("x", OLD, 0, Activity::Running);
    assert_eq!(upgrade().stopped().next(), remove("x"), "nothing takes its place");
    assert_eq!(upgrade().see("y", NEW, 0, Activity::Created).next(), remove("x"), "the other is made already");
    assert_eq!(upgrade().see("y", "a.v0-i1-d0", 0, Activity::Running).next(), remove("x"), "there are two to go");
    assert_eq!(upgrade().want("a.v3-i1-d0", 1).next(), remove("x"), "there are two to come");
    assert_eq!(
        upgrade().remember(|memory| memory.retry_at = at(160)).next(),
        remove("x"),
        "the other may not come yet"
    );
    assert_eq!(upgrade().remember(|memory| memory.created = true).next(), remove("x"), "the other is missing");
    let ended = facts().want(NEW, 1).see("x", OLD, 0, Activity::Exited);
    assert_eq!(ended.next(), remove("x"), "it has ended before");
    let same_name = facts().want(NEW, 1).remember(|memory| memory.outdated = true).see("x", NEW, 0, Activity::Running);
    assert_eq!(same_name.next(), remove("x"), "two cannot have one name");
}

#[test]
fn only_what_reaches_the_engine_makes_other_containers() {
    let before = spec(1);
    let patient = PodSpec { kill_timeout: 99, updated_at: at(5), version: 7, filters: vec!["x".to_owned()], ..spec(1) };
    assert!(!makes_other_containers(&before, &patient));
    let mut retouched = spec(1);
    retouched.containers[0].updated_at = at(5);
    assert!(!makes_other_containers(&before, &retouched));
    let mut other = spec(1);
    other.containers[0].image = "other".to_owned();
    assert!(makes_other_containers(&before, &other));
    assert!(makes_other_containers(&before, &PodSpec { network: "n".to_owned(), ..spec(1) }));
}
