//! Divides the replicas of a group over its deployment units.
//!
//! `replicas` is binding, the preferences of units are preferences: the sizes always add up to `replicas`, unless every unit
//! is pinned to 0, and a preference that cannot be met is a warning. 10 replicas, preferences 4, 10% and none: 4, 1 and 5. Percentages
//! are rounded together and never exceed the total: 3 replicas, 50% and 50%: 2 and 1.

use std::cmp::Reverse;

use super::apportion::apportion;
use super::numbers::{Amount, rounded_half_away, sum};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitPreference {
    /// A unit without a preference gets an even share of the remaining pods.
    pub preference: Option<Amount>,
    /// Pods it has now: on an uneven split the unit with the most pods gets the odd one.
    pub current: i64,
}

/// A preference that could not be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// This unit asks for more pods than remain.
    Truncated(usize),
    /// The percentages are more than the pods that remain after the counts.
    PercentTruncated,
    /// The preferences are less than the replicas, so units get more than they asked for.
    Overflow,
    /// Every unit is pinned to 0, so no pod can be placed.
    Unsatisfiable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    pub sizes: Vec<i64>,
    pub warnings: Vec<Warning>,
}

pub fn allocate(replicas: i64, units: &[UnitPreference]) -> Allocation {
    let mut allocation = Allocation { sizes: vec![0; units.len()], warnings: Vec::new() };
    let left = replicas.max(0);
    let left = give_counts(units, left, &mut allocation);
    let left = give_percentages(replicas.max(0), units, left, &mut allocation);
    let left = give_evenly(units, left, &mut allocation);
    give_overflow(units, left, &mut allocation);
    allocation
}

fn counts(units: &[UnitPreference]) -> Vec<i64> {
    let count = |unit: &UnitPreference| match unit.preference {
        Some(Amount::Count(count)) => count.max(0),
        Some(Amount::Percent(_)) | None => 0,
    };
    units.iter().map(count).collect()
}

fn percentages(units: &[UnitPreference]) -> Vec<i64> {
    let percent = |unit: &UnitPreference| match unit.preference {
        Some(Amount::Percent(percent)) => percent.max(0),
        Some(Amount::Count(_)) | None => 0,
    };
    units.iter().map(percent).collect()
}

/// Rule 1: counts, in declaration order, while pods remain.
fn give_counts(units: &[UnitPreference], mut left: i64, allocation: &mut Allocation) -> i64 {
    for (at, count) in counts(units).into_iter().enumerate() {
        let part = count.min(left);
        if part < count {
            allocation.warnings.push(Warning::Truncated(at));
        }
        allocation.sizes[at] = part;
        left -= part;
    }
    left
}

/// Rule 2: percentages of `replicas`, added up and then rounded half up.
fn give_percentages(replicas: i64, units: &[UnitPreference], left: i64, allocation: &mut Allocation) -> i64 {
    let percentages = percentages(units);
    let all: i128 = percentages.iter().copied().map(i128::from).sum();
    // Two units of i64::MAX percent each overflow the product; they are above all pods that exist anyway.
    let seats = i128::from(replicas).checked_mul(all).map_or(i64::MAX, |hundredths| rounded_half_away(hundredths, 100));
    if seats > left {
        allocation.warnings.push(Warning::PercentTruncated);
    }
    give(seats.min(left), &percentages, left, allocation)
}

/// Rule 3: the rest, evenly among units without a preference.
fn give_evenly(units: &[UnitPreference], left: i64, allocation: &mut Allocation) -> i64 {
    let mut free: Vec<usize> = (0..units.len()).filter(|&at| units[at].preference.is_none()).collect();
    let Some(among) = i64::try_from(free.len()).ok().filter(|among| *among > 0) else { return left };
    free.sort_by_key(|&at| (Reverse(units[at].current), at));
    let mut extra = left % among;
    for at in free {
        allocation.sizes[at] = left / among + i64::from(extra > 0);
        extra -= i64::from(extra > 0);
    }
    0
}

/// Rule 4: without a unit of rule 3, the units with percentages share the rest, or else those with counts.
fn give_overflow(units: &[UnitPreference], left: i64, allocation: &mut Allocation) {
    if left == 0 {
        return;
    }
    let (percentages, counts) = (percentages(units), counts(units));
    let weights = if sum(percentages.iter().copied()) > 0 { percentages } else { counts };
    let is_held = sum(weights.iter().copied()) == 0;
    allocation.warnings.push(if is_held { Warning::Unsatisfiable } else { Warning::Overflow });
    give(left, &weights, left, allocation);
}

fn give(seats: i64, weights: &[i64], left: i64, allocation: &mut Allocation) -> i64 {
    let parts = apportion(seats, weights);
    for (size, part) in allocation.sizes.iter_mut().zip(&parts) {
        *size = sum([*size, *part]);
    }
    left - sum(parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    fn count(count: i64) -> Option<Amount> {
        Some(Amount::Count(count))
    }
    fn percent(percent: i64) -> Option<Amount> {
        Some(Amount::Percent(percent))
    }

    fn any_unit() -> impl Strategy<Value = UnitPreference> {
        let preference = prop_oneof![
            2 => Just(None),
            1 => (0..30i64).prop_map(count),
            1 => (0..=100i64).prop_map(percent),
        ];
        (preference, 0..20i64).prop_map(|(preference, current)| UnitPreference { preference, current })
    }

    property! {
        fn the_parts_sum_up_to_the_replicas(replicas in 0..200i64, units in prop::collection::vec(any_unit(), 1..6)) {
            let Allocation { sizes, warnings } = allocate(replicas, &units);
            prop_assert!(sizes.iter().all(|size| *size >= 0));
            if warnings.contains(&Warning::Unsatisfiable) {
                prop_assert!(units.iter().all(|unit| matches!(unit.preference, Some(Amount::Count(0) | Amount::Percent(0)))));
            } else {
                prop_assert_eq!(sum(sizes), replicas);
            }
        }

        fn no_allocation_overflows(replicas: i64, a: i64, b: i64, current: i64) {
            for preferences in [[count(a), percent(b)], [percent(a), percent(b)], [None, percent(a)], [count(a), count(b)]] {
                allocate(replicas, &preferences.map(|preference| UnitPreference { preference, current }));
            }
        }

        fn dividing_again_gives_the_same_division(replicas in 0..200i64, units in prop::collection::vec(any_unit(), 1..6)) {
            let first = allocate(replicas, &units);
            let there: Vec<UnitPreference> =
                units.iter().zip(&first.sizes).map(|(unit, size)| UnitPreference { current: *size, ..*unit }).collect();
            prop_assert_eq!(allocate(replicas, &there), first);
        }
    }
}
