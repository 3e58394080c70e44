//! Decides the next step of a rolling update (sections 2.3 to 2.5).
//!
//! One step goes in one direction: the new set grows, or old sets shrink (D-1). Pods of the new set that are not available
//! are charged against old capacity, so a broken version stops the rollout instead of draining the old one. Counts are
//! sizes asked for, not pods seen; what is going away counts only as `terminating` (D-3).

use super::limits::{Limits, Strategy};
use super::moment::Moment;
use super::numbers::sum;

/// The size of a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Pods asked for.
    pub spec: i64,
    /// Pods that are available.
    pub available: i64,
}

impl Size {
    /// D-2: a status that lags behind must not count pods that are no longer asked for.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self { available: self.available.min(self.spec), ..self }
    }

    fn unavailable(self) -> i64 {
        self.spec.saturating_sub(self.available)
    }
}

/// A set of an earlier revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldSet {
    /// Decides between sets of one age.
    pub name: String,
    /// The oldest gives up pods first.
    pub created: Moment,
    /// Its size.
    pub size: Size,
}

/// Everything a step is decided from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sets {
    /// The set of the revision to reach; empty when it does not exist yet.
    pub new: Size,
    /// All others.
    pub old: Vec<OldSet>,
    /// Pods on their way out that count (`PodReplacement::counted`).
    pub terminating: i64,
}

impl Sets {
    /// The same with D-2 applied to every set.
    #[must_use]
    pub fn clamped(mut self) -> Self {
        self.new = self.new.clamped();
        for set in &mut self.old {
            set.size = set.size.clamped();
        }
        self
    }

    fn total(&self) -> i64 {
        sum(self.old.iter().map(|set| set.size.spec).chain([self.new.spec]))
    }
}

/// What one sync does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
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
pub fn step(limits: &Limits, sets: &Sets) -> Step {
    let new = sets.new.spec;
    let wanted =
        if new > limits.replicas { limits.replicas } else { grown(limits, sum([sets.total(), sets.terminating]), new) };
    if wanted != new {
        return Step::ScaleNew(wanted);
    }
    shrink(limits, sets)
}

/// The size a new set gets in this sync, by growth alone.
pub fn new_set_size(strategy: Strategy, limits: &Limits, total: i64, new: i64) -> i64 {
    match strategy {
        Strategy::RollingUpdate { .. } => grown(limits, total, new),
        Strategy::Recreate => limits.replicas,
    }
}

fn grown(limits: &Limits, total: i64, new: i64) -> i64 {
    if total >= limits.max_total {
        return new;
    }
    let room = limits.max_total.saturating_sub(total);
    sum([new, room.min(limits.replicas.saturating_sub(new))])
}

fn shrink(limits: &Limits, sets: &Sets) -> Step {
    let budget = sets.total().saturating_sub(limits.min_available).saturating_sub(sets.new.unavailable());
    if budget <= 0 {
        return Step::Nothing;
    }
    let Removal { mut sizes, removed: cleaned } = clean_unhealthy(&sets.old, budget);
    let available = sum(sets.old.iter().map(|set| set.size.available).chain([sets.new.available]));
    let mut spare = available.saturating_sub(limits.min_available).max(0);
    let mut downed = 0i64;
    for at in oldest_first(&sets.old) {
        let part = sizes[at].min(spare).max(0);
        sizes[at] -= part;
        spare -= part;
        downed = sum([downed, part]);
    }
    if cleaned == 0 && downed == 0 { Step::Nothing } else { Step::ScaleOld { sizes, cleaned, downed } }
}

/// Pods taken from old sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The sizes they get, in the order they were given.
    pub sizes: Vec<i64>,
    /// How many that takes away in all.
    pub removed: i64,
}

/// Takes pods that are not available from old sets, at most this many, the oldest set first.
pub fn clean_unhealthy(old: &[OldSet], most: i64) -> Removal {
    let mut sizes: Vec<i64> = old.iter().map(|set| set.size.spec).collect();
    let mut left = most.max(0);
    for at in oldest_first(old) {
        // A status that lags behind may report more available than asked for: nothing to clean then.
        let part = old[at].size.unavailable().min(left).max(0);
        sizes[at] = sizes[at].saturating_sub(part);
        left -= part;
    }
    Removal { sizes, removed: most.max(0) - left }
}

fn oldest_first(old: &[OldSet]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..old.len()).collect();
    order.sort_by_key(|&at| (old[at].created, &old[at].name));
    order
}

/// The states `(old, new)` a rollout comes to rest in, when between bursts of syncs all pods of the new set become available
/// (`healthy`) or none ever does. At most `most` states: a dry run must end.
pub fn resting_states(limits: &Limits, old: i64, healthy: bool, most: usize) -> Vec<(i64, i64)> {
    let mut states = Vec::new();
    let (mut old, mut new) = (old, Size::default());
    while states.len() < most {
        (old, new) = burst(limits, old, new);
        if states.last() == Some(&(old, new.spec)) {
            break;
        }
        states.push((old, new.spec));
        if !healthy {
            break;
        }
        new.available = new.spec;
    }
    states
}

/// Syncs until nothing moves. Every step adds new pods or takes old ones without changing what is available of the new
/// set, so a burst is a handful of steps.
fn burst(limits: &Limits, mut old: i64, mut new: Size) -> (i64, Size) {
    loop {
        let set = OldSet { name: String::new(), created: Moment::default(), size: Size { spec: old, available: old } };
        match step(limits, &Sets { new, old: vec![set], terminating: 0 }) {
            Step::Nothing => return (old, new),
            Step::ScaleNew(size) => new.spec = size,
            Step::ScaleOld { sizes, .. } => old = sum(sizes),
        }
    }
}

#[cfg(test)]
#[path = "rolling_tests.rs"]
mod tests;
