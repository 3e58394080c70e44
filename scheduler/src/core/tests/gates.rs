//! Readiness gates and drains, which users control with commands and which survive a takeover.

use contract::command::Refusal;
use contract::rollout::Drain;

use super::rollouts::{create_spec, rolling, with_strategy};
use super::upgrades::{image, patch};
use super::*;

fn gate(instance: u32, name: &str, is_true: bool) -> Verb {
    Verb::SetGate { name: group("web"), instance, gate: name.to_owned(), is_true, version: None }
}
fn drained(instance: u32) -> Verb {
    Verb::Drained { name: group("web"), instance }
}
/// Two instances whose readiness gate `traffic` is true.
fn gated() -> Rig {
    let mut rig = rig(&["a", "b"]);
    let drain = Drain { grace_seconds: 3, needs_answer: true, timeout_seconds: None };
    let gates = vec!["traffic".to_owned()];
    let spec = PodGroupSpec { readiness_gates: gates, drain: Some(drain), ..with_strategy("web", 2, rolling(0, 1)) };
    assert_eq!(rig.command("c1", create_spec(spec)), "Accepted");
    rig.advance(5);
    assert_eq!(rig.record("web").proven, None, "no instance is ready before its gates are true");
    for instance in 1..=2 {
        assert_eq!(rig.command(&format!("g{instance}"), gate(instance, "traffic", true)), "Accepted");
    }
    assert!(rig.completes("web", 10), "{:?}", rig.release("web"));
    rig.clear();
    rig
}

#[test]
fn a_command_for_an_unknown_gate_or_instance_is_refused() {
    let mut rig = gated();
    let refusal = rig.refusal("c2", gate(1, "other", true));
    let reason = "ReadinessGates are: traffic";
    assert!(matches!(&refusal, Refusal::Unfit { reason: found } if found.contains(reason)), "{refusal:?}");
    assert_eq!(rig.refusal("c3", gate(3, "traffic", true)), Refusal::InstanceUnknown { instance: 3, instances: 2 });
    assert_eq!(rig.refusal("c4", gate(0, "traffic", true)), Refusal::InstanceUnknown { instance: 0, instances: 2 });
    assert_eq!(rig.refusal("c5", drained(3)), Refusal::InstanceUnknown { instance: 3, instances: 2 });
    let other =
        Verb::SetGate { name: group("web"), instance: 1, gate: "traffic".to_owned(), is_true: true, version: Some(7) };
    let refusal = rig.refusal("c6", other);
    assert!(matches!(&refusal, Refusal::Unfit { reason } if reason.contains("no pod of version 7")), "{refusal:?}");
}

#[test]
fn setting_a_gate_again_keeps_its_time_and_clearing_it_survives_a_takeover() {
    let mut rig = gated();
    let since = rig.instances("web")[0].gates.clone();
    rig.now += 5_000;
    assert_eq!(rig.command("c2", gate(1, "traffic", true)), "Accepted");
    assert_eq!(rig.instances("web")[0].gates, since);
    rig.command("c3", gate(1, "traffic", false));
    rig.take_over();
    assert!(rig.instances("web")[0].gates.is_empty());
    let view = rig.rollout_view("web").expect("a release");
    assert_eq!(view.instances.iter().map(|it| it.pods[0].ready).collect::<Vec<_>>(), [false, true]);
    assert!(view.instances[0].pods[0].why.contains("traffic"), "{view:?}");
}

#[test]
fn an_instance_is_updated_only_after_a_user_has_reported_it_as_drained() {
    let mut rig = gated();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(20);
    let instances = rig.instances("web");
    let draining: Vec<u32> =
        (1..).zip(&instances).filter(|(_, instance)| instance.draining.is_some()).map(|(number, _)| number).collect();
    assert_eq!((draining.len(), instances.iter().all(|instance| instance.version == 0)), (1, true), "{instances:?}");
    assert_eq!(rig.rollout_events("taken out of service").len(), 1, "{:?}", rig.rollout_events(""));
    let view = rig.rollout_view("web").expect("a release");
    let first = &view.instances[draining[0] as usize - 1].pods[0];
    assert_eq!((first.ready, first.draining, first.gates["traffic"]), (false, true, false));
    assert!(view.message.contains(&format!("cmd=drained&instance={}", draining[0])), "{}", view.message);
    rig.take_over();
    assert_eq!(rig.command("c3", drained(draining[0])), "Accepted");
    assert_eq!(rig.command("c4", drained(draining[0])), "Accepted", "a repetition is accepted");
    rig.advance(5);
    assert_eq!(rig.rollout_events("is drained").len(), 1);
    let updated = &rig.instances("web")[draining[0] as usize - 1];
    assert_eq!((updated.version, updated.gates.is_empty()), (1, true), "a new pod starts with every gate closed");
}

#[test]
fn a_rollout_is_held_when_no_user_reports_an_instance_as_drained_in_time() {
    let mut rig = gated();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(320);
    assert!(rig.release("web").failure.is_some(), "{:?}", rig.release("web"));
    assert_eq!(
        rig.instances("web").iter().filter(|instance| instance.version == 0).count(),
        2,
        "both instances still serve"
    );
    let view = rig.rollout_view("web").expect("a release");
    assert!(view.message.contains("drained in time") && view.message.contains("undo"), "{}", view.message);
}

#[test]
fn scaling_in_removes_an_instance_that_no_user_reports_as_drained_and_records_it() {
    let mut rig = gated();
    rig.command("c2", replica("web", 1));
    rig.advance(250);
    assert_eq!(
        (rig.instances("web").len(), rig.rollout_events("no client declared")),
        (2, Vec::new()),
        "the drain has not timed out yet"
    );
    rig.advance(70);
    assert_eq!(
        (rig.instances("web").len(), rig.rollout_events("no client declared").len()),
        (1, 1),
        "{:?}",
        rig.rollout_events("")
    );
    assert_eq!(rig.release("web").failure, None);
}

#[test]
fn a_new_gate_applies_to_pods_that_are_created_after_it() {
    let mut rig = rig(&["a", "b"]);
    let spec = PodGroupSpec { min_ready_seconds: Some(5), ..with_strategy("web", 2, rolling(0, 1)) };
    rig.command("c1", create_spec(spec));
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    let fields = serde_json::Map::from_iter([("ReadinessGates".to_owned(), serde_json::json!(["lb"]))]);
    assert_eq!(rig.command("c2", Verb::PatchStrategy { name: group("web"), fields }), "Accepted");
    let available = |rig: &mut Rig| {
        let view = rig.rollout_view("web").expect("a release");
        view.instances.iter().map(|it| it.pods[0].available).collect::<Vec<_>>()
    };
    assert_eq!(available(&mut rig), [true, true], "the pods are older than the gate");
    rig.take_over();
    assert_eq!(available(&mut rig), [true, true], "also after a takeover");
    rig.command("c3", gate(1, "lb", false));
    assert_eq!(available(&mut rig), [false, true], "a gate that a user sets to false applies to an older pod too");
    rig.command("c4", gate(1, "lb", true));
    rig.advance(10);
    rig.command("c5", patch("web", image("web", "v1")));
    rig.advance(60);
    let updated = rig.instances("web").iter().filter(|instance| instance.version == 1).count();
    assert_eq!((updated, rig.release("web").phase), (1, planner::rollout::transition::RolloutPhase::Running));
    let view = rig.rollout_view("web").expect("a release");
    assert!(view.message.contains("its readiness gate lb is not true"), "{}", view.message);
}

/// A leader with a group that drains for three seconds, and the commit in flight of a patch of it.
fn slow_drain() -> (Rig, Commit) {
    let mut rig = rig(&["a", "b"]);
    let drain = Drain { grace_seconds: 3, needs_answer: false, timeout_seconds: None };
    rig.command("c1", create_spec(PodGroupSpec { drain: Some(drain), ..with_strategy("web", 2, rolling(0, 1)) }));
    assert!(rig.completes("web", 20), "{:?}", rig.release("web"));
    let delivery = rig.delivery("c2", patch("web", image("web", "v1")));
    let commit = first_commit(rig.input(Input::Command(delivery)));
    (rig, commit.expect("a commit of the patch"))
}

#[test]
fn a_drain_and_the_update_that_waits_for_it_are_never_in_one_commit_also_when_the_store_is_slow() {
    let (mut rig, commit) = slow_drain();
    for _ in 0..10 {
        rig.now += 1_000;
        assert_eq!(rig.input(Input::Tick), [], "the grace does not run before the drain is committed");
    }
    let stored = rig.store(commit);
    rig.run(stored);
    let is_updated = |rig: &Rig| rig.instances("web").iter().any(|instance| instance.version == 1);
    rig.advance(2);
    assert!(!is_updated(&rig) && rig.instances("web").iter().any(|instance| instance.draining.is_some()));
    rig.advance(2);
    assert!(is_updated(&rig), "{:?}", rig.instances("web"));
}

#[test]
fn a_new_leader_restarts_the_grace_of_a_drain() {
    let (mut rig, commit) = slow_drain();
    rig.now += 10_000;
    rig.store(commit);
    rig.take_over();
    rig.advance(2);
    assert!(rig.instances("web").iter().all(|instance| instance.version == 0), "{:?}", rig.instances("web"));
    rig.advance(3);
    assert!(rig.instances("web").iter().any(|instance| instance.version == 1), "{:?}", rig.instances("web"));
}
