//! Queries: a refresh requests whole reports, and views keep the last known addresses.

use contract::state::HealthState;

use super::*;

fn refresh(rig: &mut Rig, name: &str) -> Answer {
    let query = Query::Group { name: group(name), refresh: true };
    rig.query(query)
}
fn web() -> Rig {
    let mut rig = rig(&["a", "b", "c"]);
    rig.command("c1", create("web", 2));
    rig.advance(5);
    rig.clear();
    rig
}

#[test]
fn a_refresh_requests_reports_of_the_groups_nodes_and_answers_with_the_known_state() {
    let mut rig = web();
    let pod = rig.pods("a").remove(0);
    // A change that the agent has not reported.
    rig.agent("a").states.insert(pod, RunState::Exit);
    rig.agent("a").sequence += 1;
    let Answer::Group(Some(view)) = refresh(&mut rig, "web") else { panic!("no group") };
    assert_eq!((view.state, rig.resync_requests.clone()), (RunState::Success, vec![node("a"), node("b")]));
    assert_eq!(rig.group("web").expect("a group").state, RunState::Exit, "the requested report has arrived");
}

#[test]
fn repeated_refreshes_request_one_report_per_node() {
    let mut rig = web();
    // The nodes do not answer, because a whole report would permit the next request.
    rig.unreachable.extend([node("a"), node("b")]);
    for _ in 0..10 {
        refresh(&mut rig, "web");
    }
    assert_eq!(rig.resync_requests, [node("a"), node("b")]);
    assert_eq!(refresh(&mut rig, "unknown"), Answer::Group(None));
}

#[test]
fn a_standby_requests_no_reports() {
    let mut rig = web();
    rig.run(Input::Deposed);
    let Answer::Group(Some(view)) = refresh(&mut rig, "web") else { panic!("no group") };
    assert_eq!((view.pods.len(), rig.resync_requests.len()), (2, 0));
}

#[test]
fn the_last_known_addresses_are_shown_while_an_instance_is_down() {
    let mut rig = web();
    let pod = rig.pods("a").remove(0);
    let container =
        |ip: &str| vec![ContainerFacts { ip: ip.to_owned(), running: !ip.is_empty(), ..Default::default() }];
    let report = |rig: &mut Rig, ip: &str, state| {
        let agent = rig.agent("a");
        agent.containers.insert(pod.clone(), container(ip));
        agent.states.insert(pod.clone(), state);
        rig.report("a");
        rig.group("web").expect("a group").pods[0].addresses.clone()
    };
    assert_eq!(report(&mut rig, "172.20.0.2", RunState::Success), ["172.20.0.2"]);
    assert_eq!(report(&mut rig, "", RunState::Exit), ["172.20.0.2"]);
    assert_eq!(report(&mut rig, "172.20.0.9", RunState::Success), ["172.20.0.9"]);
}

#[test]
fn the_list_of_groups_counts_ready_instances_and_names_those_unhealthy_for_too_long() {
    let mut rig = web();
    let line = |rig: &mut Rig| {
        let query = Query::Groups { namespace: None, after: None, limit: 10 };
        match rig.query(query) {
            Answer::Groups(mut lines) => lines.remove(0),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((line(&mut rig).ready, line(&mut rig).overdue), (Some(2), Vec::new()));
    let pod = rig.pods("a").remove(0);
    let (state, health, updated_at) = (RunState::Success, HealthState::Unhealthy, rig.time());
    let agent = rig.agent("a");
    agent.facts.insert(pod, PodFacts { state, health, updated_at, ..PodFacts::default() });
    rig.report("a");
    rig.advance(20);
    let soon = line(&mut rig);
    assert_eq!((soon.running, soon.ready, soon.overdue), (2, Some(1), Vec::new()));
    rig.advance(15);
    let late = line(&mut rig);
    assert_eq!((late.running, late.ready, late.overdue.len()), (2, Some(1), 1));
    assert!(late.overdue[0].why.starts_with("unhealthy for 3"), "{:?}", late.overdue);
}
