//! The dry run: the conductor in a world where every pod that is ordered becomes available at once (`plan`).
//!
//! It calls the very function that executes, so a plan is what will happen, not what somebody thinks will. Pauses and
//! failures are put aside and every group is confirmed. It must end whatever it is given, hence a bound on its steps.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::control::{Control, apply};
use super::decision::{Action, Decision, RolloutStatus};
use super::draft::{self, Draft, count, pods};
use super::facts::{RolloutFacts, RolloutPod, Slot};
use crate::rollout::batches::BatchKind;
use crate::rollout::numbers::sum;
use crate::rollout::recreate::PodPhase;

/// What becomes of an instance in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceChange {
    /// It is new.
    Created,
    /// A pod of another revision takes its place: in place, where the change allows it.
    Renewed,
    /// A second pod comes beside it.
    Doubled,
    /// The second pod took over.
    Promoted,
    /// The second pod goes again.
    Undoubled,
    /// It is down until everything old is gone.
    Retired,
    /// It goes to another unit.
    Moved,
    /// It goes.
    Removed,
}

/// What one decision does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRunStep {
    /// The group it belongs to; 0 where there are none.
    pub batch: u64,
    /// What that group is.
    pub kind: Option<BatchKind>,
    /// As they are performed.
    pub actions: Vec<Action>,
    /// What becomes of whom; an instance that is not here is untouched.
    pub changes: BTreeMap<u32, InstanceChange>,
    /// Pods ordered beyond one for each instance.
    pub extra: i64,
    /// Instances of each unit that serve before the ordered pods do.
    pub available: Vec<i64>,
}

/// What will happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// Step by step; empty for a group that is as it should be.
    pub steps: Vec<DryRunStep>,
    /// The most pods beyond one for each instance.
    pub peak_extra: i64,
    /// The fewest that serve, by unit.
    pub min_available: Vec<i64>,
    /// It comes to an end, and that is the end of the release.
    pub completes: bool,
}

/// Simulates the rollout from here to its end. `place` receives each step, writes the nodes of the new pods, because the choice
/// of the next instance depends on them, and may end the simulation early.
pub fn dry_run(facts: &RolloutFacts, mut place: impl FnMut(&DryRunStep, &mut [Slot]) -> ControlFlow<()>) -> DryRun {
    let mut facts = facts.clone();
    facts.state.is_paused = false;
    facts.state.is_frozen = false;
    facts.state.failure = None;
    facts.is_blind = false;
    let mut steps = Vec::new();
    // A slot takes a handful of steps: it is doubled, promoted, or renewed; groups and moves double that.
    let most = facts.slots.len().max(usize::try_from(facts.replicas).unwrap_or(0)).saturating_mul(8).saturating_add(16);
    let mut completes = false;
    for _ in 0..most {
        let decision = super::controller(&facts);
        let before = std::mem::replace(&mut facts.state, decision.state.clone());
        facts.strays += perform_all(&mut facts.slots, facts.target, &decision.actions);
        if !decision.actions.is_empty() {
            let step = step(&facts, &decision);
            let placed = place(&step, &mut facts.slots);
            steps.push(step);
            if placed.is_break() {
                break;
            }
        }
        let is_confirmed = confirm(&mut facts, &decision);
        if decision.actions.is_empty() && before == facts.state && !is_confirmed {
            completes = decision.report.status == RolloutStatus::Complete;
            break;
        }
        become_ideal(&mut facts);
    }
    let peak_extra = steps.iter().map(|step| step.extra).max().unwrap_or(0);
    let units = steps.iter().map(|step| step.available.len()).max().unwrap_or(0);
    let least = |unit: usize| steps.iter().filter_map(|step| step.available.get(unit).copied()).min().unwrap_or(0);
    DryRun { peak_extra, min_available: (0..units).map(least).collect(), steps, completes }
}

/// Does to slots what a decision says: orders change, and pods follow as the world pleases. Answers how many pods are on
/// their way out of instances that are no more.
pub fn perform_all(slots: &mut Vec<Slot>, target: u32, actions: &[Action]) -> i64 {
    sum(actions.iter().map(|action| draft::perform(slots, target, *action)))
}

/// What one decision does, seen after its actions and before the world followed.
pub(super) fn step(facts: &RolloutFacts, decision: &Decision) -> DryRunStep {
    let draft = Draft::of(facts);
    let pods_ordered = count(facts.slots.iter().flat_map(pods));
    DryRunStep {
        batch: decision.state.batch,
        kind: decision.state.kind,
        actions: decision.actions.clone(),
        changes: decision.actions.iter().map(instance_change).collect(),
        extra: (pods_ordered - count(facts.slots.iter())).max(0),
        available: draft.by_unit(|slot| draft.is_available(slot)),
    }
}

fn instance_change(action: &Action) -> (u32, InstanceChange) {
    match *action {
        Action::Create { slot, .. } => (slot, InstanceChange::Created),
        Action::Surge(slot) => (slot, InstanceChange::Doubled),
        Action::Promote(slot) => (slot, InstanceChange::Promoted),
        Action::Renew(slot) => (slot, InstanceChange::Renewed),
        Action::Drop(slot) => (slot, InstanceChange::Undoubled),
        Action::Retire(slot) => (slot, InstanceChange::Retired),
        Action::Remove(slot) => (slot, InstanceChange::Removed),
        Action::Move { slot, .. } | Action::Reassign { slot, .. } | Action::Divert { slot, .. } => {
            (slot, InstanceChange::Moved)
        }
    }
}

fn confirm(facts: &mut RolloutFacts, decision: &Decision) -> bool {
    let RolloutStatus::WaitingForConfirm { batch } = decision.report.status else { return false };
    match apply(&facts.state, Control::Confirm(batch), facts.now) {
        Ok(confirmed) => {
            facts.state = confirmed;
            true
        }
        Err(_) => false,
    }
}

/// What was ordered runs, what was to go is gone, and enough time has passed.
fn become_ideal(facts: &mut RolloutFacts) {
    let now = facts.now;
    for slot in &mut facts.slots {
        slot.leaving = 0;
        let running = !slot.is_stopped;
        let next = slot.next.as_mut().map(|next| &mut next.pod);
        slot.main.as_mut().into_iter().chain(next).filter(|_| running).for_each(|pod| become_ready(pod, now));
    }
    facts.strays = 0;
    facts.now = now.after(facts.settings.min_ready).after(std::time::Duration::from_secs(1));
}

fn become_ready(pod: &mut RolloutPod, now: crate::rollout::moment::Moment) {
    if pod.ready.ready {
        return;
    }
    *pod = RolloutPod { node: pod.node.clone(), cost: pod.cost, ..RolloutPod::ordered(pod.revision) };
    pod.phase = PodPhase::Running;
    pod.ready.ready = true;
    pod.ready.since = Some(now);
    pod.created = Some(now);
}
