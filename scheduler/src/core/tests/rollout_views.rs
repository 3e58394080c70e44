//! Views of rollouts and plans: phase, what the rollout waits for, and the remedy. A standby shows the same.

use contract::command::{Refusal, RolloutAction};
use contract::rollout::{StrategyType, UpdatePolicy};
use contract::rollout_view::{InstanceChange, PlanView, RolloutPhase, RolloutStatus, RolloutView};

use super::rollouts::{beta, confirm, create_spec, rolling, rollout, with_strategy};
use super::upgrades::{image, patch};
use super::*;
use crate::core::io::Mirror;

impl Rig {
    pub(super) fn rollout_view(&mut self, name: &str) -> Option<RolloutView> {
        match self.query(Query::Rollout { name: group(name) }) {
            Answer::Rollout(view) => view.map(|view| *view),
            other => panic!("not a release: {other:?}"),
        }
    }
}

/// Ten instances without units, whose Beta rollout waits for confirmation after the first batch.
fn waiting() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_spec(with_strategy("web", 10, beta())));
    rig.advance(3);
    rig
}

#[test]
fn the_view_of_a_beta_rollout_lists_its_done_and_future_batches() {
    let mut rig = waiting();
    let view = rig.rollout_view("web").expect("a release");
    assert_eq!((view.phase, view.status), (RolloutPhase::WaitingForConfirm, RolloutStatus::WaitingForConfirm));
    assert!(view.message.contains("action=confirm&release=0&group=1"), "{}", view.message);
    let batches: Vec<String> = view
        .groups
        .iter()
        .map(|batch| {
            format!("{} {} {} {:?}", batch.ordinal, batch.kind, batch.state, batch.units.values().collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(batches, ["1 Beta Done [1]", "2 Batch ToCome [4]", "3 Batch ToCome [4]", "4 Batch ToCome [1]"]);
    rig.command("c2", rollout("web", confirm(1)));
    rig.command("c3", rollout("web", RolloutAction::Pause));
    rig.advance(3);
    let view = rig.rollout_view("web").expect("a release");
    assert_eq!((view.status, view.is_paused), (RolloutStatus::Paused, true));
    let unit = &view.units[0];
    assert_eq!((unit.target, view.instances.len()), (10, view.units[0].updated as usize));
}

#[test]
fn the_view_of_a_completed_rollout_shows_its_budget_and_an_unknown_group_has_no_view() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_spec(with_strategy("web", 3, rolling(1, 0))));
    assert!(rig.completes("web", 30));
    let view = rig.rollout_view("web").expect("a release");
    assert_eq!((view.phase, view.status, view.release), (RolloutPhase::Completed, RolloutStatus::Complete, 0));
    assert_eq!((view.min_available, view.max_total, view.replicas), (3, 4, 3));
    assert!(view.instances.iter().all(|it| it.pods.len() == 1 && it.pods[0].available), "{view:?}");
    assert_eq!(rig.rollout_view("api"), None);
}

#[test]
fn a_completed_rollout_is_degraded_while_an_instance_is_down() {
    for create in [create("web", 3), create_spec(with_strategy("web", 3, rolling(1, 0)))] {
        let mut rig = rig(&["a", "b"]);
        rig.command("c1", create);
        rig.advance(30);
        let view = rig.rollout_view("web").expect("a release");
        assert_eq!((view.phase, view.status), (RolloutPhase::Completed, RolloutStatus::Complete));
        let pod = rig.pods("a")[0].clone();
        rig.agent("a").states.insert(pod.clone(), RunState::Exit);
        rig.report("a");
        let view = rig.rollout_view("web").expect("a release");
        assert_eq!((view.phase, view.status), (RolloutPhase::Completed, RolloutStatus::Degraded), "{}", view.message);
        let expected = "degraded: revision 0 completed, but 1 of 3 instances is not available";
        assert!(view.message.starts_with(expected), "{}", view.message);
        rig.agent("a").states.remove(&pod);
        rig.report("a");
        assert_eq!(rig.rollout_view("web").expect("a release").status, RolloutStatus::Complete);
    }
}

#[test]
fn the_view_of_a_group_without_a_strategy_shows_its_upgrade() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(30);
    let view = rig.rollout_view("web").expect("a release");
    assert_eq!((view.strategy, view.status, view.units.len()), (StrategyType::Serial, RolloutStatus::Complete, 1));
    rig.command("c2", patch("web", image("web", "v1")));
    let view = rig.rollout_view("web").expect("a release");
    assert_eq!((view.phase, view.status, view.release), (RolloutPhase::Running, RolloutStatus::Progressing, 1));
    assert_eq!(view.units[0].target, 2);
    assert!(view.message.contains("waits for instance"), "{}", view.message);
}

#[test]
fn a_standby_shows_the_same_view_of_a_rollout() {
    let mut rig = waiting();
    let expected = rig.rollout_view("web").expect("a release");
    let mut standby = Core::new(Settings::default());
    let now = rig.time();
    standby.on(Input::Mirror(Mirror::Reset(rig.store.loaded())), now);
    for (name, agent) in &rig.agents {
        standby.on(Input::Report(ReportMessage::Whole(agent.whole(name))), now);
    }
    let query = Input::Query { query: Query::Rollout { name: group("web") }, reply: "q".to_owned() };
    let effects = standby.on(query.clone(), now);
    let [Effect::Answer { reply, .. }] = &effects[..] else { panic!("no answer: {effects:?}") };
    assert!(reply.stale);
    assert_eq!(reply.answer, Answer::Rollout(Some(Box::new(expected))));
    // The standby follows changes of the rollout.
    rig.command("c2", rollout("web", RolloutAction::Freeze));
    let key = keys::release(&group("web"));
    standby.on(Input::Mirror(Mirror::Put(key.clone(), rig.store[&key].clone())), now);
    let effects = standby.on(query, now);
    let [Effect::Answer { reply, .. }] = &effects[..] else { panic!("no answer: {effects:?}") };
    let Answer::Rollout(Some(view)) = &reply.answer else { panic!("no release: {reply:?}") };
    assert_eq!((view.is_frozen, view.status), (true, RolloutStatus::Frozen));
}

impl Rig {
    fn plan(&mut self, spec: PodGroupSpec) -> Result<PlanView, Refusal> {
        let query = Query::Plan { spec: Box::new(spec), within_millis: None };
        match self.query(query) {
            Answer::Plan(plan) => plan.map(|plan| *plan),
            other => panic!("not a plan: {other:?}"),
        }
    }
}

#[test]
fn a_plan_leaves_the_core_before_it_is_computed() {
    let mut rig = rig(&["a"]);
    let spec = || Box::new(with_strategy("web", 2, rolling(0, 1)));
    let query = |spec| Input::Query { query: Query::Plan { spec, within_millis: None }, reply: "q".to_owned() };
    let [Effect::Plan { inbox, stale: false, dry_run }] = &rig.input(query(spec()))[..] else { panic!("no plan") };
    assert_eq!(inbox, "q");
    // The dry run has a copy of the state, which later commands do not change.
    rig.command("c1", create_spec(*spec()));
    let Some(Answer::Plan(Ok(view))) = dry_run.answer(&|| false) else { panic!("no plan") };
    assert!(view.is_new && view.completes && view.changes.len() == 2, "{view:?}");
    assert_eq!(dry_run.answer(&|| true), None, "a plan whose deadline has passed is not computed");
}

#[test]
fn a_plan_waits_for_the_commit_of_the_decisions_it_shows() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create_spec(with_strategy("web", 1, rolling(0, 1))));
    let commit = only_commit(&rig.input(Input::Command(delivery))).clone();
    let spec = Box::new(with_strategy("web", 2, rolling(0, 1)));
    let query = Input::Query { query: Query::Plan { spec, within_millis: None }, reply: "q".to_owned() };
    assert_eq!(rig.input(query), []);
    let effects = rig.input(Input::Committed { id: commit.id, result: CommitResult::Stored });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Plan { .. })), "{effects:?}");
}

#[test]
fn a_plan_is_refused_as_the_command_would_be() {
    let mut rig = rig(&["a"]);
    assert!(matches!(rig.plan(with_strategy("web", 2, rolling(0, 0))), Err(Refusal::Malformed { .. })));
    rig.command("c3", create_spec(with_strategy("api", 1, rolling(0, 1))));
    let mut other = PodGroupSpec { update_policy: UpdatePolicy::InPlaceOnly, ..with_strategy("api", 1, rolling(0, 1)) };
    other.pod.containers[0].env = vec!["A=1".to_owned()];
    assert!(matches!(rig.plan(other), Err(Refusal::Unfit { reason }) if reason.contains("Env")));
    let mut large = with_strategy("api", 1, rolling(0, 1));
    large.pod.containers[0].memory_limit = 1 << 40;
    let plan = rig.plan(large).expect("a plan of a rollout that would be held");
    assert!(plan.unplaced.iter().any(|it| it.nodes.len() == 1), "{plan:?}");
    rig.command("c4", create("serial", 1));
    rig.advance(5);
    let mut large = spec("serial", 1);
    large.pod.containers[0].memory_limit = 1 << 40;
    assert!(matches!(rig.plan(large), Err(Refusal::Unfit { .. })), "an upgrade without a strategy would not start");
}

#[test]
fn an_operation_in_progress_is_a_note_in_the_plan_and_not_a_refusal() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 2));
    let plan = rig.plan(spec("web", 3)).expect("a plan while the group is deployed");
    assert_eq!(plan.notes, ["another operation is in progress: Deploying; the plan assumes it has finished"]);
    let changes = [(1, InstanceChange::Untouched), (2, InstanceChange::Untouched), (3, InstanceChange::Created)];
    assert_eq!((plan.is_new, plan.changes), (false, BTreeMap::from(changes)));
    assert!(rig.command("c2", replica("web", 3)).contains("Locked"), "the command itself waits");
    rig.command("c3", remove("web"));
    let plan = rig.plan(spec("web", 1)).expect("a plan while the group is removed");
    assert_eq!(plan.notes, ["another operation is in progress: Removing; the plan assumes it has finished"]);
    assert!(plan.is_new && plan.completes, "{plan:?}");
    assert_eq!(plan.changes, BTreeMap::from([(1, InstanceChange::Created)]));
}

#[test]
fn a_plan_shows_the_change_of_each_instance_and_changes_nothing() {
    let mut rig = rig(&["a", "b"]);
    let plan = rig.plan(with_strategy("web", 3, rolling(1, 0))).expect("a plan");
    assert_eq!((plan.is_new, plan.completes, plan.release), (true, true, 0));
    assert_eq!(plan.changes, BTreeMap::from([1, 2, 3].map(|number| (number, InstanceChange::Created))));
    rig.command("c1", create_spec(with_strategy("web", 3, rolling(1, 0))));
    assert!(rig.completes("web", 30));
    let store = rig.store.clone();
    let plan = rig.plan(with_strategy("web", 3, rolling(1, 0))).expect("a plan");
    assert_eq!((plan.is_new, plan.steps.len(), plan.release), (false, 0, 0), "nothing would change");
    let mut next = with_strategy("web", 2, rolling(1, 0));
    next.pod.containers[0].image = "v1".to_owned();
    let plan = rig.plan(next.clone()).expect("a plan");
    assert_eq!((plan.release, plan.completes, plan.peak_extra_pods), (1, true, 0), "{plan:?}");
    let changes = [(1, InstanceChange::Recreated), (2, InstanceChange::Recreated), (3, InstanceChange::Removed)];
    assert_eq!((plan.changes, plan.min_available), (BTreeMap::from(changes), BTreeMap::from([(String::new(), 2)])));
    next.pod.containers[0].image = "demo".to_owned();
    next.update_policy = UpdatePolicy::InPlaceIfPossible;
    next.pod.containers[0].memory_limit = 128 << 20;
    let plan = rig.plan(next).expect("a plan");
    assert_eq!(plan.changes.values().filter(|change| **change == InstanceChange::InPlace).count(), 2, "{plan:?}");
    let keys: BTreeMap<_, _> = rig.store.iter().filter(|(key, _)| !key.contains("/history/")).collect();
    assert_eq!(keys, store.iter().filter(|(key, _)| !key.contains("/history/")).collect());
}

#[test]
fn the_plan_of_an_unschedulable_group_contains_the_reason_of_every_node() {
    let mut rig = rig(&["a", "b"]);
    let mut large = with_strategy("web", 2, rolling(1, 0));
    large.pod.containers[0].memory_limit = 1 << 40;
    let plan = rig.plan(large).expect("a plan");
    assert_eq!(plan.unplaced.len(), 2, "{plan:?}");
    assert!(plan.unplaced.iter().all(|it| it.nodes.len() == 2), "{plan:?}");
}
