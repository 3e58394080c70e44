//! Rollouts on a node: pulls before the old pod stops, in-place updates, kept addresses, surge pods.

use contract::digest::Digest;
use contract::report::{FetchState, PodFacts};
use contract::spec::PodSpec;
use contract::state::{HealthState, RestartPolicy, RunState, TargetState};
use contract::time::Timestamp;

use super::bench::{A, Bench, OrderBuilder, at, order, pod, running, secs, seen};
use agent::core::io::{Action, ActionFailure, Effect, ImageTrouble, Input, Phase};

const OLD: &str = A;
const NEW: &str = "a.v2-i1-d0";

fn no_image(text: &str, trouble: ImageTrouble) -> ActionFailure {
    ActionFailure::NoImage { text: text.to_owned(), trouble }
}
fn refused(text: &str) -> ActionFailure {
    ActionFailure::Refused(text.to_owned())
}
fn remove(id: &str) -> Action {
    Action::Remove { id: id.to_owned(), grace: secs(10) }
}
/// The old container and the new pod.
fn replaced(action: &Action) -> Option<(&str, String)> {
    if let Action::Replace { old, pod, .. } = action { Some((old.as_str(), pod.to_string())) } else { None }
}
fn made(actions: &[Action]) -> Vec<String> {
    let name = |action: &Action| if let Action::Create { pod, .. } = action { Some(pod.to_string()) } else { None };
    actions.iter().filter_map(name).collect()
}
fn small(spec: &mut PodSpec) {
    spec.containers[0].memory_limit = 64 << 20;
}
/// The order for the old pod, updated in place to other limits.
fn live(generation: u64) -> OrderBuilder {
    order(1, generation).pod(OLD).updated_to(OLD, 2, small)
}
fn digest(order: &OrderBuilder, of: &str) -> String {
    Digest::of(order.0.spec_of(&pod(of)).expect("a spec").as_ref()).to_string()
}
fn well(bench: &mut Bench, id: &str, health: HealthState) {
    bench.engine.containers.get_mut(id).expect("it is there").health = health;
    let seen = bench.look(id);
    bench.run(Input::Inspected { id: id.to_owned(), seen });
}

#[test]
fn the_image_of_the_new_pod_is_pulled_before_the_old_pod_is_removed() {
    let mut bench = running();
    bench.order(order(1, 2).pod(NEW).whole());
    assert_eq!(bench.fetches, ["i"]);
    let actions = bench.take_actions();
    let both: Vec<_> = actions.iter().filter_map(replaced).collect();
    assert_eq!((both, actions.len()), (vec![("m1", NEW.to_owned())], 1));
    assert_eq!(bench.reported(NEW).state, RunState::Success);
    assert_eq!(bench.facts(OLD), None, "the replacement also removes the old container");
}

#[test]
fn a_failed_replacement_is_retried_as_separate_actions_and_is_no_failure_of_the_pod() {
    let failures = [refused("device or resource busy"), ActionFailure::Unreachable("no answer".to_owned())];
    for failure in failures {
        let mut bench = running();
        bench.engine.failures = [failure].into();
        // The next inventory: Docker has created the new container, and the old one has exited.
        bench.end("m1", 143);
        bench.add(seen("m2", NEW, Phase::Created));
        bench.order(order(1, 2).pod(NEW).whole());
        assert_eq!(bench.take_actions().iter().filter_map(replaced).count(), 1);
        bench.pass(secs(5));
        let actions = bench.take_actions();
        assert_eq!(actions, [remove("m1"), Action::Start { id: "m2".to_owned() }]);
        let facts = bench.reported(NEW);
        assert_eq!((facts.state, facts.restarts, facts.last_error.as_str()), (RunState::Success, 0, ""));
        assert_eq!(bench.facts(OLD), None);
    }
}

#[test]
fn while_its_image_cannot_be_pulled_the_old_pod_runs_and_the_new_one_reports_why() {
    let mut bench = running();
    bench.engine.fetch_failures =
        [no_image("denied", ImageTrouble::Denied), no_image("again", ImageTrouble::Passing)].into();
    bench.order(order(1, 2).pod(NEW).whole());
    assert_eq!(bench.take_actions(), []);
    let facts = bench.reported(NEW);
    assert_eq!((facts.state, facts.last_error.as_str()), (RunState::Error, "Cannot pull image, denied"));
    assert!(facts.image_is_hopeless);
    assert_eq!((bench.reported(OLD).state, bench.reported(OLD).leaving), (RunState::Success, true));
    bench.pass(secs(10));
    assert_eq!((bench.fetches.len(), bench.reported(NEW).image_is_hopeless), (2, false));
    assert_eq!(bench.reported(NEW).last_error, "Cannot pull image, again");
    bench.pass(secs(19));
    assert_eq!(bench.fetches.len(), 2, "patience grows");
    bench.pass(secs(1));
    assert_eq!((bench.reported(NEW).state, bench.facts(OLD)), (RunState::Success, None));
}

#[test]
fn an_old_pod_that_exits_meanwhile_is_removed_and_the_new_one_created() {
    let mut bench = running();
    bench.engine.fetch_failures = [no_image("denied", ImageTrouble::Denied)].into();
    bench.order(order(1, 2).pod(NEW).whole());
    bench.crash("m1");
    assert_eq!(bench.facts(OLD), None);
    assert_eq!(bench.reported(NEW).state, RunState::Success, "the creation fetched the image");
}

#[test]
fn pods_that_wait_for_one_image_share_one_pull() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod("a.v1-i1-d0").pod("a.v1-i2-d0").whole());
    let message = order(1, 2).pod("a.v2-i1-d0").pod("a.v2-i2-d0").whole();
    let effects = bench.feed(Input::Order { message, reply: "r".to_owned() });
    let waiting = bench.settle_but_actions(effects);
    assert_eq!(waiting, [Effect::Fetch { image: "i".to_owned() }]);
    assert_eq!(bench.reported("a.v2-i2-d0").state, RunState::Pending);
    bench.settle(waiting);
    assert_eq!(bench.reported("a.v2-i1-d0").state, RunState::Success);
    assert_eq!(bench.reported("a.v2-i2-d0").state, RunState::Success);
}

#[test]
fn a_restarted_agent_repeats_an_interrupted_pull() {
    let mut bench = running();
    let effects = bench.feed(Input::Order { message: order(1, 2).pod(NEW).whole(), reply: "r".to_owned() });
    assert_eq!(bench.settle_but_actions(effects).len(), 1);
    bench.restart("run-2");
    bench.copy = None;
    bench.pass(secs(1));
    assert_eq!((bench.reported(NEW).state, bench.fetches.len()), (RunState::Success, 1));
}

#[test]
fn images_of_the_next_revision_are_pulled_while_the_pod_runs_and_reported() {
    let mut bench = running();
    bench.engine.fetch_failures =
        [no_image("busy", ImageTrouble::Passing), no_image("denied", ImageTrouble::Denied)].into();
    bench.order(order(1, 2).pod(OLD).fetching(OLD, 2, "j").whole());
    let report = |bench: &Bench| {
        let facts = bench.reported(OLD);
        let fetched = facts.fetched.clone().expect("reported");
        (facts.state, fetched.version, fetched.state, fetched.error)
    };
    assert_eq!(report(&bench), (RunState::Success, 2, FetchState::Coming, "busy".to_owned()));
    bench.pass(secs(10));
    assert_eq!(report(&bench), (RunState::Success, 2, FetchState::Hopeless, "denied".to_owned()));
    bench.restart("run-2");
    bench.copy = None;
    bench.pass(secs(1));
    assert_eq!(
        report(&bench),
        (RunState::Success, 2, FetchState::Here, String::new()),
        "a restarted agent pulls again"
    );
    assert_eq!(
        (bench.take_actions(), bench.fetches.as_slice()),
        (Vec::new(), ["j", "j", "j"].map(str::to_owned).as_slice())
    );
    bench.order(order(1, 3).pod(OLD).whole());
    assert_eq!((bench.reported(OLD).fetched.clone(), bench.take_actions()), (None, Vec::new()));
}

#[test]
fn a_pod_whose_image_was_pulled_ahead_pulls_nothing() {
    let mut bench = running();
    bench.order(order(1, 2).pod(OLD).fetching(OLD, 2, "i").whole());
    assert_eq!(bench.reported(OLD).fetched.as_ref().map(|it| it.state), Some(FetchState::Here));
    bench.order(order(1, 3).pod(NEW).whole());
    assert_eq!((bench.reported(NEW).state, bench.fetches.len()), (RunState::Success, 1));
}

#[test]
fn an_image_without_a_registry_is_hopeless_after_three_tries_also_across_recreations() {
    let mut bench = Bench::new().start();
    for drift in 0..3 {
        bench.engine.failures = [no_image("no such host", ImageTrouble::NoRegistry)].into();
        let id = format!("a.v1-i1-d{drift}");
        bench.order(order(1, 1 + drift).pod(&id).whole());
        let facts = bench.reported(&id);
        assert_eq!((facts.state, facts.image_is_hopeless), (RunState::Error, drift == 2));
        assert_eq!(facts.last_error, "Cannot create container, no such host");
    }
    bench.pass(secs(300));
    assert_eq!(
        (bench.reported("a.v1-i1-d2").state, bench.reported("a.v1-i1-d2").image_is_hopeless),
        (RunState::Success, false)
    );
}

#[test]
fn an_in_place_update_reports_the_new_spec_and_keeps_the_container() {
    let mut bench = running();
    let wanted = live(2);
    let expected = digest(&wanted, OLD);
    let before = bench.reported(OLD).clone();
    assert_ne!(before.containers[0].spec_digest, expected);
    bench.order(wanted.whole());
    assert!(matches!(bench.take_actions()[..], [Action::Update { ref id, index: 0, .. }] if id == "m1"));
    let after = bench.reported(OLD).clone();
    assert_eq!(after.containers[0].spec_digest, expected);
    let same = |facts: &PodFacts| (facts.state, facts.restarts, facts.containers[0].id.clone());
    assert_eq!(same(&after), same(&before));
    // Stored, and not requested again.
    bench.restart("run-2");
    bench.copy = None;
    bench.pass(secs(100));
    assert_eq!(bench.take_actions(), []);
    assert_eq!(bench.reported(OLD).containers[0].spec_digest, expected);
}

#[test]
fn a_pod_updated_back_to_the_revision_in_its_name_gets_its_old_limits() {
    let mut bench = running();
    let made = bench.reported(OLD).containers[0].spec_digest.clone();
    bench.order(live(2).whole());
    bench.take_actions();
    bench.order(order(1, 3).pod(OLD).whole());
    assert!(matches!(bench.take_actions()[..], [Action::Update { .. }]));
    assert_eq!(bench.reported(OLD).containers[0].spec_digest, made);
    bench.pass(secs(100));
    assert_eq!(bench.take_actions(), []);
    assert!(bench.disk.memory[&pod(OLD)].live.updated.is_empty());
}

#[test]
fn an_updated_container_is_remembered_until_it_is_removed() {
    let mut bench = running();
    bench.order(live(2).whole());
    bench.engine.fetch_failures = [no_image("denied", ImageTrouble::Denied)].into();
    bench.order(order(1, 3).pod(NEW).whole());
    assert_eq!(bench.reported(OLD).containers[0].spec_digest, digest(&live(2), OLD));
    bench.take_actions();
    bench.order(order(1, 4).pod(OLD).whole());
    assert!(matches!(bench.take_actions()[..], [Action::Update { .. }]), "it has the limits of another version");
    bench.order(live(5).whole());
    bench.order(order(1, 6).whole());
    bench.order(order(1, 7).whole());
    bench.order(order(1, 8).whole());
    assert_eq!(bench.disk.memory.len(), 0, "nothing of it is left");
}

#[test]
fn a_refused_update_is_reported_and_retried_while_the_pod_runs() {
    let mut bench = running();
    bench.engine.failures = [refused("below usage")].into();
    bench.order(live(2).whole());
    let facts = bench.reported(OLD);
    assert_eq!((facts.state, facts.last_error.as_str()), (RunState::Success, "Cannot update container, below usage"));
    bench.take_actions();
    bench.crash("m1");
    assert_eq!(bench.take_actions(), [Action::Start { id: "m1".to_owned() }], "nothing else waits for it");
    bench.pass(secs(10));
    assert!(matches!(bench.take_actions()[..], [Action::Update { .. }]));
    assert_eq!(bench.reported(OLD).last_error, "");
}

#[test]
fn a_newer_spec_does_not_wait_for_the_back_off_of_a_refused_one() {
    let mut bench = running();
    bench.engine.failures = [refused("below usage")].into();
    bench.order(live(2).whole());
    bench.take_actions();
    bench.order(order(1, 3).pod(OLD).updated_to(OLD, 3, |spec| spec.containers[0].memory_limit = 99 << 20).whole());
    assert!(matches!(bench.take_actions()[..], [Action::Update { .. }]));
    assert_eq!(bench.reported(OLD).last_error, "");
}

#[test]
fn a_container_made_after_the_update_needs_none() {
    let mut bench = running();
    bench.order(live(2).whole());
    bench.take_actions();
    bench.engine.containers.clear();
    bench.pass(secs(200));
    let actions = bench.take_actions();
    assert_eq!((actions.len(), made(&actions)), (1, vec![OLD.to_owned()]));
    assert_eq!(bench.reported(OLD).containers[0].spec_digest, digest(&live(2), OLD));
}

#[test]
fn a_stopped_pod_is_updated_as_well() {
    let mut bench = running();
    bench.order(order(1, 2).pod_with(OLD, 1, TargetState::Stop, RestartPolicy::Always).whole());
    bench.take_actions();
    let stopped = order(1, 3).pod_with(OLD, 1, TargetState::Stop, RestartPolicy::Always).updated_to(OLD, 2, small);
    bench.order(stopped.whole());
    assert!(matches!(bench.take_actions()[..], [Action::Update { .. }]));
    assert_eq!(bench.reported(OLD).state, RunState::Exit);
}

#[test]
fn a_container_that_cannot_be_updated_in_place_is_recreated() {
    let mut bench = running();
    let other = order(1, 2).pod(OLD).updated_to(OLD, 2, |spec| spec.containers[0].image = "other".to_owned());
    bench.order(other.whole());
    let actions = bench.take_actions();
    assert_eq!((&actions[0], made(&actions)), (&remove("m1"), vec![OLD.to_owned()]));
}

#[test]
fn two_pods_of_an_instance_are_created_restarted_and_reported_separately() {
    let mut bench = running();
    bench.order(order(1, 2).pod(OLD).pod(NEW).whole());
    assert_eq!(made(&bench.take_actions()), [NEW]);
    bench.crash("m1");
    assert_eq!((bench.reported(OLD).restarts, bench.reported(NEW).restarts), (1, 0));
    bench.crash("m2");
    bench.crash("m2");
    assert_eq!((bench.reported(OLD).restarts, bench.reported(NEW).restarts), (1, 2));
    assert_eq!(bench.take_actions().len(), 3);
    bench.order(order(1, 3).pod(NEW).whole());
    assert_eq!((bench.take_actions(), bench.facts(OLD)), (vec![remove("m1")], None));
    assert_eq!((bench.reported(NEW).state, bench.reported(NEW).restarts), (RunState::Success, 2));
}

#[test]
fn a_pod_is_restarted_while_the_image_of_its_surge_pod_is_pulled() {
    let mut bench = running();
    let effects = bench.feed(Input::Order { message: order(1, 2).pod(OLD).pod(NEW).whole(), reply: "r".to_owned() });
    let fetching = bench.settle_but_actions(effects);
    assert_eq!(fetching, [Effect::Fetch { image: "i".to_owned() }]);
    bench.crash("m1");
    assert_eq!(bench.take_actions(), [Action::Start { id: "m1".to_owned() }]);
    bench.settle(fetching);
    assert_eq!((bench.reported(OLD).state, bench.reported(NEW).state), (RunState::Success, RunState::Success));
}

#[test]
fn a_pod_gets_the_reserved_address_of_the_pod_it_replaces() {
    let mut bench = running();
    bench.order(order(1, 2).pod(NEW).addressed(NEW, "10.0.0.77").whole());
    assert_eq!(bench.reported(NEW).containers[0].ip, "10.0.0.77");
    assert_eq!(bench.reported(NEW).last_error, "");
}

#[test]
fn a_pod_without_its_reserved_address_runs_and_reports_it() {
    let mut bench = Bench::new().has(seen("x", NEW, Phase::Running)).start();
    bench.order(order(1, 1).pod(NEW).addressed(NEW, "10.0.0.77").whole());
    let facts = bench.reported(NEW);
    assert_eq!(facts.state, RunState::Success);
    assert_eq!(facts.last_error, "Cannot keep the address 10.0.0.77, the container has \"10.0.0.2\"");
}

#[test]
fn healthy_since_survives_a_restart_of_the_agent() {
    let mut bench = running();
    assert_eq!(bench.reported(OLD).healthy_since, Timestamp::NEVER);
    well(&mut bench, "m1", HealthState::Starting);
    bench.now = at(10);
    well(&mut bench, "m1", HealthState::Healthy);
    assert_eq!(bench.reported(OLD).healthy_since, at(10));
    bench.pass(secs(40));
    bench.restart("run-2");
    bench.copy = None;
    bench.pass(secs(1));
    assert_eq!(bench.reported(OLD).healthy_since, at(10));
    well(&mut bench, "m1", HealthState::Unhealthy);
    assert_eq!(bench.reported(OLD).healthy_since, Timestamp::NEVER);
    well(&mut bench, "m1", HealthState::Healthy);
    assert_eq!(bench.reported(OLD).healthy_since, at(51));
}

#[test]
fn a_restart_resets_healthy_since_even_when_the_pod_was_not_seen_unhealthy() {
    let mut bench = running();
    well(&mut bench, "m1", HealthState::Healthy);
    assert_eq!(bench.reported(OLD).healthy_since, at(0));
    bench.now = at(20);
    bench.engine.containers.get_mut("m1").expect("it is there").started_at = at(15);
    well(&mut bench, "m1", HealthState::Healthy);
    assert_eq!(bench.reported(OLD).healthy_since, at(20));
}
