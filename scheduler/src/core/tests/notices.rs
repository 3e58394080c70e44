//! What stands is told once, again after a long while, and anew when it came back; and what is nobody's business is not.

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
    rig.facts(Some(well()));
    rig.pass(2);
    rig.clear();
    rig
}

fn well() -> PodFacts {
    let started_at = Timestamp::from_millis(1_000_000);
    let container = ContainerFacts { running: true, ip: "10.0.0.2".to_owned(), started_at, ..Default::default() };
    PodFacts { state: RunState::Success, containers: vec![container], ..Default::default() }
}
fn is_crash_looping() -> PodFacts {
    let container = ContainerFacts { finished_at: Timestamp::from_millis(7_000), ..Default::default() };
    PodFacts { state: RunState::Exit, is_crash_looping: true, containers: vec![container], ..Default::default() }
}
fn without_address() -> PodFacts {
    let mut facts = well();
    facts.containers[0].ip.clear();
    facts
}
fn unhealthy() -> PodFacts {
    PodFacts { health: HealthState::Unhealthy, ..well() }
}

impl Rig {
    /// What node `a` says about the instance from now on.
    fn facts(&mut self, facts: Option<PodFacts>) {
        let agent = self.agents.get_mut(&node("a")).expect("an agent");
        match facts {
            Some(facts) => drop(agent.facts.insert(POD.to_owned(), facts)),
            None => drop(agent.facts.remove(POD)),
        }
    }
    fn told(&self) -> Vec<&str> {
        self.notices.iter().map(|body| body.message.as_str()).collect()
    }
}

#[test]
fn who_was_let_go_is_told_once_with_its_end_and_again_after_an_hour() {
    let mut rig = running();
    rig.facts(Some(is_crash_looping()));
    rig.pass(600);
    assert_eq!(rig.told(), [&*Incident::CrashLooping.text()]);
    let body = &rig.notices[0];
    assert_eq!((body.namespace.as_str(), body.pod_name.as_str(), body.instance_no), ("hello", "web", 1));
    assert_eq!((body.level.as_str(), body.timestamp), ("Error", Timestamp::from_millis(7_000)));
    rig.pass(3_000);
    assert_eq!(rig.notices.len(), 1);
    rig.pass(60);
    assert_eq!(rig.notices.len(), 2);
}

#[test]
fn a_lost_address_is_told_after_five_seconds_and_a_late_one_is_not() {
    let mut rig = running();
    rig.facts(Some(without_address()));
    rig.pass(4);
    rig.facts(Some(well()));
    rig.pass(60);
    assert_eq!(rig.told(), [""; 0]);
    rig.facts(Some(without_address()));
    rig.pass(5);
    assert_eq!(rig.told(), [""; 0]);
    rig.pass(1);
    assert_eq!(rig.told(), [&*Incident::LostAddress.text()]);
}

#[test]
fn a_failing_health_check_is_told_after_five_polls_since_the_start() {
    let mut rig = running();
    rig.facts(Some(unhealthy()));
    rig.pass(97);
    assert_eq!(rig.told(), [""; 0]);
    rig.pass(2);
    assert_eq!(rig.told(), [&*Incident::Unhealthy.text()]);
}

#[test]
fn what_comes_and_goes_is_told_at_most_once_a_minute_and_what_came_back_at_once_after_that() {
    let mut rig = running();
    for _ in 0..10 {
        rig.facts(Some(is_crash_looping()));
        rig.pass(3);
        rig.facts(Some(well()));
        rig.pass(3);
    }
    assert_eq!(rig.notices.len(), 1, "{:?}", rig.told());
    rig.pass(60);
    assert_eq!(rig.notices.len(), 1, "it does not stand");
    rig.facts(Some(is_crash_looping()));
    rig.pass(1);
    assert_eq!(rig.notices.len(), 2);
    rig.facts(Some(well()));
    rig.pass(1);
    rig.facts(Some(is_crash_looping()));
    rig.pass(70);
    assert_eq!(rig.notices.len(), 3, "the minute was waited for");
}

#[test]
fn silence_of_the_node_neither_ends_nor_repeats_a_condition() {
    let mut rig = running();
    rig.facts(Some(is_crash_looping()));
    rig.pass(2);
    rig.cut.insert(node("a"));
    rig.pass(100);
    rig.cut.clear();
    rig.pass(100);
    assert_eq!(rig.notices.len(), 1, "{:?}", rig.told());
}

#[test]
fn who_shall_be_stopped_is_not_missed() {
    let mut rig = running();
    rig.command("c2", Verb::Operate { name: group("web"), act: contract::command::Act::Stop, instance: 0 });
    rig.facts(Some(is_crash_looping()));
    rig.pass(120);
    assert_eq!(rig.told(), [""; 0]);
}

#[test]
fn a_group_that_goes_takes_its_conditions_with_it() {
    let mut rig = running();
    rig.facts(Some(is_crash_looping()));
    rig.pass(2);
    rig.command("c2", remove("web"));
    rig.pass(4_000);
    assert_eq!(rig.notices.len(), 1);
}

/// Another leader takes over: the process that led before, or one that was just started.
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
        rig.facts(Some(unhealthy()));
        rig.pass(120);
        assert_eq!(rig.told(), [&*Incident::Unhealthy.text()]);
        for _ in 0..4 {
            fail_over(&mut rig, is_warm);
            rig.pass(100);
        }
        assert_eq!(rig.told(), [&*Incident::Unhealthy.text()]);
        let incidents = |rig: &Rig| rig.events.iter().filter(|event| event.kind == Kind::Incident).count();
        assert_eq!(incidents(&rig), 1);
        rig.pass(3_600);
        assert_eq!((rig.notices.len(), incidents(&rig)), (2, 2));
        fail_over(&mut rig, is_warm);
        rig.pass(100);
        assert_eq!(rig.notices.len(), 2);
    }
}

#[test]
fn a_condition_that_ended_and_came_back_is_reported_anew_by_the_next_leader() {
    for ends_without_leader in [true, false] {
        let mut rig = running();
        rig.facts(Some(is_crash_looping()));
        rig.pass(2);
        rig.facts(Some(well()));
        if ends_without_leader {
            rig.now += 120_000;
            rig.take_over();
            rig.pass(2);
        }
        rig.pass(120);
        assert_eq!(rig.notices.len(), 1);
        rig.take_over();
        rig.facts(Some(is_crash_looping()));
        rig.pass(2);
        assert_eq!(rig.told(), [&*Incident::CrashLooping.text(); 2]);
    }
}

#[test]
fn an_engine_that_stays_away_is_reported_once_an_hour_whichever_scheduler_leads() {
    let mut rig = running();
    rig.agents.get_mut(&node("b")).expect("an agent").engine = EngineState::Down;
    rig.pass(60);
    assert_eq!(rig.told(), [&*Incident::EngineAway.text()]);
    for is_warm in [true, false, true, false] {
        fail_over(&mut rig, is_warm);
        rig.pass(100);
    }
    assert_eq!(rig.told(), [&*Incident::EngineAway.text()]);
    rig.agents.get_mut(&node("b")).expect("an agent").engine = EngineState::Up;
    rig.pass(120);
    rig.take_over();
    rig.agents.get_mut(&node("b")).expect("an agent").engine = EngineState::Down;
    rig.pass(60);
    assert_eq!(rig.notices.len(), 2, "it came back and went again");
}

/// Its container ended by itself and its agent started it again.
fn restarted(second: i64) -> PodFacts {
    let at = |second: i64| Timestamp::from_millis(second * 1_000);
    let mut facts = PodFacts { restarts: 1, restarted_at: at(second), ..well() };
    (facts.containers[0].finished_at, facts.containers[0].started_at) = (at(second), at(second));
    facts
}

#[test]
fn a_restart_without_a_leader_is_reported_by_the_next_leader() {
    for is_warm in [true, false] {
        let mut rig = running();
        rig.pass(20);
        rig.clear();
        rig.run(Input::Deposed);
        rig.now += 1_000;
        rig.facts(Some(restarted(1_025)));
        rig.report_all();
        assert_eq!(rig.told(), [""; 0], "there is no leader");
        fail_over(&mut rig, is_warm);
        rig.pass(10);
        assert_eq!(rig.told(), [&*Incident::Down.text()]);
        assert_eq!(rig.events.iter().filter(|event| event.kind == Kind::Incident).count(), 1);
        fail_over(&mut rig, !is_warm);
        rig.pass(10);
        assert_eq!(rig.notices.len(), 1, "the leader before reported it");
    }
}

#[test]
fn a_restart_that_a_user_asked_for_is_no_incident_after_a_failover() {
    let mut rig = running();
    rig.pass(20);
    rig.command("c2", Verb::Operate { name: group("web"), act: contract::command::Act::Restart, instance: 0 });
    rig.facts(Some(PodFacts { restarts_done: 1, ..restarted(1_023) }));
    rig.pass(3);
    rig.take_over();
    rig.pass(10);
    assert_eq!(rig.told(), [""; 0]);
}

#[test]
fn engines_that_stay_away_are_one_notice_and_an_event_each() {
    let mut rig = running();
    for (name, engine) in [("a", EngineState::Hung), ("b", EngineState::Down)] {
        rig.agents.get_mut(&node(name)).expect("an agent").engine = engine;
    }
    rig.pass(29);
    assert_eq!(rig.told(), [""; 0]);
    rig.pass(5);
    assert_eq!(rig.told(), [&*Incident::EngineAway.text()]);
    let body = &rig.notices[0];
    assert_eq!((body.namespace.as_str(), body.pod_name.as_str(), body.instance_no), ("Cluster", "Cluster-Manager", 1));
    let events = rig.events.iter().filter(|event| event.kind == Kind::Incident);
    let nodes: Vec<_> = events.map(|event| event.node.clone().expect("a node").to_string()).collect();
    assert_eq!(nodes, ["a", "b"]);
}

#[test]
fn an_incident_is_an_event_even_when_nobody_is_to_be_called() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(1);
    rig.clear();
    rig.facts(Some(is_crash_looping()));
    rig.pass(1);
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
fn the_event_of_a_crash_loop_says_how_the_instance_ended_and_the_notice_keeps_its_text() {
    let mut rig = running();
    let mut facts = PodFacts { restarts: 3, ..is_crash_looping() };
    facts.containers[0].last_exit = Some(ExitFacts {
        code: 3,
        at: Timestamp::from_millis(7_000),
        last_line: "cannot open /etc/app.conf".to_owned(),
        ..ExitFacts::default()
    });
    rig.facts(Some(facts));
    rig.pass(1);
    let text = format!("{}: exited (3), 3 restarts: cannot open /etc/app.conf", Incident::CrashLooping.text());
    let events = rig.events.iter().filter(|event| event.kind == Kind::Incident);
    assert!(events.map(|event| &event.message).any(|message| *message == text), "{:?}", rig.events);
    assert!(rig.told().contains(&&*Incident::CrashLooping.text()), "{:?}", rig.told());
}
