//! Decides which pods a rollout by batches updates together.
//!
//! Stateless: the next batch follows from the targets, the pods committed to the target revision and the settings, so no
//! plan is stored, and restarts, scaling and edits need none. Units of 5 and 5 pods, batch size 4, with a beta: 1/1, 2/2, 2/2.

pub use contract::rollout::Spread;

use serde::{Deserialize, Serialize};

use super::apportion::apportion;
use super::numbers::{Amount, sum};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchKind {
    /// One pod of every unit that has none at the target revision yet.
    Beta,
    /// `batch_size` pods.
    Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    pub batch_size: i64,
    /// The first batch is one pod of each unit.
    pub beta: bool,
    pub spread: Spread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitProgress {
    pub target: i64,
    /// Pods committed to the target revision: its `updatedTarget`.
    pub committed: i64,
}

impl UnitProgress {
    fn work(self) -> i64 {
        self.target.saturating_sub(self.committed).max(0)
    }
    fn needs_beta(self) -> bool {
        self.work() > 0 && self.committed == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub kind: BatchKind,
    /// Pods of each unit that the batch adds to the committed ones.
    pub add: Vec<i64>,
}

/// A percentage is of the replicas, rounded up, and at least 1: 30% of 10 are 3, 1% of 10 are 1.
pub fn batch_size(size: Amount, replicas: i64) -> i64 {
    size.rounded_up(replicas).max(1)
}

/// The next batch; `None` when every pod is committed.
pub fn next_batch(settings: &BatchSettings, units: &[UnitProgress]) -> Option<Batch> {
    let mut units = units.to_vec();
    if settings.spread == Spread::Sequential {
        // Only the first unit with work takes part: the others count as done.
        let first = units.iter().position(|unit| unit.work() > 0)?;
        for (_, unit) in units.iter_mut().enumerate().filter(|(at, _)| *at != first) {
            unit.target = unit.committed;
        }
    }
    let work: Vec<i64> = units.iter().map(|unit| unit.work()).collect();
    if sum(work.iter().copied()) == 0 {
        return None;
    }
    if settings.beta && units.iter().any(|unit| unit.needs_beta()) {
        return Some(Batch {
            kind: BatchKind::Beta,
            add: units.iter().map(|unit| i64::from(unit.needs_beta())).collect(),
        });
    }
    let pods = settings.batch_size.max(1).min(sum(work.iter().copied()));
    let add = match settings.spread {
        Spread::Proportional | Spread::Sequential => apportion(pods, &work),
        Spread::Even => filled(pods, &work),
    };
    Some(Batch { kind: BatchKind::Batch, add })
}

/// Round robin: one pod from each unit with work left, in declaration order, until `pods` are taken. 6 pods of 2 and 10: 2 and 4.
fn filled(mut pods: i64, work: &[i64]) -> Vec<i64> {
    let mut parts = vec![0; work.len()];
    loop {
        let open: Vec<usize> = (0..work.len()).filter(|&at| parts[at] < work[at]).collect();
        let rounds = i64::try_from(open.len()).ok().and_then(|among| pods.checked_div(among)).unwrap_or(0);
        if rounds == 0 {
            for at in open.into_iter().take(usize::try_from(pods).unwrap_or(0)) {
                parts[at] += 1;
            }
            return parts;
        }
        for at in open {
            let part = rounds.min(work[at] - parts[at]);
            parts[at] += part;
            pods -= part;
        }
    }
}

/// All batches from here to the end. Lazy: a rollout of a million pods one by one has a million batches.
pub fn batches(settings: BatchSettings, units: &[UnitProgress]) -> impl Iterator<Item = Batch> + use<> {
    let mut units = units.to_vec();
    std::iter::from_fn(move || {
        let batch = next_batch(&settings, &units)?;
        for (unit, add) in units.iter_mut().zip(&batch.add) {
            unit.committed = sum([unit.committed, *add]);
        }
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    fn units(targets: &[i64], committed: &[i64]) -> Vec<UnitProgress> {
        let unit = |(target, committed): (&i64, &i64)| UnitProgress { target: *target, committed: *committed };
        targets.iter().zip(committed).map(unit).collect()
    }

    property! {
        fn batches_reach_the_target_within_the_batch_size_and_the_share(
            state in prop::collection::vec((0..30i64, 0..30i64), 1..5), batch_size in 1..12i64,
            beta: bool, spread in prop::sample::select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]),
        ) {
            let mut units: Vec<UnitProgress> =
                state.into_iter().map(|(target, committed)| UnitProgress { target, committed: committed.min(target) }).collect();
            for batch in batches(BatchSettings { batch_size, beta, spread }, &units.clone()) {
                let work: i64 = units.iter().map(|unit| unit.work()).sum();
                let pods: i64 = batch.add.iter().sum();
                prop_assert!(pods > 0);
                prop_assert!(batch.kind == BatchKind::Beta || pods == batch_size.min(work) || spread == Spread::Sequential);
                prop_assert!(batch.kind == BatchKind::Beta || pods <= batch_size);
                for (unit, add) in units.iter_mut().zip(&batch.add) {
                    if batch.kind == BatchKind::Batch && spread == Spread::Proportional {
                        prop_assert!((add * work - pods * unit.work()).abs() < work, "the share, rounded");
                    }
                    unit.committed += add;
                    prop_assert!((0..=unit.target).contains(&unit.committed));
                }
            }
            prop_assert!(units.iter().all(|unit| unit.work() == 0));
        }

        fn no_batch_overflows(a: i64, b: i64, batch_size: i64) {
            for spread in [Spread::Proportional, Spread::Even, Spread::Sequential] {
                next_batch(&BatchSettings { batch_size, beta: false, spread }, &units(&[a, b, i64::MAX], &[b, a, 0]));
            }
        }

        fn the_batches_from_any_point_are_the_rest_of_the_plan(
            targets in prop::collection::vec(0..20i64, 1..5), batch_size in 1..8i64, beta: bool, done in 0..12usize,
            spread in prop::sample::select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]),
        ) {
            let settings = BatchSettings { batch_size, beta, spread };
            let mut now = units(&targets, &vec![0; targets.len()]);
            let plan: Vec<Batch> = batches(settings, &now).collect();
            for batch in plan.iter().take(done) {
                now.iter_mut().zip(&batch.add).for_each(|(unit, add)| unit.committed += add);
            }
            let rest: Vec<Batch> = batches(settings, &now).collect();
            prop_assert_eq!(&rest[..], &plan[done.min(plan.len())..]);
            let pods: i64 = plan.iter().flat_map(|batch| &batch.add).sum();
            prop_assert_eq!(pods, targets.iter().sum::<i64>(), "together they are the target");
        }
    }
}
