//! Divides the replicas over units and creates instances on a scale-up.
//!
//! Scaling must not advance a rollout: a rolling update keeps the shares of its revisions, a unit its ratio. New instances get
//! the lowest free numbers. During the first rollout by batches the batches create the instances.

use super::decision::RolloutAction;
use super::draft::{Draft, count, pods};
use super::facts::{Instance, RolloutStrategy};
use super::rolling::{budget_strategy, limits, revisions};
use super::scale_down;
use super::state::Allotment;
use crate::rollout::numbers::{Amount, sum};
use crate::rollout::proportional::{self, ScaleTarget, ScaledSet};
use crate::rollout::split::{self, Split};
use crate::rollout::transition::RolloutPhase;
use crate::rollout::units::{self, Allocation};

/// Divides the replicas over units. An instance that moves counts in its new unit.
pub(super) fn allocation(draft: &Draft<'_>) -> Allocation {
    let place = |instance: &Instance| instance.next.as_ref().map_or(instance.unit, |next| next.unit);
    let mut current = vec![0; draft.units()];
    draft.instances.iter().for_each(|instance| current[place(instance)] += 1);
    let unit = |(unit, current): (&super::facts::UnitFacts, i64)| units::UnitPreference {
        preference: unit.preference,
        current,
    };
    let units: Vec<units::UnitPreference> = draft.facts.units.iter().zip(current).map(unit).collect();
    let alone = [units::UnitPreference::default()];
    units::allocate(draft.facts.replicas, if units.is_empty() { &alone } else { &units })
}

/// Divides the replicas again when replicas, units or preferences changed. Moved quota returns with that.
pub(super) fn allot(draft: &mut Draft<'_>) {
    recognise(draft);
    let replicas = draft.facts.replicas;
    let kept = &draft.state.allotment;
    if kept.replicas != replicas || kept.targets.is_empty() {
        let (units, preferences, targets) = (kept.units.clone(), kept.preferences.clone(), allocation(draft).sizes);
        draft.state.allotment = Allotment { replicas, units, preferences, targets, ..Allotment::default() };
    }
    fit(draft);
}

/// Matches units by name when their order changed, so that committed numbers follow them.
fn recognise(draft: &mut Draft<'_>) {
    let names: Vec<String> = draft.facts.units.iter().map(|unit| unit.name.clone()).collect();
    let preferences: Vec<Option<Amount>> = draft.facts.units.iter().map(|unit| unit.preference).collect();
    let kept = &draft.state.allotment;
    let divided = divided(&preferences);
    let is_same = divided == self::divided(&kept.preferences)
        && kept.units.get(..divided) == names.get(..divided)
        && kept.preferences.get(..divided) == preferences.get(..divided);
    if kept.units != names {
        let former = |(at, name): (usize, &String)| {
            let is_there = kept.units.get(at).is_none_or(|known| known == name);
            if is_there { Some(at) } else { kept.units.iter().position(|known| known == name) }
        };
        let committed = |at: usize| draft.state.committed.get(at).copied();
        draft.state.committed =
            names.iter().enumerate().map(|unit| former(unit).and_then(committed).unwrap_or(0)).collect();
    }
    let allotment = &mut draft.state.allotment;
    if !is_same {
        *allotment = Allotment::default();
    }
    (allotment.units, allotment.preferences) = (names, preferences);
}

/// Units that take part. Units pinned to 0 at the end do not: undeclared units are among them, and they disappear with their last
/// instance.
fn divided(preferences: &[Option<Amount>]) -> usize {
    preferences.iter().rposition(|preference| *preference != Some(Amount::Count(0))).map_or(0, |last| last + 1)
}

/// An undeclared unit gets the target 0 while it still has instances.
pub(super) fn fit(draft: &mut Draft<'_>) {
    let units = draft.units();
    draft.state.allotment.targets.resize(units, 0);
    draft.state.committed.truncate(units);
}

/// Creates or removes instances until their number is `replicas`.
pub(super) fn scale(draft: &mut Draft<'_>) {
    let targets = draft.state.allotment.targets.clone();
    if sum(targets.iter().copied()) != draft.facts.replicas {
        // Every unit is pinned to 0: no instance can be placed.
        return;
    }
    let lacks = lacks(draft);
    let difference = draft.facts.replicas.saturating_sub(count(draft.instances.iter()));
    if difference > 0 {
        grow(draft, &shares(difference, &lacks));
    } else if difference < 0 {
        let surplus: Vec<i64> = lacks.iter().map(|lack| -lack).collect();
        scale_down::shrink(draft, &shares(-difference, &surplus));
    }
    if difference != 0 && matches!(draft.facts.settings.strategy, RolloutStrategy::Rolling { .. }) {
        scale_down::single(draft);
    }
    draft.state.sized = proportional::stored(&limits(draft));
}

fn lacks(draft: &Draft<'_>) -> Vec<i64> {
    let present = draft.by_unit(|_| true).into_iter().chain(std::iter::repeat(0));
    draft.state.allotment.targets.iter().zip(present).map(|(target, present)| target - present).collect()
}

/// Instances to create, by unit.
pub(super) fn missing(draft: &Draft<'_>) -> Vec<i64> {
    shares(draft.facts.replicas.saturating_sub(count(draft.instances.iter())), &lacks(draft))
}

/// Takes `pods` one by one from the unit with the most left; of equals, from the first declared.
///
/// So units shrink to one level: of 5, 3 and 1, six pods leave 1, 1 and 1; four leave 2, 2 and 1; five leave 1, 2 and 1.
fn shares(pods: i64, most: &[i64]) -> Vec<i64> {
    let above = |level: i64| sum(most.iter().map(|most| most.saturating_sub(level).max(0)));
    let (pods, highest) = (pods.max(0), most.iter().copied().max().unwrap_or(0));
    // Bisects for the lowest level above which there are at most `pods` pods.
    let (mut low, mut level) = (highest.saturating_sub(pods).saturating_sub(1), highest);
    while level - low > 1 {
        let middle = low + (level - low) / 2;
        if above(middle) <= pods { level = middle } else { low = middle }
    }
    let mut rest = pods - above(level);
    let mut part = |most: &i64| {
        let one_more = i64::from(*most >= level && rest > 0);
        rest -= one_more;
        (most - level).max(0) + one_more
    };
    most.iter().map(&mut part).collect()
}

fn grow(draft: &mut Draft<'_>, adds: &[i64]) {
    match draft.facts.settings.strategy {
        RolloutStrategy::Rolling { .. } => {
            let revisions = parts_of_sets(draft, sum(adds.iter().copied()));
            create_all(draft, adds, &revisions);
        }
        RolloutStrategy::Recreate => {
            let old = revisions(draft).pop();
            let is_empty = draft.running().any(|instance| instance.main.is_none());
            match old {
                None if !is_empty => create_all(draft, adds, &[]),
                // No old pod will stop for now, so the new instances get the old revision too.
                Some(old) if draft.state.is_held() || !draft.state.is_open() => {
                    let all = usize::try_from(sum(adds.iter().copied())).unwrap_or(0);
                    create_all(draft, adds, &vec![old; all]);
                }
                None | Some(_) => {}
            }
        }
        RolloutStrategy::Batches(_) if draft.facts.proven.is_none() && draft.state.is_open() => {}
        RolloutStrategy::Batches(_) => {
            (0..adds.len()).filter(|&unit| adds[unit] > 0).for_each(|unit| grow_unit(draft, unit, adds[unit]))
        }
    }
}

/// The old revisions of new instances, so that each revision keeps its share; further instances get the target revision.
fn parts_of_sets(draft: &Draft<'_>, most: i64) -> Vec<u32> {
    let wanted = ScaleTarget { limits: limits(draft), seen: count(draft.running().flat_map(pods)) };
    let of = |revision: Option<u32>| {
        let mine = |pod: &&super::facts::RolloutPod| match revision {
            Some(revision) => pod.revision == revision,
            None => !draft.is_old(pod),
        };
        ScaledSet {
            is_new: revision.is_none(),
            spec: count(draft.running().flat_map(pods).filter(mine)),
            available: count(draft.running().flat_map(pods).filter(mine).filter(|pod| draft.facts.is_available(pod))),
            stored: draft.state.sized,
        }
    };
    let old = revisions(draft);
    let sets: Vec<ScaledSet> = old.iter().copied().map(Some).chain([None]).map(of).collect();
    let sizes = proportional::scale(budget_strategy(draft.facts.settings.strategy), &wanted, &sets);
    let gains = old.iter().zip(&sets).zip(&sizes).flat_map(|((revision, set), size)| {
        std::iter::repeat_n(*revision, usize::try_from(size - set.spec).unwrap_or(0))
    });
    gains.take(usize::try_from(most).unwrap_or(0)).collect()
}

/// Creates instances unit by unit; the first get `revisions`, the others the target revision.
fn create_all(draft: &mut Draft<'_>, adds: &[i64], revisions: &[u32]) {
    let mut revisions = revisions.iter().copied();
    for (unit, add) in adds.iter().enumerate() {
        for _ in 0..*add {
            let (instance, revision) = (draft.free_number(), revisions.next().unwrap_or(draft.facts.target));
            draft.perform(RolloutAction::Create { instance, unit, revision });
        }
    }
}

pub(super) fn committed(draft: &Draft<'_>, unit: usize) -> i64 {
    let updated = draft.updated(unit);
    match draft.state.phase {
        RolloutPhase::Running => draft.state.committed.get(unit).map_or(updated, |pods| (*pods).max(updated)),
        RolloutPhase::Idle | RolloutPhase::WaitingForConfirm | RolloutPhase::Completed | RolloutPhase::Aborted => {
            updated
        }
    }
}

pub(super) fn commit(draft: &mut Draft<'_>, unit: usize, pods: i64) {
    let units = draft.state.committed.len().max(unit + 1);
    draft.state.committed.resize(units, 0);
    draft.state.committed[unit] = pods;
}

fn grow_unit(draft: &mut Draft<'_>, unit: usize, add: i64) {
    let running = draft.count(unit, |instance| !instance.is_stopped);
    // A user may have stopped committed instances.
    let updated = committed(draft, unit).min(running);
    let now = Split { updated, old: running - updated };
    let then = split::scaled(now, running.saturating_add(add));
    let old = draft.facts.proven.filter(|proven| !draft.facts.is_target(*proven)).or_else(|| revisions(draft).pop());
    for _ in now.updated..then.updated {
        let instance = draft.free_number();
        draft.perform(RolloutAction::Create { instance, unit, revision: draft.facts.target });
    }
    for _ in now.old..then.old {
        let (instance, revision) = (draft.free_number(), old.unwrap_or(draft.facts.target));
        draft.perform(RolloutAction::Create { instance, unit, revision });
    }
    commit(draft, unit, then.updated);
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    /// The rule, one pod at a time.
    fn one_by_one(pods: i64, most: &[i64]) -> Vec<i64> {
        let mut parts = vec![0; most.len()];
        for _ in 0..pods {
            let Some(at) = (0..most.len()).max_by_key(|&at| (most[at] - parts[at], Reverse(at))) else { break };
            parts[at] += 1;
        }
        parts
    }

    property! {
        fn shares_are_as_if_taken_one_by_one(pods in -3..40i64, most in prop::collection::vec(-5..12i64, 0..6)) {
            prop_assert_eq!(shares(pods, &most), one_by_one(pods, &most));
        }
    }
}
