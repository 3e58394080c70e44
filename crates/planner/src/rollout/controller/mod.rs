//! The rollout controller: decides what happens to the instances of a group now.
//!
//! Facts and time in; actions, the state to store and a report out. One call takes several steps, each in one direction, until
//! nothing can change before a pod does. Everything it knows is in the stored state and the instances, so a second call with the
//! same facts does nothing, and a new leader continues where the old one stopped. It does not repair: `group` re-creates a pod
//! that died at its instance's revision; here such a pod only counts as unavailable.

mod batches;
mod control;
mod decision;
mod draft;
mod dry_run;
mod facts;
mod failure;
mod message;
mod progress;
mod rebalance;
mod recreate;
mod report;
mod rolling;
mod scale_down;
mod scaling;
mod state;

pub use self::control::{Control, Refusal, apply};
pub use self::decision::{Decision, FailureResponse, RolloutAction, RolloutReport, RolloutStatus, UnitCount};
pub use self::dry_run::{SimulatedStep, dry_run, perform_all};
pub use self::facts::{
    AutoReschedule, BatchStrategy, FailBack, FailureAction, Fetch, Instance, RolloutFacts, RolloutPod, RolloutSettings,
    RolloutStrategy, SurgePod, UnitFacts,
};
pub use self::message::instances;
pub use self::rolling::budget_strategy;
pub use self::state::{Allotment, Cause, Excuse, Failure, RolloutState};

use self::draft::{Draft, pods};
use super::limits::PodReplacement;
use super::transition::RolloutPhase;

/// Most rounds of one decision. An action of one round may remove the reason that blocked another rule, for example a failure or
/// a second pod. The last round finds nothing to do; more than a few rounds would mean two rules that undo each other.
const ROUNDS: usize = 8;

/// One decision: works on a copy of the instances and repeats the rules until nothing changes.
pub fn controller(facts: &RolloutFacts) -> Decision {
    let mut draft = Draft::of(facts);
    open(&mut draft);
    let mut response = failure::check(&mut draft);
    let watched = (draft.state.seen, draft.state.progress.clone());
    let mut unplaced = Vec::new();
    for _ in 0..ROUNDS {
        if draft.state.is_frozen {
            break;
        }
        let before = (draft.actions.len(), draft.state.clone());
        unplaced = sync(&mut draft);
        response = failure::recheck(&mut draft, response);
        if before == (draft.actions.len(), draft.state.clone()) {
            break;
        }
    }
    Decision { watched, ..report::decision(draft, response, &unplaced) }
}

/// One round, in the order of R-32. Returns the unschedulable pods of each unit.
fn sync(draft: &mut Draft<'_>) -> Vec<i64> {
    undouble(draft);
    scaling::allot(draft);
    rebalance::recover(draft);
    scaling::scale(draft);
    progress::rebase(draft);
    part(draft);
    rebalance::relocate(draft);
    let unplaced = rebalance::reschedule(draft);
    advance(draft);
    turn_stopped(draft);
    rebalance::rebalance(draft);
    conclude(draft);
    scaling::fit(draft);
    if let RolloutStrategy::Batches(_) = draft.facts.settings.strategy {
        // Instances that moved to another unit stay committed there.
        batches::reconcile(draft);
    }
    unplaced
}

/// Starts a new state when the target revision changed.
fn open(draft: &mut Draft<'_>) {
    if draft.state.target != draft.facts.target {
        draft.state = draft.state.followed_by(draft.facts.target);
        draft.state.seen = draft.counts();
        progress::refresh(draft);
    }
    if draft.state.is_aborted && draft.state.is_open() {
        draft.state.phase = RolloutPhase::Aborted;
    }
}

fn advance(draft: &mut Draft<'_>) {
    let strategy = draft.facts.settings.strategy;
    if let RolloutStrategy::Batches(batched) = strategy {
        batches::advance(draft, batched);
        return;
    }
    if draft.state.phase == RolloutPhase::Aborted {
        // Aborted after the old pods stopped: without new pods the group would stay down.
        if strategy == RolloutStrategy::Recreate && draft.running().all(|instance| instance.main.is_none()) {
            recreate::recreate(draft);
            scaling::scale(draft);
        }
        return;
    }
    // Only batches wait for a confirmation: the strategy changed while the rollout waited.
    let is_to_run = matches!(draft.state.phase, RolloutPhase::Idle | RolloutPhase::WaitingForConfirm);
    if is_to_run && !draft.state.is_held() {
        draft.state.phase = RolloutPhase::Running;
    }
    match strategy {
        RolloutStrategy::Rolling { .. } if draft.state.is_held() => {}
        RolloutStrategy::Rolling { .. } => rolling::roll(draft),
        RolloutStrategy::Recreate => {
            recreate::recreate(draft);
            scaling::scale(draft);
        }
        RolloutStrategy::Batches(_) => {}
    }
}

/// Without batches, a rollout is complete when each desired instance has exactly one pod, at the target revision and available.
fn conclude(draft: &mut Draft<'_>) {
    let is_led = draft.state.phase == RolloutPhase::Running && !draft.state.is_held();
    let is_batched = matches!(draft.facts.settings.strategy, RolloutStrategy::Batches(_));
    if is_led && !is_batched && is_complete(draft) {
        draft.state.phase = RolloutPhase::Completed;
    }
}

fn is_complete(draft: &Draft<'_>) -> bool {
    let is_fine = |instance: &Instance| {
        let main = instance.main.as_ref().is_some_and(|main| !draft.is_old(main) && draft.facts.is_available(main));
        main && instance.next.is_none()
    };
    // Under Recreate no new pod may start before the old ones are gone, also after a scale-down to 0.
    let is_clear =
        draft.facts.settings.strategy != RolloutStrategy::Recreate || draft.terminating(PodReplacement::Complete) == 0;
    is_clear && draft::count(draft.instances.iter()) == draft.facts.replicas && draft.running().all(is_fine)
}

/// Only a rolling update has instances with two pods. An aborted rollout and one by batches keep one of them: the new one if it
/// is available.
fn part(draft: &mut Draft<'_>) {
    let is_batched = matches!(draft.facts.settings.strategy, RolloutStrategy::Batches(_));
    if draft.state.phase != RolloutPhase::Aborted && (!is_batched || draft.state.is_held()) {
        return;
    }
    let surged: Vec<Instance> = draft.running().filter(|instance| rebalance::is_surge(instance)).cloned().collect();
    for instance in surged {
        let is_back =
            |next: &RolloutPod| draft.is_old(next) && instance.main.as_ref().is_some_and(|main| !draft.is_old(main));
        let serves = instance.next.as_ref().is_some_and(|it| draft.facts.is_available(&it.pod) && !is_back(&it.pod));
        draft.perform(if serves {
            RolloutAction::Promote(instance.number)
        } else {
            RolloutAction::Drop(instance.number)
        });
    }
}

/// Removes needless second pods: of a stopped instance, and of one with two pods of the target revision in the same unit.
fn undouble(draft: &mut Draft<'_>) {
    let is_same = |instance: &Instance, next: &SurgePod| {
        let are_new = pods(instance).all(|pod| !draft.is_old(pod));
        are_new && instance.main.is_some() && next.unit == instance.unit
    };
    let is_double = |instance: &&Instance| {
        instance.next.as_ref().is_some_and(|next| instance.is_stopped || is_same(instance, next))
    };
    let serves = |pod: Option<&RolloutPod>| pod.is_some_and(|pod| draft.facts.is_available(pod));
    let is_better = |instance: &Instance| {
        serves(instance.next.as_ref().map(|next| &next.pod)) && !serves(instance.main.as_ref()) && !instance.is_stopped
    };
    let doubled: Vec<(u32, bool)> =
        draft.instances.iter().filter(is_double).map(|instance| (instance.number, is_better(instance))).collect();
    for (number, is_better) in doubled {
        draft.perform(if is_better { RolloutAction::Promote(number) } else { RolloutAction::Drop(number) });
    }
}

/// Stopped instances change their revision last: until then, starting one brings back the old revision.
fn turn_stopped(draft: &mut Draft<'_>) {
    let is_led = match draft.state.phase {
        RolloutPhase::Running | RolloutPhase::Completed => !draft.state.is_held(),
        RolloutPhase::Idle | RolloutPhase::WaitingForConfirm | RolloutPhase::Aborted => false,
    };
    let is_behind = |instance: &Instance| instance.main.is_none() || pods(instance).any(|pod| draft.is_old(pod));
    if !is_led || draft.running().any(is_behind) {
        return;
    }
    let behind = draft.instances.iter().filter(|instance| instance.is_stopped && is_behind(instance));
    let stopped: Vec<(u32, bool)> = behind.map(|instance| (instance.number, instance.main.is_some())).collect();
    for (number, has_pod) in stopped {
        if has_pod { draft.perform(RolloutAction::Renew(number)) } else { draft.fill(number) }
    }
}

#[cfg(test)]
mod tests;
