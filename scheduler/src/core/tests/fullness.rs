//! What the leader refuses while etcd is nearly full.

use contract::command::{Act, Decision, Refusal, RolloutAction, Verb};
use contract::spec::PodSpec;

use super::*;

const QUOTA: u64 = 1000 << 20;

fn nearly_full() -> Rig {
    let mut rig = rig_with(Settings { store_quota: QUOTA, ..Settings::default() }, &["n1", "n2"]);
    rig.command("c1", create("web", 2));
    rig.advance(30);
    assert_eq!(rig.command("c2", patch("web", "first")), "Accepted");
    rig.advance(30);
    rig.run(Input::StoreSize { in_use: QUOTA / 100 * 70, allocated: 0 });
    rig
}

fn patch(name: &str, label: &str) -> Verb {
    let mut pod = spec(name, 1).pod;
    pod.labels.insert("mark".to_owned(), label.to_owned());
    Verb::PatchSpec { name: group(name), pod: Box::new(pod), cause: String::new() }
}

#[test]
fn a_nearly_full_store_refuses_only_commands_that_grow_it() {
    let mut rig = nearly_full();
    let refused = Decision::Refused(Refusal::StoreFull { used: QUOTA / 100 * 70, quota: QUOTA });
    let dependency = PodSpec { name: "portal".to_owned(), ..spec("portal", 1).pod };
    for (id, verb) in [
        ("g1", create("other", 1)),
        ("g2", replica("web", 3)),
        ("g3", patch("web", "first and longer")),
        ("g4", Verb::CreateDependency { pod: Box::new(dependency) }),
    ] {
        rig.command(id, verb);
        assert_eq!(rig.outcomes[id].decision, refused, "{id}");
    }
    let undo = RolloutAction::Undo { revision: None, cause: String::new() };
    for (id, verb) in
        [("s1", patch("web", "other")), ("s2", Verb::Rollout { name: group("web"), release: None, action: undo })]
    {
        assert_eq!(rig.command(id, verb), "Accepted", "{id}");
        rig.advance(60);
    }
    assert_eq!(rig.command("s3", Verb::Operate { name: group("web"), act: Act::Stop, instance: 0 }), "Accepted");
    rig.advance(60);
    assert_eq!(rig.command("s4", replica("web", 1)), "Accepted");
    rig.advance(60);
    assert_eq!(rig.command("s5", remove("web")), "Accepted");
}

#[test]
fn the_leader_reports_when_refusals_begin_and_end() {
    let mut rig = nearly_full();
    let count = |rig: &Rig| rig.events.iter().filter(|event| event.message.starts_with("etcd holds")).count();
    assert_eq!(count(&rig), 1, "{:?}", rig.events);
    rig.run(Input::StoreSize { in_use: QUOTA / 100 * 75, allocated: 0 });
    assert_eq!(count(&rig), 1, "not again while it is nearly full");
    rig.run(Input::StoreSize { in_use: QUOTA / 100 * 69, allocated: 0 });
    assert_eq!(count(&rig), 2);
    assert_eq!(rig.command("g1", create("other", 1)), "Accepted");
}

#[test]
fn a_quota_of_zero_refuses_nothing() {
    let mut rig = rig_with(Settings { store_quota: 0, ..Settings::default() }, &["n1"]);
    rig.run(Input::StoreSize { in_use: u64::MAX, allocated: 0 });
    assert_eq!(rig.command("g1", create("web", 1)), "Accepted");
}

#[test]
fn at_85_percent_every_new_spec_is_refused_and_an_undo_is_accepted() {
    let mut rig = nearly_full();
    rig.run(Input::StoreSize { in_use: QUOTA / 100 * 85, allocated: 0 });
    assert!(rig.command("p1", patch("web", "other")).contains("StoreFull"));
    assert_eq!(rig.command("p2", patch("web", "first")), "Accepted", "the spec is stored already");
    let undo = RolloutAction::Undo { revision: None, cause: String::new() };
    assert_eq!(rig.command("p3", Verb::Rollout { name: group("web"), release: None, action: undo }), "Accepted");
}

#[test]
fn growth_is_refused_when_the_database_file_nears_the_quota_although_little_is_in_use() {
    let mut rig = nearly_full();
    rig.run(Input::StoreSize { in_use: QUOTA / 10, allocated: QUOTA / 100 * 89 });
    assert_eq!(rig.command("p1", create("other", 1)), "Accepted");
    rig.run(Input::StoreSize { in_use: QUOTA / 10, allocated: QUOTA / 100 * 90 });
    rig.command("p2", create("more", 1));
    let refused = Decision::Refused(Refusal::StoreFull { used: QUOTA / 100 * 90, quota: QUOTA });
    assert_eq!(rig.outcomes["p2"].decision, refused);
}

#[test]
fn a_full_store_is_shown_until_it_accepts_writes_again() {
    let mut rig = nearly_full();
    rig.full_commits = 2;
    rig.command("c9", replica("web", 1));
    let warnings = rig.cluster_view().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("etcd reached its quota")), "{warnings:?}");
    rig.advance(10);
    assert_eq!(rig.cluster_view().warnings, [""; 0]);
    assert_eq!(rig.record("web").spec.num_instances, 1);
}
