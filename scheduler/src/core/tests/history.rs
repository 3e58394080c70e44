//! Starts and stops: taken in once, stored late and in passing, there again under the next leader.

use super::*;
use contract::history::{Happened, MOST_EVENTS};

use super::upgrades::{image, patch};

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}
fn history(rig: &mut Rig, name: &str, instance: u32) -> Vec<(String, i64)> {
    rig.run(Input::Query { query: Query::History { name: group(name), instance }, reply: "history".to_owned() });
    match rig.replies.remove("history").expect("an answer").answer {
        Answer::History(events) => {
            assert!(events.iter().all(|event| event.from == "demo node:a"), "{events:?}");
            let shown =
                |event: &contract::history::Event| (event.happened.word().to_owned(), event.at.as_millis() / 1000);
            events.iter().map(shown).collect()
        }
        other => panic!("not a history: {other:?}"),
    }
}
fn told(happened: Happened, second: i64) -> (String, i64) {
    (happened.word().to_owned(), second)
}
/// The only container of `web.v0-i1-d0` as its engine sees it.
fn seen(rig: &mut Rig, running: bool, started: i64, finished: Option<i64>) {
    let finished_at = finished.map_or(Timestamp::NEVER, at);
    let facts =
        ContainerFacts { id: "c1".to_owned(), running, started_at: at(started), finished_at, ..Default::default() };
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.containers.insert("web.v0-i1-d0".to_owned(), vec![facts]);
    rig.report("a");
}
/// One instance of `web` that started at 1,005 s.
fn started() -> Rig {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    seen(&mut rig, true, 1_005, None);
    rig.clear();
    rig
}
fn page() -> String {
    keys::history(&group("web"), 0)
}

#[test]
fn starts_and_stops_are_told_oldest_first_and_once() {
    let mut rig = started();
    seen(&mut rig, false, 1_005, Some(1_010));
    seen(&mut rig, true, 1_012, Some(1_010));
    rig.report_all();
    let (start, stop) = (Happened::Start, Happened::Stop);
    assert_eq!(history(&mut rig, "web", 1), [told(start, 1_005), told(stop, 1_010), told(start, 1_012)]);
    assert_eq!(history(&mut rig, "web", 2), []);
    assert_eq!(history(&mut rig, "unknown", 1), []);
}

#[test]
fn a_container_that_vanishes_stopped_when_that_was_seen() {
    let mut rig = started();
    rig.now = 1_020_000;
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.containers.clear();
    agent.states.insert("web.v0-i1-d0".to_owned(), RunState::Missing);
    rig.report("a");
    assert_eq!(history(&mut rig, "web", 1), [told(Happened::Start, 1_005), told(Happened::Stop, 1_020)]);
}

#[test]
fn a_page_is_stored_once_for_all_that_happened_in_a_while() {
    let mut rig = started();
    for second in 0..4 {
        seen(&mut rig, true, 2_000 + second, Some(1_999 + second));
    }
    assert!(!rig.store.contains_key(&page()), "not at once");
    rig.pass(6);
    let writes = rig.commits.iter().flat_map(|commit| &commit.writes);
    let count = writes.filter(|write| matches!(write, Write::Put { key, .. } if *key == page())).count();
    assert_eq!(count, 1);
    rig.clear();
    rig.pass(30);
    assert_eq!(rig.written(), BTreeSet::new(), "nothing new, nothing stored");
}

#[test]
fn a_ring_keeps_the_last_twenty() {
    let mut rig = started();
    for second in 0..30 {
        seen(&mut rig, true, 2_000 + second, None);
    }
    let shown = history(&mut rig, "web", 1);
    assert_eq!((shown.len(), &shown[0]), (MOST_EVENTS, &told(Happened::Start, 2_010)));
}

#[test]
fn the_next_leader_tells_the_same_and_writes_nothing() {
    let mut rig = started();
    seen(&mut rig, true, 1_012, Some(1_010));
    rig.pass(6);
    let before = history(&mut rig, "web", 1);
    rig.clear();
    rig.core = Core::new(Settings::default());
    rig.elect();
    rig.pass(60);
    assert_eq!(history(&mut rig, "web", 1), before);
    assert_eq!(rig.written(), BTreeSet::new());
}

#[test]
fn what_a_leader_did_not_come_to_store_is_read_from_the_reports_again() {
    let mut rig = started();
    seen(&mut rig, true, 1_012, Some(1_010));
    let mut stored = rig.store.clone();
    stored.remove(&page());
    rig.store = stored;
    rig.core = Core::new(Settings::default());
    rig.elect();
    rig.report_all();
    assert_eq!(history(&mut rig, "web", 1), [told(Happened::Stop, 1_010), told(Happened::Start, 1_012)]);
    rig.pass(6);
    assert!(rig.store.contains_key(&page()));
}

#[test]
fn a_removed_group_leaves_no_history_behind() {
    let mut rig = started();
    rig.pass(6);
    assert!(rig.store.contains_key(&page()));
    rig.command("c2", remove("web"));
    rig.pass(10);
    assert!(!rig.store.contains_key(&page()), "{:?}", rig.store.keys());
    assert_eq!(history(&mut rig, "web", 1), []);
}

#[test]
fn a_standby_that_takes_over_adds_what_the_leader_did_not_come_to_store() {
    let mut rig = started();
    let mut standby = Core::new(Settings::default());
    standby.on(Input::Mirror(Mirror::Reset(rig.store.clone().into_iter().collect())), rig.time());
    for (running, second) in [(true, 1_005), (false, 1_005), (true, 1_012)] {
        seen(&mut rig, running, second, (second > 1_005 || !running).then_some(1_010));
        let report = rig.agents[&node("a")].whole(&node("a"));
        standby.on(Input::Report(ReportMessage::Whole(report)), rig.time());
    }
    let before = history(&mut rig, "web", 1);
    assert_eq!((before.len(), rig.store.contains_key(&page())), (3, false));
    rig.core = standby;
    rig.elect();
    assert_eq!(history(&mut rig, "web", 1), before);
    rig.pass(6);
    rig.core = Core::new(Settings::default());
    rig.elect();
    assert_eq!(history(&mut rig, "web", 1), before, "it is stored now");
}

#[test]
fn a_standby_forgets_a_group_with_its_record() {
    let mut rig = started();
    rig.pass(6);
    let mut standby = Core::new(Settings::default());
    standby.on(Input::Mirror(Mirror::Reset(rig.store.clone().into_iter().collect())), rig.time());
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
fn an_event_names_the_image_of_the_version_that_ran() {
    let mut rig = started();
    rig.pass(30);
    rig.command("c2", patch("web", image("web", "demo:2")));
    rig.pass(120);
    let facts = ContainerFacts { id: "c2".to_owned(), running: true, started_at: at(1_200), ..Default::default() };
    rig.agents.get_mut(&node("a")).expect("an agent").containers.insert("web.v1-i1-d0".to_owned(), vec![facts]);
    rig.report("a");
    rig.run(Input::Query { query: Query::History { name: group("web"), instance: 1 }, reply: "q".to_owned() });
    let Answer::History(events) = rig.replies.remove("q").expect("an answer").answer else { panic!("not a history") };
    let last = events.last().expect("an event");
    assert_eq!((events[0].from.as_str(), last.from.as_str()), ("demo node:a", "demo:2 node:a"));
}
