//! A backup is restored completely or not at all, and containers keep running meanwhile.

use super::foreign_store::{named_store, wipe};
use super::*;
use contract::backup::{self, Entry, FORMAT, Header, Step, Writer};
use contract::record::SCHEMA_VERSION;
use contract::store::StoreRecord;

use crate::core::commit::staging;
use crate::core::state::load::Stored;

/// The text of a backup of `stored`.
pub(super) fn backup_of(stored: &Stored) -> String {
    backup_with(stored, SCHEMA_VERSION)
}
fn backup_with(stored: &Stored, schema: u32) -> String {
    let taken_at = Timestamp::from_millis(5);
    let mut writer = Writer::default();
    let mut text =
        writer.header(&Header { format: FORMAT, schema, revision: 9, taken_at, version: "0.1.0".to_owned() });
    for (key, value) in stored.iter().filter(|(key, _)| keys::is_backed_up(key)) {
        text.push_str(&writer.entry(&Entry::new(key.clone(), value.clone())));
    }
    text + &writer.end()
}

fn stage(restore: &str, part: u32, text: &str) -> Verb {
    Verb::Restore { step: Step::Stage { restore: restore.parse().expect("an id"), part, text: text.to_owned() } }
}
pub(super) fn finish(restore: &str, parts: u32, replace: bool) -> Verb {
    Verb::Restore { step: Step::Finish { restore: restore.parse().expect("an id"), parts, replace } }
}

/// Sends all parts of a backup and returns their number.
pub(super) fn send(rig: &mut Rig, restore: &str, text: &str) -> u32 {
    let parts = backup::parts(text);
    for (part, text) in (0u32..).zip(&parts) {
        assert_eq!(rig.command(&format!("{restore}-{part}"), stage(restore, part, text)), "Accepted");
    }
    u32::try_from(parts.len()).expect("few")
}

fn store_record(rig: &Rig) -> StoreRecord {
    serde_json::from_slice(&rig.store[keys::STORE]).expect("a record")
}

/// Starts the next term above the base term of the store.
pub(super) fn elect_above(rig: &mut Rig) {
    rig.term = rig.term.max(store_record(rig).base);
    rig.elect();
}

/// The keys that a backup contains, except the store name.
fn state(stored: &Stored) -> Stored {
    let of_state = stored.iter().filter(|(key, _)| keys::is_backed_up(key) && *key != keys::STORE);
    of_state.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn parts_left(rig: &Rig) -> usize {
    rig.store.keys().filter(|key| key.starts_with(keys::RESTORE_PARTS)).count()
}

#[test]
fn a_restore_after_a_wipe_brings_back_every_group_and_changes_no_node() {
    let mut rig = named_store("old", &["a", "b"]);
    rig.command("c1", create("web", 3));
    rig.command("c2", create("db", 2));
    rig.advance(3);
    let (before, text) = (state(&rig.store), backup_of(&rig.store));
    let orders = rig.agents.values().map(|agent| agent.order.pods.clone()).collect::<Vec<_>>();
    wipe(&mut rig, "new");
    let parts = send(&mut rig, "r1", &text);
    assert_eq!(rig.stepped_down, None, "the parts alone change nothing");
    assert_eq!(rig.command("f1", finish("r1", parts, false)), "Accepted");
    assert!(rig.stepped_down.take().is_some() && rig.core.term().is_none());
    rig.elect();
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("in place")), "{:?}", rig.core.term());
    assert_eq!(state(&rig.store), before);
    let store = store_record(&rig);
    assert_eq!(store.stores, ["new".to_owned(), "old".to_owned()].into());
    assert!(store.base >= rig.term && store.base >= u64::try_from(rig.now).expect("a time"));
    elect_above(&mut rig);
    rig.advance(5);
    assert_eq!(rig.agents.values().map(|agent| agent.order.pods.clone()).collect::<Vec<_>>(), orders);
    let view = rig.cluster_view();
    assert_eq!((view.groups, view.running, view.foreign_store), (2, 5, 0));
    assert_eq!(view.restored.as_ref().map(contract::name::CommandId::as_str), Some("r1"));
    assert_eq!((parts_left(&rig), rig.store.contains_key(keys::RESTORE)), (0, false));
    assert_eq!(rig.command("c3", replica("web", 4)), "Accepted");
    rig.advance(3);
    assert_eq!(rig.places("web").len(), 4);
}

#[test]
fn a_node_that_claims_an_impossible_term_does_not_raise_the_terms_after_a_restore() {
    let mut rig = named_store("old", &["a", "b"]);
    rig.command("c1", create("web", 2));
    let text = backup_of(&rig.store);
    rig.agent("a").order.fence = Fence { term: Term(u64::MAX), generation: 1 };
    rig.agent("b").order.fence = Fence { term: Term(1_000_000_000_000), generation: 1 };
    rig.report_all();
    let parts = send(&mut rig, "r1", &text);
    assert_eq!(rig.command("f1", finish("r1", parts, true)), "Accepted");
    rig.elect();
    let base = store_record(&rig).base;
    assert!((1_000_000_000_000..1 << 50).contains(&base), "{base}");
    elect_above(&mut rig);
    rig.advance(5);
    assert_eq!(rig.command("c2", replica("web", 3)), "Accepted", "the next leader has a higher term");
}

#[test]
fn while_a_backup_is_applied_the_leader_reconciles_nothing_and_runs_no_command() {
    let mut rig = named_store("old", &["a"]);
    rig.command("c1", create("web", 2));
    rig.advance(2);
    let text = backup_of(&rig.store);
    let parts = send(&mut rig, "r1", &text);
    rig.command("c2", create("later", 1));
    assert_eq!(rig.command("f1", finish("r1", parts, true)), "Accepted");
    let cursor = rig.store[keys::CURSOR].clone();
    rig.clear();
    let elected = rig.elected();
    let effects = rig.input(elected);
    assert!(matches!(&effects[..], [Effect::Commit(_)]), "{effects:?}");
    let delivery = rig.delivery("c3", replica("web", 5));
    assert_eq!(rig.input(Input::Command(delivery)), Vec::new(), "the command waits in the stream");
    let report = rig.agents[&node("a")].whole(&node("a"));
    assert_eq!(without_events(rig.input(Input::Report(ReportMessage::Whole(report)))), Vec::new());
    rig.now += 400_000;
    assert_eq!(rig.input(Input::Tick), Vec::new(), "no node is declared lost meanwhile");
    assert!(rig.core.wake_at().is_none_or(|at| at > rig.time()), "the core does not ask for an immediate tick");
    rig.perform(effects);
    assert_eq!(rig.store[keys::CURSOR], cursor);
    assert!(rig.orders.is_empty() && rig.stepped_down.is_some());
    assert!(!rig.store.contains_key(&keys::group(&group("later"))), "a group that is newer than the backup is deleted");
    elect_above(&mut rig);
    // The next leader reads the stream from the cursor again.
    rig.sequence -= 1;
    assert_eq!(rig.command("c3", replica("web", 5)), "Accepted");
}

#[test]
fn a_restore_completes_although_every_leader_dies_after_one_transaction() {
    let mut rig = named_store("old", &["a"]);
    for number in 0..200 {
        rig.command(&format!("c{number}"), create(&format!("web{number}"), 0));
    }
    let (before, text) = (state(&rig.store), backup_of(&rig.store));
    wipe(&mut rig, "new");
    rig.command("d1", create("odd", 1));
    let parts = send(&mut rig, "r1", &text);
    assert_eq!(rig.command("f1", finish("r1", parts, true)), "Accepted");
    let mut deaths = 0;
    while rig.store.contains_key(keys::RESTORE) {
        rig.core = Core::new(Settings::default());
        let elected = rig.elected();
        let commit = first_commit(rig.input(elected));
        rig.store(commit.expect("a commit"));
        deaths += 1;
        assert!(deaths < 20, "each leader makes progress");
    }
    assert!(deaths > 2, "{deaths}");
    assert_eq!(state(&rig.store), before);
}

#[test]
fn an_incomplete_corrupt_newer_or_unintended_restore_is_refused_and_changes_nothing() {
    let mut rig = named_store("old", &["a"]);
    rig.command("c1", create("web", 1));
    let text = backup_of(&rig.store);
    let parts = send(&mut rig, "r1", &text);
    let refused = |rig: &mut Rig, id: &str, verb: Verb, reason: &str| {
        let before = state(&rig.store);
        let decision = rig.command(id, verb);
        assert!(decision.starts_with("Refused") && decision.contains(reason), "{decision}");
        assert_eq!((state(&rig.store), rig.stepped_down.take()), (before, None));
    };
    refused(&mut rig, "f1", finish("r1", parts, false), "holds 1 PodGroups");
    refused(&mut rig, "f2", finish("r1", parts + 1, true), "part 1 of 2 is missing");
    refused(&mut rig, "f3", finish("r2", parts, true), "part 0 of 1 is missing");
    refused(&mut rig, "s1", stage("r1", contract::backup::MOST_PARTS, "x"), "Limit");
    refused(&mut rig, "s2", stage("r1", 0, &"x".repeat(contract::backup::LARGEST_PART + 1)), "Limit");
    send(&mut rig, "r3", &text.replace("demo", "omed"));
    refused(&mut rig, "f4", finish("r3", parts, true), "digest");
    let newer = backup_with(&rig.store, SCHEMA_VERSION + 1);
    send(&mut rig, "r4", &newer);
    refused(&mut rig, "f5", finish("r4", parts, true), "upgrade deployd first");
}

#[test]
fn the_parts_of_an_interrupted_restore_are_deleted_by_the_next_one_or_by_an_abort() {
    let mut rig = named_store("old", &["a"]);
    for part in 0..70 {
        rig.command(&format!("s{part}"), stage("r1", part, "x"));
    }
    assert_eq!(parts_left(&rig), 70);
    rig.command("t0", stage("r2", 0, "x"));
    rig.command("t1", stage("r2", 1, "x"));
    assert_eq!(parts_left(&rig), 2);
    for part in 0..130 {
        rig.command(&format!("u{part}"), stage("r2", part, "x"));
    }
    assert_eq!(rig.command("a1", Verb::Restore { step: Step::Abort }), "Accepted");
    assert_eq!(parts_left(&rig), 0);
    let is_abort = |event: &Event| event.message.contains("forget the parts");
    assert!(rig.events.iter().any(is_abort) && !rig.events.iter().any(|event| event.message.contains("keep part")));
}

#[test]
fn a_backup_taken_in_the_middle_of_a_large_decision_contains_all_of_it() {
    let mut rig = named_store("old", &["a", "b"]);
    rig.command("c1", create("web", 3));
    rig.advance(3);
    let cursor = rig.store[keys::CURSOR].clone();
    let without = rig.store.clone();
    rig.command("c2", create("db", 2));
    rig.advance(3);
    let after = state(&rig.store);
    let changed = rig.store.iter().filter(|(key, value)| without.get(*key) != Some(value));
    let changed = changed.filter(|(key, _)| keys::is_backed_up(key) || *key == keys::CURSOR);
    let put = |(key, value): (&String, &Vec<u8>)| Write::Put { key: key.clone(), value: value.clone(), expires: false };
    let transactions = staging::transactions(changed.map(put).collect());
    // The parts and the record that completes them are stored; the writes are not.
    let mut middle = without.clone();
    for write in &transactions.concat()[..2] {
        let Write::Put { key, value, .. } = write else { panic!("{write:?}") };
        middle.insert(key.clone(), value.clone());
    }
    assert!(middle.contains_key(keys::STAGED_READY), "{:?}", middle.keys());
    let text = backup_of(&middle);
    wipe(&mut rig, "new");
    let parts = send(&mut rig, "r1", &text);
    assert_eq!(rig.command("f1", finish("r1", parts, false)), "Accepted");
    elect_above(&mut rig);
    assert_eq!(state(&rig.store).keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(rig.group("db").is_some(), "the large decision is in effect");
    assert_ne!(
        rig.store.get(keys::CURSOR),
        Some(&cursor),
        "the restore does not contain the cursor of the old cluster"
    );
}
