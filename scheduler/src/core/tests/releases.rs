//! A group that names a strategy is released: by budgets or by groups, whoever leads, and people are obeyed on the way.

use contract::command::{Refusal, RolloutAction, Verdict};
use contract::record::{Filling, RevisionOutcome};
use contract::rollout::{Amount, FailureAction, Strategy, StrategyType, Topology, UnitType, UpdatePolicy};
use planner::rollout::controller::RolloutState;
use planner::rollout::transition::RolloutPhase;

use super::upgrades::{image, patch};
use super::*;

pub(super) fn conducted(name: &str, instances: i64, strategy: Strategy) -> PodGroupSpec {
    // Most tests are about one rule and not about the defaults.
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
/// One instance of every zone first, then four at a time, each confirmed.
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
pub(super) fn say(name: &str, action: RolloutAction) -> Verb {
    Verb::Rollout { name: group(name), release: None, action }
}
pub(super) fn confirm(number: u64) -> RolloutAction {
    RolloutAction::Confirm { group: number }
}
pub(super) fn undo(revision: Option<u32>) -> RolloutAction {
    RolloutAction::Undo { revision, cause: "it was better".to_owned() }
}

impl Rig {
    /// The release of a group as stored.
    pub(super) fn release(&self, name: &str) -> RolloutState {
        let value = self.store.get(&keys::release(&group(name))).expect("a release");
        serde_json::from_slice(value).expect("a release")
    }
    pub(super) fn refusal(&mut self, id: &str, verb: Verb) -> Refusal {
        self.command(id, verb);
        match &self.outcomes[id].verdict {
            Verdict::Refused(refusal) => refusal.clone(),
            Verdict::Accepted => panic!("{id} was accepted"),
        }
    }
    fn versions(&self, name: &str) -> Vec<u32> {
        self.slots(name).iter().map(|slot| slot.version).collect()
    }
    /// Whether the group's release is over, after at most so many seconds.
    pub(super) fn completes(&mut self, name: &str, seconds: i64) -> bool {
        (0..seconds).any(|_| {
            self.pass(1);
            let (record, release) = (self.record(name), self.release(name));
            release.phase == RolloutPhase::Completed && record.proven == Some(record.spec.version)
        })
    }
    pub(super) fn milestones(&self, word: &str) -> Vec<&str> {
        let of_releases = self.events.iter().filter(|event| event.kind == contract::event::Kind::Release);
        of_releases.map(|event| event.message.as_str()).filter(|message| message.contains(word)).collect()
    }
}

/// Ten instances in two zones, released once.
fn zoned() -> Rig {
    let mut rig = rig(&["a", "b", "c", "d"]);
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")] {
        rig.agents.get_mut(&node(name)).expect("an agent").zone = zone.to_owned();
    }
    rig.report_all();
    let spec = PodGroupSpec { topology: Some(zones()), ..conducted("web", 10, beta()) };
    assert_eq!(rig.command("c1", create_spec(spec)), "Accepted");
    for number in 1..=2 {
        rig.pass(3);
        assert_eq!(rig.release("web").phase, RolloutPhase::WaitingForConfirm, "{:?}", rig.release("web"));
        assert_eq!(rig.command(&format!("ok{number}"), say("web", confirm(number))), "Accepted");
    }
    assert!(rig.completes("web", 10), "{:?}", rig.release("web"));
    rig.clear();
    rig
}
fn web(instances: i64, strategy: Strategy) -> Rig {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", create_spec(conducted("web", instances, strategy))), "Accepted");
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    rig.clear();
    rig
}

#[test]
fn a_conducted_group_never_takes_the_lock_for_what_a_release_does() {
    let mut rig = web(3, rolling(1, 0));
    assert!(!rig.events.iter().any(|event| event.kind == contract::event::Kind::Operation), "{:?}", rig.events);
    assert_eq!(rig.record("web").operation, None);
    assert_eq!(rig.command("c2", patch("web", image("web", "v1"))), "Accepted");
    assert_eq!(rig.record("web").operation, None);
    assert_eq!(rig.command("c3", replica("web", 4)), "Accepted", "scaling is admitted during a release");
    assert_eq!(rig.command("c4", patch("web", image("web", "v2"))), "Accepted", "so is the next release");
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
fn nodes_are_asked_for_images_before_anybody_goes_and_no_more_once_it_is_held() {
    let mut rig = web(3, rolling(0, 1));
    rig.agents.values_mut().for_each(|agent| agent.fetches = Some(FetchState::Coming));
    rig.report_all();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(5);
    let asked = |rig: &Rig| -> Vec<(u32, BTreeSet<String>)> {
        let pods = rig.agents.values().flat_map(|agent| agent.order.pods.values());
        pods.filter_map(|pod| pod.fetch.clone()).map(|fetch| (fetch.version, fetch.images)).collect()
    };
    assert_eq!(asked(&rig), [(1, BTreeSet::from(["v1".to_owned()]))], "one at a time");
    assert_eq!(rig.versions("web"), [0; 3]);
    rig.elect();
    rig.pass(5);
    assert_eq!((asked(&rig).len(), rig.versions("web")), (1, vec![0; 3]), "whoever leads");
    rig.agents.values_mut().for_each(|agent| agent.fetches = Some(FetchState::Hopeless));
    rig.report_all();
    rig.pass(5);
    assert!(rig.release("web").failure.is_some(), "{:?}", rig.release("web"));
    assert_eq!((asked(&rig).len(), rig.versions("web")), (0, vec![0; 3]));
    rig.agents.values_mut().for_each(|agent| agent.fetches = Some(FetchState::Here));
    rig.command("c3", patch("web", image("web", "v2")));
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!((asked(&rig).len(), rig.versions("web")), (0, vec![2; 3]));
}

#[test]
fn during_a_surge_an_instance_has_two_pods_that_are_both_ordered_and_counted() {
    let mut rig = web(2, rolling(1, 0));
    let used = |rig: &Rig| -> usize { rig.agents.values().map(|agent| agent.order.pods.len()).sum() };
    // The new ones never become well: the surge stands.
    for number in 1..=2 {
        for agent in rig.agents.values_mut() {
            agent.states.insert(format!("web.v1-i{number}-d0"), RunState::Pending);
        }
    }
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(5);
    let doubled: Vec<_> = rig.slots("web").into_iter().filter(|slot| slot.next.is_some()).collect();
    assert_eq!((doubled.len(), used(&rig)), (1, 3));
    let next = doubled[0].next.clone().expect("a second pod");
    assert_eq!((doubled[0].version, next.version), (0, 1));
    let memory: u64 = rig.core.state.hosts.values().map(|host| host.used.memory).sum();
    assert_eq!(memory, 3 * (64 << 20), "three pods are accounted for");
    rig.take_over();
    assert_eq!(used(&rig), 3, "the next leader orders the same");
    let memory: u64 = rig.core.state.hosts.values().map(|host| host.used.memory).sum();
    assert_eq!(memory, 3 * (64 << 20));
    assert_eq!(rig.group("web").expect("a group").pods.len(), 2, "users see as many as they asked for");
    rig.agents.values_mut().for_each(|agent| agent.states.clear());
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!((used(&rig), rig.versions("web")), (2, vec![1, 1]));
}

#[test]
fn a_beta_goes_two_four_four_and_waits_to_be_confirmed_in_between() {
    let mut rig = zoned();
    rig.command("c2", patch("web", image("web", "v1")));
    let updated = |rig: &Rig| rig.versions("web").iter().filter(|version| **version == 1).count();
    rig.pass(5);
    assert_eq!((updated(&rig), rig.release("web").phase), (2, RolloutPhase::WaitingForConfirm));
    let early = rig.refusal("c3", say("web", confirm(2)));
    assert_eq!(early, Refusal::OtherGroup { release: 1, asked: 2, current: 1 });
    let other = Verb::Rollout { name: group("web"), release: Some(7), action: confirm(1) };
    assert_eq!(rig.refusal("c4", other), Refusal::ReleaseUnknown { release: Some(7), current: Some(1) });
    assert_eq!(rig.command("c5", say("web", confirm(1))), "Accepted");
    assert_eq!(rig.command("c6", say("web", confirm(1))), "Accepted", "saying it twice is saying it once");
    rig.pass(5);
    assert_eq!((updated(&rig), rig.release("web").phase), (6, RolloutPhase::WaitingForConfirm));
    rig.command("c7", say("web", confirm(2)));
    assert!(rig.completes("web", 10), "{:?}", rig.release("web"));
    assert_eq!(updated(&rig), 10, "and the last group needs no word");
    assert_eq!(rig.refusal("c8", say("web", confirm(3))), Refusal::NotWaiting { release: 1, group: 3 });
    assert_eq!(rig.refusal("c9", say("web", RolloutAction::Abort)), Refusal::ReleaseOver { release: 1 });
    let steps = ["opened", "started", "is done", "waits", "completed"].map(|word| rig.milestones(word).len());
    assert_eq!(steps, [1, 3, 3, 2, 1], "{:?}", rig.milestones(""));
}

#[test]
fn every_next_leader_brings_a_beta_to_the_same_end() {
    let mut rig = zoned();
    rig.command("c2", patch("web", image("web", "v1")));
    let mut confirmed = 0;
    for round in 0..60 {
        rig.take_over();
        rig.pass(2);
        let release = rig.release("web");
        if release.phase == RolloutPhase::WaitingForConfirm && release.batch > confirmed {
            confirmed = release.batch;
            assert_eq!(rig.command(&format!("ok-{round}"), say("web", confirm(confirmed))), "Accepted");
        }
        assert!(rig.copies("web").values().all(|copies| *copies <= 1), "a batch has no second pods");
    }
    assert_eq!((rig.versions("web"), confirmed), (vec![1; 10], 2));
    assert_eq!((rig.release("web").phase, rig.record("web").proven), (RolloutPhase::Completed, Some(1)));
    let units: Vec<String> = rig.slots("web").iter().map(|slot| slot.unit.clone()).collect();
    assert_eq!([units.iter().filter(|unit| *unit == "x").count(), units.len()], [5, 10]);
    assert_eq!(rig.milestones("opened").len(), 1, "nothing is told twice: {:?}", rig.milestones(""));
    assert_eq!(rig.core.disagreements(), 0);
}

#[test]
fn recreate_takes_everything_down_before_anything_new_comes() {
    let mut rig = web(3, Strategy { kind: StrategyType::Recreate, ..Strategy::default() });
    rig.cling("a");
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(5);
    let slots = rig.slots("web");
    assert!(slots.iter().all(|slot| slot.filling == Filling::Retired), "{slots:?}");
    assert!(rig.agents.values().all(|agent| agent.order.pods.is_empty()));
    let view = rig.group("web").expect("a group");
    assert_eq!(view.pods.len(), 3, "an instance without a pod is one that is pending");
    assert!(view.pods.iter().all(|pod| pod.node.is_none() && pod.facts.state == RunState::Pending), "{view:?}");
    rig.take_over();
    rig.pass(2);
    assert!(rig.slots("web").iter().all(|slot| slot.filling == Filling::Retired), "the next leader waits as well");
    rig.agents.get_mut(&node("a")).expect("an agent").clinging.clear();
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    assert_eq!(rig.versions("web"), [1; 3]);
}

#[test]
fn a_pause_is_the_groups_and_outlives_leaders_and_releases() {
    let mut rig = web(2, rolling(0, 1));
    assert_eq!(rig.command("c2", say("web", RolloutAction::Pause)), "Accepted");
    assert!(rig.record("web").spec.paused);
    let before = rig.commits.len();
    assert_eq!(rig.command("c3", say("web", RolloutAction::Pause)), "Accepted");
    let writes: Vec<&Write> = rig.commits[before..].iter().flat_map(|commit| &commit.writes).collect();
    assert_eq!(writes.len(), 3, "nothing but the outcome, the cursor and the progress: {writes:?}");
    rig.command("c4", patch("web", image("web", "v1")));
    rig.take_over();
    rig.pass(10);
    assert_eq!(rig.versions("web"), [0, 0]);
    assert_eq!(rig.command("c5", replica("web", 3)), "Accepted");
    rig.pass(5);
    assert_eq!(rig.slots("web").len(), 3, "scaling works while it is paused");
    assert_eq!(rig.command("c6", say("web", RolloutAction::Resume)), "Accepted");
    assert!(!rig.record("web").spec.paused);
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!(rig.versions("web"), [1; 3]);
}

#[test]
fn a_frozen_group_does_not_move_and_an_aborted_release_leaves_its_mix() {
    let mut rig = zoned();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(5);
    assert_eq!(rig.command("c3", say("web", RolloutAction::Freeze)), "Accepted");
    rig.command("c4", say("web", confirm(1)));
    rig.command("c5", replica("web", 12));
    rig.pass(10);
    let mixed = |rig: &Rig| rig.versions("web").iter().filter(|version| **version == 1).count();
    assert_eq!((mixed(&rig), rig.slots("web").len()), (2, 10));
    assert_eq!(rig.command("c6", replica("web", 10)), "Accepted");
    assert_eq!(rig.command("c7", say("web", RolloutAction::Abort)), "Accepted");
    assert_eq!(rig.command("c8", say("web", RolloutAction::Unfreeze)), "Accepted");
    rig.pass(10);
    assert_eq!((mixed(&rig), rig.release("web").phase), (2, RolloutPhase::Aborted));
    assert_eq!(rig.command("c9", say("web", RolloutAction::Abort)), "Accepted", "twice is once");
    assert_eq!(rig.milestones("aborted").len(), 1);
}

#[test]
fn what_is_said_before_the_first_plan_counts() {
    let mut rig = web(2, rolling(0, 1));
    rig.command("c2", Verb::RunEngine { running: false });
    rig.command("c3", patch("web", image("web", "v1")));
    assert_eq!(rig.command("c4", say("web", RolloutAction::Abort)), "Accepted");
    rig.command("c5", Verb::RunEngine { running: true });
    rig.pass(10);
    assert_eq!((rig.versions("web"), rig.release("web").phase), (vec![0, 0], RolloutPhase::Aborted));
}

#[test]
fn a_release_that_crashes_is_held_says_so_and_can_be_undone() {
    let mut rig = web(3, rolling(1, 0));
    let crash = PodFacts { state: RunState::Exit, restarts: 5, ..PodFacts::default() };
    for number in 1..=3 {
        for agent in rig.agents.values_mut() {
            agent.facts.insert(format!("web.v1-i{number}-d0"), crash.clone());
        }
    }
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(10);
    assert!(rig.release("web").failure.is_some(), "{:?}", rig.release("web"));
    assert_eq!(rig.milestones("is held").len(), 1, "{:?}", rig.milestones(""));
    assert!(rig.record("web").last_error.contains("held"), "{}", rig.record("web").last_error);
    assert_eq!(rig.command("c3", say("web", undo(None))), "Accepted");
    assert!(rig.completes("web", 60), "{:?} {:?}", rig.release("web"), rig.slots("web"));
    assert_eq!(rig.versions("web"), [0; 3], "those that still run the content of the revision are left alone");
    assert_eq!((rig.record("web").spec.version, rig.record("web").last_error.as_str()), (2, ""));
}

#[test]
fn a_group_without_a_strategy_has_no_release_to_talk_to() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(2);
    let told = rig.refusal("c2", say("web", RolloutAction::Pause));
    assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains("names no Strategy")), "{told:?}");
    assert_eq!(rig.refusal("c3", say("api", RolloutAction::Pause)), Refusal::GroupUnknown);
}

#[test]
fn what_cannot_be_done_in_place_is_refused_where_only_that_is_allowed() {
    let mut rig = rig(&["a", "b"]);
    let only = PodGroupSpec { update_policy: UpdatePolicy::InPlaceOnly, ..conducted("web", 2, rolling(0, 1)) };
    rig.command("c1", create_spec(only));
    assert!(rig.completes("web", 30));
    let mut other = image("web", "v1");
    other.containers[0].env = vec!["A=1".to_owned()];
    let told = rig.refusal("c2", patch("web", other));
    assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains("Env")), "{told:?}");
    assert_eq!(rig.record("web").spec.version, 0);
    assert_eq!(rig.command("c3", patch("web", image("web", "v1"))), "Accepted");
    let places = rig.places("web");
    assert!(rig.completes("web", 60), "{:?}", rig.slots("web"));
    assert_eq!((rig.versions("web"), rig.places("web")), (vec![1, 1], places), "on the nodes they were on");
}

#[test]
fn a_live_update_keeps_the_pods_name_and_the_accounts_follow_its_version() {
    let mut rig = rig(&["a", "b"]);
    let spec = PodGroupSpec { update_policy: UpdatePolicy::InPlaceIfPossible, ..conducted("web", 2, rolling(0, 1)) };
    rig.command("c1", create_spec(spec));
    assert!(rig.completes("web", 30));
    let mut larger = image("web", "demo");
    larger.containers[0].memory_limit = 128 << 20;
    let before: Vec<Vec<String>> = [rig.pods("a"), rig.pods("b")].to_vec();
    assert_eq!(rig.command("c2", patch("web", larger)), "Accepted");
    assert!(rig.completes("web", 60), "{:?} {:?}", rig.slots("web"), rig.release("web"));
    assert_eq!([rig.pods("a"), rig.pods("b")].to_vec(), before, "the same pods");
    let slots = rig.slots("web");
    assert!(slots.iter().all(|slot| (slot.version, slot.created_from) == (1, Some(0))), "{slots:?}");
    let assignments = rig.agents.values().flat_map(|agent| agent.order.pods.values());
    assert!(assignments.clone().all(|assignment| assignment.updated_to == Some(1)));
    rig.take_over();
    let memory: u64 = rig.core.state.hosts.values().map(|host| host.used.memory).sum();
    assert_eq!(memory, 2 * (128 << 20));
    assert_eq!(rig.core.disagreements(), 0);
}

#[test]
fn a_release_that_fails_is_taken_back_where_that_is_wanted() {
    let mut rig = rig(&["a", "b"]);
    let spec = PodGroupSpec { failure_action: Some(FailureAction::Rollback), ..conducted("web", 3, rolling(1, 0)) };
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
    let taken_back = rig.events.iter().filter(|event| event.kind == contract::event::Kind::RolledBack).count();
    assert_eq!(taken_back, 1);
}

#[test]
fn a_skipped_group_is_left_as_it_is_and_the_next_one_follows() {
    let mut rig = web(4, Strategy { batch_size: Some(Amount::Count(2)), ..batch() });
    let crash = PodFacts { state: RunState::Exit, restarts: 5, ..PodFacts::default() };
    for agent in rig.agents.values_mut() {
        (1..=4).for_each(|number| drop(agent.facts.insert(format!("web.v1-i{number}-d0"), crash.clone())));
    }
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(10);
    assert_eq!((rig.release("web").batch, rig.release("web").failure.is_some()), (1, true));
    let told = rig.refusal("c3", say("web", RolloutAction::Skip { group: 2 }));
    assert_eq!(told, Refusal::OtherGroup { release: 1, asked: 2, current: 1 });
    assert_eq!(rig.command("c4", say("web", RolloutAction::Skip { group: 1 })), "Accepted");
    rig.pass(10);
    let release = rig.release("web");
    assert_eq!((release.batch, rig.versions("web").iter().sum::<u32>()), (2, 4), "{release:?}");
    assert_eq!(rig.command("c5", say("web", RolloutAction::Skip { group: 1 })), "Accepted", "twice is once");
    assert_eq!(rig.milestones("is skipped").len(), 1, "{:?}", rig.milestones(""));
}

#[test]
fn an_aborted_revision_is_one_and_another_spec_ends_the_mix() {
    let mut rig = zoned();
    rig.command("c2", patch("web", image("web", "v1")));
    rig.pass(5);
    rig.command("c3", say("web", RolloutAction::Abort));
    rig.pass(2);
    let outcome = |rig: &Rig, at: usize| rig.revisions("web")[at].outcome;
    assert_eq!(outcome(&rig, 1), RevisionOutcome::Aborted);
    assert_eq!(rig.command("c4", say("web", undo(None))), "Accepted");
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    assert_eq!(outcome(&rig, 1), RevisionOutcome::Aborted, "what it became it stays");
    let images: BTreeSet<String> = rig
        .agents
        .values()
        .flat_map(|agent| agent.order.pods.keys().filter_map(|pod| agent.order.spec_of(pod)))
        .map(|spec| spec.containers[0].image.clone())
        .collect();
    assert_eq!(images, BTreeSet::from(["demo".to_owned()]));
}

#[test]
fn a_version_that_fits_nowhere_is_held_with_every_nodes_reason_and_undone_without_a_trace() {
    let mut rig = web(3, rolling(1, 0));
    let (places, pods) = (rig.places("web"), [rig.pods("a"), rig.pods("b")]);
    let mut huge = image("web", "v1");
    huge.containers[0].memory_limit = 1 << 50;
    assert_eq!(rig.command("c2", patch("web", huge)), "Accepted");
    rig.pass(90);
    let failure = rig.release("web").failure;
    let failure = failure.unwrap_or_else(|| panic!("{:?} {:?}", rig.release("web"), rig.slots("web")));
    assert_eq!((failure.cause, failure.slots.len()), (planner::rollout::controller::Cause::Unschedulable, 1));
    let view = rig.rollout_view("web").expect("a release");
    for told in ["held: instance 1 finds no place (no node fits: a: memory", "b: memory", "undo goes back"] {
        assert!(view.message.contains(told), "{}", view.message);
        assert!(rig.record("web").last_error.contains(told.trim_start_matches("held: ")), "{:?}", rig.record("web"));
    }
    assert_eq!(rig.milestones("is held: instance 1 finds no place (no node fits: a: memory").len(), 1);
    rig.take_over();
    rig.pass(5);
    assert!(rig.rollout_view("web").expect("a release").message.contains("b: memory"), "whoever leads");
    assert_eq!(rig.command("c3", say("web", undo(None))), "Accepted");
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    assert_eq!((rig.places("web"), [rig.pods("a"), rig.pods("b")]), (places, pods), "nobody was touched");
}

#[test]
fn undo_is_no_remedy_where_there_is_nothing_to_go_back_to() {
    let mut rig = rig(&["a"]);
    let mut huge = conducted("web", 2, rolling(1, 0));
    huge.pod.containers[0].memory_limit = 1 << 50;
    assert_eq!(rig.command("c1", create_spec(huge)), "Accepted");
    rig.pass(90);
    let view = rig.rollout_view("web").expect("a release");
    assert!(view.message.starts_with("held: instances 1, 2 find no place (instance 1: no node fits: a:"), "{view:?}");
    assert!(view.message.ends_with("resume waits for them again"), "{}", view.message);
}
