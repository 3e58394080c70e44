//! Rollouts of groups with a strategy: budgets, batches, user actions during the rollout, and takeovers.

use contract::command::{Decision, Refusal, RolloutAction};
use contract::record::{Presence, RevisionOutcome};
use contract::rollout::{Amount, FailureAction, Strategy, StrategyType, Topology, UnitType, UpdatePolicy};
use planner::rollout::controller::RolloutState;
use planner::rollout::transition::RolloutPhase;

use super::upgrades::{image, patch};
use super::*;

pub(super) fn with_strategy(name: &str, instances: i64, strategy: Strategy) -> PodGroupSpec {
    // Most tests are about one rule, so the defaults of the others are turned off.
    let failure_action = Some(FailureAction::Hold);
    PodGroupSpec { strategy: Some(strategy), min_ready_seconds: Some(0), failure_action, ..spec(name, instances) }
}
pub(super) fn rolling(surge: i64, unavailable: i64) -> Strategy {
    let (surge, unavailable) = (Some(Amount::Count(surge)), Some(Amount::Count(unavailable)));
    Strategy {
        kind: StrategyType::RollingUpdate,
        max_surge: surge,
        max_unavailable: unavailable,
        ..Strategy::default()
    }
}
/// A first batch of one instance per zone, then batches of four, each confirmed by a user.
pub(super) fn beta() -> Strategy {
    Strategy {
        kind: StrategyType::Beta,
        batch_size: Some(Amount::Count(4)),
        need_waiting_for_confirm: true,
        confirm_first_deployment: true,
        ..Strategy::default()
    }
}
fn batch() -> Strategy {
    Strategy { kind: StrategyType::Batch, ..Strategy::default() }
}
fn zones() -> Topology {
    Topology { unit_type: UnitType::Zone, values: vec!["x".to_owned(), "y".to_owned()], ..Topology::default() }
}
pub(super) fn create_spec(spec: PodGroupSpec) -> Verb {
    Verb::CreateGroup { spec: Box::new(spec) }
}
pub(super) fn rollout(name: &str, action: RolloutAction) -> Verb {
    Verb::Rollout { name: group(name), release: None, action }
}
pub(super) fn confirm(number: u64) -> RolloutAction {
    RolloutAction::Confirm { group: number }
}
pub(super) fn undo(revision: Option<u32>) -> RolloutAction {
    RolloutAction::Undo { revision, cause: "it was better".to_owned() }
}

impl Rig {
    pub(super) fn release(&self, name: &str) -> RolloutState {
        let value = self.store.get(&keys::release(&group(name))).expect("a release");
        serde_json::from_slice(value).expect("a release")
    }
    pub(super) fn refusal(&mut self, id: &str, verb: Verb) -> Refusal {
        self.command(id, verb);
        match &self.outcomes[id].decision {
            Decision::Refused(refusal) => refusal.clone(),
            Decision::Accepted => panic!("{id} was accepted"),
        }
    }
    fn versions(&self, name: &str) -> Vec<u32> {
        self.instances(name).iter().map(|instance| instance.version).collect()
    }
    /// Whether the group's rollout completes within `seconds`.
    pub(super) fn completes(&mut self, name: &str, seconds: i64) -> bool {
        (0..seconds).any(|_| {
            self.advance(1);
            let (record, release) = (self.record(name), self.release(name));
            release.phase == RolloutPhase::Completed && record.proven == Some(record.spec.version)
        })
    }
    /// The messages of rollout events that contain `text`.
    pub(super) fn rollout_events(&self, text: &str) -> Vec<&str> {
        let events = self.events.iter().filter(|event| event.kind == contract::event::Kind::Release);
        events.map(|event| event.message.as_str()).filter(|message| message.contains(text)).collect()
    }
}

/// Ten instances in two zones, after their first rollout.
fn zoned() -> Rig {
    let mut rig = rig(&["a", "b", "c", "d"]);
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")] {
        rig.agent(name).zone = zone.to_owned();
    }
    rig.report_all();
    let spec = PodGroupSpec { topology: Some(zones()), ..with_strategy("web", 10, beta()) };
    assert_eq!(rig.command("c1", create_spec(spec)), "Accepted");
    for number in 1..=2 {
        rig.advance(3);
        assert_eq!(rig.release("web").phase, RolloutPhase::WaitingForConfirm, "{:?}", rig.release("web"));
        assert_eq!(rig.command(&format!("ok{number}"), rollout("web", confirm(number))), "Accepted");
    }
    assert!(rig.completes("web", 10), "{:?}", rig.release("web"));
    rig.clear();
    rig
}
fn web(instances: i64, strategy: Strategy) -> Rig {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", create_spec(with_strategy("web", instances, strategy))), "Accepted");
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    rig.clear();
    rig
}

#[test]
fn a_rollout_with_a_strategy_never_locks_the_group() {
    let mut rig = web(3, rolling(1, 0));
    assert!(!rig.events.iter().any(|event| event.kind == contract::event::Kind::Operation), "{:?}", rig.events);
    assert_eq!(rig.record("web").operation, None);
    assert_eq!(rig.command("c2", patch("web", image("web", "v1"))), "Accepted");
    assert_eq!(rig.record("web").operation, None);
    assert_eq!(rig.command("c3", replica("web", 4)), "Accepted", "scaling is accepted during a rollout");
    assert_eq!(rig.command("c4", patch("web", image("web", "v2"))), "Accepted", "so is the next spec");
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!((rig.versions("web"), rig.record("web").former), (vec![2; 4], BTreeMap::new()));
    let images: BTreeSet<String> = rig
        .agents
        .values()
        .flat_map(|agent| agent.order.specs.values())
        .map(|spec| spec.containers[0].image.clone())
        .collect();
    assert_eq!(images, BTreeSet::from(["v2".to_owned()]));
}

#[test]
fn nodes_fetch_images_before_an_instance_is_replaced_and_stop_when_the_rollout_is_held() {
    let mut rig = web(3, rolling(0, 1));
    rig.agents.values_mut().for_each(|agent| agent.fetch_state = Some(FetchState::Coming));
    rig.report_all();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(5);
    let fetches = |rig: &Rig| -> Vec<(u32, BTreeSet<String>)> {
        let pods = rig.agents.values().flat_map(|agent| agent.order.pods.values());
        pods.filter_map(|pod| pod.fetch.clone()).map(|fetch| (fetch.version, fetch.images)).collect()
    };
    assert_eq!(fetches(&rig), [(1, BTreeSet::from(["v1".to_owned()]))], "one at a time");
    assert_eq!(rig.versions("web"), [0; 3]);
    rig.elect();
    rig.advance(5);
    assert_eq!((fetches(&rig).len(), rig.versions("web")), (1, vec![0; 3]), "also after a takeover");
    rig.agents.values_mut().for_each(|agent| agent.fetch_state = Some(FetchState::Hopeless));
    rig.report_all();
    rig.advance(5);
    assert!(rig.release("web").failure.is_some(), "{:?}", rig.release("web"));
    assert_eq!((fetches(&rig).len(), rig.versions("web")), (0, vec![0; 3]));
    rig.agents.values_mut().for_each(|agent| agent.fetch_state = Some(FetchState::Here));
    rig.command("c3", patch("web", image("web", "v2")));
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!((fetches(&rig).len(), rig.versions("web")), (0, vec![2; 3]));
}

#[test]
fn the_current_and_the_surge_pod_of_an_instance_are_both_ordered_and_counted() {
    let mut rig = web(2, rolling(1, 0));
    let used = |rig: &Rig| -> usize { rig.agents.values().map(|agent| agent.order.pods.len()).sum() };
    // The new pods never become ready, so the surge persists.
    for number in 1..=2 {
        for agent in rig.agents.values_mut() {
            agent.states.insert(format!("web.v1-i{number}-d0"), RunState::Pending);
        }
    }
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(5);
    let surging: Vec<_> = rig.instances("web").into_iter().filter(|instance| instance.next.is_some()).collect();
    assert_eq!((surging.len(), used(&rig)), (1, 3));
    let next = surging[0].next.clone().expect("a surge pod");
    assert_eq!((surging[0].version, next.version), (0, 1));
    let memory: u64 = rig.core.state.nodes.values().map(|host| host.used.memory).sum();
    assert_eq!(memory, 3 * (64 << 20), "three pods are accounted for");
    rig.take_over();
    assert_eq!(used(&rig), 3, "the next leader orders the same");
    let memory: u64 = rig.core.state.nodes.values().map(|host| host.used.memory).sum();
    assert_eq!(memory, 3 * (64 << 20));
    assert_eq!(rig.group("web").expect("a group").pods.len(), 2, "users see one pod per instance");
    rig.agents.values_mut().for_each(|agent| agent.states.clear());
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!((used(&rig), rig.versions("web")), (2, vec![1, 1]));
}

#[test]
fn a_beta_rollout_updates_two_four_and_four_instances_and_waits_for_confirmation() {
    let mut rig = zoned();
    rig.command("c2", patch("web", image("web", "v1")));
    let updated = |rig: &Rig| rig.versions("web").iter().filter(|version| **version == 1).count();
    rig.advance(5);
    assert_eq!((updated(&rig), rig.release("web").phase), (2, RolloutPhase::WaitingForConfirm));
    let early = rig.refusal("c3", rollout("web", confirm(2)));
    assert_eq!(early, Refusal::OtherBatch { release: 1, asked: 2, current: 1 });
    let other = Verb::Rollout { name: group("web"), release: Some(7), action: confirm(1) };
    assert_eq!(rig.refusal("c4", other), Refusal::ReleaseUnknown { release: Some(7), current: Some(1) });
    assert_eq!(rig.command("c5", rollout("web", confirm(1))), "Accepted");
    assert_eq!(rig.command("c6", rollout("web", confirm(1))), "Accepted", "a repetition is accepted");
    rig.advance(5);
    assert_eq!((updated(&rig), rig.release("web").phase), (6, RolloutPhase::WaitingForConfirm));
    rig.command("c7", rollout("web", confirm(2)));
    assert!(rig.completes("web", 10), "{:?}", rig.release("web"));
    assert_eq!(updated(&rig), 10, "the last batch needs no confirmation");
    assert_eq!(rig.refusal("c8", rollout("web", confirm(3))), Refusal::NotWaiting { release: 1, group: 3 });
    assert_eq!(rig.refusal("c9", rollout("web", RolloutAction::Abort)), Refusal::ReleaseOver { release: 1 });
    let texts =
        ["rollout to revision 1 started", "instances will run it", "is done", "waits for confirmation", "completed"];
    let events = texts.map(|text| rig.rollout_events(text).len());
    // The rollout and each of its three batches started.
    assert_eq!(events, [4, 3, 3, 2, 1], "{:?}", rig.rollout_events(""));
}

#[test]
fn a_beta_rollout_completes_although_the_leader_changes_every_two_seconds() {
    let mut rig = zoned();
    rig.command("c2", patch("web", image("web", "v1")));
    let mut confirmed = 0;
    for round in 0..60 {
        rig.take_over();
        rig.advance(2);
        let release = rig.release("web");
        if release.phase == RolloutPhase::WaitingForConfirm && release.batch > confirmed {
            confirmed = release.batch;
            assert_eq!(rig.command(&format!("ok-{round}"), rollout("web", confirm(confirmed))), "Accepted");
        }
        assert!(rig.copies("web").values().all(|copies| *copies <= 1), "a batch has no surge pods");
    }
    assert_eq!((rig.versions("web"), confirmed), (vec![1; 10], 2));
    assert_eq!((rig.release("web").phase, rig.record("web").proven), (RolloutPhase::Completed, Some(1)));
    let units: Vec<String> = rig.instances("web").iter().map(|instance| instance.unit.clone()).collect();
    assert_eq!([units.iter().filter(|unit| *unit == "x").count(), units.len()], [5, 10]);
    let starts = rig.rollout_events("").into_iter().filter(|text| *text == "rollout to revision 1 started").count();
    assert_eq!(starts, 1, "no event is repeated: {:?}", rig.rollout_events(""));
    assert_eq!(rig.core.disagreements(), 0);
}

#[test]
fn recreate_removes_all_old_pods_before_it_creates_new_ones() {
    let mut rig = web(3, Strategy { kind: StrategyType::Recreate, ..Strategy::default() });
    rig.keep_pods("a");
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(5);
    let instances = rig.instances("web");
    assert!(instances.iter().all(|instance| instance.presence == Presence::Vacant), "{instances:?}");
    assert!(rig.agents.values().all(|agent| agent.order.pods.is_empty()));
    let view = rig.group("web").expect("a group");
    assert_eq!(view.pods.len(), 3, "an instance without a pod is shown as pending");
    assert!(view.pods.iter().all(|pod| pod.node.is_none() && pod.facts.state == RunState::Pending), "{view:?}");
    rig.take_over();
    rig.advance(2);
    assert!(
        rig.instances("web").iter().all(|instance| instance.presence == Presence::Vacant),
        "the next leader waits as well"
    );
    rig.agent("a").stuck_pods.clear();
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    assert_eq!(rig.versions("web"), [1; 3]);
}

#[test]
fn a_pause_survives_takeovers_and_new_specs() {
    let mut rig = web(2, rolling(0, 1));
    assert_eq!(rig.command("c2", rollout("web", RolloutAction::Pause)), "Accepted");
    assert!(rig.record("web").spec.paused);
    let before = rig.commits.len();
    assert_eq!(rig.command("c3", rollout("web", RolloutAction::Pause)), "Accepted");
    let writes: Vec<&Write> = rig.commits[before..].iter().flat_map(|commit| &commit.writes).collect();
    assert_eq!(writes.len(), 5, "the outcome, the cursor, the progress and the audit log: {writes:?}");
    rig.command("c4", patch("web", image("web", "v1")));
    rig.take_over();
    rig.advance(10);
    assert_eq!(rig.versions("web"), [0, 0]);
    assert_eq!(rig.command("c5", replica("web", 3)), "Accepted");
    rig.advance(5);
    assert_eq!(rig.instances("web").len(), 3, "scaling works while the rollout is paused");
    assert_eq!(rig.command("c6", rollout("web", RolloutAction::Resume)), "Accepted");
    assert!(!rig.record("web").spec.paused);
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!(rig.versions("web"), [1; 3]);
}

#[test]
fn a_frozen_group_is_not_reconciled_and_an_aborted_rollout_keeps_both_revisions() {
    let mut rig = zoned();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(5);
    assert_eq!(rig.command("c3", rollout("web", RolloutAction::Freeze)), "Accepted");
    rig.command("c4", rollout("web", confirm(1)));
    rig.command("c5", replica("web", 12));
    rig.advance(10);
    let mixed = |rig: &Rig| rig.versions("web").iter().filter(|version| **version == 1).count();
    assert_eq!((mixed(&rig), rig.instances("web").len()), (2, 10));
    assert_eq!(rig.command("c6", replica("web", 10)), "Accepted");
    assert_eq!(rig.command("c7", rollout("web", RolloutAction::Abort)), "Accepted");
    assert_eq!(rig.command("c8", rollout("web", RolloutAction::Unfreeze)), "Accepted");
    rig.advance(10);
    assert_eq!((mixed(&rig), rig.release("web").phase), (2, RolloutPhase::Aborted));
    assert_eq!(rig.command("c9", rollout("web", RolloutAction::Abort)), "Accepted", "a repetition is accepted");
    assert_eq!(rig.rollout_events("aborted").len(), 1);
}

#[test]
fn an_abort_before_the_first_reconcile_of_a_rollout_takes_effect() {
    let mut rig = web(2, rolling(0, 1));
    rig.command("c2", Verb::RunEngine { running: false });
    rig.command("c3", patch("web", image("web", "v1")));
    assert_eq!(rig.command("c4", rollout("web", RolloutAction::Abort)), "Accepted");
    rig.command("c5", Verb::RunEngine { running: true });
    rig.advance(10);
    assert_eq!((rig.versions("web"), rig.release("web").phase), (vec![0, 0], RolloutPhase::Aborted));
}

#[test]
fn a_crash_looping_rollout_is_held_and_can_be_undone() {
    let mut rig = web(3, rolling(1, 0));
    let crash = PodFacts { state: RunState::Exit, restarts: 5, ..PodFacts::default() };
    for number in 1..=3 {
        for agent in rig.agents.values_mut() {
            agent.facts.insert(format!("web.v1-i{number}-d0"), crash.clone());
        }
    }
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(10);
    assert!(rig.release("web").failure.is_some(), "{:?}", rig.release("web"));
    assert_eq!(rig.rollout_events("is paused by a failure").len(), 1, "{:?}", rig.rollout_events(""));
    assert!(rig.record("web").last_error.starts_with("the rollout is paused: "), "{}", rig.record("web").last_error);
    assert_eq!(rig.command("c3", rollout("web", undo(None))), "Accepted");
    assert!(rig.completes("web", 60), "{:?} {:?}", rig.release("web"), rig.instances("web"));
    assert_eq!(rig.versions("web"), [0; 3], "instances that still run that spec are not replaced");
    assert_eq!((rig.record("web").spec.version, rig.record("web").last_error.as_str()), (2, ""));
}

#[test]
fn rollout_actions_on_a_group_without_a_strategy_are_refused() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(2);
    let refusal = rig.refusal("c2", rollout("web", RolloutAction::Pause));
    assert!(matches!(&refusal, Refusal::Unfit { reason } if reason.contains("has no Strategy")), "{refusal:?}");
    assert_eq!(rig.refusal("c3", rollout("api", RolloutAction::Pause)), Refusal::GroupUnknown);
}

#[test]
fn a_patch_that_is_not_possible_in_place_is_refused_under_in_place_only() {
    let mut rig = rig(&["a", "b"]);
    let only = PodGroupSpec { update_policy: UpdatePolicy::InPlaceOnly, ..with_strategy("web", 2, rolling(0, 1)) };
    rig.command("c1", create_spec(only));
    assert!(rig.completes("web", 30));
    let mut other = image("web", "v1");
    other.containers[0].env = vec!["A=1".to_owned()];
    let refusal = rig.refusal("c2", patch("web", other));
    assert!(matches!(&refusal, Refusal::Unfit { reason } if reason.contains("Env")), "{refusal:?}");
    assert_eq!(rig.record("web").spec.version, 0);
    assert_eq!(rig.command("c3", patch("web", image("web", "v1"))), "Accepted");
    let places = rig.places("web");
    assert!(rig.completes("web", 60), "{:?}", rig.instances("web"));
    assert_eq!((rig.versions("web"), rig.places("web")), (vec![1, 1], places), "on the same nodes");
}

#[test]
fn a_live_update_keeps_the_pods_and_updates_their_used_capacity() {
    let mut rig = rig(&["a", "b"]);
    let spec =
        PodGroupSpec { update_policy: UpdatePolicy::InPlaceIfPossible, ..with_strategy("web", 2, rolling(0, 1)) };
    rig.command("c1", create_spec(spec));
    assert!(rig.completes("web", 30));
    let mut larger = image("web", "demo");
    larger.containers[0].memory_limit = 128 << 20;
    let before: Vec<Vec<String>> = [rig.pods("a"), rig.pods("b")].to_vec();
    assert_eq!(rig.command("c2", patch("web", larger)), "Accepted");
    assert!(rig.completes("web", 60), "{:?} {:?}", rig.instances("web"), rig.release("web"));
    assert_eq!([rig.pods("a"), rig.pods("b")].to_vec(), before);
    let instances = rig.instances("web");
    assert!(
        instances.iter().all(|instance| (instance.version, instance.created_from) == (1, Some(0))),
        "{instances:?}"
    );
    let assignments = rig.agents.values().flat_map(|agent| agent.order.pods.values());
    assert!(assignments.clone().all(|assignment| assignment.updated_to == Some(1)));
    rig.take_over();
    let memory: u64 = rig.core.state.nodes.values().map(|host| host.used.memory).sum();
    assert_eq!(memory, 2 * (128 << 20));
    assert_eq!(rig.core.disagreements(), 0);
}

#[test]
fn a_failed_rollout_is_rolled_back_when_the_failure_action_is_rollback() {
    let mut rig = rig(&["a", "b"]);
    let spec = PodGroupSpec { failure_action: Some(FailureAction::Rollback), ..with_strategy("web", 3, rolling(1, 0)) };
    rig.command("c1", create_spec(spec));
    assert!(rig.completes("web", 30));
    let crash = PodFacts { state: RunState::Exit, restarts: 5, ..PodFacts::default() };
    for agent in rig.agents.values_mut() {
        (1..=3).for_each(|number| drop(agent.facts.insert(format!("web.v1-i{number}-d0"), crash.clone())));
    }
    rig.clear();
    rig.command("c2", patch("web", image("web", "v1")));
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!((rig.record("web").spec.version, rig.versions("web")), (2, vec![0; 3]));
    let outcomes: Vec<_> = rig.revisions("web").iter().map(|it| (it.number, it.outcome, it.copies)).collect();
    let expected = [
        (0, RevisionOutcome::Completed, None),
        (1, RevisionOutcome::RolledBack, None),
        (2, RevisionOutcome::Completed, Some(0)),
    ];
    assert_eq!(outcomes, expected);
    let last = rig.revisions("web").pop().expect("a revision");
    assert!(last.by.is_empty() && last.cause.contains("revision 1"), "{last:?}");
    let rollbacks = rig.events.iter().filter(|event| event.kind == contract::event::Kind::RolledBack).count();
    assert_eq!(rollbacks, 1);
}

#[test]
fn a_skipped_batch_stays_as_it_is_and_the_next_batch_starts() {
    let mut rig = web(4, Strategy { batch_size: Some(Amount::Count(2)), ..batch() });
    let crash = PodFacts { state: RunState::Exit, restarts: 5, ..PodFacts::default() };
    for agent in rig.agents.values_mut() {
        (1..=4).for_each(|number| drop(agent.facts.insert(format!("web.v1-i{number}-d0"), crash.clone())));
    }
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(10);
    assert_eq!((rig.release("web").batch, rig.release("web").failure.is_some()), (1, true));
    let refusal = rig.refusal("c3", rollout("web", RolloutAction::Skip { group: 2 }));
    assert_eq!(refusal, Refusal::OtherBatch { release: 1, asked: 2, current: 1 });
    assert_eq!(rig.command("c4", rollout("web", RolloutAction::Skip { group: 1 })), "Accepted");
    rig.advance(10);
    let release = rig.release("web");
    assert_eq!((release.batch, rig.versions("web").iter().sum::<u32>()), (2, 4), "{release:?}");
    assert_eq!(
        rig.command("c5", rollout("web", RolloutAction::Skip { group: 1 })),
        "Accepted",
        "a repetition is accepted"
    );
    assert_eq!(rig.rollout_events("is skipped").len(), 1, "{:?}", rig.rollout_events(""));
}

#[test]
fn an_aborted_revision_stays_aborted_and_an_undo_updates_all_instances() {
    let mut rig = zoned();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(5);
    rig.command("c3", rollout("web", RolloutAction::Abort));
    rig.advance(2);
    let outcome = |rig: &Rig, at: usize| rig.revisions("web")[at].outcome;
    assert_eq!(outcome(&rig, 1), RevisionOutcome::Aborted);
    assert_eq!(rig.command("c4", rollout("web", undo(None))), "Accepted");
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    assert_eq!(outcome(&rig, 1), RevisionOutcome::Aborted, "the undo does not change it");
    let images: BTreeSet<String> = rig
        .agents
        .values()
        .flat_map(|agent| agent.order.pods.keys().filter_map(|pod| agent.order.spec_of(pod)))
        .map(|spec| spec.containers[0].image.clone())
        .collect();
    assert_eq!(images, BTreeSet::from(["demo".to_owned()]));
}

#[test]
fn an_unschedulable_spec_is_held_with_the_reason_of_every_node_and_undone_without_moves() {
    let mut rig = web(3, rolling(1, 0));
    let (places, pods) = (rig.places("web"), [rig.pods("a"), rig.pods("b")]);
    let mut huge = image("web", "v1");
    huge.containers[0].memory_limit = 1 << 50;
    assert_eq!(rig.command("c2", patch("web", huge)), "Accepted");
    rig.advance(90);
    let failure = rig.release("web").failure;
    let failure = failure.unwrap_or_else(|| panic!("{:?} {:?}", rig.release("web"), rig.instances("web")));
    assert_eq!((failure.cause, failure.instances.len()), (planner::rollout::controller::Cause::Unschedulable, 1));
    let view = rig.rollout_view("web").expect("a release");
    for text in ["instance 1 is unschedulable (no node fits: a: memory", "b: memory", "undo goes back"] {
        assert!(view.message.contains(text), "{}", view.message);
        assert!(rig.record("web").last_error.contains(text), "{:?}", rig.record("web"));
    }
    assert_eq!(
        rig.rollout_events("is paused by a failure: instance 1 is unschedulable (no node fits: a: memory").len(),
        1
    );
    rig.take_over();
    rig.advance(5);
    assert!(rig.rollout_view("web").expect("a release").message.contains("b: memory"), "also after a takeover");
    assert_eq!(rig.command("c3", rollout("web", undo(None))), "Accepted");
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    assert_eq!((rig.places("web"), [rig.pods("a"), rig.pods("b")]), (places, pods), "no instance was replaced");
}

#[test]
fn undo_is_not_proposed_for_the_first_revision() {
    let mut rig = rig(&["a"]);
    let mut huge = with_strategy("web", 2, rolling(1, 0));
    huge.pod.containers[0].memory_limit = 1 << 50;
    assert_eq!(rig.command("c1", create_spec(huge)), "Accepted");
    rig.advance(90);
    let view = rig.rollout_view("web").expect("a release");
    assert!(
        view.message.starts_with("paused by a failure: instances 1, 2 are unschedulable (instance 1: no node fits: a:"),
        "{view:?}"
    );
    assert!(view.message.ends_with("resume waits for them again"), "{}", view.message);
}
