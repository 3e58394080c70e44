//! Checking, storing and acknowledging orders.

use contract::fence::Term;
use contract::order::{OrderMessage, OrderReply};
use contract::progress::Progress;
use contract::state::{RestartPolicy, TargetState};

use super::bench::{Bench, actions_in, fence, order, pod, seen, settings};
use agent::core::io::{Effect, Faults, Input, Ledger, Mutant, Phase, Settings};

fn incoming(message: OrderMessage, reply: &str) -> Input {
    Input::Order { message, reply: reply.to_owned() }
}
fn persist_id(effects: &[Effect]) -> u64 {
    let ids: Vec<u64> =
        effects.iter().filter_map(|e| if let Effect::Persist { id, .. } = e { Some(*id) } else { None }).collect();
    assert_eq!(ids.len(), 1, "one write: {effects:?}");
    ids[0]
}

#[test]
fn an_order_is_acknowledged_and_applied_only_when_it_is_on_disk() {
    let mut bench = Bench::new().start();
    let wanted = order(1, 1).pod("a.v1-i1-d0").0;
    let effects = bench.feed(incoming(OrderMessage::Whole(wanted.clone()), "r"));
    let id = persist_id(&effects);
    assert_eq!(effects.len(), 1, "nothing but the write: {effects:?}");
    let effects = bench.feed(Input::Persisted { id, result: Ok(()) });
    let reply = OrderReply::Accepted { fence: fence(1, 1), digest: wanted.digest() };
    assert_eq!(effects[0], Effect::Reply { inbox: "r".to_owned(), reply });
    assert_eq!(actions_in(&effects).len(), 1);
}

#[test]
fn an_order_that_cannot_be_written_is_not_applied() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(incoming(order(2, 1).pod("a.v1-i1-d0").whole(), "r"));
    let effects = bench.feed(Input::Persisted { id: persist_id(&effects), result: Err("disk full".to_owned()) });
    let reply = OrderReply::Failed { reason: "disk full".to_owned() };
    assert_eq!(effects, [Effect::Reply { inbox: "r".to_owned(), reply }]);
    let lower = bench.order(order(1, 1).pod("a.v1-i1-d0").whole());
    assert!(matches!(lower, OrderReply::Accepted { .. }), "its fence does not count: {lower:?}");
}

#[test]
fn a_stale_order_is_refused_and_nothing_changes() {
    let mut bench = Bench::new().start();
    bench.order(order(5, 1).pod("a.v1-i1-d0").whole());
    let disk = bench.disk.clone();
    bench.take_actions();
    assert_eq!(bench.order(order(4, 900).whole()), OrderReply::Stale { have: fence(5, 1) });
    assert_eq!((bench.disk.clone(), bench.take_actions()), (disk, vec![]));
    assert_eq!(bench.core.tally().stale, 1);
}

#[test]
fn a_repeated_order_is_acknowledged_without_a_write() {
    let mut bench = Bench::new().start();
    let message = order(1, 1).pod("a.v1-i1-d0").whole();
    let first = bench.order(message.clone());
    let effects = bench.feed(incoming(message, "again"));
    assert_eq!(effects, [Effect::Reply { inbox: "again".to_owned(), reply: first }]);
}

#[test]
fn another_order_under_the_same_fence_is_a_conflict() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod("a.v1-i1-d0").whole());
    assert_eq!(bench.order(order(1, 1).pod("b.v1-i1-d0").whole()), OrderReply::Conflict { have: fence(1, 1) });
    assert_eq!(bench.core.tally().conflict, 1);
}

#[test]
fn a_delta_is_applied_when_it_fits_and_else_answered_with_need_whole() {
    let mut bench = Bench::new().start();
    let (first, second, third) =
        (order(1, 1).pod("a.v1-i1-d0").0, order(1, 2).pod("a.v1-i1-d0").pod("b.v1-i1-d0").0, order(1, 3).0);
    bench.order(OrderMessage::Whole(first.clone()));
    assert_eq!(bench.order(OrderMessage::Delta(third.since(&second))), OrderReply::NeedWhole { have: fence(1, 1) });
    let reply = bench.order(OrderMessage::Delta(second.since(&first)));
    assert_eq!(reply, OrderReply::Accepted { fence: fence(1, 2), digest: second.digest() });
    assert_eq!(*bench.disk.order, second);
}

#[test]
fn while_the_disk_is_busy_the_newest_order_waits_and_the_replaced_one_is_answered() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(incoming(order(1, 1).pod("a.v1-i1-d0").whole(), "one"));
    let id = persist_id(&effects);
    assert_eq!(bench.feed(incoming(order(1, 2).whole(), "two")), []);
    let effects = bench.feed(incoming(order(1, 3).pod("c.v1-i1-d0").whole(), "three"));
    assert!(
        matches!(&effects[..], [Effect::Reply { inbox, reply: OrderReply::Failed { .. } }] if inbox == "two"),
        "{effects:?}"
    );
    let effects = bench.feed(Input::Persisted { id, result: Ok(()) });
    bench.settle(effects);
    let inboxes: Vec<&str> = bench.replies.iter().map(|(inbox, _)| inbox.as_str()).collect();
    assert_eq!(inboxes, ["one", "three"]);
    assert!(matches!(&bench.replies[1].1, OrderReply::Accepted { fence: at, .. } if *at == fence(1, 3)));
    assert!(bench.facts("c.v1-i1-d0").is_some() && bench.facts("a.v1-i1-d0").is_none());
}

#[test]
fn an_order_with_a_missing_spec_is_refused_completely() {
    let mut bench = Bench::new().start();
    let mut broken = order(2, 1).pod("a.v1-i1-d0").0;
    broken.specs.clear();
    match bench.order(OrderMessage::Whole(broken)) {
        OrderReply::Failed { reason } => assert!(reason.contains("a.v1-i1-d0"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let lower = bench.order(order(1, 1).pod("a.v1-i1-d0").whole());
    assert!(matches!(lower, OrderReply::Accepted { .. }), "its fence does not count: {lower:?}");
}

#[test]
fn nothing_is_removed_before_the_first_accepted_order() {
    let mut bench = Bench::new().has(seen("x", "a.v1-i1-d0", Phase::Running)).start();
    bench.pass(super::bench::secs(600));
    assert_eq!(bench.take_actions(), []);
    assert!(!bench.reported("a.v1-i1-d0").leaving);
    bench.order(order(1, 1).whole());
    assert_eq!(bench.engine.containers.len(), 0, "an order without it removes it");
}

#[test]
fn the_fence_survives_a_restart() {
    let mut bench = Bench::new().start();
    bench.order(order(5, 1).whole());
    bench.restart("run-2");
    bench.run(Input::Tick);
    assert_eq!(bench.order(order(4, 1).whole()), OrderReply::Stale { have: fence(5, 1) });
}

#[test]
fn a_group_recreated_under_its_old_name_replaces_the_old_containers() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod("a.v1-i1-d0").whole());
    let before: Vec<String> = bench.engine.containers.keys().cloned().collect();
    let other = order(1, 2).pod("a.v1-i1-d0").respecify(|spec| spec.annotation = "{}".to_owned());
    bench.order(other.whole());
    let after: Vec<String> = bench.engine.containers.keys().cloned().collect();
    assert_eq!(after.len(), 1);
    assert_ne!(before, after);
    assert!(!bench.disk.memory[&pod("a.v1-i1-d0")].outdated);
}

#[test]
fn an_old_ledger_does_not_replace_containers_that_match_the_order() {
    let id = "a.v1-i1-d0";
    let another_life = |generation| order(1, generation).pod(id).respecify(|spec| spec.annotation = "{}".to_owned());
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(id).whole());
    let old = bench.disk.clone();
    bench.order(another_life(2).whole());
    bench.disk = old;
    bench.restart("run-2");
    bench.run(Input::Tick);
    bench.take_actions();
    bench.order(another_life(3).whole());
    assert_eq!(bench.take_actions(), [], "it was created from this spec, whatever the ledger contains");
    assert!(!bench.disk.memory[&pod(id)].outdated);
}

#[test]
fn a_spec_with_only_other_timeouts_replaces_nothing() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod("a.v1-i1-d0").whole());
    bench.take_actions();
    bench.order(order(1, 2).pod("a.v1-i1-d0").respecify(|spec| spec.kill_timeout = 60).whole());
    assert_eq!(bench.take_actions(), []);
}

#[test]
fn a_pod_stopped_and_started_by_order_runs_again_whatever_its_policy() {
    let id = "a.v1-i1-d0";
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod_with(id, 2, TargetState::Run, RestartPolicy::Never).whole());
    bench.order(order(1, 2).pod_with(id, 2, TargetState::Stop, RestartPolicy::Never).whole());
    assert!(bench.engine.containers.values().all(|c| c.phase == Phase::Exited));
    bench.restart("run-2");
    bench.run(Input::Tick);
    bench.order(order(1, 3).pod_with(id, 2, TargetState::Run, RestartPolicy::Never).whole());
    assert!(bench.engine.containers.values().all(|c| c.phase == Phase::Running));
    assert!(bench.disk.memory[&pod(id)].stopped_by_order.is_empty());
    bench.take_actions();
    bench.crash("m1");
    assert_eq!(bench.take_actions(), [], "and an end of its own stays an end");
}

#[test]
fn every_mutant_breaks_its_rule() {
    let mut bench =
        Bench::with(Settings { faults: Faults::of(Mutant::NoFence), ..settings() }, Ledger::default()).start();
    bench.order(order(5, 1).whole());
    assert!(matches!(bench.order(order(4, 1).whole()), OrderReply::Accepted { .. }));
    let mut bench =
        Bench::with(Settings { faults: Faults::of(Mutant::NoLedger), ..settings() }, Ledger::default()).start();
    assert!(matches!(bench.order(order(5, 1).pod("a.v1-i1-d0").whole()), OrderReply::Accepted { .. }));
    assert_eq!(bench.disk, Ledger::default());
}

fn of_store(order: OrderMessage, name: &str) -> OrderMessage {
    let stores: contract::store::Stores = [name.to_owned()].into();
    match order {
        OrderMessage::Whole(order) => OrderMessage::Whole(contract::order::Order { stores, ..order }),
        OrderMessage::Delta(delta) => OrderMessage::Delta(contract::order::OrderDelta { stores, ..delta }),
    }
}

#[test]
fn an_order_of_another_store_is_refused_while_pods_run_whatever_its_term() {
    let mut bench = Bench::new().start();
    bench.order(of_store(order(5, 1).pod("a.v1-i1-d0").whole(), "old"));
    let disk = bench.disk.clone();
    bench.take_actions();
    let (stores, progress) = (["old".to_owned()].into(), Progress::default());
    let foreign = OrderReply::Foreign { have: fence(5, 1), stores, progress };
    assert_eq!(bench.order(of_store(order(900, 1).whole(), "new")), foreign);
    assert_eq!((bench.disk.clone(), bench.take_actions()), (disk, vec![]));
    // A restored store has both names; a store from before stores had names fits any.
    let mut both = order(901, 1).pod("a.v1-i1-d0").0;
    both.stores = ["new".to_owned(), "old".to_owned()].into();
    assert!(matches!(bench.order(OrderMessage::Whole(both)), OrderReply::Accepted { .. }));
    assert!(bench.take_actions().is_empty(), "what runs is taken over as it is");
    assert!(matches!(bench.order(of_store(order(902, 1).whole(), "new")), OrderReply::Accepted { .. }));
}

/// The progress of a store with these commits, by term.
fn progress(commits: &[(u64, u64)]) -> Progress {
    let mut progress = Progress::default();
    commits.iter().for_each(|(term, number)| progress.raise(Term(*term), *number));
    progress
}

#[test]
fn an_order_of_a_rewound_store_is_refused_and_changes_nothing() {
    let mut bench = Bench::new().start();
    let known = progress(&[(5, 3)]);
    bench.order(order(5, 1).pod("a.v1-i1-d0").whole().after(known.clone()));
    let disk = bench.disk.clone();
    bench.take_actions();
    let refused = OrderReply::Foreign { have: fence(5, 1), stores: Default::default(), progress: known };
    assert_eq!(bench.order(order(9, 1).whole().after(progress(&[(5, 2), (9, 70)]))), refused);
    assert_eq!((bench.disk.clone(), bench.take_actions()), (disk, vec![]));
    let next = progress(&[(5, 3), (9, 1)]);
    assert!(matches!(bench.order(order(9, 2).whole().after(next.clone())), OrderReply::Accepted { .. }));
    assert_eq!(bench.disk.order.progress, next, "on disk, for the time after a restart");
    // Also on a node without pods: an instance that left it must not come back.
    assert!(matches!(bench.order(order(10, 1).whole().after(progress(&[(5, 3)]))), OrderReply::Foreign { .. }));
    // After a restore the commits of earlier terms do not count; an older scheduler sends no commits.
    let restored = Progress::since(Term(10));
    assert!(matches!(bench.order(order(11, 1).whole().after(restored)), OrderReply::Accepted { .. }));
    assert!(matches!(bench.order(order(12, 1).whole()), OrderReply::Accepted { .. }));
}

#[test]
fn a_node_without_pods_accepts_another_store_even_with_a_lower_term() {
    let mut bench = Bench::new().start();
    bench.order(of_store(order(5, 7).whole(), "old"));
    let reply = bench.order(of_store(order(2, 1).pod("a.v1-i1-d0").whole(), "new"));
    assert!(matches!(reply, OrderReply::Accepted { fence: at, .. } if at == fence(2, 1)), "{reply:?}");
}

#[test]
fn an_order_for_another_agent_of_this_name_is_ignored() {
    let mut bench = Bench::with(Settings { identity: "mine".to_owned(), ..settings() }, Ledger::default()).start();
    let message = |agent: &str| order(1, 1).pod("a.v1-i1-d0").whole().meant_for(agent.to_owned());
    assert_eq!(bench.feed(incoming(message("another"), "r")), [], "not even an answer");
    assert_eq!(bench.core.tally().astray, 1);
    assert!(matches!(bench.order(message("mine")), OrderReply::Accepted { .. }));
    assert!(
        matches!(bench.order(order(1, 2).whole()), OrderReply::Accepted { .. }),
        "an order without an addressee is for every agent"
    );
}
