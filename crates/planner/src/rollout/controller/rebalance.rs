//! Moves instances to other units: because the division changed, or because a unit has no room.
//!
//! An available instance gets a second pod in the other unit and moves when that one is available: make before break. A pod that
//! was never scheduled is simply placed in the other unit. The number of instances does not change.

use std::cmp::Reverse;

use super::decision::RolloutAction;
use super::draft::{Draft, count, pods};
use super::facts::{FailBack, Instance, RolloutPod, RolloutStrategy};
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
        draft.running().any(|instance| stuck_in(instance, std::time::Duration::ZERO, now) == Some(at))
    };
    let waits = |instance: &Instance| {
        let is_its_own = !instance.is_bound && (instance.next.is_none() || is_surge(instance));
        let from = stuck_in(instance, std::time::Duration::ZERO, now).filter(|_| is_its_own)?;
        Some((instance.number, from, instance.next.is_some()))
    };
    let waiting: Vec<(u32, usize, bool)> = draft.running().filter_map(waits).collect();
    for (instance, from, is_second) in waiting {
        let lack = |at: usize| targets[at] - unit(draft, at, 0).spec;
        let to = (0..targets.len()).filter(|&at| lack(at) > 0 && !is_full(draft, at));
        let to = to.max_by_key(|&at| (lack(at), Reverse(at))).filter(|_| lack(from) < 0);
        if let Some(to) = to {
            place(draft, instance, to, is_second);
        }
    }
}

/// Places an unschedulable pod in another unit.
fn place(draft: &mut Draft<'_>, instance: u32, unit: usize, is_second: bool) {
    if is_second {
        draft.perform(RolloutAction::Divert { instance, unit });
    } else {
        commit_elsewhere(draft, instance, unit);
        draft.perform(RolloutAction::Reassign { instance, unit });
    }
}

/// Moves the quota of unschedulable pods to other units. Returns the pods of each unit that no unit can take.
pub(super) fn reschedule(draft: &mut Draft<'_>) -> Vec<i64> {
    let Some(auto) = draft.facts.settings.auto_reschedule else { return Vec::new() };
    let now = draft.facts.now;
    let units = draft.state.allotment.targets.len();
    let free = draft.running().filter(|instance| !instance.is_bound);
    let waiting: Vec<(u32, usize)> =
        free.filter_map(|instance| Some((instance.number, stuck_in(instance, auto.delay, now)?))).collect();
    let unit = |at: usize| reschedule::UnitQuota {
        target: draft.state.allotment.targets[at],
        stuck: i64::try_from(waiting.iter().filter(|(_, unit)| *unit == at).count()).unwrap_or(i64::MAX),
        is_pinned: draft.facts.units.get(at).is_none_or(|unit| unit.preference.is_some()),
        is_saturated: draft.state.allotment.full_until.get(&at).is_some_and(|until| now < *until),
        free_capacity: draft.facts.units.get(at).and_then(|unit| unit.free_capacity),
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
fn stuck_in(instance: &Instance, delay: std::time::Duration, now: Moment) -> Option<usize> {
    let is_stuck = |pod: &RolloutPod| {
        pod.created.is_none() && pod.unschedulable_since.is_some_and(|since| since.after(delay) <= now)
    };
    match &instance.next {
        Some(next) => is_stuck(&next.pod).then_some(next.unit),
        None => instance.main.as_ref().filter(|main| is_stuck(main)).map(|_| instance.unit),
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
    let Some(instance) = draft.instance(number) else { return };
    let is_second = instance.next.is_some();
    if is_second && quota.to == instance.unit && !is_surge(instance) {
        // The instance was about to move, and the quota returned to its present unit.
        draft.perform(RolloutAction::Drop(number));
    } else {
        place(draft, number, quota.to, is_second);
    }
}

/// The second pod changes the revision, not only the unit.
pub(super) fn is_surge(instance: &Instance) -> bool {
    let main = instance.main.as_ref().map(|main| main.revision);
    instance.next.as_ref().is_some_and(|next| next.unit == instance.unit || main != Some(next.pod.revision))
}

fn commit_elsewhere(draft: &mut Draft<'_>, instance: u32, to: usize) {
    let Some(from) = draft
        .instance(instance)
        .filter(|instance| !instance.is_stopped && draft.is_updated(instance))
        .map(|instance| instance.unit)
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
            let is_done = |instance: &Instance| instance.main.is_some() && !pods(instance).any(|pod| draft.is_old(pod));
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
    for _ in 0..=draft.instances.len() {
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
    let is_over = |instance: &Instance| instance.main.is_some() && pods(instance).all(|pod| pod.phase.is_finished());
    count(draft.running().filter(|instance| !is_over(instance)))
}

fn serves(draft: &Draft<'_>, instance: &Instance, pod: &RolloutPod) -> bool {
    !instance.is_stopped && draft.facts.is_available(pod)
}

fn unit(draft: &Draft<'_>, at: usize, target: i64) -> rebalance::UnitPods {
    let mut unit = rebalance::UnitPods { target, spec: 0, available: 0 };
    for instance in &draft.instances {
        let next =
            instance.next.iter().filter(|next| next.unit == at && next.unit != instance.unit).map(|next| &next.pod);
        for pod in instance.main.iter().filter(|_| instance.unit == at).chain(next) {
            unit.spec += 1;
            unit.available += i64::from(serves(draft, instance, pod));
        }
    }
    unit
}

/// Starts pods in a unit below its target, for instances of units above theirs; unavailable instances first.
fn bring(draft: &mut Draft<'_>, to: usize, pods: i64, targets: &[i64]) {
    let leaving = |at: usize| draft.count(at, |instance| instance.next.as_ref().is_some_and(|next| next.unit != at));
    let mut kept: Vec<i64> = (0..targets.len()).map(|at| unit(draft, at, 0).spec - leaving(at)).collect();
    for _ in 0..pods {
        let may_move = |instance: &Instance| instance.next.is_none() && instance.main.is_some() && !instance.is_bound;
        let has_surplus = |instance: &&Instance| may_move(instance) && kept[instance.unit] > targets[instance.unit];
        let serving = |instance: &Instance| instance.main.as_ref().is_some_and(|main| serves(draft, instance, main));
        let from = draft
            .instances
            .iter()
            .filter(has_surplus)
            .min_by_key(|instance| (serving(instance), Reverse(instance.number)));
        let Some((instance, from, is_stopped)) =
            from.map(|instance| (instance.number, instance.unit, instance.is_stopped))
        else {
            return;
        };
        kept[from] -= 1;
        kept[to] += 1;
        draft.perform(if is_stopped {
            RolloutAction::Reassign { instance, unit: to }
        } else {
            RolloutAction::Move { instance, unit: to }
        });
    }
}

/// Stops pods of a unit: main pods that are unavailable or whose second pod in another unit is available; else needless second
/// pods.
fn shrink_unit(draft: &mut Draft<'_>, at: usize, pods: i64) {
    for _ in 0..pods {
        let spare =
            |instance: &&Instance| instance.unit != at && instance.next.as_ref().is_some_and(|next| next.unit == at);
        let is_leaving = draft.instances.iter().any(|instance| instance.unit == at && instance.next.is_some());
        let unneeded = draft.instances.iter().filter(|_| !is_leaving).find(spare).map(|instance| instance.number);
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
    let may_follow = |instance: &&Instance| {
        let elsewhere = instance.next.as_ref().filter(|next| instance.unit == at && next.unit != at);
        let main_serves = instance.main.as_ref().is_some_and(|main| serves(draft, instance, main));
        elsewhere.is_some_and(|next| draft.facts.is_available(&next.pod) || !main_serves)
    };
    draft.instances.iter().find(may_follow).map(|instance| instance.number)
}

fn crossed(draft: &Draft<'_>) -> Option<u32> {
    let serving = |instance: &Instance| count(pods(instance).filter(|pod| serves(draft, instance, pod)));
    let is_spare = sum(draft.instances.iter().map(serving)) > awaited(draft);
    let may_follow = |instance: &&Instance| {
        let next = instance.next.as_ref().filter(|next| next.unit != instance.unit);
        next.is_some_and(|next| draft.facts.is_available(&next.pod))
    };
    draft.instances.iter().filter(|_| is_spare).find(may_follow).map(|instance| instance.number)
}

fn follow(draft: &mut Draft<'_>, number: u32) {
    if let Some(to) = draft.instance(number).and_then(|instance| instance.next.as_ref()).map(|next| next.unit) {
        commit_elsewhere(draft, number, to);
        draft.perform(RolloutAction::Promote(number));
    }
}
