//! Orders are as small as can be trusted, whole when in doubt, one at a time, and never repeated in a tight loop.

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
/// A rig whose next order to `a` is under way and unanswered.
fn under_way(id: &str) -> (Rig, Fence) {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery(id, create("web", 1));
    let effects = rig.input(Input::Command(delivery));
    let Some(Effect::Commit(commit)) = effects.into_iter().next() else { panic!("no commit") };
    let committed = rig.store(commit);
    let effects = rig.input(committed);
    let fence = sent(&effects)[0].1;
    (rig, fence)
}
fn answer(rig: &mut Rig, fence: Fence, reply: Option<OrderReply>) -> Vec<Effect> {
    rig.input(Input::OrderReplied { node: node("a"), fence, reply })
}

#[test]
fn a_node_that_answers_gets_changes() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.command("c2", create("api", 1));
    assert_eq!(kinds(&rig), ["delta", "delta"]);
    assert_eq!(rig.pods("a"), ["api.v0-i1-d0", "web.v0-i1-d0"]);
}

#[test]
fn a_node_that_lost_its_base_gets_the_whole() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.clear();
    rig.agents.get_mut(&node("a")).expect("an agent").order.fence.generation += 7;
    rig.command("c2", create("api", 1));
    assert_eq!(kinds(&rig), ["delta", "whole"]);
    assert_eq!(rig.pods("a").len(), 2);
}

#[test]
fn a_node_that_obeys_something_else_gets_its_order_again() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.report_all();
    rig.clear();
    rig.pass(3);
    assert_eq!(kinds(&rig), [""; 0], "nothing to say to a node that obeys");
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.order = Order::default();
    agent.incarnation += 1;
    agent.sequence = 0;
    rig.pass(1);
    assert_eq!((kinds(&rig), rig.pods("a").len()), (vec!["whole"], 1));
}

/// A node that took its second order and is then heard with what it said when it obeyed the first.
fn heard_late(seconds: i64) -> Vec<&'static str> {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(1);
    let first = rig.agents[&node("a")].order.clone();
    rig.command("c2", replica("web", 2));
    rig.clear();
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.order = first;
    rig.now += seconds * 1_000;
    rig.report("a");
    kinds(&rig)
}

#[test]
fn what_an_agent_said_before_it_took_its_order_may_be_heard_long_after() {
    assert_eq!(heard_late(5), [""; 0], "the same run cannot have forgotten its order");
    assert_eq!(heard_late(40), ["whole"], "and is believed after all");
}

#[test]
fn an_unanswered_order_is_sent_again_whole_when_the_node_is_heard_or_after_a_while() {
    let (mut rig, fence) = under_way("c1");
    assert_eq!(sent(&answer(&mut rig, fence, None)), []);
    rig.now = rig.core.wake_at().expect("a time").as_millis().max(rig.now);
    rig.now += 5_000;
    let effects = rig.input(Input::Tick);
    assert!(matches!(&effects[..], [Effect::SendOrder { message: OrderMessage::Whole(_), .. }]), "{effects:?}");
    let second = sent(&effects)[0].1;
    assert!(second > fence);
    assert_eq!(sent(&answer(&mut rig, second, None)), []);
    let heartbeat = rig.heartbeat("a");
    assert_eq!(sent(&rig.input(heartbeat)), [], "not in the same moment");
    rig.now += 500;
    assert_eq!(sent(&rig.input(Input::Tick)).len(), 1);
}

/// The node took its order; the answer comes too late or never.
fn took_without_a_word(rig: &mut Rig, effects: Vec<Effect>) -> Fence {
    let message = effects.into_iter().find_map(|effect| match effect {
        Effect::SendOrder { message, .. } => Some(message),
        _ => None,
    });
    let message = message.expect("an order");
    rig.agents.get_mut(&node("a")).expect("an agent").obey(&message);
    message.fence()
}
/// Gives the command and stores what it leads to; what follows is not performed.
fn decided(rig: &mut Rig, id: &str, verb: Verb) -> Vec<Effect> {
    let delivery = rig.delivery(id, verb);
    let effects = rig.input(Input::Command(delivery));
    let Some(Effect::Commit(commit)) = effects.into_iter().next() else { panic!("no commit") };
    let committed = rig.store(commit);
    rig.input(committed)
}

#[test]
fn a_report_that_shows_the_order_is_an_answer_to_it() {
    let mut rig = rig(&["a"]);
    let effects = decided(&mut rig, "c1", create("web", 1));
    let fence = took_without_a_word(&mut rig, effects);
    rig.report("a");
    assert_eq!(kinds(&rig), [""; 0], "it has its order");
    assert_eq!(sent(&answer(&mut rig, fence, None)), [], "a late word about it changes nothing");
    rig.pass(40);
    assert_eq!(kinds(&rig), [""; 0]);
    rig.command("c2", create("api", 1));
    assert_eq!(kinds(&rig), ["delta"]);
}

#[test]
fn an_unanswered_order_that_a_report_shows_is_not_sent_again() {
    let mut rig = rig(&["a"]);
    let effects = decided(&mut rig, "c1", create("web", 1));
    let fence = took_without_a_word(&mut rig, effects);
    assert_eq!(sent(&answer(&mut rig, fence, None)), []);
    rig.report("a");
    rig.pass(40);
    assert_eq!(kinds(&rig), [""; 0], "it has its order");
}

#[test]
fn what_changed_after_an_unanswered_order_that_a_report_shows_goes_as_a_change() {
    let mut rig = rig(&["a"]);
    let effects = decided(&mut rig, "c1", create("web", 1));
    let fence = took_without_a_word(&mut rig, effects);
    assert_eq!(sent(&answer(&mut rig, fence, None)), []);
    assert_eq!(sent(&decided(&mut rig, "c2", create("api", 1))), [], "not before it is known what the node has");
    rig.report("a");
    assert_eq!((kinds(&rig), rig.pods("a").len()), (vec!["delta"], 2));
    rig.clear();
    let effects = decided(&mut rig, "c3", create("db", 1));
    let fence = took_without_a_word(&mut rig, effects);
    assert_eq!(sent(&answer(&mut rig, fence, None)), []);
    assert_eq!(sent(&decided(&mut rig, "c4", Verb::Configure { readonly: None, maintenance: Some(true) })), []);
    rig.report("a");
    assert_eq!(kinds(&rig), ["delta"], "the brakes are told, too");
    assert!(rig.agents[&node("a")].order.switches.hold_restarts);
}

#[test]
fn one_order_is_under_way_per_node() {
    let (mut rig, fence) = under_way("c1");
    let delivery = rig.delivery("c2", create("api", 1));
    let effects = rig.input(Input::Command(delivery));
    let Some(Effect::Commit(commit)) = effects.into_iter().next() else { panic!("no commit") };
    let committed = rig.store(commit);
    assert_eq!(sent(&rig.input(committed)), []);
    let digest = {
        let desk = &mut rig.agents.get_mut(&node("a")).expect("an agent").order;
        desk.digest()
    };
    // The digest is not what was sent: the answer is doubted, and the next order is whole and not at once.
    let effects = answer(&mut rig, fence, Some(OrderReply::Accepted { fence, digest }));
    assert_eq!(sent(&effects), []);
    rig.now += 500;
    let effects = rig.input(Input::Tick);
    assert!(matches!(&effects[..], [Effect::SendOrder { message: OrderMessage::Whole(_), .. }]), "{effects:?}");
}

#[test]
fn an_answer_that_names_a_later_leader_ends_the_leadership() {
    let (mut rig, fence_sent) = under_way("c1");
    let effects = answer(&mut rig, fence_sent, Some(OrderReply::Stale { have: fence(99, 1) }));
    assert!(matches!(&effects[..], [Effect::StepDown { .. }]), "{effects:?}");
    assert_eq!(rig.core.term(), None);
}

#[test]
fn a_conflict_is_counted_and_answered_with_a_higher_fence() {
    let (mut rig, fence) = under_way("c1");
    answer(&mut rig, fence, Some(OrderReply::Conflict { have: fence }));
    assert_eq!(rig.core.disagreements(), 1);
    rig.now += 500;
    assert!(sent(&rig.input(Input::Tick))[0].1 > fence);
}

#[test]
fn an_order_nobody_answers_for_is_given_up() {
    let (mut rig, _) = under_way("c1");
    rig.now += 29_000;
    assert_eq!(sent(&rig.input(Input::Tick)), []);
    rig.now += 10_000;
    let mut orders = sent(&rig.input(Input::Tick));
    rig.now += 6_000;
    orders.extend(sent(&rig.input(Input::Tick)));
    assert_eq!(orders.len(), 1);
}

#[test]
fn a_spec_that_changes_under_its_number_is_sent_to_who_runs_it() {
    use crate::core::dispatch::desired::assignments;
    use crate::core::state::Group;
    use contract::record::{GroupRecord, Slot};

    let group_of = |image: &str| {
        let mut spec = spec("web", 1);
        spec.pod.containers[0].image = image.to_owned();
        let mut state = crate::core::state::State::default();
        state.put_group(&group("web"), GroupRecord { spec, ..Default::default() }, 8);
        state.set_slots(&group("web"), vec![Slot { node: Some(node("a")), ..Default::default() }]);
        state.groups.remove(&group("web")).expect("a group")
    };
    let changes = |before: &Group, after: &Group| {
        assignments(&group("web"), before).changes_to(&assignments(&group("web"), after)).len()
    };
    assert_eq!(changes(&group_of("one"), &group_of("one")), 0);
    assert_eq!(changes(&group_of("one"), &group_of("two")), 1);
}

#[test]
fn who_waits_for_others_to_be_answered_is_told_of_everything_at_once() {
    let mut rig = rig_with(Settings { orders_at_once: 1, ..Settings::default() }, &["a", "b"]);
    let effects = decided(&mut rig, "c1", create("web", 2));
    assert_eq!(sent(&effects).len(), 1, "one is under way: {effects:?}");
    assert_eq!(sent(&decided(&mut rig, "c2", create("api", 2))), []);
    rig.now += 1_000;
    let effects = rig.input(Input::Tick);
    let [Effect::SendOrder { message: OrderMessage::Delta(delta), .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(delta.pods.put.len(), 2, "who does not answer holds up nobody for long");
}
