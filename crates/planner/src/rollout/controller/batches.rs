//! Decides which group of a release is under way and which instances it takes (sections 4.3, 4.4, 4.8).
//!
//! A group is committed for all units at once, then its instances are renewed. What is committed never shrinks by itself, so
//! a new leader finds the same group; which instances it takes follows from the slots. A rollback goes through the units in
//! reverse, without beta and without confirmation. Slots the group has not got yet are created at the target.

use std::collections::BTreeSet;

use super::decision::Action;
use super::draft::Draft;
use super::facts::{BatchStrategy, RolloutPod, Slot};
use super::failure;
use super::scaling;
use crate::rollout::batches::{BatchKind, BatchSettings, UnitProgress, batch_size, next_batch};
use crate::rollout::ranking;
use crate::rollout::transition::{self, Confirmation, RolloutPhase};

/// Goes as far as it can: a group that needs nothing is done at once, and the next one follows.
pub(super) fn advance(draft: &mut Draft<'_>, batched: BatchStrategy) {
    let batched =
        if draft.facts.is_rollback { BatchStrategy { beta: false, needs_confirm: false, ..batched } } else { batched };
    reconcile(draft);
    // Every group commits a pod at least, and between two there is one wait.
    let most = usize::try_from(draft.facts.replicas).unwrap_or(0).saturating_mul(2).saturating_add(4);
    for _ in 0..most {
        if draft.state.phase == RolloutPhase::Running && !draft.state.is_held() {
            take(draft, batched);
        }
        let before = (draft.state.phase, draft.state.batch);
        transit(draft, batched);
        if before == (draft.state.phase, draft.state.batch) {
            break;
        }
    }
}

/// Instances that run or are to be created, by unit: what groups are made of. Where they are now, not where the division
/// wants them: they move when no group is under way.
fn workable(draft: &Draft<'_>) -> Vec<i64> {
    let running = draft.by_unit(|slot| !slot.is_stopped).into_iter().chain(std::iter::repeat(0));
    scaling::missing(draft).into_iter().zip(running).map(|(missing, running)| running + missing).collect()
}

/// What is at the target revision is committed, whoever did it; nothing is committed beyond what a unit is to have.
pub(super) fn reconcile(draft: &mut Draft<'_>) {
    let updated = draft.updated_by_unit();
    let committed = |(unit, target): (usize, i64)| {
        let before = draft.state.committed.get(unit).copied().unwrap_or(0);
        let now = updated.get(unit).copied().unwrap_or(0);
        match draft.state.phase {
            RolloutPhase::Running if !is_skipped(draft) => before.max(now).min(target.max(now)),
            // Nothing is being taken: what a skipped group left undone is work of the next.
            RolloutPhase::Running
            | RolloutPhase::Idle
            | RolloutPhase::WaitingForConfirm
            | RolloutPhase::Completed
            | RolloutPhase::Aborted => now,
        }
    };
    draft.state.committed = workable(draft).into_iter().enumerate().map(committed).collect();
}

fn units(draft: &Draft<'_>) -> Vec<UnitProgress> {
    let unit = |(target, committed): (i64, &i64)| UnitProgress { target, committed: *committed };
    workable(draft).into_iter().zip(&draft.state.committed).map(unit).collect()
}

fn transit(draft: &mut Draft<'_>, batched: BatchStrategy) {
    let group = next(draft, batched);
    let state = &draft.state;
    let mark = match state.phase {
        RolloutPhase::WaitingForConfirm if state.confirmed == state.batch => Confirmation::Given,
        RolloutPhase::WaitingForConfirm => Confirmation::Asked,
        RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::Completed | RolloutPhase::Aborted => {
            Confirmation::Absent
        }
    };
    let transition = transition::step(&transition::TransitionInput {
        phase: state.phase,
        mark,
        is_paused: state.is_held(),
        is_aborted: state.is_aborted,
        needs_confirm: batched.needs_confirm,
        batch_done: is_done(draft),
        work_left: group.is_some(),
    });
    draft.state.phase = transition.phase;
    match (transition.action, group) {
        (transition::TransitionAction::StartBatch, Some((kind, add))) => start(draft, kind, &add),
        (transition::TransitionAction::StartBatch, None)
        | (
            transition::TransitionAction::Nothing
            | transition::TransitionAction::Finish
            | transition::TransitionAction::ResetConfirm,
            _,
        ) => {}
    }
}

fn next(draft: &Draft<'_>, batched: BatchStrategy) -> Option<(BatchKind, Vec<i64>)> {
    let mut units = units(draft);
    if draft.facts.is_rollback {
        units.reverse();
    }
    let size = batch_size(batched.batch_size, draft.facts.replicas);
    let grouping = BatchSettings { batch_size: size, beta: batched.beta, spread: batched.spread };
    let mut group = next_batch(&grouping, &units)?;
    if draft.facts.is_rollback {
        group.add.reverse();
    }
    Some((group.kind, group.add))
}

fn start(draft: &mut Draft<'_>, kind: BatchKind, add: &[i64]) {
    draft.state.batch += 1;
    draft.state.kind = Some(kind);
    for (committed, add) in draft.state.committed.iter_mut().zip(add) {
        *committed += add;
    }
    // The deadline is that of the group: the time the one before waited to be confirmed is nobody's fault.
    failure::refresh(draft);
}

fn is_skipped(draft: &Draft<'_>) -> bool {
    draft.state.skipped > 0 && draft.state.skipped == draft.state.batch
}

/// Every unit has as many available pods at the target revision as are committed, but for those left behind.
fn is_done(draft: &Draft<'_>) -> bool {
    let counts = |slot: &Slot| {
        !slot.is_stopped && draft.is_updated(slot) && (draft.is_skipped(slot) || draft.is_updated_available(slot))
    };
    let done = || draft.by_unit(counts).into_iter().chain(std::iter::repeat(0));
    is_skipped(draft) || draft.state.committed.iter().zip(done()).all(|(committed, done)| done >= *committed)
}

/// Renews what is committed and not at the target revision yet.
fn take(draft: &mut Draft<'_>, batched: BatchStrategy) {
    // Instances of one unit are renewed and created without a change to another unit's numbers.
    let updated = draft.updated_by_unit();
    let available = draft.by_unit(|slot| !slot.is_stopped && draft.is_updated_available(slot));
    let of = |counts: &[i64], unit: usize| counts.get(unit).copied().unwrap_or(0);
    for unit in 0..draft.state.committed.len() {
        let committed = draft.state.committed[unit];
        let windowed = |window: i64| transition::windowed(committed, of(&available, unit), window.max(1));
        let now = batched.window.map_or(committed, windowed);
        let missing = usize::try_from(now.saturating_sub(of(&updated, unit))).unwrap_or(0);
        if missing == 0 {
            continue;
        }
        let chosen = order(draft, unit);
        chosen.iter().take(missing).for_each(|number| renew(draft, *number));
        (chosen.len()..missing).for_each(|_| create(draft, unit));
    }
}

/// The slots of a unit that are not at the target revision, in the order a group takes them; those without a pod first.
fn order(draft: &Draft<'_>, unit: usize) -> Vec<u32> {
    let old = || draft.running().filter(|slot| slot.unit == unit && !draft.is_updated(slot));
    let mut order: Vec<u32> = old().filter(|slot| slot.main.is_none()).map(|slot| slot.number).collect();
    let with_pod: Vec<(&Slot, &RolloutPod)> = old().filter_map(|slot| Some((slot, slot.main.as_ref()?))).collect();
    let pods: Vec<ranking::RankedPod> =
        with_pod.iter().map(|(slot, pod)| draft.facts.ranked(slot.number, pod)).collect();
    let preparing: BTreeSet<&str> =
        with_pod.iter().zip(&pods).filter(|((_, pod), _)| pod.is_preparing).map(|(_, pod)| pod.uid.as_str()).collect();
    let is_preparing = |pod: &ranking::RankedPod| preparing.contains(pod.uid.as_str());
    let mut ranks = ranking::update_order(&pods, is_preparing, draft.facts.now);
    if draft.state.kind == Some(BatchKind::Beta) {
        let canary = ranking::beta_pod(&pods);
        // Who already prepares is not available any more and was the canary before.
        ranks.sort_by_key(|at| (!is_preparing(&pods[*at]), Some(*at) != canary));
    }
    // Who is left behind comes after all the others.
    ranks.sort_by_key(|at| draft.is_skipped(with_pod[*at].0));
    order.extend(ranks.into_iter().map(|at| with_pod[at].0.number));
    order
}

fn renew(draft: &mut Draft<'_>, number: u32) {
    let Some(slot) = draft.slot(number) else { return };
    let (has_main, has_next) = (slot.main.is_some(), slot.next.is_some());
    if has_next {
        // It was about to move; where it belongs is asked again when the group is done.
        draft.perform(Action::Drop(number));
    }
    if has_main { draft.perform(Action::Renew(number)) } else { draft.fill(number) }
}

fn create(draft: &mut Draft<'_>, unit: usize) {
    let most = usize::try_from(draft.facts.replicas).unwrap_or(0);
    if draft.slots.len() < most {
        let slot = draft.free_number();
        draft.perform(Action::Create { slot, unit, revision: draft.facts.target });
    }
}
