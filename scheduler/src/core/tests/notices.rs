//! Notices: a condition is reported once, again after an hour, and again when it has ended and returned.

use contract::event::Kind;
use contract::exit::ExitFacts;
use contract::notice::Incident;
use contract::state::HealthState;

use super::*;

const POD: &str = "web.v0-i1-d0";

/// A leader with a callback and one instance that runs on the first node.
fn running() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c0", Verb::AddCallback { url: "http://127.0.0.1/".to_owned() });
    rig.command("c1", create("web", 1));
    rig.report_facts(Some(healthy()));
    rig.advance(2);
    rig.clear();
    rig
}

fn healthy() -> PodFacts {
    let started_at = Timestamp::from_millis(1_000_000);
    let container = ContainerFacts { running: true, ip: "10.0.0.2".to_owned(), started_at, ..Default::default() };
    PodFacts { state: RunState::Success, containers: vec![container], ..Default::default() }
}
fn crash_looping() -> PodFacts {
    let container = ContainerFacts { finished_at: Timestamp::from_millis(7_000), ..Default::default() };
    PodFacts { state: RunState::Exit, is_crash_looping: true, containers: vec![container], ..Default::default() }
}
fn without_address() -> PodFacts {
    let mut facts = healthy();
    facts.containers[0].ip.clear();
    facts
}
fn unhealthy() -> PodFacts {
    PodFacts { health: HealthState::Unhealthy, ..healthy() }
}

impl Rig {
    /// Sets the facts that node `a` reports of the instance; `None`: the default facts.
    fn report_facts(&mut self, facts: Option<PodFacts>) {
        let agent = self.agents.get_mut(&node("a")).expect("an agent");
        match facts {
            Some(facts) => drop(agent.facts.insert(POD.to_owned(), facts)),
            None => drop(agent.facts.remove(POD)),
        }
    }
    fn notice_texts(&self) -> Vec<&str> {
        self.notices.iter().map(|body| body.message.as_str()).collect()
    }
}

#[test]
fn a_crash_loop_is_reported_once_with_the_time_of_the_exit_and_again_after_an_hour() {
    let mut rig = running();
    rig.report_facts(Some(crash_looping()));
    rig.advance(600);
    assert_eq!(rig.notice_texts(), [&*Incident::CrashLooping.text()]);
    let body = &rig.notices[0];
    assert_eq!((body.namespace.as_str(), body.pod_name.as_str(), body.instance_no), ("hello", "web", 1));
    assert_eq!((body.level.as_str(), body.timestamp), ("Error", Timestamp::from_millis(7_000)));
    rig.advance(3_000);
    assert_eq!(rig.notices.len(), 1);
    rig.advance(60);
    assert_eq!(rig.notices.len(), 2);
}

#[test]
fn a_missing_address_is_reported_after_five_seconds_and_a_late_one_is_not() {
    let mut rig = running();
    rig.report_facts(Some(without_address()));
    rig.advance(4);
    rig.report_facts(Some(healthy()));
    rig.advance(60);
    assert_eq!(rig.notice_texts(), [""; 0]);
    rig.report_facts(Some(without_address()));
    rig.advance(5);
    assert_eq!(rig.notice_texts(), [""; 0]);
    rig.advance(1);
    assert_eq!(rig.notice_texts(), [&*Incident::LostAddress.text()]);
}

#[test]
fn a_failing_health_check_is_reported_five_polls_after_the_start() {
    let mut rig = running();
    rig.report_facts(Some(unhealthy()));
    rig.advance(97);
    assert_eq!(rig.notice_texts(), [""; 0]);
    rig.advance(2);
    assert_eq!(rig.notice_texts(), [&*Incident::Unhealthy.text()]);
}

#[test]
fn a_flapping_condition_is_reported_at_most_once_a_minute() {
    let mut rig = running();
    for _ in 0..10 {
        rig.report_facts(Some(crash_looping()));
        rig.advance(3);
        rig.report_facts(Some(healthy()));
        rig.advance(3);
    }
    assert_eq!(rig.notices.len(), 1, "{:?}", rig.notice_texts());
    rig.advance(60);
    assert_eq!(rig.notices.len(), 1, "the condition has ended");
    rig.report_facts(Some(crash_looping()));
    rig.advance(1);
    assert_eq!(rig.notices.len(), 2);
    rig.report_facts(Some(healthy()));
    rig.advance(1);
    rig.report_facts(Some(crash_looping()));
    rig.advance(70);
    assert_eq!(rig.notices.len(), 3, "reported when the minute was over");
}

#[test]
fn a_condition_neither_ends_nor_repeats_while_its_node_is_unreachable() {
    let mut rig = running();
    rig.report_facts(Some(crash_looping()));
    rig.advance(2);
    rig.unreachable.insert(node("a"));
    rig.advance(100);
    rig.unreachable.clear();
    rig.advance(100);
    assert_eq!(rig.notices.len(), 1, "{:?}", rig.notice_texts());
}

#[test]
fn no_notice_is_sent_for_an_instance_that_a_user_stopped() {
    let mut rig = running();
    rig.command("c2", Verb::Operate { name: group("web"), act: contract::command::Act::Stop, instance: 0 });
    rig.report_facts(Some(crash_looping()));
    rig.advance(120);
    assert_eq!(rig.notice_texts(), [""; 0]);
}

#[test]
fn the_conditions_of_a_removed_group_end() {
    let mut rig = running();
    rig.report_facts(Some(crash_looping()));
    rig.advance(2);
    rig.command("c2", remove("web"));
    rig.advance(4_000);
    assert_eq!(rig.notices.len(), 1);
}

/// Starts a new term: with the same process (warm) or with a new one.
fn fail_over(rig: &mut Rig, is_warm: bool) {
    if is_warm {
        rig.elect();
    } else {
        rig.take_over();
    }
}

#[test]
fn a_condition_that_persists_is_reported_once_an_hour_whichever_scheduler_leads() {
    for is_warm in [true, false] {
        let mut rig = running();
        rig.report_facts(Some(unhealthy()));
        rig.advance(120);
        assert_eq!(rig.notice_texts(), [&*Incident::Unhealthy.text()]);
        for _ in 0..4 {
            fail_over(&mut rig, is_warm);
            rig.advance(100);
        }
        assert_eq!(rig.notice_texts(), [&*Incident::Unhealthy.text()]);
        let incidents = |rig: &Rig| rig.events.iter().filter(|event| event.kind == Kind::Incident).count();
        assert_eq!(incidents(&rig), 1);
        rig.advance(3_600);
        assert_eq!((rig.notices.len(), incidents(&rig)), (2, 2));
        fail_over(&mut rig, is_warm);
        rig.advance(100);
        assert_eq!(rig.notices.len(), 2);
    }
}

#[test]
fn a_condition_that_ended_and_returned_is_reported_again_by_the_next_leader() {
    for ends_without_leader in [true, false] {
        let mut rig = running();
        rig.report_facts(Some(crash_looping()));
        rig.advance(2);
        rig.report_facts(Some(healthy()));
        if ends_without_leader {
            rig.now += 120_000;
            rig.take_over();
            rig.advance(2);
        }
        rig.advance(120);
        assert_eq!(rig.notices.len(), 1);
        rig.take_over();
        rig.report_facts(Some(crash_looping()));
        rig.advance(2);
        assert_eq!(rig.notice_texts(), [&*Incident::CrashLooping.text(); 2]);
    }
}

#[test]
fn an_engine_that_does_not_answer_is_reported_once_an_hour_whichever_scheduler_leads() {
    let mut rig = running();
    rig.agents.get_mut(&node("b")).expect("an agent").engine = EngineState::Down;
    rig.advance(60);
    assert_eq!(rig.notice_texts(), [&*Incident::EngineAway.text()]);
    for is_warm in [true, false, true, false] {
        fail_over(&mut rig, is_warm);
        rig.advance(100);
    }
    assert_eq!(rig.notice_texts(), [&*Incident::EngineAway.text()]);
    rig.agents.get_mut(&node("b")).expect("an agent").engine = EngineState::Up;
    rig.advance(120);
    rig.take_over();
    rig.agents.get_mut(&node("b")).expect("an agent").engine = EngineState::Down;
    rig.advance(60);
    assert_eq!(rig.notices.len(), 2, "the engine answered and failed again");
}

/// The container exited by itself and the agent restarted it.
fn restarted(second: i64) -> PodFacts {
    let at = |second: i64| Timestamp::from_millis(second * 1_000);
    let mut facts = PodFacts { restarts: 1, restarted_at: at(second), ..healthy() };
    (facts.containers[0].finished_at, facts.containers[0].started_at) = (at(second), at(second));
    facts
}

#[test]
fn a_restart_without_a_leader_is_reported_by_the_next_leader() {
    for is_warm in [true, false] {
        let mut rig = running();
        rig.advance(20);
        rig.clear();
        rig.run(Input::Deposed);
        rig.now += 1_000;
        rig.report_facts(Some(restarted(1_025)));
        rig.report_all();
        assert_eq!(rig.notice_texts(), [""; 0], "there is no leader");
        fail_over(&mut rig, is_warm);
        rig.advance(10);
        assert_eq!(rig.notice_texts(), [&*Incident::Down.text()]);
        assert_eq!(rig.events.iter().filter(|event| event.kind == Kind::Incident).count(), 1);
        fail_over(&mut rig, !is_warm);
        rig.advance(10);
        assert_eq!(rig.notices.len(), 1, "the earlier leader has reported it");
    }
}

#[test]
fn a_restart_that_a_user_asked_for_is_no_incident_after_a_failover() {
    let mut rig = running();
    rig.advance(20);
    rig.command("c2", Verb::Operate { name: group("web"), act: contract::command::Act::Restart, instance: 0 });
    rig.report_facts(Some(PodFacts { restarts_done: 1, ..restarted(1_023) }));
    rig.advance(3);
    rig.take_over();
    rig.advance(10);
    assert_eq!(rig.notice_texts(), [""; 0]);
}

#[test]
fn several_engines_that_do_not_answer_cause_one_notice_and_one_event_each() {
    let mut rig = running();
    for (name, engine) in [("a", EngineState::Hung), ("b", EngineState::Down)] {
        rig.agents.get_mut(&node(name)).expect("an agent").engine = engine;
    }
    rig.advance(29);
    assert_eq!(rig.notice_texts(), [""; 0]);
    rig.advance(5);
    assert_eq!(rig.notice_texts(), [&*Incident::EngineAway.text()]);
    let body = &rig.notices[0];
    assert_eq!((body.namespace.as_str(), body.pod_name.as_str(), body.instance_no), ("Cluster", "Cluster-Manager", 1));
    let events = rig.events.iter().filter(|event| event.kind == Kind::Incident);
    let nodes: Vec<_> = events.map(|event| event.node.clone().expect("a node").to_string()).collect();
    assert_eq!(nodes, ["a", "b"]);
}

#[test]
fn an_incident_is_recorded_as_an_event_also_without_callbacks() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(1);
    rig.clear();
    rig.report_facts(Some(crash_looping()));
    rig.advance(1);
    assert!(rig.notices.is_empty());
    let incidents: Vec<(String, u32)> = rig
        .events
        .iter()
        .filter(|event| event.kind == Kind::Incident)
        .map(|event| (event.message.clone(), event.instance))
        .collect();
    assert_eq!(incidents, [(Incident::CrashLooping.text().into_owned(), 1)]);
}

#[test]
fn the_event_of_a_crash_loop_contains_the_exit_and_the_notice_keeps_its_text() {
    let mut rig = running();
    let mut facts = PodFacts { restarts: 3, ..crash_looping() };
    facts.containers[0].last_exit = Some(ExitFacts {
        code: 3,
        at: Timestamp::from_millis(7_000),
        last_line: "cannot open /etc/app.conf".to_owned(),
        ..ExitFacts::default()
    });
    rig.report_facts(Some(facts));
    rig.advance(1);
    let text = format!("{}: exited (3), 3 restarts: cannot open /etc/app.conf", Incident::CrashLooping.text());
    let events = rig.events.iter().filter(|event| event.kind == Kind::Incident);
    assert!(events.map(|event| &event.message).any(|message| *message == text), "{:?}", rig.events);
    assert!(rig.notice_texts().contains(&&*Incident::CrashLooping.text()), "{:?}", rig.notice_texts());
}
