//! Decides the next step of a rolling update (sections 2.3 to 2.5).
//!
//! One step goes in one direction: the new set grows, or old sets shrink (D-1). Pods of the new set that are not available
//! are charged against old capacity, so a broken version stops the rollout instead of draining the old one. Counts are
//! sizes asked for, not pods seen; what is going away counts only as `terminating` (D-3).

use super::limits::RolloutLimits;
use super::numbers::sum;

/// The size of a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetSize {
    /// Pods asked for.
    pub spec: i64,
    /// Pods that are available.
    pub available: i64,
}

impl SetSize {
    /// D-2: a status that lags behind must not count pods that are no longer asked for.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self { available: self.available.min(self.spec), ..self }
    }

    fn unavailable(self) -> i64 {
        self.spec.saturating_sub(self.available)
    }
}

/// Everything a step is decided from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sets {
    /// The set of the revision to reach; empty when it does not exist yet.
    pub new: SetSize,
    /// All others; the first gives up pods first.
    pub old: Vec<SetSize>,
    /// Pods on their way out that count (`PodReplacement::counted`).
    pub terminating: i64,
}

impl Sets {
    /// The same with D-2 applied to every set.
    #[must_use]
    pub fn clamped(mut self) -> Self {
        self.new = self.new.clamped();
        for set in &mut self.old {
            *set = set.clamped();
        }
        self
    }

    fn total(&self) -> i64 {
        sum(self.old.iter().map(|set| set.spec).chain([self.new.spec]))
    }
}

/// What one sync does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollingStep {
    /// Nothing can move until something else happens.
    Nothing,
    /// The new set gets this size.
    ScaleNew(i64),
    /// The old sets get these sizes.
    ScaleOld {
        /// One for each old set, in the order they were given.
        sizes: Vec<i64>,
        /// How many of the pods removed were not available.
        cleaned: i64,
        /// How many of them were counted as available.
        downed: i64,
    },
}

/// Decides one sync of a rolling update.
pub fn step(limits: &RolloutLimits, sets: &Sets) -> RollingStep {
    let new = sets.new.spec;
    let wanted = if new > limits.replicas {
        limits.replicas
    } else {
        new_set_size(limits, sum([sets.total(), sets.terminating]), new)
    };
    if wanted != new {
        return RollingStep::ScaleNew(wanted);
    }
    shrink(limits, sets)
}

/// The size that the new set grows to when the group has `total` pods.
///
/// 10 replicas, maxSurge 3: at most 13 pods. With 10 old pods and no new one, the new set grows to 3. With 8 old and 3 new
/// pods there is room for 2 more: it grows to 5.
pub fn new_set_size(limits: &RolloutLimits, total: i64, new: i64) -> i64 {
    if total >= limits.max_total {
        return new;
    }
    let room = limits.max_total.saturating_sub(total);
    sum([new, room.min(limits.replicas.saturating_sub(new))])
}

fn shrink(limits: &RolloutLimits, sets: &Sets) -> RollingStep {
    let budget = sets.total().saturating_sub(limits.min_available).saturating_sub(sets.new.unavailable());
    if budget <= 0 {
        return RollingStep::Nothing;
    }
    let Removal { mut sizes, removed: cleaned } = clean_unhealthy(&sets.old, budget);
    let available = sum(sets.old.iter().map(|set| set.available).chain([sets.new.available]));
    let mut spare = available.saturating_sub(limits.min_available).max(0);
    let mut downed = 0i64;
    for size in &mut sizes {
        let part = (*size).min(spare).max(0);
        *size -= part;
        spare -= part;
        downed = sum([downed, part]);
    }
    if cleaned == 0 && downed == 0 { RollingStep::Nothing } else { RollingStep::ScaleOld { sizes, cleaned, downed } }
}

/// Pods taken from old sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The sizes they get, in the order they were given.
    pub sizes: Vec<i64>,
    /// How many that takes away in all.
    pub removed: i64,
}

/// Takes at most `most` unavailable pods from old sets, from the first set first.
pub fn clean_unhealthy(old: &[SetSize], most: i64) -> Removal {
    let mut left = most.max(0);
    let mut shrunk = |set: &SetSize| {
        // A status that lags behind may report more available than asked for: nothing to clean then.
        let part = set.unavailable().min(left).max(0);
        left -= part;
        set.spec.saturating_sub(part)
    };
    let sizes = old.iter().map(&mut shrunk).collect();
    Removal { sizes, removed: most.max(0) - left }
}

#[cfg(test)]
#[path = "rolling_tests.rs"]
mod tests;
