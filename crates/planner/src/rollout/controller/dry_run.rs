//! The dry run: the controller in a cluster where each new pod becomes available immediately.
//!
//! It calls the function that executes rollouts, so the plan is what will happen. It ignores pauses and failures and confirms
//! each batch. The number of steps is bounded, so it ends for any input.

use std::ops::ControlFlow;

use super::control::{Control, apply};
use super::decision::{Decision, RolloutAction, RolloutStatus};
use super::draft::{self, Draft};
use super::facts::{Instance, RolloutFacts, RolloutPod};
use crate::rollout::batches::BatchKind;
use crate::rollout::numbers::sum;
use crate::rollout::ranking::PodPhase;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedStep {
    /// 0 without batches.
    pub batch: u64,
    pub kind: Option<BatchKind>,
    pub actions: Vec<RolloutAction>,
    /// Available instances of each unit before the new pods become available.
    pub available: Vec<i64>,
}

/// Simulates the rollout from here to its end and returns whether it completes. `place` receives each step, writes the nodes of the
/// new pods, because the choice of the next instance depends on them, and may end the simulation early.
pub fn dry_run(facts: &RolloutFacts, mut place: impl FnMut(SimulatedStep, &mut [Instance]) -> ControlFlow<()>) -> bool {
    let mut facts = facts.clone();
    facts.state.is_paused = false;
    facts.state.is_frozen = false;
    facts.state.failure = None;
    facts.is_blind = false;
    // An instance takes a few steps: surge, promote or renew; batches and moves double that.
    let most =
        facts.instances.len().max(usize::try_from(facts.replicas).unwrap_or(0)).saturating_mul(8).saturating_add(16);
    for _ in 0..most {
        let decision = super::controller(&facts);
        let before = std::mem::replace(&mut facts.state, decision.state.clone());
        facts.terminating_removed += perform_all(&mut facts.instances, facts.target, &decision.actions);
        if !decision.actions.is_empty() {
            let step = step(&facts, &decision);
            if place(step, &mut facts.instances).is_break() {
                return false;
            }
        }
        let is_confirmed = confirm(&mut facts, &decision);
        if decision.actions.is_empty() && before == facts.state && !is_confirmed {
            return decision.report.status == RolloutStatus::Complete;
        }
        become_ideal(&mut facts);
    }
    false
}

/// Applies the actions of a decision to the desired state. Returns the terminating pods of removed instances.
pub fn perform_all(instances: &mut Vec<Instance>, target: u32, actions: &[RolloutAction]) -> i64 {
    sum(actions.iter().map(|action| draft::perform(instances, target, *action)))
}

/// The step after the actions and before the pods follow.
fn step(facts: &RolloutFacts, decision: &Decision) -> SimulatedStep {
    let draft = Draft::of(facts);
    SimulatedStep {
        batch: decision.state.batch,
        kind: decision.state.kind,
        actions: decision.actions.clone(),
        available: draft.by_unit(|instance| draft.is_available(instance)),
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
    for instance in &mut facts.instances {
        instance.leaving = 0;
        let running = !instance.is_stopped;
        let next = instance.next.as_mut().map(|next| &mut next.pod);
        instance.main.as_mut().into_iter().chain(next).filter(|_| running).for_each(|pod| become_ready(pod, now));
    }
    facts.terminating_removed = 0;
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
