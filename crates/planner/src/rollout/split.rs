//! Decides how a unit is scaled during a rollout.
//!
//! The unit keeps its ratio of updated to old pods: scaling must not advance the rollout. 2 updated and 3 old pods, scaled to
//! 10: 4 and 6. On a tie the old side takes the odd pod when the unit grows and gives it up when it shrinks: 3 and 3 pods
//! become 3 and 4 of 7, or 3 and 2 of 5.

use super::numbers::saturated;

/// The pods of one unit by revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// At the target revision.
    pub updated: i64,
    pub old: i64,
}

/// The split after scaling to `target` pods. A unit without pods starts at the target revision.
pub fn scaled(now: Split, target: i64) -> Split {
    let (updated, old, target) = (now.updated.max(0), now.old.max(0), target.max(0));
    let total = updated.saturating_add(old);
    if total == 0 {
        return Split { updated: target, old: 0 };
    }
    let (whole, all) = (i128::from(target) * i128::from(updated), i128::from(total));
    let rest = whole % all;
    // The updated side gets the odd pod when its remainder is the larger one. The same remainder is a tie: the old side
    // gains the pod when the unit grows, and loses it when the unit shrinks.
    let gets_odd = rest > all - rest || (rest == all - rest && target < total);
    let updated = saturated(whole / all + i128::from(gets_odd));
    Split { updated, old: target - updated }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    fn split(updated: i64, old: i64, target: i64) -> (i64, i64) {
        let split = scaled(Split { updated, old }, target);
        (split.updated, split.old)
    }

    property! {
        fn a_split_conserves_the_total_and_the_ratio(updated in 0..50i64, old in 0..50i64, target in 0..100i64) {
            let (new_updated, new_old) = split(updated, old, target);
            prop_assert_eq!(new_updated + new_old, target);
            prop_assert!(new_updated >= 0 && new_old >= 0);
            let total = updated + old;
            prop_assert!(total == 0 || (new_updated * total - updated * target).abs() < total);
        }

        fn no_split_overflows(updated: i64, old: i64, target: i64) {
            let (new_updated, new_old) = split(updated, old, target);
            prop_assert_eq!(i128::from(new_updated) + i128::from(new_old), i128::from(target.max(0)));
        }
    }
}
