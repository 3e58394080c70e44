//! Orders: a delta when the node's state is known, otherwise whole; one in flight per node, and repeated with a delay.

use super::*;

fn kinds(rig: &Rig) -> Vec<&'static str> {
    let kind = |(_, message): &(NodeName, OrderMessage)| match message {
        OrderMessage::Whole(_) => "whole",
        OrderMessage::Delta(_) => "delta",
    };
    rig.orders.iter().map(kind).collect()
}
fn sent(effects: &[Effect]) -> Vec<(NodeName, Fence)> {
    let order = |effect: &Effect| match effect {
        Effect::SendOrder { node, message } => Some((node.clone(), message.fence())),
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}
/// A leader whose order to node `a` is in flight.
fn order_in_flight(id: &str) -> (Rig, Fence) {
    let mut rig = rig(&["a"]);
    let fence = sent(&commit_command(&mut rig, id, create("web", 1)))[0].1;
    (rig, fence)
}
fn reply(rig: &mut Rig, fence: Fence, reply: Option<OrderReply>) -> Vec<Effect> {
    rig.input(Input::OrderReplied { node: node("a"), fence, reply })
}

#[test]
fn a_node_that_replies_receives_deltas() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.command("c2", create("api", 1));
    assert_eq!(kinds(&rig), ["delta", "delta"]);
    assert_eq!(rig.pods("a"), ["api.v0-i1-d0", "web.v0-i1-d0"]);
}

#[test]
fn a_node_with_another_base_receives_a_whole_order() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.clear();
    rig.agent("a").order.fence.generation += 7;
    rig.command("c2", create("api", 1));
    assert_eq!(kinds(&rig), ["delta", "whole"]);
    assert_eq!(rig.pods("a").len(), 2);
}

#[test]
fn a_node_that_reports_another_order_receives_its_order_again() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.report_all();
    rig.clear();
    rig.advance(3);
    assert_eq!(kinds(&rig), [""; 0], "a node that reports its order receives nothing");
    let agent = rig.agent("a");
    agent.order = Order::default();
    agent.incarnation += 1;
    agent.sequence = 0;
    rig.advance(1);
    assert_eq!((kinds(&rig), rig.pods("a").len()), (vec!["whole"], 1));
}

/// The orders after a late report, which shows the first order although the node has accepted the second.
fn late_report(seconds: i64) -> Vec<&'static str> {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(1);
    let first = rig.agents[&node("a")].order.clone();
    rig.command("c2", replica("web", 2));
    rig.clear();
    let agent = rig.agent("a");
    agent.order = first;
    rig.now += seconds * 1_000;
    rig.report("a");
    kinds(&rig)
}

#[test]
fn a_report_that_is_older_than_the_accepted_order_is_ignored_for_a_while() {
    assert_eq!(late_report(5), [""; 0], "the same incarnation cannot have lost its order");
    assert_eq!(late_report(40), ["whole"], "after 40 s the leader believes the report");
}

#[test]
fn an_unanswered_order_is_sent_again_whole_after_a_report_or_five_seconds() {
    let (mut rig, fence) = order_in_flight("c1");
    assert_eq!(sent(&reply(&mut rig, fence, None)), []);
    rig.now = rig.core.wake_at().expect("a time").as_millis().max(rig.now);
    rig.now += 5_000;
    let effects = rig.input(Input::Tick);
    assert!(matches!(&effects[..], [Effect::SendOrder { message: OrderMessage::Whole(_), .. }]), "{effects:?}");
    let second = sent(&effects)[0].1;
    assert!(second > fence);
    assert_eq!(sent(&reply(&mut rig, second, None)), []);
    let heartbeat = rig.heartbeat("a");
    assert_eq!(sent(&rig.input(heartbeat)), [], "not immediately");
    rig.now += 500;
    assert_eq!(sent(&rig.input(Input::Tick)).len(), 1);
}

/// The node applies its order; its reply is lost.
fn apply_without_reply(rig: &mut Rig, effects: Vec<Effect>) -> Fence {
    let message = effects.into_iter().find_map(|effect| match effect {
        Effect::SendOrder { message, .. } => Some(message),
        _ => None,
    });
    let message = message.expect("an order");
    rig.agent("a").apply(&message);
    message.fence()
}
/// Runs a command and its first commit. Returns the effects of the commit without performing them.
fn commit_command(rig: &mut Rig, id: &str, verb: Verb) -> Vec<Effect> {
    let delivery = rig.delivery(id, verb);
    let commit = only_commit(&rig.input(Input::Command(delivery))).clone();
    let committed = rig.store(commit);
    rig.input(committed)
}

#[test]
fn a_report_that_shows_the_order_counts_as_the_reply() {
    let mut rig = rig(&["a"]);
    let effects = commit_command(&mut rig, "c1", create("web", 1));
    let fence = apply_without_reply(&mut rig, effects);
    rig.report("a");
    assert_eq!(kinds(&rig), [""; 0], "the node has its order");
    assert_eq!(sent(&reply(&mut rig, fence, None)), [], "the missing reply changes nothing");
    rig.advance(40);
    assert_eq!(kinds(&rig), [""; 0]);
    rig.command("c2", create("api", 1));
    assert_eq!(kinds(&rig), ["delta"]);
}

#[test]
fn an_unanswered_order_that_a_report_shows_is_not_sent_again() {
    let mut rig = rig(&["a"]);
    let effects = commit_command(&mut rig, "c1", create("web", 1));
    let fence = apply_without_reply(&mut rig, effects);
    assert_eq!(sent(&reply(&mut rig, fence, None)), []);
    rig.report("a");
    rig.advance(40);
    assert_eq!(kinds(&rig), [""; 0], "the node has its order");
}

#[test]
fn changes_after_an_unanswered_order_that_a_report_shows_are_sent_as_a_delta() {
    let mut rig = rig(&["a"]);
    let effects = commit_command(&mut rig, "c1", create("web", 1));
    let fence = apply_without_reply(&mut rig, effects);
    assert_eq!(sent(&reply(&mut rig, fence, None)), []);
    assert_eq!(
        sent(&commit_command(&mut rig, "c2", create("api", 1))),
        [],
        "not before the leader knows which order the node has"
    );
    rig.report("a");
    assert_eq!((kinds(&rig), rig.pods("a").len()), (vec!["delta"], 2));
    rig.clear();
    let effects = commit_command(&mut rig, "c3", create("db", 1));
    let fence = apply_without_reply(&mut rig, effects);
    assert_eq!(sent(&reply(&mut rig, fence, None)), []);
    assert_eq!(sent(&commit_command(&mut rig, "c4", Verb::Configure { readonly: None, maintenance: Some(true) })), []);
    rig.report("a");
    assert_eq!(kinds(&rig), ["delta"], "the delta contains the switches too");
    assert!(rig.agents[&node("a")].order.switches.hold_restarts);
}

#[test]
fn one_order_is_in_flight_per_node() {
    let (mut rig, fence) = order_in_flight("c1");
    assert_eq!(sent(&commit_command(&mut rig, "c2", create("api", 1))), []);
    let digest = rig.agents[&node("a")].order.digest();
    // The digest differs from that of the order, so the next order is whole and sent with a delay.
    let effects = reply(&mut rig, fence, Some(OrderReply::Accepted { fence, digest }));
    assert_eq!(sent(&effects), []);
    rig.now += 500;
    let effects = rig.input(Input::Tick);
    assert!(matches!(&effects[..], [Effect::SendOrder { message: OrderMessage::Whole(_), .. }]), "{effects:?}");
}

#[test]
fn a_later_term_in_a_reply_ends_the_leadership_only_when_etcd_agrees() {
    for have in [fence(99, 1), fence(u64::MAX, u64::MAX)] {
        for claim in [OrderReply::Stale { have }, OrderReply::NeedWhole { have }] {
            let (mut rig, fence_sent) = order_in_flight("c1");
            let effects = reply(&mut rig, fence_sent, Some(claim.clone()));
            let commit = first_commit(effects).expect("a transaction");
            assert_eq!(rig.core.term(), Some(Term(1)), "{claim:?}");
            rig.perform(vec![Effect::Commit(commit)]);
            assert_eq!((rig.core.term(), rig.cluster_view().foreign_store), (Some(Term(1)), 1), "{claim:?}");

            let (mut rig, fence_sent) = order_in_flight("c1");
            let commit = first_commit(reply(&mut rig, fence_sent, Some(claim))).expect("a transaction");
            let effects = rig.input(Input::Committed { id: commit.id, result: CommitResult::Fenced });
            assert!(matches!(&effects[..], [Effect::StepDown { .. }]), "{effects:?}");
            assert_eq!(rig.core.term(), None);
        }
    }
}

#[test]
fn a_generation_that_this_leader_cannot_have_sent_is_ignored() {
    let (mut rig, fence_sent) = order_in_flight("c1");
    let have = Fence { generation: u64::MAX, ..fence_sent };
    let effects = reply(&mut rig, fence_sent, Some(OrderReply::NeedWhole { have }));
    assert_eq!(sent(&effects)[0].1, Fence { generation: fence_sent.generation + 1, ..fence_sent });
}

#[test]
fn after_a_conflict_the_order_is_sent_again_with_a_higher_fence() {
    let (mut rig, fence) = order_in_flight("c1");
    reply(&mut rig, fence, Some(OrderReply::Conflict { have: fence }));
    assert_eq!(rig.core.disagreements(), 1);
    rig.now += 500;
    assert!(sent(&rig.input(Input::Tick))[0].1 > fence);
}

#[test]
fn an_order_without_any_reply_is_sent_again() {
    let (mut rig, _) = order_in_flight("c1");
    rig.now += 29_000;
    assert_eq!(sent(&rig.input(Input::Tick)), []);
    rig.now += 10_000;
    let mut orders = sent(&rig.input(Input::Tick));
    rig.now += 6_000;
    orders.extend(sent(&rig.input(Input::Tick)));
    assert_eq!(orders.len(), 1);
}

#[test]
fn a_spec_that_changes_without_a_new_version_changes_the_order() {
    use crate::core::dispatch::desired::assignments;
    use crate::core::state::Group;
    use contract::record::{GroupRecord, Instance};

    let group_of = |image: &str| {
        let mut spec = spec("web", 1);
        spec.pod.containers[0].image = image.to_owned();
        let mut state = crate::core::state::State::default();
        state.put_group(&group("web"), GroupRecord { spec, ..Default::default() }, 8);
        state.set_instances(&group("web"), vec![Instance { node: Some(node("a")), ..Default::default() }]);
        state.groups.remove(&group("web")).expect("a group")
    };
    let changes = |before: &Group, after: &Group| {
        assignments(&group("web"), before).changes_to(&assignments(&group("web"), after)).len()
    };
    assert_eq!(changes(&group_of("one"), &group_of("one")), 0);
    assert_eq!(changes(&group_of("one"), &group_of("two")), 1);
}

#[test]
fn a_node_that_waits_for_the_send_window_receives_all_changes_in_one_order() {
    let mut rig = rig_with(Settings { orders_at_once: 1, ..Settings::default() }, &["a", "b"]);
    let effects = commit_command(&mut rig, "c1", create("web", 2));
    assert_eq!(sent(&effects).len(), 1, "one order is in flight: {effects:?}");
    assert_eq!(sent(&commit_command(&mut rig, "c2", create("api", 2))), []);
    rig.now += 1_000;
    let effects = rig.input(Input::Tick);
    let [Effect::SendOrder { message: OrderMessage::Delta(delta), .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(delta.pods.put.len(), 2, "a node that does not reply delays the others for a second only");
}
