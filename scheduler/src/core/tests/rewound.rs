//! A store that came back with an older state stops nothing, says so, and waits for a restore.

use contract::progress::Progress;

use super::foreign_store::{cluster, named};
use super::restores::{backup_of, elect_above, finish, send};
use super::*;

/// Another scheduler process leads over what was stored when `snapshot` was taken.
fn rewind(rig: &mut Rig, snapshot: BTreeMap<String, Vec<u8>>) {
    rig.store = snapshot;
    rig.core = Core::new(Settings::default());
    rig.clear();
    rig.elect();
}

fn everything(rig: &Rig) -> Vec<Vec<String>> {
    ["a", "b"].map(|name| rig.pods(name)).to_vec()
}

/// A cluster whose store lost the creation of `db`.
fn rewound() -> (Rig, Vec<Vec<String>>) {
    let mut rig = named("store", &["a", "b"]);
    rig.command("c1", create("web", 2));
    let snapshot = rig.store.clone();
    rig.command("c2", create("db", 2));
    rig.report_all();
    let before = everything(&rig);
    assert_eq!(before.concat().len(), 4);
    rewind(&mut rig, snapshot);
    (rig, before)
}

#[test]
fn a_store_that_went_back_removes_no_container_and_the_leader_says_so() {
    let (mut rig, before) = rewound();
    rig.report_all();
    rig.pass(120);
    assert_eq!(everything(&rig), before);
    assert_eq!(cluster(&mut rig).foreign_store, 2);
    let told = rig.events.iter().filter(|event| event.message.contains("older state")).count();
    assert_eq!(told, 1, "{:?}", rig.events);
}

#[test]
fn the_status_names_the_remedy_and_a_restore_of_what_is_stored_ends_it() {
    let (mut rig, before) = rewound();
    let view = cluster(&mut rig);
    assert!(view.warnings.iter().any(|warning| warning.contains("deployctl restore")), "{:?}", view.warnings);
    assert!(rig.core.is_behind());
    // No newer backup exists: the older state is accepted by a restore of itself.
    let text = backup_of(&rig.store);
    let parts = send(&mut rig, "r1", &text);
    assert_eq!(rig.command("f1", finish("r1", parts, true)), "Accepted");
    rig.elect();
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("in place")));
    assert_eq!(everything(&rig), before, "until the next leader begins");
    elect_above(&mut rig);
    rig.report_all();
    assert_eq!((cluster(&mut rig).foreign_store, cluster(&mut rig).warnings.len()), (0, 0));
    assert!(!rig.core.is_behind());
    assert_eq!(rig.command("c3", replica("web", 3)), "Accepted");
    rig.report_all();
    let pods = everything(&rig).concat();
    assert_eq!((pods.len(), pods.iter().any(|pod| pod.starts_with("db"))), (3, false), "the older state is accepted");
}

#[test]
fn a_store_that_is_behind_lets_new_commands_wait_and_plans_nothing_however_many_leaders_it_has() {
    let (mut rig, before) = rewound();
    let replayed = rig.delivery("old", create("old", 1));
    rig.run(Input::Command(Delivery { stored_at: Some(1), ..replayed }));
    assert_eq!(rig.outcomes["old"].verdict, contract::command::Verdict::Accepted, "it is from before the loss");
    for number in 0..40 {
        let new = rig.delivery(&format!("n{number}"), create(&format!("new{number}"), 1));
        rig.run(Input::Command(new));
    }
    for _ in 0..3 {
        rig.elect();
        rig.report_all();
        rig.pass(30);
    }
    assert_eq!(everything(&rig), before);
    assert!(rig.core.is_behind());
}

#[test]
fn a_leader_whose_own_commits_are_gone_steps_down_and_knows_it_when_it_leads_again() {
    let mut rig = named("store", &[]);
    rig.command("c0", create("first", 1));
    let snapshot = rig.store.clone();
    rig.command("c1", create("web", 1));
    let delivery = rig.delivery("c2", create("db", 1));
    let effects = rig.input(Input::Command(delivery));
    let Some(Effect::Commit(commit)) = effects.into_iter().find(|effect| matches!(effect, Effect::Commit(_))) else {
        panic!("no commit");
    };
    rig.run(Input::Committed { id: commit.id, result: CommitResult::WentBack });
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("older state")));
    rig.store = snapshot;
    rig.elect();
    assert!(rig.core.is_behind(), "no node is needed to see it");
}

#[test]
fn a_healthy_store_is_never_behind_over_failovers_and_each_commit_is_counted() {
    let mut rig = named("store", &["a", "b"]);
    for number in 0..20 {
        rig.command(&format!("c{number}"), create(&format!("g{number}"), 1));
        rig.report_all();
        rig.elect();
        assert!(!rig.core.is_behind());
    }
    assert_eq!(cluster(&mut rig).foreign_store, 0);
    let progress: Progress = serde_json::from_slice(&rig.store[keys::PROGRESS]).expect("a record");
    assert_eq!(progress.commits.len(), Progress::MOST);
    assert!(rig.commits.iter().all(|commit| commit.writes.iter().any(|write| match write {
        Write::Put { key, .. } => key == keys::PROGRESS,
        Write::Delete { .. } => false,
    })));
}

#[test]
fn a_process_that_led_over_the_older_state_leads_over_the_newer_one_when_that_is_put_back() {
    let mut rig = named("store", &["a", "b"]);
    rig.command("c1", create("web", 2));
    let older = rig.store.clone();
    rig.command("c2", create("db", 2));
    rig.report_all();
    let (newer, before) = (rig.store.clone(), everything(&rig));
    rig.store = older;
    rig.elect();
    assert!(rig.core.is_behind());
    let new = rig.delivery("c3", create("new", 1));
    rig.run(Input::Command(new));
    assert_eq!(rig.outcomes.get("c3"), None, "it waits");
    rig.store = newer;
    rig.elect();
    rig.report_all();
    assert!(!rig.core.is_behind(), "the newer state lacks no commit that a node obeyed");
    assert_eq!((cluster(&mut rig).foreign_store, cluster(&mut rig).warnings.len()), (0, 0));
    assert_eq!(everything(&rig), before);
    assert_eq!(rig.command("c4", replica("web", 3)), "Accepted");
    rig.report_all();
    assert_eq!(everything(&rig).concat().len(), 5);
}

#[test]
fn a_leader_over_the_older_state_resigns_when_the_newer_one_is_put_back_under_it() {
    let mut rig = named("store", &["a", "b"]);
    rig.command("c1", create("web", 2));
    let older = rig.store.clone();
    rig.command("c2", create("db", 2));
    rig.report_all();
    let newer = rig.store.clone();
    let progress = |store: &BTreeMap<String, Vec<u8>>| -> Progress {
        serde_json::from_slice(&store[keys::PROGRESS]).expect("a progress")
    };
    rewind(&mut rig, older);
    rig.report_all();
    assert!(rig.core.is_behind());
    rig.run(Input::StoredProgress(progress(&rig.store)));
    assert_eq!(rig.stepped_down, None, "it is what this leader loaded");
    rig.run(Input::StoredProgress(progress(&newer)));
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("another state")));
}
