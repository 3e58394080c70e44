//! Says which groups a release by groups has: done, under way and to come.
//!
//! What earlier groups were is not stored. When the plan from the start leads exactly to what is committed now, it is what
//! happened; otherwise something changed on the way, and only their numbers are told.

use contract::rollout::{Amount, StrategyType};
use contract::rollout_view::RolloutGroup;
use planner::rollout::batches::{Batch, BatchSettings, UnitProgress, batch_size, batches};
use planner::rollout::controller::RolloutState;
use planner::rollout::transition::RolloutPhase;

use super::Look;
use crate::core::milestones::kind_word;

/// Groups told at most: a release of a thousand instances one by one has as many.
const MOST: usize = 1_000;

impl Look<'_> {
    pub(super) fn cuts(&self) -> Vec<RolloutGroup> {
        let (Some(grouping), Some(release)) = (self.grouping(), self.release) else { return Vec::new() };
        let is_current = release.phase == RolloutPhase::Running && release.batch > 0;
        let done = if is_current { release.batch - 1 } else { release.batch };
        let replayed = self.replayed(grouping, release);
        let past = (1..=release.batch).map(|ordinal| {
            let known = replayed.get(usize::try_from(ordinal - 1).unwrap_or(usize::MAX));
            let kind = known.map(|group| group.kind).or_else(|| release.kind.filter(|_| ordinal == release.batch));
            RolloutGroup {
                ordinal,
                kind: kind.map(kind_word).unwrap_or_default().to_owned(),
                state: if ordinal <= done { "Done" } else { "Current" }.to_owned(),
                units: known.map(|group| self.by_unit(&group.add)).unwrap_or_default(),
            }
        });
        let coming = if release.is_open() { self.planned(grouping, &release.committed) } else { Vec::new() };
        let coming = (release.batch + 1..).zip(coming).map(|(ordinal, group)| RolloutGroup {
            ordinal,
            kind: kind_word(group.kind).to_owned(),
            state: "ToCome".to_owned(),
            units: self.by_unit(&group.add),
        });
        past.chain(coming).take(MOST).collect()
    }

    /// Pods of the largest group that is under way or to come.
    pub(super) fn largest_cut(&self) -> i64 {
        let Some(grouping) = self.grouping() else { return 0 };
        let committed = self.release.map(|release| release.committed.as_slice()).unwrap_or_default();
        let coming = self.planned(grouping, committed).into_iter().map(|group| group.add.iter().sum()).max();
        coming.unwrap_or(0).max(if self.release.is_some_and(RolloutState::is_open) { grouping.batch_size } else { 0 })
    }

    /// How the release is cut; none when it does not go by groups. A rollback has no beta.
    fn grouping(&self) -> Option<BatchSettings> {
        let record = &self.group.record;
        let beta = match self.strategy() {
            StrategyType::Batch => false,
            StrategyType::Beta => record.equals.is_empty(),
            StrategyType::Serial | StrategyType::RollingUpdate | StrategyType::Recreate => return None,
        };
        let size = record.spec.strategy.as_ref().and_then(|strategy| strategy.batch_size).unwrap_or(Amount::Count(1));
        let spread = record.spec.topology.as_ref().map(|topology| topology.spread).unwrap_or_default();
        Some(BatchSettings { batch_size: batch_size(size, record.spec.num_instances), beta, spread })
    }

    /// The groups that follow when so many pods of each unit are committed. A rollback goes through the units in reverse.
    fn planned(&self, grouping: BatchSettings, committed: &[i64]) -> Vec<Batch> {
        let targets = self.report.map(|report| report.units.iter().map(|unit| unit.target)).into_iter().flatten();
        let committed = committed.iter().copied().chain(std::iter::repeat(0));
        let mut units: Vec<UnitProgress> =
            targets.zip(committed).map(|(target, committed)| UnitProgress { target, committed }).collect();
        let is_rollback = !self.group.record.equals.is_empty();
        if is_rollback {
            units.reverse();
        }
        let turned = |mut group: Batch| {
            if is_rollback {
                group.add.reverse();
            }
            group
        };
        batches(grouping, &units).map(turned).take(MOST).collect()
    }

    fn replayed(&self, grouping: BatchSettings, release: &RolloutState) -> Vec<Batch> {
        let count = usize::try_from(release.batch).unwrap_or(usize::MAX);
        let mut replayed = self.planned(grouping, &[]);
        replayed.truncate(count);
        let mut sums = vec![0; self.units.len()];
        for group in &replayed {
            sums.iter_mut().zip(&group.add).for_each(|(sum, add)| *sum += add);
        }
        if sums == release.committed && replayed.len() == count { replayed } else { Vec::new() }
    }
}
