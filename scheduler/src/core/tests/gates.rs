//! Gates and drains: who is out of service is said by people outside, and it counts whoever leads.

use contract::command::Refusal;
use contract::rollout::Drain;

use super::releases::{conducted, create_spec, rolling};
use super::upgrades::{image, patch};
use super::*;

fn gate(instance: u32, name: &str, is_true: bool) -> Verb {
    Verb::SetGate { name: group("web"), instance, gate: name.to_owned(), is_true, version: None }
}
fn drained(instance: u32) -> Verb {
    Verb::Drained { name: group("web"), instance }
}
/// Two instances behind a gate, both in traffic.
fn gated() -> Rig {
    let mut rig = rig(&["a", "b"]);
    let drain = Drain { grace_seconds: 3, needs_answer: true, timeout_seconds: None };
    let gates = vec!["traffic".to_owned()];
    let spec = PodGroupSpec { readiness_gates: gates, drain: Some(drain), ..conducted("web", 2, rolling(0, 1)) };
    assert_eq!(rig.command("c1", create_spec(spec)), "Accepted");
    rig.pass(5);
    assert_eq!(rig.record("web").proven, None, "nobody is ready before the gates are true");
    for instance in 1..=2 {
        assert_eq!(rig.command(&format!("g{instance}"), gate(instance, "traffic", true)), "Accepted");
    }
    assert!(rig.completes("web", 10), "{:?}", rig.release("web"));
    rig.clear();
    rig
}

#[test]
fn a_gate_must_be_one_the_group_names_and_an_instance_one_it_has() {
    let mut rig = gated();
    let told = rig.refusal("c2", gate(1, "other", true));
    assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains("ReadinessGates are: traffic")), "{told:?}");
    assert_eq!(rig.refusal("c3", gate(3, "traffic", true)), Refusal::InstanceUnknown { instance: 3, instances: 2 });
    assert_eq!(rig.refusal("c4", gate(0, "traffic", true)), Refusal::InstanceUnknown { instance: 0, instances: 2 });
    assert_eq!(rig.refusal("c5", drained(3)), Refusal::InstanceUnknown { instance: 3, instances: 2 });
    let other =
        Verb::SetGate { name: group("web"), instance: 1, gate: "traffic".to_owned(), is_true: true, version: Some(7) };
    let told = rig.refusal("c6", other);
    assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains("no pod of version 7")), "{told:?}");
}

#[test]
fn a_gate_said_twice_is_said_once_and_is_kept() {
    let mut rig = gated();
    let since = rig.slots("web")[0].gates.clone();
    rig.now += 5_000;
    assert_eq!(rig.command("c2", gate(1, "traffic", true)), "Accepted");
    assert_eq!(rig.slots("web")[0].gates, since);
    rig.command("c3", gate(1, "traffic", false));
    rig.take_over();
    assert!(rig.slots("web")[0].gates.is_empty());
    let view = rig.rollout_view("web").expect("a release");
    assert_eq!(view.instances.iter().map(|it| it.pods[0].ready).collect::<Vec<_>>(), [false, true]);
    assert!(view.instances[0].pods[0].why.contains("traffic"), "{view:?}");
}

#[test]
fn an_instance_is_touched_only_when_somebody_said_that_it_is_drained() {
    let mut rig = gated();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(20);
    let slots = rig.slots("web");
    let out: Vec<u32> =
        (1..).zip(&slots).filter(|(_, slot)| slot.draining.is_some()).map(|(number, _)| number).collect();
    assert_eq!((out.len(), slots.iter().all(|slot| slot.version == 0)), (1, true), "{slots:?}");
    assert_eq!(rig.milestones("taken out of service").len(), 1, "{:?}", rig.milestones(""));
    let view = rig.rollout_view("web").expect("a release");
    let first = &view.instances[out[0] as usize - 1].pods[0];
    assert_eq!((first.ready, first.draining, first.gates["traffic"]), (false, true, false));
    assert!(view.message.contains(&format!("cmd=drained&instance={}", out[0])), "{}", view.message);
    rig.take_over();
    assert_eq!(rig.command("c3", drained(out[0])), "Accepted");
    assert_eq!(rig.command("c4", drained(out[0])), "Accepted", "twice is once");
    rig.pass(5);
    assert_eq!(rig.milestones("is drained").len(), 1);
    let touched = &rig.slots("web")[out[0] as usize - 1];
    assert_eq!((touched.version, touched.gates.is_empty()), (1, true), "a new pod starts with every gate closed");
}

#[test]
fn nobody_answering_is_a_failure_that_holds_the_release() {
    let mut rig = gated();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(320);
    assert!(rig.release("web").failure.is_some(), "{:?}", rig.release("web"));
    assert_eq!(rig.slots("web").iter().filter(|slot| slot.version == 0).count(), 2, "what serves goes on");
    let view = rig.rollout_view("web").expect("a release");
    assert!(view.message.contains("drained in time") && view.message.contains("undo"), "{}", view.message);
}

#[test]
fn who_goes_for_good_goes_when_nobody_answers_and_that_is_told() {
    let mut rig = gated();
    rig.command("c2", replica("web", 1));
    rig.pass(250);
    assert_eq!((rig.slots("web").len(), rig.milestones("no client declared")), (2, Vec::new()), "somebody may still answer");
    rig.pass(70);
    assert_eq!((rig.slots("web").len(), rig.milestones("no client declared").len()), (1, 1), "{:?}", rig.milestones(""));
    assert_eq!(rig.release("web").failure, None);
}

#[test]
fn a_gate_that_is_added_counts_for_pods_that_are_made_with_it() {
    let mut rig = rig(&["a", "b"]);
    let spec = PodGroupSpec { min_ready_seconds: Some(5), ..conducted("web", 2, rolling(0, 1)) };
    rig.command("c1", create_spec(spec));
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    let fields = serde_json::Map::from_iter([("ReadinessGates".to_owned(), serde_json::json!(["lb"]))]);
    assert_eq!(rig.command("c2", Verb::PatchStrategy { name: group("web"), fields }), "Accepted");
    let available = |rig: &mut Rig| {
        let view = rig.rollout_view("web").expect("a release");
        view.instances.iter().map(|it| it.pods[0].available).collect::<Vec<_>>()
    };
    assert_eq!(available(&mut rig), [true, true], "they were made without it");
    rig.take_over();
    assert_eq!(available(&mut rig), [true, true], "whoever leads");
    rig.command("c3", gate(1, "lb", false));
    assert_eq!(available(&mut rig), [false, true], "who makes it false is obeyed");
    rig.command("c4", gate(1, "lb", true));
    rig.pass(10);
    rig.command("c5", patch("web", image("web", "v1")));
    rig.pass(60);
    let renewed = rig.slots("web").iter().filter(|slot| slot.version == 1).count();
    assert_eq!((renewed, rig.release("web").phase), (1, planner::rollout::release::Phase::Running));
    let view = rig.rollout_view("web").expect("a release");
    assert!(view.message.contains("its readiness gate lb is not true"), "{}", view.message);
}

/// A leader with a group that drains for three seconds, and a patch of it whose commit is under way.
fn slow_drain() -> (Rig, Commit) {
    let mut rig = rig(&["a", "b"]);
    let drain = Drain { grace_seconds: 3, needs_answer: false, timeout_seconds: None };
    rig.command("c1", create_spec(PodGroupSpec { drain: Some(drain), ..conducted("web", 2, rolling(0, 1)) }));
    assert!(rig.completes("web", 20), "{:?}", rig.release("web"));
    let delivery = rig.delivery("c2", patch("web", image("web", "v1")));
    let effects = rig.input(Input::Command(delivery));
    let commit = effects.into_iter().find_map(|effect| match effect {
        Effect::Commit(commit) => Some(commit),
        _ => None,
    });
    (rig, commit.expect("the patch is stored"))
}

#[test]
fn a_drain_and_what_it_is_for_are_never_stored_together_however_slow_the_store_is() {
    let (mut rig, commit) = slow_drain();
    for _ in 0..10 {
        rig.now += 1_000;
        assert_eq!(rig.input(Input::Tick), [], "the grace has passed, and nobody could have seen the drain");
    }
    let stored = rig.store(commit);
    rig.run(stored);
    let is_touched = |rig: &Rig| rig.slots("web").iter().any(|slot| slot.version == 1);
    rig.pass(2);
    assert!(!is_touched(&rig) && rig.slots("web").iter().any(|slot| slot.draining.is_some()));
    rig.pass(2);
    assert!(is_touched(&rig), "{:?}", rig.slots("web"));
}

#[test]
fn whoever_takes_over_a_drain_gives_it_its_grace_anew() {
    let (mut rig, commit) = slow_drain();
    rig.now += 10_000;
    rig.store(commit);
    rig.take_over();
    rig.pass(2);
    assert!(rig.slots("web").iter().all(|slot| slot.version == 0), "{:?}", rig.slots("web"));
    rig.pass(3);
    assert!(rig.slots("web").iter().any(|slot| slot.version == 1), "{:?}", rig.slots("web"));
}
