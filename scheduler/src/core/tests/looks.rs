//! Questions with a side: a refresh makes nodes tell everything, and what is shown outlives the container it was seen on.

use contract::state::HealthState;

use super::*;

fn refresh(rig: &mut Rig, name: &str) -> Answer {
    let query = Query::Group { name: group(name), refresh: true };
    rig.run(Input::Query { query, reply: "refresh".to_owned() });
    rig.replies.remove("refresh").expect("an answer").answer
}
fn web() -> Rig {
    let mut rig = rig(&["a", "b", "c"]);
    rig.command("c1", create("web", 2));
    rig.pass(5);
    rig.clear();
    rig
}

#[test]
fn a_refresh_asks_the_nodes_of_the_group_and_answers_what_is_known() {
    let mut rig = web();
    let pod = rig.pods("a").remove(0);
    // A change nobody was told of.
    rig.agents.get_mut(&node("a")).expect("an agent").states.insert(pod, RunState::Exit);
    rig.agents.get_mut(&node("a")).expect("an agent").sequence += 1;
    let Answer::Group(Some(view)) = refresh(&mut rig, "web") else { panic!("no group") };
    assert_eq!((view.state, rig.asked.clone()), (RunState::Success, vec![node("a"), node("b")]));
    assert_eq!(rig.group("web").expect("a group").state, RunState::Exit, "seen since");
}

#[test]
fn a_node_is_not_asked_again_and_again() {
    let mut rig = web();
    // Nobody answers, as every whole report allows the next question.
    rig.cut.extend([node("a"), node("b")]);
    for _ in 0..10 {
        refresh(&mut rig, "web");
    }
    assert_eq!(rig.asked, [node("a"), node("b")]);
    assert_eq!(refresh(&mut rig, "nobody"), Answer::Group(None));
}

#[test]
fn a_standby_refreshes_nothing() {
    let mut rig = web();
    rig.run(Input::Deposed);
    let Answer::Group(Some(view)) = refresh(&mut rig, "web") else { panic!("no group") };
    assert_eq!((view.pods.len(), rig.asked.len()), (2, 0));
}

#[test]
fn the_last_known_addresses_are_shown_while_an_instance_is_down() {
    let mut rig = web();
    let pod = rig.pods("a").remove(0);
    let container =
        |ip: &str| vec![ContainerFacts { ip: ip.to_owned(), running: !ip.is_empty(), ..Default::default() }];
    let tell = |rig: &mut Rig, ip: &str, state| {
        let agent = rig.agents.get_mut(&node("a")).expect("an agent");
        agent.containers.insert(pod.clone(), container(ip));
        agent.states.insert(pod.clone(), state);
        rig.report("a");
        rig.group("web").expect("a group").pods[0].addresses.clone()
    };
    assert_eq!(tell(&mut rig, "172.20.0.2", RunState::Success), ["172.20.0.2"]);
    assert_eq!(tell(&mut rig, "", RunState::Exit), ["172.20.0.2"]);
    assert_eq!(tell(&mut rig, "172.20.0.9", RunState::Success), ["172.20.0.9"]);
}

#[test]
fn a_list_counts_ready_instances_and_names_those_that_are_unhealthy_for_too_long() {
    let mut rig = web();
    let line = |rig: &mut Rig| {
        let query = Query::Groups { namespace: None, after: None, limit: 10 };
        rig.run(Input::Query { query, reply: "lines".to_owned() });
        match rig.replies.remove("lines").expect("an answer").answer {
            Answer::Groups(mut lines) => lines.remove(0),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((line(&mut rig).ready, line(&mut rig).overdue), (Some(2), Vec::new()));
    let pod = rig.pods("a").remove(0);
    let (state, health, updated_at) = (RunState::Success, HealthState::Unhealthy, rig.time());
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.facts.insert(pod, PodFacts { state, health, updated_at, ..PodFacts::default() });
    rig.report("a");
    rig.pass(20);
    let soon = line(&mut rig);
    assert_eq!((soon.running, soon.ready, soon.overdue), (2, Some(1), Vec::new()));
    rig.pass(15);
    let late = line(&mut rig);
    assert_eq!((late.running, late.ready, late.overdue.len()), (2, Some(1), 1));
    assert!(late.overdue[0].why.starts_with("unhealthy for 3"), "{:?}", late.overdue);
}
