//! The history of starts and stops: each is recorded once, stored with a delay, and known to the next leader.

use super::*;
use contract::history::{Happened, MOST_EVENTS};

use super::upgrades::{image, patch};

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}
fn history(rig: &mut Rig, name: &str, instance: u32) -> Vec<(String, i64)> {
    match rig.query(Query::History { name: group(name), instance }) {
        Answer::History(events) => {
            assert!(events.iter().all(|event| event.from == "demo node:a"), "{events:?}");
            let shown = |event: &contract::history::ContainerEvent| {
                (event.happened.word().to_owned(), event.at.as_millis() / 1000)
            };
            events.iter().map(shown).collect()
        }
        other => panic!("not a history: {other:?}"),
    }
}
fn event(happened: Happened, second: i64) -> (String, i64) {
    (happened.word().to_owned(), second)
}
/// Reports the only container of `web.v0-i1-d0`.
fn report_container(rig: &mut Rig, running: bool, started: i64, finished: Option<i64>) {
    let finished_at = finished.map_or(Timestamp::NEVER, at);
    let facts =
        ContainerFacts { id: "c1".to_owned(), running, started_at: at(started), finished_at, ..Default::default() };
    let agent = rig.agent("a");
    agent.containers.insert("web.v0-i1-d0".to_owned(), vec![facts]);
    rig.report("a");
}
/// One instance of `web` that started at 1,005 s.
fn started() -> Rig {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    report_container(&mut rig, true, 1_005, None);
    rig.clear();
    rig
}
fn page() -> String {
    keys::history(&group("web"), 0)
}

#[test]
fn starts_and_stops_are_listed_once_and_oldest_first() {
    let mut rig = started();
    report_container(&mut rig, false, 1_005, Some(1_010));
    report_container(&mut rig, true, 1_012, Some(1_010));
    rig.report_all();
    let (start, stop) = (Happened::Start, Happened::Stop);
    assert_eq!(history(&mut rig, "web", 1), [event(start, 1_005), event(stop, 1_010), event(start, 1_012)]);
    assert_eq!(history(&mut rig, "web", 2), []);
    assert_eq!(history(&mut rig, "unknown", 1), []);
}

#[test]
fn a_missing_container_counts_as_stopped_at_the_time_of_the_report() {
    let mut rig = started();
    rig.now = 1_020_000;
    let agent = rig.agent("a");
    agent.containers.clear();
    agent.states.insert("web.v0-i1-d0".to_owned(), RunState::Missing);
    rig.report("a");
    assert_eq!(history(&mut rig, "web", 1), [event(Happened::Start, 1_005), event(Happened::Stop, 1_020)]);
}

#[test]
fn a_page_is_stored_once_for_all_events_of_five_seconds() {
    let mut rig = started();
    for second in 0..4 {
        report_container(&mut rig, true, 2_000 + second, Some(1_999 + second));
    }
    assert!(!rig.store.contains_key(&page()), "not immediately");
    rig.advance(6);
    let writes = rig.commits.iter().flat_map(|commit| &commit.writes);
    let count = writes.filter(|write| matches!(write, Write::Put { key, .. } if *key == page())).count();
    assert_eq!(count, 1);
    rig.clear();
    rig.advance(30);
    assert_eq!(rig.written(), BTreeSet::new(), "a page without new events is not stored");
}

#[test]
fn the_history_keeps_the_last_twenty_events() {
    let mut rig = started();
    for second in 0..30 {
        report_container(&mut rig, true, 2_000 + second, None);
    }
    let shown = history(&mut rig, "web", 1);
    assert_eq!((shown.len(), &shown[0]), (MOST_EVENTS, &event(Happened::Start, 2_010)));
}

#[test]
fn the_next_leader_lists_the_same_history_and_writes_nothing() {
    let mut rig = started();
    report_container(&mut rig, true, 1_012, Some(1_010));
    rig.advance(6);
    let before = history(&mut rig, "web", 1);
    rig.clear();
    rig.replace_leader();
    rig.advance(60);
    assert_eq!(history(&mut rig, "web", 1), before);
    assert_eq!(rig.written(), BTreeSet::new());
}

#[test]
fn a_new_leader_reads_events_that_were_not_stored_from_the_reports() {
    let mut rig = started();
    report_container(&mut rig, true, 1_012, Some(1_010));
    let mut stored = rig.store.clone();
    stored.remove(&page());
    rig.store = stored;
    rig.replace_leader();
    rig.report_all();
    assert_eq!(history(&mut rig, "web", 1), [event(Happened::Stop, 1_010), event(Happened::Start, 1_012)]);
    rig.advance(6);
    assert!(rig.store.contains_key(&page()));
}

#[test]
fn the_history_of_a_removed_group_is_deleted() {
    let mut rig = started();
    rig.advance(6);
    assert!(rig.store.contains_key(&page()));
    rig.command("c2", remove("web"));
    rig.advance(10);
    assert!(!rig.store.contains_key(&page()), "{:?}", rig.store.keys());
    assert_eq!(history(&mut rig, "web", 1), []);
}

#[test]
fn a_standby_that_takes_over_stores_the_events_that_the_leader_did_not_store() {
    let mut rig = started();
    let mut standby = Core::new(Settings::default());
    standby.on(Input::Mirror(Mirror::Reset(rig.store.loaded())), rig.time());
    for (running, second) in [(true, 1_005), (false, 1_005), (true, 1_012)] {
        report_container(&mut rig, running, second, (second > 1_005 || !running).then_some(1_010));
        let report = rig.agents[&node("a")].whole(&node("a"));
        standby.on(Input::Report(ReportMessage::Whole(report)), rig.time());
    }
    let before = history(&mut rig, "web", 1);
    assert_eq!((before.len(), rig.store.contains_key(&page())), (3, false));
    rig.core = standby;
    rig.elect();
    assert_eq!(history(&mut rig, "web", 1), before);
    rig.advance(6);
    rig.replace_leader();
    assert_eq!(history(&mut rig, "web", 1), before, "the new leader has stored it");
}

#[test]
fn a_standby_forgets_the_history_of_a_deleted_group() {
    let mut rig = started();
    rig.advance(6);
    let mut standby = Core::new(Settings::default());
    standby.on(Input::Mirror(Mirror::Reset(rig.store.loaded())), rig.time());
    let query = Input::Query { query: Query::History { name: group("web"), instance: 1 }, reply: "q".to_owned() };
    let answer = |standby: &mut Core, now| match &standby.on(query.clone(), now)[..] {
        [Effect::Answer { reply, .. }] => reply.answer.clone(),
        other => panic!("no answer: {other:?}"),
    };
    assert!(matches!(answer(&mut standby, rig.time()), Answer::History(events) if events.len() == 1));
    standby.on(Input::Mirror(Mirror::Delete(keys::group(&group("web")))), rig.time());
    standby.on(Input::Mirror(Mirror::Delete(page())), rig.time());
    assert_eq!(answer(&mut standby, rig.time()), Answer::History(Vec::new()));
}

#[test]
fn a_history_event_contains_the_image_of_its_version() {
    let mut rig = started();
    rig.advance(30);
    rig.command("c2", patch("web", image("web", "demo:2")));
    rig.advance(120);
    let facts = ContainerFacts { id: "c2".to_owned(), running: true, started_at: at(1_200), ..Default::default() };
    rig.agent("a").containers.insert("web.v1-i1-d0".to_owned(), vec![facts]);
    rig.report("a");
    let Answer::History(events) = rig.query(Query::History { name: group("web"), instance: 1 }) else {
        panic!("not a history")
    };
    let last = events.last().expect("an event");
    assert_eq!((events[0].from.as_str(), last.from.as_str()), ("demo node:a", "demo:2 node:a"));
}
