//! Rollouts by batches: which batch runs and which instances it updates.
//!
//! A batch is committed for all units in one step, then its instances are updated. Committed numbers never shrink by themselves,
//! so a new leader finds the same batch; its instances follow from the stored instances. A rollback goes through the units in
//! reverse order, without a beta and without confirmation. Instances that do not exist yet are created at the target
//! revision.

use std::collections::BTreeSet;

use super::decision::RolloutAction;
use super::draft::Draft;
use super::facts::{BatchStrategy, Instance, RolloutPod};
use super::progress;
use super::scaling;
use crate::rollout::batches::{BatchKind, BatchSettings, UnitProgress, batch_size, next_batch};
use crate::rollout::ranking;
use crate::rollout::transition::{self, Confirmation, RolloutPhase};

/// Advances as far as possible: a batch without work is done immediately, and the next one starts.
pub(super) fn advance(draft: &mut Draft<'_>, batched: BatchStrategy) {
    let batched =
        if draft.facts.is_rollback { BatchStrategy { beta: false, needs_confirm: false, ..batched } } else { batched };
    reconcile(draft);
    // Each batch commits at least one pod, and there is one wait between two batches.
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

/// Instances by unit that run or will be created. They count in their present unit: they move to their target unit when no
/// batch runs.
fn workable(draft: &Draft<'_>) -> Vec<i64> {
    let running = draft.by_unit(|instance| !instance.is_stopped).into_iter().chain(std::iter::repeat(0));
    scaling::missing(draft).into_iter().zip(running).map(|(missing, running)| running + missing).collect()
}

/// Instances at the target revision are committed, whatever updated them; a unit never commits more than its target.
pub(super) fn reconcile(draft: &mut Draft<'_>) {
    let updated = draft.updated_by_unit();
    let committed = |(unit, target): (usize, i64)| {
        let before = draft.state.committed.get(unit).copied().unwrap_or(0);
        let now = updated.get(unit).copied().unwrap_or(0);
        match draft.state.phase {
            RolloutPhase::Running if !is_skipped(draft) => before.max(now).min(target.max(now)),
            // No batch runs: instances that a skipped batch left belong to the next one.
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
        | (transition::TransitionAction::Nothing | transition::TransitionAction::Finish, _) => {}
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
    // The deadline is per batch: the wait for the confirmation of the batch before does not count.
    progress::refresh(draft);
}

fn is_skipped(draft: &Draft<'_>) -> bool {
    draft.state.skipped > 0 && draft.state.skipped == draft.state.batch
}

/// Each unit has as many available pods at the target revision as are committed, not counting skipped instances.
fn is_done(draft: &Draft<'_>) -> bool {
    let counts = |instance: &Instance| {
        !instance.is_stopped
            && draft.is_updated(instance)
            && (draft.is_skipped(instance) || draft.is_updated_available(instance))
    };
    let done = || draft.by_unit(counts).into_iter().chain(std::iter::repeat(0));
    is_skipped(draft) || draft.state.committed.iter().zip(done()).all(|(committed, done)| done >= *committed)
}

/// Updates the committed instances that are not at the target revision yet.
fn take(draft: &mut Draft<'_>, batched: BatchStrategy) {
    // An update or creation in one unit does not change the counts of another.
    let updated = draft.updated_by_unit();
    let available = draft.by_unit(|instance| !instance.is_stopped && draft.is_updated_available(instance));
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

/// The instances of a unit that are not at the target revision, in update order; those without a pod first.
fn order(draft: &Draft<'_>, unit: usize) -> Vec<u32> {
    let old = || draft.running().filter(|instance| instance.unit == unit && !draft.is_updated(instance));
    let mut order: Vec<u32> =
        old().filter(|instance| instance.main.is_none()).map(|instance| instance.number).collect();
    let with_pod: Vec<(&Instance, &RolloutPod)> =
        old().filter_map(|instance| Some((instance, instance.main.as_ref()?))).collect();
    let pods: Vec<ranking::RankedPod> =
        with_pod.iter().map(|(instance, pod)| draft.facts.ranked(instance.number, pod)).collect();
    let preparing: BTreeSet<&str> =
        with_pod.iter().zip(&pods).filter(|((_, pod), _)| pod.is_preparing).map(|(_, pod)| pod.uid.as_str()).collect();
    let is_preparing = |pod: &ranking::RankedPod| preparing.contains(pod.uid.as_str());
    let mut ranks = ranking::update_order(&pods, is_preparing, draft.facts.now);
    if draft.state.kind == Some(BatchKind::Beta) {
        let canary = ranking::beta_pod(&pods);
        // A pod that already drains is no longer available; it was chosen as the canary before.
        ranks.sort_by_key(|at| (!is_preparing(&pods[*at]), Some(*at) != canary));
    }
    // Skipped instances come last.
    ranks.sort_by_key(|at| draft.is_skipped(with_pod[*at].0));
    order.extend(ranks.into_iter().map(|at| with_pod[at].0.number));
    order
}

fn renew(draft: &mut Draft<'_>, number: u32) {
    let Some(instance) = draft.instance(number) else { return };
    let (has_main, has_next) = (instance.main.is_some(), instance.next.is_some());
    if has_next {
        // The instance was about to move; the rebalance repeats this after the batch.
        draft.perform(RolloutAction::Drop(number));
    }
    if has_main { draft.perform(RolloutAction::Renew(number)) } else { draft.fill(number) }
}

fn create(draft: &mut Draft<'_>, unit: usize) {
    let most = usize::try_from(draft.facts.replicas).unwrap_or(0);
    if draft.instances.len() < most {
        let instance = draft.free_number();
        draft.perform(RolloutAction::Create { instance, unit, revision: draft.facts.target });
    }
}
