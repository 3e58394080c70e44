//! The leader commits a command, its outcome and the cursor in one transaction, answers after the commit, and runs it once.

use contract::command::{Decision, Refusal};
use contract::notice::DeadLetter;
use contract::state::RestartPolicy;

use super::*;

use crate::core::io::{Faults, Mutant};

fn keys_of(commit: &Commit) -> Vec<&str> {
    let key = |write| match write {
        &Write::Put { ref key, .. } | &Write::Delete { ref key } => key.as_str(),
    };
    commit.writes.iter().map(key).collect()
}

fn stored_spec(name: &str, instances: i64) -> PodSpec {
    PodSpec { annotation: "{}".to_owned(), ..spec(name, instances).pod }
}

#[test]
fn outcomes_and_orders_leave_only_after_the_commit() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create("web", 1));
    let effects = rig.input(Input::Command(delivery));
    let commit = only_commit(&effects).clone();
    let (outcome, web) = (keys::outcome(&"c1".parse().expect("an id")), group("web"));
    let (record, placement, revision) = (keys::group(&web), keys::placement(&web, 0), keys::revision(&web, 0));
    let spec = keys::group_spec(&web, &contract::layout::SpecRef::to(&stored_spec("web", 1)).digest);
    // The first group of a store brings the record that says that the store knows policies.
    let policy = keys::policy("*");
    let audit = keys::audit(1);
    let expected = [
        &audit,
        &outcome,
        keys::AUDIT_HEAD,
        &spec,
        keys::CURSOR,
        &record,
        &placement,
        &policy,
        &revision,
        keys::PROGRESS,
    ];
    assert_eq!(keys_of(&commit), expected);
    let expiring: Vec<bool> =
        commit.writes.iter().map(|write| matches!(write, Write::Put { expires: true, .. })).collect();
    assert_eq!(expiring, [false, true, false, false, false, false, false, false, false, false]);
    let effects = without_events(rig.input(Input::Committed { id: commit.id, result: CommitResult::Stored }));
    assert!(matches!(&effects[..], [Effect::Resolve { .. }, Effect::SendOrder { .. }]), "{effects:?}");
}

#[test]
fn a_created_group_runs_and_its_operation_ends() {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", create("web", 3)), "Accepted");
    let view = rig.group("web").expect("a group");
    assert_eq!((view.pods.len(), view.operation), (3, Some(contract::command::Operation::Deploying)));
    rig.report_all();
    let view = rig.group("web").expect("a group");
    assert_eq!((view.state, view.operation, view.last_error.as_str()), (RunState::Success, None, ""));
    assert_eq!(view.pods[0].node_ip, "ip-of-a");
    assert_eq!(rig.pods("a"), ["web.v0-i1-d0", "web.v0-i3-d0"]);
}

#[test]
fn a_query_is_answered_after_the_commit_that_it_depends_on() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create("web", 1));
    let commit = only_commit(&rig.input(Input::Command(delivery))).clone();
    let query = Input::Query { query: Query::Group { name: group("web"), refresh: false }, reply: "q".to_owned() };
    assert_eq!(rig.input(query.clone()), []);
    // The answer waits for the commit in flight or for an empty one after it.
    let effects = rig.input(Input::Committed { id: commit.id, result: CommitResult::Stored });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Answer { .. })), "{effects:?}");
    rig.perform(effects);
    assert!(
        matches!(&rig.input(query)[..], [Effect::Answer { .. }]),
        "without a commit in flight it is answered immediately"
    );
}

#[test]
fn a_fenced_commit_ends_the_leadership_without_any_other_effect() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create("web", 1));
    let commit = only_commit(&rig.input(Input::Command(delivery))).clone();
    let effects = rig.input(Input::Committed { id: commit.id, result: CommitResult::Fenced });
    assert!(matches!(&effects[..], [Effect::StepDown { .. }]), "{effects:?}");
    assert_eq!((rig.core.term(), rig.core.wake_at()), (None, None));
    assert_eq!(rig.group("web"), None, "the uncommitted group is discarded");
}

#[test]
fn a_commit_with_an_unknown_result_is_retried_unchanged() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create("web", 1));
    let commit = only_commit(&rig.input(Input::Command(delivery))).clone();
    assert_eq!(rig.input(Input::Committed { id: commit.id, result: CommitResult::Unknown }), []);
    rig.now = rig.core.wake_at().expect("a time").as_millis();
    assert_eq!(rig.input(Input::Tick), [Effect::Commit(commit)]);
}

#[test]
fn commands_that_arrive_during_a_commit_share_the_next_commits() {
    let mut rig = rig(&["a"]);
    let first = rig.delivery("first", create("first", 0));
    let effects = rig.input(Input::Command(first));
    for number in 0..100 {
        let delivery = rig.delivery(&format!("c{number}"), create(&format!("g{number}"), 0));
        assert_eq!(rig.input(Input::Command(delivery)), []);
    }
    rig.perform(effects);
    // Five writes per group, the cursor and the end of the audit log once per commit: 23 groups fit into 120 writes.
    assert_eq!((rig.commits.len(), rig.outcomes.len()), (6, 101));
    assert!(rig.commits.iter().all(|commit| commit.writes.len() < Commit::MOST_WRITES));
    for commit in &rig.commits {
        let mut keys = keys_of(commit);
        let (count, cursor) = (keys.len(), keys.iter().filter(|key| **key == keys::CURSOR).count());
        keys.dedup();
        assert_eq!((keys.len(), cursor), (count, 1), "no key twice, the cursor always");
    }
}

#[test]
fn a_command_that_is_delivered_again_runs_once() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create("web", 1));
    rig.run(Input::Command(delivery.clone()));
    let outcome = rig.outcomes.remove("c1").expect("an outcome");
    rig.clear();
    rig.run(Input::Command(delivery.clone()));
    assert_eq!((rig.outcomes.remove("c1"), rig.commits.len()), (Some(outcome.clone()), 0));
    let again = Delivery { sequence: 9, ..delivery };
    rig.run(Input::Command(again));
    assert_eq!(rig.outcomes.remove("c1"), Some(outcome));
    assert_eq!(rig.written(), BTreeSet::from([keys::CURSOR.to_owned()]));
    assert_eq!(rig.core.cursor().sequence, 9);
}

#[test]
fn a_re_created_stream_starts_a_new_cursor() {
    let mut rig = rig(&["a"]);
    rig.sequence = 50;
    assert_eq!(rig.command("c1", create("web", 1)), "Accepted");
    rig.sequence = 0;
    let delivery = Delivery { stream: "s2".to_owned(), ..rig.delivery("c2", create("api", 1)) };
    rig.run(Input::Command(delivery));
    assert_eq!(rig.outcomes["c2"].decision, Decision::Accepted);
    assert_eq!((rig.core.cursor().stream.as_str(), rig.core.cursor().sequence), ("s2", 1));
}

#[test]
fn an_unreadable_command_becomes_a_dead_letter_and_the_cursor_advances() {
    let mut rig = rig(&["a"]);
    let letter = DeadLetter::new("here", "not JSON".to_owned(), b"{", rig.time());
    let delivery = Delivery { command: Err(letter), reply: Some("r".to_owned()), ..rig.delivery("c1", remove("x")) };
    rig.run(Input::Command(delivery));
    assert_eq!(rig.dead_letters, ["here"]);
    assert_eq!(rig.outcomes["r"].decision, Decision::Refused(Refusal::Malformed { reason: "not JSON".to_owned() }));
    assert_eq!(rig.core.cursor().sequence, 1);
    let mut broken = spec("web", 1);
    broken.pod.containers[0].image.clear();
    let decision = rig.command("c2", Verb::CreateGroup { spec: Box::new(broken) });
    assert!(decision.contains("Pod.Containers[0].Image"), "{decision}");
    assert_eq!(rig.group("web"), None);
}

#[test]
fn an_impossible_command_is_refused_with_the_reason() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c1", remove("web")), "Refused(GroupUnknown)");
    assert_eq!(rig.command("c2", replica("web", 1)), "Refused(GroupUnknown)");
    rig.command("c3", create("web", 1));
    assert_eq!(rig.command("c4", create("web", 1)), "Refused(GroupExists)");
    assert_eq!(rig.command("c5", replica("web", 2)), "Refused(Locked { operation: Deploying })");
    assert_eq!(rig.command("c7", Verb::RemoveCallback { url: "u".to_owned() }), "Refused(CallbackUnknown)");
    for number in 0..64 {
        let url = format!("http://127.0.0.1/{number}");
        assert_eq!(rig.command(&format!("a{number}"), Verb::AddCallback { url }), "Accepted");
    }
    let full = rig.command("c8", Verb::AddCallback { url: "http://127.0.0.1/more".to_owned() });
    assert_eq!(full, "Refused(Limit { what: \"callbacks\", limit: 64 })");
}

#[test]
fn scaling_in_removes_the_highest_instances_and_scaling_to_the_same_number_does_nothing() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 3));
    rig.report_all();
    assert_eq!(rig.command("c2", replica("web", 3)), "Accepted");
    assert_eq!(rig.group("web").expect("a group").operation, None);
    assert_eq!(rig.command("c3", replica("web", 1)), "Accepted");
    rig.report_all();
    assert_eq!((rig.pods("a"), rig.pods("b")), (vec!["web.v0-i1-d0".to_owned()], vec![]));
    assert_eq!(rig.group("web").expect("a group").operation, None);
}

#[test]
fn a_new_restart_policy_reaches_the_node_without_a_new_pod() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.report_all();
    rig.clear();
    let always = Some(RestartPolicy::Always);
    let verb = Verb::Replica { name: group("web"), num_instances: 1, restart_policy: always };
    assert_eq!(rig.command("c2", verb), "Accepted");
    let [(_, OrderMessage::Delta(delta))] = &rig.orders[..] else { panic!("not one delta: {:?}", rig.orders) };
    assert_eq!((delta.pods.put.len(), delta.pods.gone.len(), delta.specs.is_empty()), (1, 0, true));
    let order = &rig.agents[&node("a")].order;
    assert_eq!(order.pods.values().next().expect("a pod").restart_policy, RestartPolicy::Always);
    assert_eq!(rig.group("web").expect("a group").operation, None);
}

#[test]
fn a_removed_group_is_hidden_immediately_and_deleted_when_no_node_runs_it() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 2));
    rig.report_all();
    assert_eq!(rig.command("c2", remove("web")), "Accepted");
    assert_eq!(rig.group("web"), None);
    assert_eq!(rig.command("c3", create("web", 1)), "Refused(GroupRemoving)");
    assert_eq!(rig.command("c4", remove("web")), "Refused(GroupUnknown)");
    rig.report_all();
    assert!(!rig.store.keys().any(|key| key.ends_with("/web")), "{:?}", rig.store.keys());
    assert_eq!(rig.command("c5", create("web", 1)), "Accepted");
}

#[test]
fn mutants_disable_the_commit_rule_and_the_deduplication() {
    let mutant = |mutant| rig_with(Settings { faults: Faults::of(mutant), ..Settings::default() }, &["a"]);
    let mut early = mutant(Mutant::EffectsBeforeCommit);
    let delivery = early.delivery("c1", create("web", 1));
    let effects = without_events(early.input(Input::Command(delivery)));
    assert!(matches!(&effects[0], Effect::Resolve { .. }), "{effects:?}");
    let mut twice = mutant(Mutant::NoDeduplication);
    let delivery = twice.delivery("c1", create("web", 1));
    twice.run(Input::Command(delivery.clone()));
    twice.run(Input::Command(delivery));
    assert_eq!(twice.outcomes["c1"].decision, Decision::Refused(Refusal::GroupExists));
}

#[test]
fn a_spec_that_fits_into_no_transaction_is_refused() {
    let mut rig = rig(&["a"]);
    let mut huge = spec("web", 1);
    huge.pod.labels = (0..8).map(|number| (format!("l{number}"), "x".repeat(100 * 1024))).collect();
    let decision = rig.command("c1", Verb::CreateGroup { spec: Box::new(huge) });
    assert!(decision.starts_with("Refused(Limit"), "{decision}");
    assert_eq!(rig.group("web"), None);
}

#[test]
fn the_leader_stores_no_callback_that_the_notifier_cannot_or_must_not_use() {
    let mut rig = rig(&["a"]);
    let long = format!("http://a/{}", "x".repeat(2048));
    for (number, bad) in
        ["u", "/x", "file:///etc/passwd", "http://user:pw@a/", "http://@a/", "http://a/ b", &long].iter().enumerate()
    {
        let decision = rig.command(&format!("c{number}"), Verb::AddCallback { url: (*bad).to_owned() });
        assert!(decision.starts_with("Refused(Unfit { reason: \"callback url not valid: "), "{bad}: {decision}");
        assert!(!decision.contains("pw"), "{decision}");
    }
    assert!(!rig.store.contains_key(keys::CALLBACKS));
}

#[test]
fn a_stored_callback_with_a_password_is_removed_by_the_text_that_users_see() {
    let mut rig = rig(&["a"]);
    let urls = ["http://user:pw@a/x".to_owned()].into();
    let record = contract::record::CallbacksRecord { urls };
    rig.store.insert(keys::CALLBACKS.to_owned(), serde_json::to_vec(&record).expect("JSON"));
    rig.elect();
    assert_eq!(
        rig.command("c1", Verb::RemoveCallback { url: "http://***@b/x".to_owned() }),
        "Refused(CallbackUnknown)"
    );
    assert_eq!(rig.command("c2", Verb::RemoveCallback { url: "http://***@a/x".to_owned() }), "Accepted");
    let left: contract::record::CallbacksRecord = serde_json::from_slice(&rig.store[keys::CALLBACKS]).expect("JSON");
    assert!(left.urls.is_empty());
}

#[test]
fn a_repeated_command_runs_once_also_when_the_next_leaders_clock_is_two_hours_ahead() {
    let mut rig = rig(&["a"]);
    let url = || "http://a/".to_owned();
    assert_eq!(rig.command("add", Verb::AddCallback { url: url() }), "Accepted");
    assert_eq!(rig.command("remove", Verb::RemoveCallback { url: url() }), "Accepted");
    rig.now += 2 * 3_600_000;
    rig.elect();
    assert_eq!(rig.command("add", Verb::AddCallback { url: url() }), "Accepted", "the first outcome");
    let record: contract::record::CallbacksRecord = serde_json::from_slice(&rig.store[keys::CALLBACKS]).expect("JSON");
    assert!(record.urls.is_empty(), "the repeat must not undo the later change");
}

#[test]
fn an_outcome_is_forgotten_when_etcd_expires_it() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c1", Verb::AddCallback { url: "http://a/".to_owned() }), "Accepted");
    assert_eq!(rig.command("c2", Verb::RemoveCallback { url: "http://a/".to_owned() }), "Accepted");
    let key = keys::outcome(&"c1".parse().expect("an id"));
    rig.store.remove(&key);
    rig.run(Input::Mirror(Mirror::Delete(key)));
    assert_eq!(rig.command("c1", Verb::AddCallback { url: "http://a/".to_owned() }), "Accepted");
    assert!(rig.store[keys::CALLBACKS].windows(9).any(|text| text == b"http://a/"), "c1 runs as a new command");
    // The watch was interrupted and missed the expiry of `c2`.
    rig.store.remove(&keys::outcome(&"c2".parse().expect("an id")));
    let stored: Vec<(String, Vec<u8>)> = rig.store.loaded();
    rig.run(Input::Mirror(Mirror::Reset(stored.clone())));
    assert_eq!(rig.command("c2", Verb::RemoveCallback { url: "http://a/".to_owned() }), "Accepted");
    let has_callback = |rig: &Rig| rig.store[keys::CALLBACKS].windows(9).any(|text| text == b"http://a/");
    assert!(has_callback(&rig), "a listing may be older than an outcome that was just stored");
    rig.now += 3_600_000;
    rig.run(Input::Mirror(Mirror::Reset(stored)));
    assert_eq!(rig.command("c2", Verb::RemoveCallback { url: "http://a/".to_owned() }), "Accepted");
    assert!(!has_callback(&rig));
}

#[test]
fn an_outcome_contains_the_digest_of_the_command_it_belongs_to() {
    let mut rig = rig(&["a"]);
    let first = Verb::AddCallback { url: "http://a/".to_owned() };
    assert_eq!(rig.command("c1", first.clone()), "Accepted");
    rig.command("c1", Verb::AddCallback { url: "http://b/".to_owned() });
    assert_eq!(rig.outcomes["c1"].digest, Some(Digest::of(&first)));
}

#[test]
fn a_clock_that_differs_from_that_of_nats_is_reported_once_and_shown_until_it_agrees() {
    let mut rig = rig(&["a"]);
    rig.clear();
    let events = |rig: &Rig| rig.events.iter().filter(|event| event.message.contains("clock")).count();
    rig.run(Input::Clock { ahead_millis: 30_000 });
    assert_eq!((rig.cluster_view().warnings, events(&rig)), (vec![], 0));
    for ahead_millis in [7_200_000, -31_000] {
        rig.run(Input::Clock { ahead_millis });
        let warnings = rig.cluster_view().warnings;
        assert!(warnings.len() == 1 && warnings[0].contains("clock of scheduler"), "{warnings:?}");
    }
    assert_eq!(events(&rig), 1, "not with every comparison");
    rig.run(Input::Clock { ahead_millis: 5 });
    assert_eq!((rig.cluster_view().warnings, events(&rig)), (vec![], 2));
}

#[test]
fn the_number_of_outcomes_is_bounded_and_the_newest_are_kept() {
    let mut rig = rig_with(Settings { most_outcomes: 50, ..Settings::default() }, &["a"]);
    for number in 0..200 {
        rig.command(&format!("c{number:03}"), replica("none", 1));
        rig.advance(1);
    }
    let kept = || rig.store.keys().filter(|key| key.starts_with(&keys::outcome(&"c".parse().expect("an id"))));
    assert_eq!(kept().count(), 50);
    assert!(
        kept().all(|key| key.as_str() >= keys::outcome(&"c150".parse().expect("an id")).as_str()),
        "{:?}",
        rig.store.keys()
    );
}
