//! Slow start: how many pods are created or deleted at once.
//!
//! Batches double: 10 creations are 1, 2, 4 and 3. A failure ends the sequence after its batch, so a broken image causes at most
//! one failing call more than there were successful ones.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaChange {
    Nothing,
    /// Sizes of the batches.
    Create(Vec<i64>),
    Delete {
        count: i64,
        /// Some pods stay, so the ranking decides which ones go.
        ranked: bool,
    },
}

/// Most calls in one step.
pub const BURST: i64 = 500;

pub fn step(active: i64, desired: i64, burst: i64) -> ReplicaChange {
    let surplus = active.saturating_sub(desired);
    let count = surplus.saturating_abs().min(burst.max(0));
    if count == 0 {
        ReplicaChange::Nothing
    } else if surplus < 0 {
        ReplicaChange::Create(slow_start(count, 1))
    } else {
        ReplicaChange::Delete { count, ranked: count < active }
    }
}

/// The sizes of the batches.
pub fn slow_start(count: i64, initial: i64) -> Vec<i64> {
    let mut batches = Vec::new();
    let (mut left, mut next) = (count, initial);
    while left > 0 && next > 0 {
        let batch = next.min(left);
        batches.push(batch);
        left -= batch;
        next = batch.saturating_mul(2);
    }
    batches
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowStartRun {
    pub calls: i64,
    /// Pods created.
    pub successes: i64,
    pub failed: bool,
    /// Creations that failed or were not tried.
    pub unexpected: i64,
}

/// Simulates creations of which the first `limit` calls succeed.
pub fn play(count: i64, limit: i64, initial: i64) -> SlowStartRun {
    let mut outcome = SlowStartRun { calls: 0, successes: 0, failed: false, unexpected: 0 };
    for batch in slow_start(count, initial) {
        outcome.calls += batch;
        outcome.successes = outcome.calls.min(limit.max(0));
        outcome.failed = outcome.successes < outcome.calls;
        if outcome.failed {
            break;
        }
    }
    outcome.unexpected = count.max(0) - outcome.successes;
    outcome
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::numbers::sum;
    use crate::rollout::properties::property;

    property! {
        fn batches_sum_up_and_failing_calls_are_fewer_than_good_ones_and_one(
            count in 0..5_000i64, limit in 0..5_000i64,
        ) {
            prop_assert_eq!(sum(slow_start(count, 1)), count);
            let outcome = play(count, limit, 1);
            prop_assert!(outcome.calls - outcome.successes <= outcome.successes + 1);
            prop_assert_eq!(outcome.successes + outcome.unexpected, count);
        }

        fn no_replica_change_overflows(active: i64, desired: i64, burst: i64, initial: i64) {
            step(active, desired, burst);
            play(active, desired, initial);
        }
    }
}
