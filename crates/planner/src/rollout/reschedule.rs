//! Moves the quota of unschedulable pods to other units.
//!
//! Targets 4, 3 and 3 with 3 stuck pods in the first unit become 1, 5 and 4: the sum never changes. Units with an explicit preference
//! neither give nor receive. A pod that no unit can take stays pending.

use std::cmp::Reverse;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitQuota {
    pub target: i64,
    /// Pods without a node for longer than `AutoReschedule.InitialDelaySeconds`.
    pub stuck: i64,
    /// It has an explicit preference.
    pub is_pinned: bool,
    /// It was full a short while ago.
    pub is_saturated: bool,
    /// Pods that it has room for; `None` when this is unknown.
    pub free_capacity: Option<i64>,
    /// Units without room that received quota of this unit before; they are not tried again.
    pub tried: Vec<usize>,
}

impl UnitQuota {
    /// A unit with a stuck pod has no room, pinned or not.
    pub fn is_full(&self) -> bool {
        self.is_saturated || self.stuck > 0
    }

    /// Stuck pods whose quota moves. A pod above the unit's target has no quota.
    fn leaving(&self) -> i64 {
        if self.is_pinned { 0 } else { self.stuck.min(self.target).max(0) }
    }
}

/// Moves one pod of quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    pub from: usize,
    pub to: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescheduling {
    pub targets: Vec<i64>,
    pub moves: Vec<Move>,
    /// Stuck pods that no unit can take: condition `InsufficientCapacity`.
    pub unplaced: Vec<i64>,
}

pub fn reschedule(units: &[UnitQuota]) -> Rescheduling {
    let mut result = Rescheduling {
        targets: units.iter().map(|unit| unit.target).collect(),
        moves: Vec::new(),
        unplaced: vec![0; units.len()],
    };
    let mut instances: Vec<Option<i64>> = units.iter().map(|unit| unit.free_capacity).collect();
    for (from, donor) in units.iter().enumerate() {
        for placed in 0..donor.leaving() {
            let Some(to) = receiver(units, donor, &result.targets, &instances) else {
                // No later move makes room, so the other stuck pods of this unit find none either.
                result.unplaced[from] = donor.leaving() - placed;
                break;
            };
            result.targets[from] -= 1;
            result.targets[to] = result.targets[to].saturating_add(1);
            instances[to] = instances[to].map(|free| free - 1);
            result.moves.push(Move { from, to });
        }
    }
    result
}

/// The unit with the most room, then the fewest pods, then the first declared.
fn receiver(units: &[UnitQuota], donor: &UnitQuota, targets: &[i64], instances: &[Option<i64>]) -> Option<usize> {
    let can_take = |at: &usize| {
        let unit = &units[*at];
        !unit.is_pinned && !unit.is_full() && instances[*at].is_none_or(|free| free > 0) && !donor.tried.contains(at)
    };
    (0..units.len()).filter(can_take).min_by_key(|&at| (Reverse(instances[at]), targets[at], at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    fn any_unit() -> impl Strategy<Value = UnitQuota> {
        let instances = prop::option::of(0..4i64);
        (0..10i64, 0..4i64, any::<bool>(), any::<bool>(), instances).prop_map(
            |(target, stuck, pinned, saturated, free_capacity)| UnitQuota {
                target,
                stuck,
                is_pinned: pinned,
                is_saturated: saturated,
                free_capacity,
                tried: Vec::new(),
            },
        )
    }

    property! {
        fn quota_is_neither_made_nor_lost(units in prop::collection::vec(any_unit(), 0..6)) {
            let result = reschedule(&units);
            let sum = |counts: &[i64]| counts.iter().sum::<i64>();
            let before: Vec<i64> = units.iter().map(|unit| unit.target).collect();
            prop_assert_eq!(sum(&result.targets), sum(&before));
            prop_assert!(result.targets.iter().all(|target| *target >= 0));
            for (at, unit) in units.iter().enumerate() {
                let gave = result.moves.iter().filter(|step| step.from == at).count();
                let got = result.moves.iter().filter(|step| step.to == at).count();
                prop_assert_eq!(i64::try_from(gave).expect("few") + result.unplaced[at], unit.leaving());
                prop_assert!(got == 0 || !(unit.is_pinned || unit.is_full()));
                prop_assert!(unit.free_capacity.is_none_or(|free| got <= usize::try_from(free).expect("few")));
            }
        }
    }
}
