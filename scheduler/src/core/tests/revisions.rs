//! Each spec of a group is a revision with its sender, cause and outcome, and can be restored by an undo.

use contract::command::{Refusal, RolloutAction};
use contract::record::{RevisionOutcome, RevisionRecord};
use contract::rollout_view::RevisionsView;

use super::rollouts::{create_spec, rolling, rollout, undo, with_strategy};
use super::upgrades::{image, patch};
use super::*;

impl Rig {
    pub(super) fn revisions(&self, name: &str) -> Vec<RevisionRecord> {
        contract::layout::read_revisions(&group(name), &self.store).expect("revisions").revisions
    }
    fn outcomes_of(&self, name: &str) -> Vec<(u32, RevisionOutcome)> {
        self.revisions(name).iter().map(|revision| (revision.number, revision.outcome)).collect()
    }
    pub(super) fn revisions_view(&mut self, name: &str) -> Option<RevisionsView> {
        match self.query(Query::Revisions { name: group(name) }) {
            Answer::Revisions(view) => view.map(|view| *view),
            other => panic!("not revisions: {other:?}"),
        }
    }
}

pub(super) fn web() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_spec(with_strategy("web", 2, rolling(1, 0))));
    assert!(rig.completes("web", 30));
    rig
}
fn release(rig: &mut Rig, id: &str, version: &str) {
    assert_eq!(rig.command(id, patch("web", image("web", version))), "Accepted");
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
}

#[test]
fn a_revision_records_its_sender_its_cause_and_its_outcome() {
    use RevisionOutcome::{Completed, Open, Superseded};
    let mut rig = web();
    let verb = Verb::PatchSpec { name: group("web"), pod: Box::new(image("web", "v1")), cause: "faster".to_owned() };
    rig.command("c2", verb);
    let open = rig.revisions("web").pop().expect("a revision");
    assert_eq!((open.number, open.by.as_str(), open.cause.as_str(), open.outcome), (1, "tests", "faster", Open));
    rig.command("c3", patch("web", image("web", "v2")));
    assert!(rig.completes("web", 60));
    assert_eq!(rig.outcomes_of("web"), [(0, Completed), (1, Superseded), (2, Completed)]);
    assert!(rig.revisions("web").iter().all(|revision| revision.ended_at.happened()));
    let view = rig.revisions_view("web").expect("revisions");
    let shown: Vec<(u32, u32)> = view.revisions.iter().map(|it| (it.revision, it.instances)).collect();
    assert_eq!((view.current, shown), (2, vec![(0, 0), (1, 0), (2, 2)]));
    assert_eq!(rig.revisions_view("api"), None);
}

#[test]
fn an_undo_is_a_new_revision_with_the_spec_of_an_earlier_one() {
    let mut rig = web();
    release(&mut rig, "c2", "v1");
    release(&mut rig, "c3", "v2");
    assert_eq!(rig.command("c4", rollout("web", undo(None))), "Accepted");
    assert!(rig.completes("web", 60));
    let last = rig.revisions("web").pop().expect("a revision");
    assert_eq!((last.number, last.copies, last.cause.as_str()), (3, Some(1), "it was better"));
    assert_eq!(last.pod.containers[0].image, "v1");
    assert_eq!(rig.command("c5", rollout("web", undo(Some(1)))), "Accepted", "the group has that spec already");
    assert_eq!(rig.record("web").spec.version, 3);
    assert_eq!(rig.command("c6", rollout("web", undo(Some(0)))), "Accepted");
    assert!(rig.completes("web", 60));
    assert_eq!(rig.record("web").spec.pod.containers[0].image, "demo");
    let refusal = rig.refusal("c7", rollout("web", undo(Some(99))));
    assert_eq!(refusal, Refusal::RevisionUnknown { revision: Some(99), kept: vec![0, 1, 2, 3, 4] });
}

#[test]
fn an_undo_during_a_rollout_keeps_the_instances_that_still_run_that_spec() {
    let mut rig = web();
    rig.command("c2", rollout("web", RolloutAction::Pause));
    rig.command("c3", patch("web", image("web", "v1")));
    rig.advance(3);
    let before = rig.instances("web");
    assert_eq!(rig.command("c4", rollout("web", undo(None))), "Accepted");
    rig.command("c5", rollout("web", RolloutAction::Resume));
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    assert_eq!(rig.instances("web"), before, "no instance was replaced");
    let (spec, equals) = (rig.record("web").spec.version, rig.record("web").equals);
    assert_eq!((spec, equals), (2, BTreeSet::from([0])));
}

#[test]
fn a_group_without_a_strategy_can_be_undone_as_well() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(30);
    let refusal = rig.refusal("c2", rollout("web", undo(None)));
    assert_eq!(refusal, Refusal::RevisionUnknown { revision: None, kept: vec![0] });
    rig.command("c3", patch("web", image("web", "v1")));
    rig.advance(200);
    assert_eq!(rig.record("web").proven, Some(1));
    assert_eq!(rig.command("c4", rollout("web", undo(None))), "Accepted");
    rig.advance(200);
    let record = rig.record("web");
    assert_eq!((record.proven, record.spec.pod.containers[0].image.as_str()), (Some(2), "demo"));
    assert!(rig.outcomes_of("web").iter().all(|(_, outcome)| *outcome == RevisionOutcome::Completed));
}

#[test]
fn revisions_beyond_the_limit_are_deleted_except_the_last_completed_one() {
    let mut rig = rig(&["a", "b"]);
    let spec = PodGroupSpec { revision_history_limit: Some(2), ..with_strategy("web", 1, rolling(1, 0)) };
    rig.command("c1", create_spec(spec));
    assert!(rig.completes("web", 30));
    for number in 1..=4 {
        release(&mut rig, &format!("p{number}"), &format!("v{number}"));
    }
    let kept: Vec<u32> = rig.revisions("web").iter().map(|revision| revision.number).collect();
    assert_eq!(kept, [2, 3, 4]);
    rig.command("c2", rollout("web", RolloutAction::Pause));
    for number in 5..=8 {
        rig.command(&format!("p{number}"), patch("web", image("web", &format!("v{number}"))));
    }
    let kept: Vec<u32> = rig.revisions("web").iter().map(|revision| revision.number).collect();
    assert!(kept.contains(&4) && kept.contains(&8), "{kept:?}");
    rig.take_over();
    assert_eq!(rig.command("c3", rollout("web", undo(None))), "Accepted");
    assert_eq!(rig.revisions("web").last().and_then(|revision| revision.copies), Some(4));
}

#[test]
fn the_bytes_of_revisions_are_bounded_and_an_undo_stays_possible() {
    let mut rig = web();
    for number in 1..=13 {
        let mut pod = image("web", &format!("v{number}"));
        pod.containers[0].env = (0..230).map(|entry| format!("K{entry}={}", "x".repeat(1_000))).collect();
        assert_eq!(rig.command(&format!("p{number}"), patch("web", pod)), "Accepted");
        assert!(rig.completes("web", 60));
    }
    assert!(rig.bytes_under(&keys::group_spec(&group("web"), "")) < 3 << 20);
    assert_eq!(rig.revisions("web").last().map(|revision| revision.number), Some(13));
    assert_eq!(rig.command("c9", rollout("web", undo(None))), "Accepted");
}

#[test]
fn a_group_stored_before_there_were_revisions_can_be_undone_after_its_next_spec() {
    let mut rig = web();
    rig.store.retain(|key, _| !key.starts_with(&keys::revisions(&group("web"))));
    rig.store.remove(&keys::release(&group("web")));
    rig.take_over();
    assert_eq!(rig.revisions_view("web").expect("revisions").revisions.len(), 1);
    release(&mut rig, "c2", "v1");
    assert_eq!(rig.command("c3", rollout("web", undo(None))), "Accepted");
    assert!(rig.completes("web", 60));
    assert_eq!(rig.record("web").spec.pod.containers[0].image, "demo");
}

#[test]
fn a_group_with_unreadable_revisions_or_rollout_is_spared() {
    for key in [keys::revisions(&group("web")), keys::release(&group("web"))] {
        let mut rig = web();
        rig.store.insert(key, b"{ not a record".to_vec());
        rig.take_over();
        rig.advance(5);
        assert_eq!(rig.dead_letters.len(), 1);
        assert!(rig.agents.values().all(|agent| agent.order.spared.contains(&group("web"))));
        assert_eq!(rig.refusal("c2", create("web", 1)), Refusal::GroupExists);
    }
}
