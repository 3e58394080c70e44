//! Decides the next step of a rolling update.
//!
//! A set is the pods of one revision. A step goes in one direction: the new set grows or old sets shrink. Unavailable new
//! pods are charged against the old sets, so a broken revision stops the rollout instead of draining the old one. Counts are
//! desired sizes, not observed pods; terminating pods count only as `terminating`.
//!
//! 10 replicas, maxSurge 3, maxUnavailable 2 (at least 8 available, at most 13 pods), 10 old pods, old/new:
//! the new set grows to 3 (10/3); the old set shrinks by 2 (8/3); the new set grows to 5 (8/5, 13 pods). When the 5 are
//! available, the old set shrinks by 5 (3/5) and the new set grows to 10 (3/10); when those are available, 0/10. If none ever
//! becomes available, the rollout stays at 8/5.

use super::limits::RolloutLimits;
use super::numbers::sum;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetSize {
    /// Desired pods.
    pub spec: i64,
    pub available: i64,
}

impl SetSize {
    /// a status that lags behind must not count pods that are no longer desired.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self { available: self.available.min(self.spec), ..self }
    }

    fn unavailable(self) -> i64 {
        self.spec.saturating_sub(self.available)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sets {
    /// The set of the target revision.
    pub new: SetSize,
    /// The sets of other revisions; the first one shrinks first.
    pub old: Vec<SetSize>,
    /// Terminating pods that count (`PodReplacement::counted`).
    pub terminating: i64,
}

impl Sets {
    /// Applies R-2 to each set.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollingStep {
    /// Waits until pods become available or are gone.
    Nothing,
    ScaleNew(i64),
    ScaleOld {
        /// Parallel to `Sets::old`.
        sizes: Vec<i64>,
        /// Removed pods that were unavailable.
        cleaned: i64,
        /// Removed pods that were available.
        downed: i64,
    },
}

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Parallel to the old sets.
    pub sizes: Vec<i64>,
    pub removed: i64,
}

/// Takes at most `most` unavailable pods from old sets, from the first set first.
pub fn clean_unhealthy(old: &[SetSize], most: i64) -> Removal {
    let mut left = most.max(0);
    let mut shrunk = |set: &SetSize| {
        // A status that lags behind may report more available than desired pods: nothing to clean then.
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
