//! The dry run: the controller in a cluster where each new pod becomes available immediately.
//!
//! It calls the function that executes rollouts, so the plan is what will happen. It ignores pauses and failures and confirms
//! each batch. The number of steps is bounded, so it ends for any input.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::control::{Control, apply};
use super::decision::{Action, Decision, RolloutStatus};
use super::draft::{self, Draft, count, pods};
use super::facts::{RolloutFacts, RolloutPod, Slot};
use crate::rollout::batches::BatchKind;
use crate::rollout::numbers::sum;
use crate::rollout::recreate::PodPhase;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceChange {
    Created,
    /// A pod of another revision replaces its pod, in place where the change allows it.
    Renewed,
    /// It gets a surge pod.
    Doubled,
    /// The surge pod becomes its main pod.
    Promoted,
    /// The surge pod stops.
    Undoubled,
    /// It is down until all old pods are gone.
    Retired,
    Moved,
    Removed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRunStep {
    /// 0 without batches.
    pub batch: u64,
    pub kind: Option<BatchKind>,
    pub actions: Vec<Action>,
    /// By instance; others are unchanged.
    pub changes: BTreeMap<u32, InstanceChange>,
    /// Desired pods above one per instance.
    pub extra: i64,
    /// Available instances of each unit before the new pods become available.
    pub available: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// Empty when nothing will change.
    pub steps: Vec<DryRunStep>,
    /// Most desired pods above one per instance.
    pub peak_extra: i64,
    /// Fewest available instances, by unit.
    pub min_available: Vec<i64>,
    /// The dry run ended with a complete rollout.
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
    // An instance takes a few steps: surge, promote or renew; batches and moves double that.
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

/// Applies the actions of a decision to the desired state. Returns the terminating pods of removed instances.
pub fn perform_all(slots: &mut Vec<Slot>, target: u32, actions: &[Action]) -> i64 {
    sum(actions.iter().map(|action| draft::perform(slots, target, *action)))
}

/// The step after the actions and before the pods follow.
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

/// New pods run, terminating pods are gone, and `min_ready` has passed.
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
