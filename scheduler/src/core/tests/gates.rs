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
