//! What hearing a node changes, and what silence does.

use contract::query::Liveness;
use contract::record::NodeRecord;
use contract::report::ContainerFacts;

use super::*;

fn liveness(rig: &mut Rig, name: &str) -> Liveness {
    rig.run(Input::Query { query: Query::Nodes, reply: "nodes".to_owned() });
    let Answer::Nodes(nodes) = rig.replies.remove("nodes").expect("an answer").answer else { panic!("not nodes") };
    nodes.into_iter().find(|view| view.name == node(name)).expect("the node").liveness
}
fn record(rig: &Rig, name: &str) -> NodeRecord {
    serde_json::from_slice(&rig.store[&keys::node(&node(name))]).expect("a record")
}

#[test]
fn a_node_registers_itself_by_reporting_and_heartbeats_write_nothing() {
    let mut rig = rig(&["a"]);
    assert_eq!(record(&rig, "a").facts.ip, "ip-of-a");
    for _ in 0..10 {
        rig.now += 1_000;
        let heartbeat = rig.heartbeat("a");
        rig.run(heartbeat);
    }
    assert_eq!((rig.commits.len(), rig.asked.len(), liveness(&mut rig, "a")), (0, 0, Liveness::Alive));
}

#[test]
fn a_gap_makes_the_scheduler_ask_for_the_whole_but_not_without_end() {
    let mut rig = rig(&["a"]);
    rig.agents.get_mut(&node("a")).expect("an agent").sequence += 3;
    let heartbeat = rig.heartbeat("a");
    let asks = |effects: Vec<Effect>| effects.iter().filter(|e| matches!(e, Effect::AskWhole { .. })).count();
    assert_eq!(asks(rig.input(heartbeat.clone())), 1);
    rig.now += 1_000;
    assert_eq!(asks(rig.input(heartbeat.clone())), 0);
    rig.now += 1_000;
    assert_eq!(asks(rig.input(heartbeat.clone())), 1);
    rig.report("a");
    rig.now += 5_000;
    assert_eq!(asks(rig.input(heartbeat)), 0, "an old message asks for nothing");
}

#[test]
fn a_group_that_found_no_place_gets_one_when_a_node_comes() {
    let mut rig = rig(&[]);
    rig.command("c1", create("web", 1));
    let view = rig.group("web").expect("a group");
    assert_eq!((view.last_error.as_str(), view.operation), ("no node fits: there is no node", None));
    rig.agents.insert(node("a"), Agent::new());
    rig.pass(2);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn a_silent_node_is_suspect_then_lost_and_its_work_moves_and_stays_moved() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.pass(1);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    rig.cut.insert(node("a"));
    rig.pass(20);
    assert_eq!((liveness(&mut rig, "a"), rig.places("web")[0].1), (Liveness::Suspect, 0));
    rig.pass(285);
    assert_eq!((liveness(&mut rig, "a"), record(&rig, "a").lost), (Liveness::Lost, true));
    assert_eq!(rig.places("web"), [("b".to_owned(), 1), ("b".to_owned(), 0)]);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
    assert_eq!(rig.pods("a"), ["web.v0-i1-d0"], "the cut node still runs its copy");
    rig.cut.clear();
    rig.pass(3);
    assert_eq!((liveness(&mut rig, "a"), record(&rig, "a").lost), (Liveness::Alive, false));
    assert_eq!(rig.pods("a"), [""; 0], "the surplus copy goes");
    assert_eq!(rig.places("web"), [("b".to_owned(), 1), ("b".to_owned(), 0)]);
}

#[test]
fn who_hears_nobody_calls_nobody_lost() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.pass(1);
    rig.cut.extend([node("a"), node("b")]);
    rig.pass(1_000);
    assert_eq!((liveness(&mut rig, "a"), liveness(&mut rig, "b")), (Liveness::Suspect, Liveness::Suspect));
    rig.cut.remove(&node("a"));
    rig.pass(20);
    assert_eq!((liveness(&mut rig, "a"), liveness(&mut rig, "b")), (Liveness::Alive, Liveness::Suspect));
    rig.cut.clear();
    rig.pass(400);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
}

#[test]
fn a_vanished_container_is_made_anew_and_told() {
    let mut rig = rig(&["a"]);
    rig.command("c0", Verb::AddCallback { url: "http://127.0.0.1/".to_owned() });
    rig.command("c1", create("web", 1));
    rig.pass(1);
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.states.insert("web.v0-i1-d0".to_owned(), RunState::Missing);
    rig.pass(1);
    assert_eq!(rig.places("web"), [("a".to_owned(), 1)]);
    let told: Vec<(&str, u32)> = rig.notices.iter().map(|body| (body.message.as_str(), body.instance_no)).collect();
    assert_eq!(told, [("LAIN found pod missing, ready to redeployd it", 1)]);
}

#[test]
fn a_restart_is_told_once() {
    let mut rig = rig(&["a"]);
    rig.command("c0", Verb::AddCallback { url: "http://127.0.0.1/".to_owned() });
    rig.command("c1", create("web", 1));
    rig.pass(1);
    let name = node("a");
    let mut report = rig.agents[&name].whole(&name);
    report.head.stamp.sequence += 1;
    for facts in report.pods.values_mut() {
        facts.restarts = 1;
        facts.containers = vec![ContainerFacts { finished_at: Timestamp::from_millis(5), ..Default::default() }];
    }
    rig.run(Input::Report(ReportMessage::Whole(report.clone())));
    rig.run(Input::Report(ReportMessage::Whole(report)));
    assert_eq!(rig.notices.len(), 1);
    assert_eq!((rig.notices[0].namespace.as_str(), rig.notices[0].timestamp), ("hello", Timestamp::from_millis(5)));
}

#[test]
fn old_messages_change_nothing() {
    let mut rig = rig(&["a"]);
    let name = node("a");
    let old = rig.agents[&name].whole(&name);
    rig.command("c1", create("web", 1));
    rig.pass(1);
    rig.clear();
    rig.run(Input::Report(ReportMessage::Whole(old)));
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
    let agent = rig.agents.get_mut(&name).expect("an agent");
    let retired = agent.whole(&name);
    agent.incarnation += 1;
    rig.report("a");
    let mut late = retired;
    late.head.stamp.sequence += 100;
    late.pods.clear();
    rig.run(Input::Report(ReportMessage::Whole(late)));
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn a_late_message_of_an_agent_never_heard_of_does_not_deafen_for_long() {
    let mut rig = rig(&["a"]);
    let name = node("a");
    let mut stranger = rig.agents[&name].whole(&name);
    stranger.head.stamp.incarnation = "stranger".to_owned();
    rig.run(Input::Report(ReportMessage::Whole(stranger)));
    rig.pass(14);
    assert_eq!(liveness(&mut rig, "a"), Liveness::Alive);
}

#[test]
fn the_reports_of_a_large_group_are_looked_at_together() {
    let mut rig = rig(&["a", "b", "c", "d"]);
    for agent in rig.agents.values_mut() {
        agent.memory = 64 << 30;
        agent.cpu_millis = 1_000_000;
    }
    rig.report_all();
    rig.command("c1", create("web", 300));
    rig.pass(2);
    for agent in rig.agents.values_mut() {
        let facts = ContainerFacts { running: true, ip: "10.0.0.1".to_owned(), ..Default::default() };
        agent.containers = agent.order.pods.keys().map(|pod| (pod.to_string(), vec![facts.clone()])).collect();
    }
    let noted = |rig: &Rig| {
        rig.core.state.groups[&group("web")].slots().iter().filter(|slot| !slot.addresses.is_empty()).count()
    };
    rig.report_all();
    assert!((1..300).contains(&noted(&rig)), "planned a moment ago");
    rig.now += 200;
    rig.run(Input::Tick);
    assert_eq!(noted(&rig), 300);
}

#[test]
fn what_a_node_said_before_a_silence_is_not_acted_on_when_it_says_that_it_is_not_true_any_more() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(3);
    rig.cut.insert(node("a"));
    rig.pass(20);
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.states.insert("web.v0-i1-d0".to_owned(), RunState::Exit);
    agent.sequence += 1;
    let changed = rig.heartbeat("a");
    drop(rig.input(changed));
    assert_eq!(liveness(&mut rig, "a"), Liveness::Suspect, "its answer is under way");
    rig.cut.clear();
    rig.report("a");
    assert_eq!(liveness(&mut rig, "a"), Liveness::Alive);
}

#[test]
fn a_node_that_only_says_it_is_there_is_not_taken_for_an_empty_one() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 2));
    rig.pass(3);
    rig.core = Core::new(Settings::default());
    // The new leader's questions are lost, and so is every whole report.
    rig.cut.insert(node("a"));
    rig.elect();
    let heartbeat = rig.heartbeat("a");
    drop(rig.input(heartbeat));
    assert_eq!(liveness(&mut rig, "a"), Liveness::Unknown);
    rig.cut.clear();
    rig.report("a");
    assert_eq!(liveness(&mut rig, "a"), Liveness::Alive);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}
