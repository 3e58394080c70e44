//! Decides which group of a release is under way and which instances it takes (sections 4.3, 4.4, 4.8).
//!
//! A group is committed for all units at once, then its instances are renewed. What is committed never shrinks by itself, so
//! a new leader finds the same group; which instances it takes follows from the slots. A rollback goes through the units in
//! reverse, without beta and without confirmation (D-17). Slots the group has not got yet are created at the target.

use std::collections::BTreeSet;

use super::board::Board;
use super::decision::Action;
use super::facts::{Grouped, Pod, Slot};
use super::judging;
use super::scaling;
use crate::rollout::groups::{Grouping, Kind, Unit, batch_size, next_group};
use crate::rollout::ranking;
use crate::rollout::release::{self, Mark, Phase};

/// Goes as far as it can: a group that needs nothing is done at once, and the next one follows.
pub(super) fn advance(board: &mut Board<'_>, grouped: Grouped) {
    let grouped =
        if board.facts.is_rollback { Grouped { beta: false, needs_confirm: false, ..grouped } } else { grouped };
    reconcile(board);
    // Every group commits a pod at least, and between two there is one wait.
    let most = usize::try_from(board.facts.replicas).unwrap_or(0).saturating_mul(2).saturating_add(4);
    for _ in 0..most {
        if board.release.phase == Phase::Running && !board.release.is_held() {
            take(board, grouped);
        }
        let before = (board.release.phase, board.release.group);
        transit(board, grouped);
        if before == (board.release.phase, board.release.group) {
            break;
        }
    }
}

/// Instances that run or are to be created, by unit: what groups are made of. Where they are now, not where the division
/// wants them: they move when no group is under way.
fn workable(board: &Board<'_>) -> Vec<i64> {
    let running = board.by_unit(|slot| !slot.is_stopped).into_iter().chain(std::iter::repeat(0));
    scaling::missing(board).into_iter().zip(running).map(|(missing, running)| running + missing).collect()
}

/// What is at the target revision is committed, whoever did it; nothing is committed beyond what a unit is to have.
pub(super) fn reconcile(board: &mut Board<'_>) {
    let updated = board.updated_by_unit();
    let committed = |(unit, target): (usize, i64)| {
        let before = board.release.committed.get(unit).copied().unwrap_or(0);
        let now = updated.get(unit).copied().unwrap_or(0);
        match board.release.phase {
            Phase::Running if !is_skipped(board) => before.max(now).min(target.max(now)),
            // Nothing is being taken: what a skipped group left undone is work of the next.
            Phase::Running | Phase::Idle | Phase::WaitingForConfirm | Phase::Completed | Phase::Aborted => now,
        }
    };
    board.release.committed = workable(board).into_iter().enumerate().map(committed).collect();
}

fn units(board: &Board<'_>) -> Vec<Unit> {
    let unit = |(target, committed): (i64, &i64)| Unit { target, committed: *committed };
    workable(board).into_iter().zip(&board.release.committed).map(unit).collect()
}

fn transit(board: &mut Board<'_>, grouped: Grouped) {
    let group = next(board, grouped);
    let release = &board.release;
    let mark = match release.phase {
        Phase::WaitingForConfirm if release.confirmed == release.group => Mark::Given,
        Phase::WaitingForConfirm => Mark::Asked,
        Phase::Idle | Phase::Running | Phase::Completed | Phase::Aborted => Mark::Absent,
    };
    let transition = release::step(&release::Release {
        phase: release.phase,
        mark,
        is_paused: release.is_held(),
        is_aborted: release.is_aborted,
        needs_confirm: grouped.needs_confirm,
        group_done: is_done(board),
        work_left: group.is_some(),
    });
    board.release.phase = transition.phase;
    match (transition.action, group) {
        (release::Action::StartGroup, Some((kind, add))) => start(board, kind, &add),
        (release::Action::StartGroup, None)
        | (release::Action::Nothing | release::Action::Finish | release::Action::ResetConfirm, _) => {}
    }
}

fn next(board: &Board<'_>, grouped: Grouped) -> Option<(Kind, Vec<i64>)> {
    let mut units = units(board);
    if board.facts.is_rollback {
        units.reverse();
    }
    let size = batch_size(grouped.batch_size, board.facts.replicas);
    let grouping = Grouping { batch_size: size, beta: grouped.beta, spread: grouped.spread };
    let mut group = next_group(&grouping, &units)?;
    if board.facts.is_rollback {
        group.add.reverse();
    }
    Some((group.kind, group.add))
}

fn start(board: &mut Board<'_>, kind: Kind, add: &[i64]) {
    board.release.group += 1;
    board.release.kind = Some(kind);
    for (committed, add) in board.release.committed.iter_mut().zip(add) {
        *committed += add;
    }
    // The deadline is that of the group: the time the one before waited to be confirmed is nobody's fault.
    judging::refresh(board);
}

fn is_skipped(board: &Board<'_>) -> bool {
    board.release.skipped > 0 && board.release.skipped == board.release.group
}

/// Every unit has as many available pods at the target revision as are committed, but for those left behind.
fn is_done(board: &Board<'_>) -> bool {
    let counts = |slot: &Slot| {
        !slot.is_stopped && board.is_updated(slot) && (board.is_skipped(slot) || board.is_updated_available(slot))
    };
    let done = || board.by_unit(counts).into_iter().chain(std::iter::repeat(0));
    is_skipped(board) || board.release.committed.iter().zip(done()).all(|(committed, done)| done >= *committed)
}

/// Renews what is committed and not at the target revision yet.
fn take(board: &mut Board<'_>, grouped: Grouped) {
    // Instances of one unit are renewed and created without a change to another unit's numbers.
    let updated = board.updated_by_unit();
    let available = board.by_unit(|slot| !slot.is_stopped && board.is_updated_available(slot));
    let of = |counts: &[i64], unit: usize| counts.get(unit).copied().unwrap_or(0);
    for unit in 0..board.release.committed.len() {
        let committed = board.release.committed[unit];
        let windowed = |window: i64| release::windowed(committed, of(&available, unit), window.max(1));
        let now = grouped.window.map_or(committed, windowed);
        let missing = usize::try_from(now.saturating_sub(of(&updated, unit))).unwrap_or(0);
        if missing == 0 {
            continue;
        }
        let chosen = order(board, unit);
        chosen.iter().take(missing).for_each(|number| renew(board, *number));
        (chosen.len()..missing).for_each(|_| create(board, unit));
    }
}

/// The slots of a unit that are not at the target revision, in the order a group takes them; those without a pod first.
fn order(board: &Board<'_>, unit: usize) -> Vec<u32> {
    let old = || board.running().filter(|slot| slot.unit == unit && !board.is_updated(slot));
    let mut order: Vec<u32> = old().filter(|slot| slot.main.is_none()).map(|slot| slot.number).collect();
    let with_pod: Vec<(&Slot, &Pod)> = old().filter_map(|slot| Some((slot, slot.main.as_ref()?))).collect();
    let pods: Vec<ranking::Pod> = with_pod.iter().map(|(slot, pod)| board.facts.ranked(slot.number, pod)).collect();
    let preparing: BTreeSet<&str> =
        with_pod.iter().zip(&pods).filter(|((_, pod), _)| pod.is_preparing).map(|(_, pod)| pod.uid.as_str()).collect();
    let is_preparing = |pod: &ranking::Pod| preparing.contains(pod.uid.as_str());
    let mut ranks = ranking::update_order(&pods, is_preparing, board.facts.now);
    if board.release.kind == Some(Kind::Beta) {
        let canary = ranking::beta_pod(&pods);
        // Who already prepares is not available any more and was the canary before.
        ranks.sort_by_key(|at| (!is_preparing(&pods[*at]), Some(*at) != canary));
    }
    // Who is left behind comes after all the others.
    ranks.sort_by_key(|at| board.is_skipped(with_pod[*at].0));
    order.extend(ranks.into_iter().map(|at| with_pod[at].0.number));
    order
}

fn renew(board: &mut Board<'_>, number: u32) {
    let Some(slot) = board.slot(number) else { return };
    let (has_main, has_next) = (slot.main.is_some(), slot.next.is_some());
    if has_next {
        // It was about to move; where it belongs is asked again when the group is done.
        board.perform(Action::Drop(number));
    }
    if has_main { board.perform(Action::Renew(number)) } else { board.fill(number) }
}

fn create(board: &mut Board<'_>, unit: usize) {
    let most = usize::try_from(board.facts.replicas).unwrap_or(0);
    if board.slots.len() < most {
        let slot = board.free_number();
        board.perform(Action::Create { slot, unit, revision: board.facts.target });
    }
}
