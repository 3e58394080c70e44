//! A takeover moves no instance, loses no decision and declares no node lost too early.

use super::rollouts::{create_spec, rolling, with_strategy};
use super::upgrades::{image, patch};
use super::*;
use contract::command::{Decision, Refusal};
use contract::rollout::PodReplacement;

use crate::core::io::{Faults, Mirror, Mutant};

/// A standby with the stored state and the reports of all nodes.
fn standby_of(rig: &mut Rig, settings: Settings) -> Core {
    let mut core = Core::new(settings);
    let now = rig.time();
    core.on(Input::Mirror(Mirror::Reset(rig.store.loaded())), now);
    for (name, agent) in &rig.agents {
        core.on(Input::Report(ReportMessage::Whole(agent.whole(name))), now);
    }
    core
}
fn busy() -> Rig {
    let mut rig = rig(&["a", "b", "c"]);
    rig.command("c1", create("web", 5));
    rig.command("c2", create("api", 2));
    rig.advance(3);
    rig.clear();
    rig
}

#[test]
fn a_standby_with_all_reports_takes_over_without_writes_and_with_empty_deltas() {
    let mut rig = busy();
    rig.core = standby_of(&mut rig, Settings::default());
    rig.elect();
    rig.advance(60);
    assert_eq!(rig.written(), BTreeSet::new());
    assert_eq!(rig.orders.len(), 3);
    for (_, message) in &rig.orders {
        let OrderMessage::Delta(delta) = message else { panic!("not a delta: {message:?}") };
        assert!(delta.pods.is_empty() && delta.specs.is_empty() && delta.fence == fence(2, 1), "{delta:?}");
    }
}

#[test]
fn a_takeover_without_reports_requests_them_and_moves_nothing() {
    let mut rig = busy();
    rig.replace_leader();
    assert_eq!(rig.resync_requests.len(), 3);
    rig.advance(60);
    assert_eq!(rig.written(), BTreeSet::new());
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn without_the_failover_grace_a_takeover_moves_instances() {
    let mut rig = busy();
    let places = rig.places("web");
    rig.core = Core::new(Settings { faults: Faults::of(Mutant::NoFailoverGrace), ..Settings::default() });
    let elected = rig.elected();
    // The requests of the new leader are lost; then node `a` reports alone.
    let effects = rig.input(elected);
    let effects = effects.into_iter().filter(|effect| !matches!(effect, Effect::AskWhole { .. })).collect();
    rig.perform(effects);
    rig.report("a");
    rig.now += 1_000;
    rig.run(Input::Tick);
    assert_ne!(rig.places("web"), places);
}

#[test]
fn a_node_that_failed_with_the_leader_is_lost_300_seconds_after_the_takeover() {
    let mut rig = busy();
    rig.unreachable.insert(node("a"));
    rig.replace_leader();
    rig.advance(299);
    assert!(rig.places("web").iter().any(|(place, _)| place == "a"));
    rig.advance(3);
    assert!(!rig.places("web").iter().any(|(place, _)| place == "a"));
}

#[test]
fn time_during_which_the_leader_received_no_report_at_all_does_not_make_a_node_lost() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(3);
    let is_on_a = |rig: &Rig| rig.places("web").iter().any(|(place, _)| place == "a");
    rig.unreachable.extend(["a", "b"].map(node));
    rig.advance(400);
    rig.unreachable.remove(&node("b"));
    rig.advance(290);
    assert!(is_on_a(&rig), "the node counts as silent for 290 s only");
    rig.advance(20);
    assert!(!is_on_a(&rig));
}

#[test]
fn a_removal_continues_under_the_next_leader() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.report_all();
    rig.unreachable.insert(node("a"));
    rig.command("c2", remove("web"));
    rig.replace_leader();
    assert_eq!(rig.command("c3", create("web", 1)), "Refused(GroupRemoving)");
    rig.unreachable.clear();
    rig.advance(10);
    assert!(!rig.store.keys().any(|key| key.ends_with("/web")), "{:?}", rig.store.keys());
    assert_eq!(rig.command("c1", create("web", 1)), "Accepted", "answered from the outcome of the first c1");
    assert_eq!(rig.group("web"), None);
}

#[test]
fn a_standby_answers_from_its_mirror_and_marks_the_answer_as_stale() {
    let mut rig = busy();
    let mut standby = standby_of(&mut rig, Settings::default());
    let query = Input::Query { query: Query::Group { name: group("web"), refresh: false }, reply: "q".to_owned() };
    let effects = standby.on(query.clone(), rig.time());
    let [Effect::Answer { reply, .. }] = &effects[..] else { panic!("no answer: {effects:?}") };
    let Answer::Group(Some(view)) = &reply.answer else { panic!("no group: {reply:?}") };
    assert_eq!((reply.stale, view.state, view.pods.len()), (true, RunState::Success, 5));
    standby.on(Input::Mirror(Mirror::Delete(keys::group(&group("web")))), rig.time());
    let effects = standby.on(query, rig.time());
    let [Effect::Answer { reply, .. }] = &effects[..] else { panic!("no answer: {effects:?}") };
    assert_eq!(reply.answer, Answer::Group(None));
    let delivery = rig.delivery("c9", create("new", 1));
    assert_eq!(standby.on(Input::Command(delivery), rig.time()), [], "a standby runs no command");
}

#[test]
fn a_deposed_leader_returns_to_the_stored_state() {
    let mut rig = busy();
    let delivery = rig.delivery("c3", create("new", 1));
    rig.input(Input::Command(delivery));
    rig.run(Input::Deposed);
    assert_eq!(rig.group("new"), None, "the group was never committed");
    assert_eq!(rig.group("web").map(|view| view.pods.len()), Some(5), "its earlier commits are kept");
}

#[test]
fn an_unreadable_record_becomes_a_dead_letter_and_blocks_nothing() {
    let mut rig = busy();
    rig.store.insert(keys::group(&group("bad")), b"{".to_vec());
    rig.store.insert(keys::node(&node("bad")), b"[]".to_vec());
    rig.replace_leader();
    assert_eq!((rig.core.unreadable(), rig.dead_letters.len()), (2, 2));
    assert_eq!(rig.group("web").map(|view| view.pods.len()), Some(5));
}

#[test]
fn the_same_inputs_give_the_same_effects() {
    let run = || {
        let mut rig = busy();
        rig.unreachable.insert(node("a"));
        rig.advance(310);
        rig.command("c4", replica("web", 7));
        rig.unreachable.clear();
        rig.advance(5);
        (format!("{:?}", rig.commits), format!("{:?}", rig.orders))
    };
    assert_eq!(run(), run());
}

#[test]
fn a_fence_is_never_used_twice_even_when_the_same_term_starts_again() {
    let mut rig = busy();
    rig.term -= 1;
    rig.elect();
    let fences: Vec<Fence> = rig.orders.iter().map(|(_, message)| message.fence()).collect();
    assert_eq!(fences.len(), 3);
    assert!(fences.iter().all(|fence| fence.term == Term(1) && fence.generation > 2), "{fences:?}");
}

#[test]
fn a_group_with_unreadable_records_is_spared_and_its_name_stays_in_use() {
    for key in [keys::group(&group("web")), keys::placement(&group("web"), 0)] {
        let mut rig = busy();
        rig.store.insert(key, b"{ not a record".to_vec());
        rig.core = standby_of(&mut rig, Settings::default());
        rig.elect();
        rig.advance(60);
        assert_eq!(rig.dead_letters.len(), 1, "the record is in the dead letters");
        for agent in rig.agents.values() {
            assert!(agent.order.spared.contains(&group("web")), "{:?}", agent.order);
            assert!(agent.order.pods.keys().all(|pod| pod.group == group("api")));
        }
        assert_eq!(rig.group("api").expect("the other group").state, RunState::Success);
        rig.command("c3", create("web", 1));
        assert_eq!(rig.outcomes["c3"].decision, Decision::Refused(Refusal::GroupExists));
    }
}

#[test]
fn a_leader_steps_down_when_it_cannot_read_the_cursor() {
    let mut rig = busy();
    rig.store.insert(keys::CURSOR.to_owned(), b"?".to_vec());
    rig.replace_leader();
    assert!(rig.stepped_down.as_ref().is_some_and(|reason| reason.contains("cursor")), "{:?}", rig.stepped_down);
    assert_eq!((rig.core.term(), rig.orders.len()), (None, 0));
}

/// A rollout of one instance that waits until a node has removed the pod of the revision before.
fn waiting() -> (Rig, NodeName) {
    let mut rig = rig(&["a", "b", "c"]);
    let spec =
        PodGroupSpec { pod_replacement: Some(PodReplacement::Complete), ..with_strategy("web", 1, rolling(1, 0)) };
    assert_eq!(rig.command("c1", create_spec(spec)), "Accepted");
    assert!(rig.completes("web", 30));
    let first = rig.instances("web")[0].node.clone().expect("a place");
    let pod = PodId { group: group("web"), instance: 1, version: 0, drift: 0 };
    rig.agents.get_mut(&first).expect("an agent").stuck_pods.insert(pod);
    rig.command("c2", patch("web", image("web", "v1")));
    assert!(rig.completes("web", 30));
    rig.command("c3", patch("web", image("web", "v2")));
    rig.advance(3);
    (rig, first)
}

#[test]
fn a_new_leader_waits_for_the_removal_of_an_old_pod_that_it_has_no_report_of() {
    let (mut rig, first) = waiting();
    assert_eq!(rig.instances("web")[0].next, None, "the old pod still runs");
    rig.replace_leader();
    rig.advance(5);
    assert_eq!(rig.instances("web")[0].next, None, "the new leader waits as well");
    rig.agents.get_mut(&first).expect("an agent").stuck_pods.clear();
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
}

#[test]
fn a_rollout_waits_for_a_node_that_failed_with_the_leader_until_the_node_is_lost() {
    let (mut rig, first) = waiting();
    assert_ne!(rig.instances("web")[0].node.as_ref(), Some(&first), "{:?}", rig.instances("web"));
    rig.unreachable.insert(first);
    rig.replace_leader();
    rig.advance(290);
    assert_eq!(rig.instances("web")[0].next, None, "the node may still run the old pod");
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
}

#[test]
fn a_leader_whose_credentials_etcd_refuses_steps_down_with_the_reason() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create("web", 1));
    let commit = first_commit(rig.input(Input::Command(delivery))).expect("a commit");
    rig.run(Input::Committed { id: commit.id, result: CommitResult::Denied });
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("credentials")));
    assert_eq!(rig.core.term(), None);
}
