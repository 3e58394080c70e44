//! Moves instances to other units: because the division changed, or because a unit has no room.
//!
//! An available instance gets a second pod in the other unit and moves when that one is available: make before break. A pod that
//! was never scheduled is simply placed in the other unit. The number of instances does not change.

use std::cmp::Reverse;

use super::decision::RolloutAction;
use super::draft::{Draft, count, pods};
use super::facts::{FailBack, RolloutPod, RolloutStrategy, Slot};
use crate::rollout::moment::Moment;
use crate::rollout::numbers::sum;
use crate::rollout::rebalance;
use crate::rollout::reschedule;
use crate::rollout::transition::RolloutPhase;

/// A full unit is not tried again for this time.
const FULL: std::time::Duration = std::time::Duration::from_secs(300);

/// Places unschedulable pods of a unit above its target in the unit that lacks most.
pub(super) fn relocate(draft: &mut Draft<'_>) {
    if draft.state.is_held() {
        return;
    }
    let (now, targets) = (draft.facts.now, draft.state.allotment.targets.clone());
    let is_full = |draft: &Draft<'_>, at: usize| {
        draft.running().any(|slot| stuck_in(slot, std::time::Duration::ZERO, now) == Some(at))
    };
    let waits = |slot: &Slot| {
        let is_its_own = !slot.is_bound && (slot.next.is_none() || is_surge(slot));
        let from = stuck_in(slot, std::time::Duration::ZERO, now).filter(|_| is_its_own)?;
        Some((slot.number, from, slot.next.is_some()))
    };
    let waiting: Vec<(u32, usize, bool)> = draft.running().filter_map(waits).collect();
    for (slot, from, is_second) in waiting {
        let lack = |at: usize| targets[at] - unit(draft, at, 0).spec;
        let to = (0..targets.len()).filter(|&at| lack(at) > 0 && !is_full(draft, at));
        let to = to.max_by_key(|&at| (lack(at), Reverse(at))).filter(|_| lack(from) < 0);
        if let Some(to) = to {
            place(draft, slot, to, is_second);
        }
    }
}

/// Places an unschedulable pod in another unit.
fn place(draft: &mut Draft<'_>, slot: u32, unit: usize, is_second: bool) {
    if is_second {
        draft.perform(RolloutAction::Divert { slot, unit });
    } else {
        commit_elsewhere(draft, slot, unit);
        draft.perform(RolloutAction::Reassign { slot, unit });
    }
}

/// Moves the quota of unschedulable pods to other units. Returns the pods of each unit that no unit can take.
pub(super) fn reschedule(draft: &mut Draft<'_>) -> Vec<i64> {
    let Some(auto) = draft.facts.settings.auto_reschedule else { return Vec::new() };
    let now = draft.facts.now;
    let units = draft.state.allotment.targets.len();
    let free = draft.running().filter(|slot| !slot.is_bound);
    let waiting: Vec<(u32, usize)> =
        free.filter_map(|slot| Some((slot.number, stuck_in(slot, auto.delay, now)?))).collect();
    let unit = |at: usize| reschedule::UnitQuota {
        target: draft.state.allotment.targets[at],
        stuck: i64::try_from(waiting.iter().filter(|(_, unit)| *unit == at).count()).unwrap_or(i64::MAX),
        is_pinned: draft.facts.units.get(at).is_none_or(|unit| unit.wish.is_some()),
        is_saturated: draft.state.allotment.full_until.get(&at).is_some_and(|until| now < *until),
        free_slots: draft.facts.units.get(at).and_then(|unit| unit.free_slots),
        tried: draft.state.allotment.tried.iter().filter(|(from, _)| *from == at).map(|(_, to)| *to).collect(),
    };
    let found = reschedule::reschedule(&(0..units).map(unit).collect::<Vec<_>>());
    for (_, unit) in &waiting {
        let allotment = &mut draft.state.allotment;
        allotment.full_until.entry(*unit).or_insert_with(|| now.after(FULL));
        let (tried, sent) = std::mem::take(&mut allotment.sent).into_iter().partition(|(_, to)| to == unit);
        allotment.sent = sent;
        allotment.tried = [std::mem::take(&mut allotment.tried), tried].concat();
    }
    let mut waiting = waiting;
    for quota in found.moves {
        let Some(at) = waiting.iter().position(|(_, unit)| *unit == quota.from) else { continue };
        carry(draft, waiting.remove(at).0, quota);
    }
    found.unplaced
}

/// The unit in which a pod of the instance is unschedulable. Of two pods, only the second can be.
fn stuck_in(slot: &Slot, delay: std::time::Duration, now: Moment) -> Option<usize> {
    let is_stuck = |pod: &RolloutPod| {
        pod.created.is_none() && pod.unschedulable_since.is_some_and(|since| since.after(delay) <= now)
    };
    match &slot.next {
        Some(next) => is_stuck(&next.pod).then_some(next.unit),
        None => slot.main.as_ref().filter(|main| is_stuck(main)).map(|_| slot.unit),
    }
}

/// Moves the quota and, if the pod has the target revision, its committed place in the batch.
fn carry(draft: &mut Draft<'_>, number: u32, quota: reschedule::Move) {
    let allotment = &mut draft.state.allotment;
    allotment.targets[quota.from] -= 1;
    allotment.targets[quota.to] += 1;
    if !allotment.sent.contains(&(quota.from, quota.to)) {
        allotment.sent.push((quota.from, quota.to));
    }
    let Some(slot) = draft.slot(number) else { return };
    let is_second = slot.next.is_some();
    if is_second && quota.to == slot.unit && !is_surge(slot) {
        // The instance was about to move, and the quota returned to its present unit.
        draft.perform(RolloutAction::Drop(number));
    } else {
        place(draft, number, quota.to, is_second);
    }
}

/// The second pod changes the revision, not only the unit.
pub(super) fn is_surge(slot: &Slot) -> bool {
    let main = slot.main.as_ref().map(|main| main.revision);
    slot.next.as_ref().is_some_and(|next| next.unit == slot.unit || main != Some(next.pod.revision))
}

fn commit_elsewhere(draft: &mut Draft<'_>, slot: u32, to: usize) {
    let Some(from) = draft.slot(slot).filter(|slot| !slot.is_stopped && draft.is_updated(slot)).map(|slot| slot.unit)
    else {
        return;
    };
    let committed = &mut draft.state.committed;
    if let (true, true) = (committed.get(from).is_some_and(|pods| *pods > 0), to < committed.len()) {
        committed[from] -= 1;
        committed[to] += 1;
    }
}

/// Ends the time for which units count as full; with `Eager`, their quota returns.
pub(super) fn recover(draft: &mut Draft<'_>) {
    let now = draft.facts.now;
    let allotment = &mut draft.state.allotment;
    let before = allotment.full_until.len();
    allotment.full_until.retain(|_, until| now < *until);
    let is_eager = draft.facts.settings.auto_reschedule.is_some_and(|auto| auto.fail_back == FailBack::Eager);
    if is_eager && allotment.full_until.len() < before {
        allotment.targets.clear();
        super::scaling::allot(draft);
    }
}

/// No update is in progress that a move would interfere with.
fn is_quiet(draft: &Draft<'_>) -> bool {
    match draft.facts.settings.strategy {
        RolloutStrategy::Batches(_) => match draft.state.phase {
            RolloutPhase::WaitingForConfirm | RolloutPhase::Completed | RolloutPhase::Aborted => true,
            RolloutPhase::Idle | RolloutPhase::Running => false,
        },
        RolloutStrategy::Rolling { .. } | RolloutStrategy::Recreate => {
            let is_done = |slot: &Slot| slot.main.is_some() && !pods(slot).any(|pod| draft.is_old(pod));
            draft.state.phase == RolloutPhase::Aborted || draft.running().all(is_done)
        }
    }
}

/// Moves instances to the units of the division; their number stays the same.
pub(super) fn rebalance(draft: &mut Draft<'_>) {
    let targets = draft.state.allotment.targets.clone();
    if !is_quiet(draft) || draft.state.is_held() || sum(targets.iter().copied()) != draft.facts.replicas {
        return;
    }
    let running = awaited(draft);
    // Until nothing changes: an action of one round may allow the next to stop an unavailable pod.
    for _ in 0..=draft.slots.len() {
        let before = draft.actions.len();
        let units: Vec<rebalance::UnitPods> =
            targets.iter().enumerate().map(|(at, target)| unit(draft, at, *target)).collect();
        let sizes = rebalance::step(running, &units);
        for at in (0..units.len()).filter(|&at| sizes[at] > units[at].spec) {
            bring(draft, at, sizes[at] - units[at].spec, &targets);
        }
        for at in (0..units.len()).filter(|&at| sizes[at] < units[at].spec) {
            shrink_unit(draft, at, units[at].spec - sizes[at]);
        }
        if draft.actions.len() == before {
            break;
        }
    }
}

/// Running instances, excluding those whose pods have all finished.
fn awaited(draft: &Draft<'_>) -> i64 {
    let is_over = |slot: &Slot| slot.main.is_some() && pods(slot).all(|pod| pod.phase.is_finished());
    count(draft.running().filter(|slot| !is_over(slot)))
}

fn serves(draft: &Draft<'_>, slot: &Slot, pod: &RolloutPod) -> bool {
    !slot.is_stopped && draft.facts.is_available(pod)
}

fn unit(draft: &Draft<'_>, at: usize, target: i64) -> rebalance::UnitPods {
    let mut unit = rebalance::UnitPods { target, spec: 0, available: 0 };
    for slot in &draft.slots {
        let next = slot.next.iter().filter(|next| next.unit == at && next.unit != slot.unit).map(|next| &next.pod);
        for pod in slot.main.iter().filter(|_| slot.unit == at).chain(next) {
            unit.spec += 1;
            unit.available += i64::from(serves(draft, slot, pod));
        }
    }
    unit
}

/// Starts pods in a unit below its target, for instances of units above theirs; unavailable instances first.
fn bring(draft: &mut Draft<'_>, to: usize, pods: i64, targets: &[i64]) {
    let leaving = |at: usize| draft.count(at, |slot| slot.next.as_ref().is_some_and(|next| next.unit != at));
    let mut kept: Vec<i64> = (0..targets.len()).map(|at| unit(draft, at, 0).spec - leaving(at)).collect();
    for _ in 0..pods {
        let may_move = |slot: &Slot| slot.next.is_none() && slot.main.is_some() && !slot.is_bound;
        let has_surplus = |slot: &&Slot| may_move(slot) && kept[slot.unit] > targets[slot.unit];
        let serving = |slot: &Slot| slot.main.as_ref().is_some_and(|main| serves(draft, slot, main));
        let from = draft.slots.iter().filter(has_surplus).min_by_key(|slot| (serving(slot), Reverse(slot.number)));
        let Some((slot, from, is_stopped)) = from.map(|slot| (slot.number, slot.unit, slot.is_stopped)) else { return };
        kept[from] -= 1;
        kept[to] += 1;
        draft.perform(if is_stopped {
            RolloutAction::Reassign { slot, unit: to }
        } else {
            RolloutAction::Move { slot, unit: to }
        });
    }
}

/// Stops pods of a unit: main pods that are unavailable or whose second pod in another unit is available; else needless second
/// pods.
fn shrink_unit(draft: &mut Draft<'_>, at: usize, pods: i64) {
    for _ in 0..pods {
        let spare = |slot: &&Slot| slot.unit != at && slot.next.as_ref().is_some_and(|next| next.unit == at);
        let is_leaving = draft.slots.iter().any(|slot| slot.unit == at && slot.next.is_some());
        let unneeded = draft.slots.iter().filter(|_| !is_leaving).find(spare).map(|slot| slot.number);
        let follower = follower(draft, at);
        match (follower, unneeded) {
            (Some(number), _) => follow(draft, number),
            (None, Some(number)) => draft.perform(RolloutAction::Drop(number)),
            (None, None) if is_leaving => return,
            // Its target is taken by an instance that is itself about to move: complete that move first.
            (None, None) => match crossed(draft) {
                Some(number) => follow(draft, number),
                None => return,
            },
        }
    }
}

fn follower(draft: &Draft<'_>, at: usize) -> Option<u32> {
    let may_follow = |slot: &&Slot| {
        let elsewhere = slot.next.as_ref().filter(|next| slot.unit == at && next.unit != at);
        let main_serves = slot.main.as_ref().is_some_and(|main| serves(draft, slot, main));
        elsewhere.is_some_and(|next| draft.facts.is_available(&next.pod) || !main_serves)
    };
    draft.slots.iter().find(may_follow).map(|slot| slot.number)
}

fn crossed(draft: &Draft<'_>) -> Option<u32> {
    let serving = |slot: &Slot| count(pods(slot).filter(|pod| serves(draft, slot, pod)));
    let is_spare = sum(draft.slots.iter().map(serving)) > awaited(draft);
    let may_follow = |slot: &&Slot| {
        let next = slot.next.as_ref().filter(|next| next.unit != slot.unit);
        next.is_some_and(|next| draft.facts.is_available(&next.pod))
    };
    draft.slots.iter().filter(|_| is_spare).find(may_follow).map(|slot| slot.number)
}

fn follow(draft: &mut Draft<'_>, number: u32) {
    if let Some(to) = draft.slot(number).and_then(|slot| slot.next.as_ref()).map(|next| next.unit) {
        commit_elsewhere(draft, number, to);
        draft.perform(RolloutAction::Promote(number));
    }
}
