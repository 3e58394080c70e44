//! Decides which instances of a group are replaced next: the conductor of a release.
//!
//! RolloutFacts and time in; actions, the release to store and what is said about it out. One call does what several syncs would,
//! each in one direction, until nothing can move before a pod does. All state is the stored release and the slots, so
//! calling it again changes nothing, and whoever leads continues. The surprise: it does not repair. A pod that died is made
//! anew at its slot's revision by whoever keeps instances; here it only counts as not available.

mod batches;
mod control;
mod decision;
mod draft;
mod dry_run;
mod facts;
mod failure;
mod message;
mod rebalance;
mod recreate;
mod report;
mod rolling;
mod scale_down;
mod scaling;
mod state;

pub use self::control::{Control, Refusal, apply};
pub use self::decision::{Action, Decision, FailureResponse, RolloutReport, RolloutStatus, UnitCount};
pub use self::dry_run::{DryRun, DryRunStep, InstanceChange, dry_run, perform_all};
pub use self::facts::{
    AutoReschedule, BatchStrategy, FailBack, FailureAction, Fetch, RolloutFacts, RolloutPod, RolloutSettings,
    RolloutStrategy, Slot, SurgePod, UnitFacts,
};
pub use self::message::instances;
pub use self::rolling::budget_strategy;
pub use self::state::{Allotment, Cause, Excuse, Failure, RolloutState};

use self::draft::{Draft, pods};
use super::limits::PodReplacement;
use super::transition::RolloutPhase;

/// Rounds of a decision: what one orders may end what held another back, as a failure or a slot with two pods does. The last
/// one finds nothing to do; more than a few would be two rules that undo each other.
const ROUNDS: usize = 8;

/// Decides what happens now.
pub fn controller(facts: &RolloutFacts) -> Decision {
    let mut draft = Draft::of(facts);
    open(&mut draft);
    let mut response = failure::judge(&mut draft);
    let watched = (draft.state.seen, draft.state.progress.clone());
    let mut unplaced = Vec::new();
    for _ in 0..ROUNDS {
        if draft.state.is_frozen {
            break;
        }
        let before = (draft.actions.len(), draft.state.clone());
        unplaced = sync(&mut draft);
        response = failure::review(&mut draft, response);
        if before == (draft.actions.len(), draft.state.clone()) {
            break;
        }
    }
    Decision { watched, ..report::decision(draft, response, &unplaced) }
}

/// Everything that may be done, in the order of section 2.2; answers how many pods of each unit find no room.
fn sync(draft: &mut Draft<'_>) -> Vec<i64> {
    undouble(draft);
    scaling::allot(draft);
    rebalance::recover(draft);
    scaling::scale(draft);
    failure::rebase(draft);
    part(draft);
    rebalance::relocate(draft);
    let unplaced = rebalance::reschedule(draft);
    advance(draft);
    turn_stopped(draft);
    rebalance::rebalance(draft);
    conclude(draft);
    scaling::fit(draft);
    if let RolloutStrategy::Batches(_) = draft.facts.settings.strategy {
        // Instances that moved took their place in the group along.
        batches::reconcile(draft);
    }
    unplaced
}

/// A release toward another revision starts from nothing but what the slots say.
fn open(draft: &mut Draft<'_>) {
    if draft.state.target != draft.facts.target {
        draft.state = draft.state.followed_by(draft.facts.target);
        draft.state.seen = draft.counts();
        failure::refresh(draft);
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
        // A recreation that was given up between its halves: what is gone cannot be kept, and nothing else would follow it.
        if strategy == RolloutStrategy::Recreate && draft.running().all(|slot| slot.main.is_none()) {
            recreate::recreate(draft);
            scaling::scale(draft);
        }
        return;
    }
    // Nobody confirms where there are no groups: the strategy was another when it began to wait.
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

/// Without groups, a release is complete when every instance wanted has one pod, at the target revision, and it counts.
fn conclude(draft: &mut Draft<'_>) {
    let is_led = draft.state.phase == RolloutPhase::Running && !draft.state.is_held();
    let is_batched = matches!(draft.facts.settings.strategy, RolloutStrategy::Batches(_));
    if is_led && !is_batched && is_complete(draft) {
        draft.state.phase = RolloutPhase::Completed;
    }
}

fn is_complete(draft: &Draft<'_>) -> bool {
    let is_fine = |slot: &Slot| {
        let main = slot.main.as_ref().is_some_and(|main| !draft.is_old(main) && draft.facts.is_available(main));
        main && slot.next.is_none()
    };
    // Under Recreate nothing new may come before the old pods are gone, also after a scale-in to 0.
    let is_clear =
        draft.facts.settings.strategy != RolloutStrategy::Recreate || draft.terminating(PodReplacement::Complete) == 0;
    is_clear && draft::count(draft.slots.iter()) == draft.facts.replicas && draft.running().all(is_fine)
}

/// Only a rolling update has slots with two pods: a release that was given up or goes by groups leaves one in each, the
/// new one if it serves.
fn part(draft: &mut Draft<'_>) {
    let is_batched = matches!(draft.facts.settings.strategy, RolloutStrategy::Batches(_));
    if draft.state.phase != RolloutPhase::Aborted && (!is_batched || draft.state.is_held()) {
        return;
    }
    let surged: Vec<Slot> = draft.running().filter(|slot| rebalance::is_surge(slot)).cloned().collect();
    for slot in surged {
        let is_back =
            |next: &RolloutPod| draft.is_old(next) && slot.main.as_ref().is_some_and(|main| !draft.is_old(main));
        let serves = slot.next.as_ref().is_some_and(|it| draft.facts.is_available(&it.pod) && !is_back(&it.pod));
        draft.perform(if serves { Action::Promote(slot.number) } else { Action::Drop(slot.number) });
    }
}

/// What does not run needs no second pod, nor does what is at the target revision need another of it in the same unit.
fn undouble(draft: &mut Draft<'_>) {
    let is_same = |slot: &Slot, next: &SurgePod| {
        let are_new = pods(slot).all(|pod| !draft.is_old(pod));
        are_new && slot.main.is_some() && next.unit == slot.unit
    };
    let is_double = |slot: &&Slot| slot.next.as_ref().is_some_and(|next| slot.is_stopped || is_same(slot, next));
    let serves = |pod: Option<&RolloutPod>| pod.is_some_and(|pod| draft.facts.is_available(pod));
    let is_better = |slot: &Slot| {
        serves(slot.next.as_ref().map(|next| &next.pod)) && !serves(slot.main.as_ref()) && !slot.is_stopped
    };
    let doubled: Vec<(u32, bool)> =
        draft.slots.iter().filter(is_double).map(|slot| (slot.number, is_better(slot))).collect();
    for (number, is_better) in doubled {
        draft.perform(if is_better { Action::Promote(number) } else { Action::Drop(number) });
    }
}

/// Stopped instances change their revision last: until then a start brings back what ran before.
fn turn_stopped(draft: &mut Draft<'_>) {
    let is_led = match draft.state.phase {
        RolloutPhase::Running | RolloutPhase::Completed => !draft.state.is_held(),
        RolloutPhase::Idle | RolloutPhase::WaitingForConfirm | RolloutPhase::Aborted => false,
    };
    let is_behind = |slot: &Slot| slot.main.is_none() || pods(slot).any(|pod| draft.is_old(pod));
    if !is_led || draft.running().any(is_behind) {
        return;
    }
    let behind = draft.slots.iter().filter(|slot| slot.is_stopped && is_behind(slot));
    let stopped: Vec<(u32, bool)> = behind.map(|slot| (slot.number, slot.main.is_some())).collect();
    for (number, has_pod) in stopped {
        if has_pod { draft.perform(Action::Renew(number)) } else { draft.fill(number) }
    }
}

#[cfg(test)]
mod tests;
