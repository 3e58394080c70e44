//! A store that came back with an older state: the leader changes no node, shows a warning and waits for a restore.

use contract::progress::Progress;

use super::foreign_store::named_store;
use super::restores::{backup_of, elect_above, finish, send};
use super::*;

/// Sets the store back to `snapshot` and replaces the leader by a new process.
fn rewind(rig: &mut Rig, snapshot: FakeStore) {
    rig.store = snapshot;
    rig.core = Core::new(Settings::default());
    rig.clear();
    rig.elect();
}

fn all_pods(rig: &Rig) -> Vec<Vec<String>> {
    ["a", "b"].map(|name| rig.pods(name)).to_vec()
}

/// A cluster whose store lost the creation of `db`.
fn rewound() -> (Rig, Vec<Vec<String>>) {
    let mut rig = named_store("store", &["a", "b"]);
    rig.command("c1", create("web", 2));
    let snapshot = rig.store.clone();
    rig.command("c2", create("db", 2));
    rig.report_all();
    let before = all_pods(&rig);
    assert_eq!(before.concat().len(), 4);
    rewind(&mut rig, snapshot);
    (rig, before)
}

#[test]
fn a_store_that_was_set_back_removes_no_container_and_is_reported_once() {
    let (mut rig, before) = rewound();
    rig.report_all();
    rig.advance(120);
    assert_eq!(all_pods(&rig), before);
    assert_eq!(rig.cluster_view().foreign_store, 2);
    let events = rig.events.iter().filter(|event| event.message.contains("older state")).count();
    assert_eq!(events, 1, "{:?}", rig.events);
}

#[test]
fn the_warning_names_the_remedy_and_a_restore_of_the_older_state_ends_it() {
    let (mut rig, before) = rewound();
    let view = rig.cluster_view();
    assert!(view.warnings.iter().any(|warning| warning.contains("deployctl restore")), "{:?}", view.warnings);
    assert!(rig.core.is_behind());
    // Without a newer backup, an operator accepts the older state by restoring it.
    let text = backup_of(&rig.store);
    let parts = send(&mut rig, "r1", &text);
    assert_eq!(rig.command("f1", finish("r1", parts, true)), "Accepted");
    rig.elect();
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("in place")));
    assert_eq!(all_pods(&rig), before, "nothing changes before the next leader");
    elect_above(&mut rig);
    rig.report_all();
    assert_eq!((rig.cluster_view().foreign_store, rig.cluster_view().warnings.len()), (0, 0));
    assert!(!rig.core.is_behind());
    assert_eq!(rig.command("c3", replica("web", 3)), "Accepted");
    rig.report_all();
    let pods = all_pods(&rig).concat();
    assert_eq!((pods.len(), pods.iter().any(|pod| pod.starts_with("db"))), (3, false), "the pods of db are removed");
}

#[test]
fn while_the_store_is_behind_new_commands_wait_and_no_leader_reconciles() {
    let (mut rig, before) = rewound();
    let replayed = rig.delivery("old", create("old", 1));
    rig.run(Input::Command(Delivery { stored_at: Some(1), ..replayed }));
    assert_eq!(
        rig.outcomes["old"].decision,
        contract::command::Decision::Accepted,
        "the command is older than the loss"
    );
    for number in 0..40 {
        let new = rig.delivery(&format!("n{number}"), create(&format!("new{number}"), 1));
        rig.run(Input::Command(new));
    }
    for _ in 0..3 {
        rig.elect();
        rig.report_all();
        rig.advance(30);
    }
    assert_eq!(all_pods(&rig), before);
    assert!(rig.core.is_behind());
}

#[test]
fn a_leader_whose_own_commits_are_lost_steps_down_and_detects_it_when_it_leads_again() {
    let mut rig = named_store("store", &[]);
    rig.command("c0", create("first", 1));
    let snapshot = rig.store.clone();
    rig.command("c1", create("web", 1));
    let delivery = rig.delivery("c2", create("db", 1));
    let commit = first_commit(rig.input(Input::Command(delivery))).expect("a commit");
    rig.run(Input::Committed { id: commit.id, result: CommitResult::WentBack });
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("older state")));
    rig.store = snapshot;
    rig.elect();
    assert!(rig.core.is_behind(), "detected without the report of a node");
}

#[test]
fn a_healthy_store_is_never_behind_across_takeovers_and_each_commit_is_counted() {
    let mut rig = named_store("store", &["a", "b"]);
    for number in 0..20 {
        rig.command(&format!("c{number}"), create(&format!("g{number}"), 1));
        rig.report_all();
        rig.elect();
        assert!(!rig.core.is_behind());
    }
    assert_eq!(rig.cluster_view().foreign_store, 0);
    let progress: Progress = serde_json::from_slice(&rig.store[keys::PROGRESS]).expect("a record");
    assert_eq!(progress.commits.len(), Progress::MOST);
    assert!(rig.commits.iter().all(|commit| commit.writes.iter().any(|write| match write {
        Write::Put { key, .. } => key == keys::PROGRESS,
        Write::Delete { .. } => false,
    })));
}

#[test]
fn a_process_that_led_over_the_older_state_leads_normally_when_the_newer_one_is_back() {
    let mut rig = named_store("store", &["a", "b"]);
    rig.command("c1", create("web", 2));
    let older = rig.store.clone();
    rig.command("c2", create("db", 2));
    rig.report_all();
    let (newer, before) = (rig.store.clone(), all_pods(&rig));
    rig.store = older;
    rig.elect();
    assert!(rig.core.is_behind());
    let new = rig.delivery("c3", create("new", 1));
    rig.run(Input::Command(new));
    assert_eq!(rig.outcomes.get("c3"), None, "the command waits");
    rig.store = newer;
    rig.elect();
    rig.report_all();
    assert!(!rig.core.is_behind(), "the newer state contains every commit that a node has seen");
    assert_eq!((rig.cluster_view().foreign_store, rig.cluster_view().warnings.len()), (0, 0));
    assert_eq!(all_pods(&rig), before);
    assert_eq!(rig.command("c4", replica("web", 3)), "Accepted");
    rig.report_all();
    assert_eq!(all_pods(&rig).concat().len(), 5);
}

#[test]
fn a_leader_over_the_older_state_steps_down_when_the_newer_one_is_back() {
    let mut rig = named_store("store", &["a", "b"]);
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
    assert_eq!(rig.stepped_down, None, "this leader has loaded that progress");
    rig.run(Input::StoredProgress(progress(&newer)));
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("another state")));
}
