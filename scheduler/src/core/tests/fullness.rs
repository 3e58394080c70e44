//! What the leader refuses while etcd is nearly full.

use contract::command::{Act, Refusal, RolloutAction, Verb, Verdict};
use contract::spec::PodSpec;

use super::*;

const QUOTA: u64 = 1000 << 20;

fn full() -> Rig {
    let mut rig = rig_with(Settings { store_quota: QUOTA, ..Settings::default() }, &["n1", "n2"]);
    rig.command("c1", create("web", 2));
    rig.pass(30);
    assert_eq!(rig.command("c2", patch("web", "first")), "Accepted");
    rig.pass(30);
    rig.run(Input::StoreSize { in_use: QUOTA / 100 * 70 });
    rig
}

fn patch(name: &str, label: &str) -> Verb {
    let mut pod = spec(name, 1).pod;
    pod.labels.insert("mark".to_owned(), label.to_owned());
    Verb::PatchSpec { name: group(name), pod: Box::new(pod), cause: String::new() }
}

#[test]
fn a_nearly_full_store_refuses_growth_and_nothing_else() {
    let mut rig = full();
    let refused = Verdict::Refused(Refusal::StoreFull { used: QUOTA / 100 * 70, quota: QUOTA });
    let dependency = PodSpec { name: "portal".to_owned(), ..spec("portal", 1).pod };
    for (id, verb) in [
        ("g1", create("other", 1)),
        ("g2", replica("web", 3)),
        ("g3", patch("web", "first and longer")),
        ("g4", Verb::CreateDependency { pod: Box::new(dependency) }),
    ] {
        rig.command(id, verb);
        assert_eq!(rig.outcomes[id].verdict, refused, "{id}");
    }
    let undo = RolloutAction::Undo { revision: None, cause: String::new() };
    for (id, verb) in
        [("s1", patch("web", "other")), ("s2", Verb::Rollout { name: group("web"), release: None, action: undo })]
    {
        assert_eq!(rig.command(id, verb), "Accepted", "{id}");
        rig.pass(60);
    }
    assert_eq!(rig.command("s3", Verb::Operate { name: group("web"), act: Act::Stop, instance: 0 }), "Accepted");
    rig.pass(60);
    assert_eq!(rig.command("s4", replica("web", 1)), "Accepted");
    rig.pass(60);
    assert_eq!(rig.command("s5", remove("web")), "Accepted");
}

#[test]
fn the_leader_reports_when_refusals_begin_and_end() {
    let mut rig = full();
    let told = |rig: &Rig| rig.events.iter().filter(|event| event.message.starts_with("etcd holds")).count();
    assert_eq!(told(&rig), 1, "{:?}", rig.events);
    rig.run(Input::StoreSize { in_use: QUOTA / 100 * 75 });
    assert_eq!(told(&rig), 1, "it is as full as before");
    rig.run(Input::StoreSize { in_use: QUOTA / 100 * 69 });
    assert_eq!(told(&rig), 2);
    assert_eq!(rig.command("g1", create("other", 1)), "Accepted");
}

#[test]
fn a_quota_of_zero_refuses_nothing() {
    let mut rig = rig_with(Settings { store_quota: 0, ..Settings::default() }, &["n1"]);
    rig.run(Input::StoreSize { in_use: u64::MAX });
    assert_eq!(rig.command("g1", create("web", 1)), "Accepted");
}
