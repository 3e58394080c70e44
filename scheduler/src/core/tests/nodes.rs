//! Reports and liveness of nodes.

use contract::query::Liveness;
use contract::record::NodeRecord;
use contract::report::ContainerFacts;

use super::*;

fn liveness(rig: &mut Rig, name: &str) -> Liveness {
    rig.nodes().into_iter().find(|view| view.name == node(name)).expect("the node").liveness
}
fn record(rig: &Rig, name: &str) -> NodeRecord {
    serde_json::from_slice(&rig.store[&keys::node(&node(name))]).expect("a record")
}

#[test]
fn the_first_report_registers_a_node_and_heartbeats_write_nothing() {
    let mut rig = rig(&["a"]);
    assert_eq!(record(&rig, "a").facts.ip, "ip-of-a");
    for _ in 0..10 {
        rig.now += 1_000;
        let heartbeat = rig.heartbeat("a");
        rig.run(heartbeat);
    }
    assert_eq!((rig.commits.len(), rig.resync_requests.len(), liveness(&mut rig, "a")), (0, 0, Liveness::Alive));
}

#[test]
fn a_node_that_reports_absurd_facts_is_bounded_and_harms_no_placement() {
    let mut rig = rig(&["a", "b"]);
    for name in ["a", "b"] {
        let mut report = rig.agents[&node(name)].whole(&node(name));
        report.head.stamp.sequence += 1;
        report.head.facts.memory = u64::MAX;
        report.head.facts.cpu_millis = u64::MAX;
        report.head.facts.cores = u32::MAX;
        rig.run(Input::Report(ReportMessage::Whole(report)));
        assert_eq!(record(&rig, name).facts.memory, 1 << 50);
    }
    assert_eq!(rig.command("c1", create("web", 4)), "Accepted");
    rig.report_all();
    assert_eq!(rig.places("web").len(), 4);
    let view = rig.cluster_view();
    assert!(view.warnings.is_empty(), "{:?}", view.warnings);
}

#[test]
fn a_gap_in_the_reports_requests_a_whole_report_every_two_seconds() {
    let mut rig = rig(&["a"]);
    rig.agent("a").sequence += 3;
    let heartbeat = rig.heartbeat("a");
    let requests = |effects: Vec<Effect>| effects.iter().filter(|e| matches!(e, Effect::AskWhole { .. })).count();
    assert_eq!(requests(rig.input(heartbeat.clone())), 1);
    rig.now += 1_000;
    assert_eq!(requests(rig.input(heartbeat.clone())), 0);
    rig.now += 1_000;
    assert_eq!(requests(rig.input(heartbeat.clone())), 1);
    rig.report("a");
    rig.now += 5_000;
    assert_eq!(requests(rig.input(heartbeat)), 0, "an old heartbeat requests nothing");
}

#[test]
fn an_unschedulable_group_is_placed_when_a_node_joins() {
    let mut rig = rig(&[]);
    rig.command("c1", create("web", 1));
    let view = rig.group("web").expect("a group");
    assert_eq!((view.last_error.as_str(), view.operation), ("no node fits: there is no node", None));
    rig.agents.insert(node("a"), FakeNode::default());
    rig.advance(2);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn an_unreachable_node_becomes_suspect_then_lost_and_its_instances_move_permanently() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(1);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    rig.unreachable.insert(node("a"));
    rig.advance(20);
    assert_eq!((liveness(&mut rig, "a"), rig.places("web")[0].1), (Liveness::Suspect, 0));
    rig.advance(285);
    assert_eq!((liveness(&mut rig, "a"), record(&rig, "a").lost), (Liveness::Lost, true));
    assert_eq!(rig.places("web"), [("b".to_owned(), 1), ("b".to_owned(), 0)]);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
    assert_eq!(rig.pods("a"), ["web.v0-i1-d0"], "the unreachable node still runs its pod");
    rig.unreachable.clear();
    rig.advance(3);
    assert_eq!((liveness(&mut rig, "a"), record(&rig, "a").lost), (Liveness::Alive, false));
    assert_eq!(rig.pods("a"), [""; 0], "the surplus pod is removed");
    assert_eq!(rig.places("web"), [("b".to_owned(), 1), ("b".to_owned(), 0)]);
}

#[test]
fn a_leader_that_receives_no_report_at_all_declares_no_node_lost() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(1);
    rig.unreachable.extend([node("a"), node("b")]);
    rig.advance(1_000);
    assert_eq!((liveness(&mut rig, "a"), liveness(&mut rig, "b")), (Liveness::Suspect, Liveness::Suspect));
    rig.unreachable.remove(&node("a"));
    rig.advance(20);
    assert_eq!((liveness(&mut rig, "a"), liveness(&mut rig, "b")), (Liveness::Alive, Liveness::Suspect));
    rig.unreachable.clear();
    rig.advance(400);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
}

#[test]
fn a_missing_container_is_replaced_and_a_notice_sent() {
    let mut rig = rig(&["a"]);
    rig.command("c0", Verb::AddCallback { url: "http://127.0.0.1/".to_owned() });
    rig.command("c1", create("web", 1));
    rig.advance(1);
    let agent = rig.agent("a");
    agent.states.insert("web.v0-i1-d0".to_owned(), RunState::Missing);
    rig.advance(1);
    assert_eq!(rig.places("web"), [("a".to_owned(), 1)]);
    let notices: Vec<(&str, u32)> = rig.notices.iter().map(|body| (body.message.as_str(), body.instance_no)).collect();
    assert_eq!(notices, [("LAIN found pod missing, ready to redeployd it", 1)]);
}

#[test]
fn a_restart_sends_one_notice() {
    let mut rig = rig(&["a"]);
    rig.command("c0", Verb::AddCallback { url: "http://127.0.0.1/".to_owned() });
    rig.command("c1", create("web", 1));
    rig.advance(1);
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
fn reports_of_an_older_sequence_or_incarnation_change_nothing() {
    let mut rig = rig(&["a"]);
    let name = node("a");
    let old = rig.agents[&name].whole(&name);
    rig.command("c1", create("web", 1));
    rig.advance(1);
    rig.clear();
    rig.run(Input::Report(ReportMessage::Whole(old)));
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
    let agent = rig.agents.get_mut(&name).expect("an agent");
    let mut late = agent.whole(&name);
    agent.incarnation += 1;
    rig.report("a");
    late.head.stamp.sequence += 100;
    late.pods.clear();
    rig.run(Input::Report(ReportMessage::Whole(late)));
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn a_late_report_of_an_unknown_incarnation_does_not_block_later_reports() {
    let mut rig = rig(&["a"]);
    let name = node("a");
    let mut late = rig.agents[&name].whole(&name);
    late.head.stamp.incarnation = "unknown".to_owned();
    rig.run(Input::Report(ReportMessage::Whole(late)));
    rig.advance(14);
    assert_eq!(liveness(&mut rig, "a"), Liveness::Alive);
}

#[test]
fn the_reports_of_a_large_group_are_coalesced() {
    let mut rig = rig(&["a", "b", "c", "d"]);
    for agent in rig.agents.values_mut() {
        agent.memory = 64 << 30;
        agent.cpu_millis = 1_000_000;
    }
    rig.report_all();
    rig.command("c1", create("web", 300));
    rig.advance(2);
    for agent in rig.agents.values_mut() {
        let facts = ContainerFacts { running: true, ip: "10.0.0.1".to_owned(), ..Default::default() };
        agent.containers = agent.order.pods.keys().map(|pod| (pod.to_string(), vec![facts.clone()])).collect();
    }
    let recorded = |rig: &Rig| {
        rig.core.state.groups[&group("web")]
            .instances()
            .iter()
            .filter(|instance| !instance.addresses.is_empty())
            .count()
    };
    rig.report_all();
    assert!((1..300).contains(&recorded(&rig)), "the group was reconciled a moment ago");
    rig.now += 200;
    rig.run(Input::Tick);
    assert_eq!(recorded(&rig), 300);
}

#[test]
fn a_suspect_node_whose_heartbeat_shows_a_change_is_alive_only_after_its_whole_report() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(3);
    rig.unreachable.insert(node("a"));
    rig.advance(20);
    let agent = rig.agent("a");
    agent.states.insert("web.v0-i1-d0".to_owned(), RunState::Exit);
    agent.sequence += 1;
    let changed = rig.heartbeat("a");
    drop(rig.input(changed));
    assert_eq!(liveness(&mut rig, "a"), Liveness::Suspect, "its whole report has not arrived yet");
    rig.unreachable.clear();
    rig.report("a");
    assert_eq!(liveness(&mut rig, "a"), Liveness::Alive);
}

#[test]
fn a_heartbeat_without_a_whole_report_does_not_make_a_node_alive_for_a_new_leader() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 2));
    rig.advance(3);
    rig.core = Core::new(Settings::default());
    // The new leader's requests and all whole reports are lost.
    rig.unreachable.insert(node("a"));
    rig.elect();
    let heartbeat = rig.heartbeat("a");
    drop(rig.input(heartbeat));
    assert_eq!(liveness(&mut rig, "a"), Liveness::Unknown);
    rig.unreachable.clear();
    rig.report("a");
    assert_eq!(liveness(&mut rig, "a"), Liveness::Alive);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}
