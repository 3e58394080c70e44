//! The experiments by name: which faults, on how many clusters, and how long they may take.
//!
//! Two clusters at once: a killed process comes back after ever longer waits, so many kills in a short time need several.

use std::time::Duration;

use crate::chance::Chance;
use crate::fault::{Fault, any_kills};

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Short,
    Usual,
    Long,
}

/// What is done to the clusters of one experiment, two at a time.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) trials: Vec<Vec<Fault>>,
    /// For each pair of clusters.
    pub(crate) limit: Duration,
}

/// The names `--only` takes.
pub(crate) const NAMES: [&str; 3] = ["leader-kill", "any-kill", "leader-stop"];

/// The experiments of that size, all or the one named.
pub(crate) fn experiments(size: Size, only: Option<&str>, seed: u64) -> Vec<Experiment> {
    let mut chance = Chance::new(seed);
    if size == Size::Short && only.is_none() {
        let mut faults = vec![Fault::KillLeader, Fault::StopLeader, Fault::TermLeader];
        faults.extend(any_kills(8, &mut chance));
        return vec![Experiment { name: "short", trials: vec![faults], limit: Duration::from_secs(120) }];
    }
    let clusters = match size {
        Size::Short => 1,
        Size::Usual => 2,
        Size::Long => 10,
    };
    let mut all = Vec::new();
    for name in NAMES.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
        let trials = (0..clusters).map(|_| faults(name, size, &mut chance)).collect();
        all.push(Experiment { name, trials, limit: Duration::from_secs(240) });
    }
    all
}

fn faults(name: &str, size: Size, chance: &mut Chance) -> Vec<Fault> {
    let short = size == Size::Short;
    match name {
        "leader-kill" => {
            let mut faults = vec![Fault::KillLeader; if short { 2 } else { 10 }];
            faults.push(Fault::TermLeader);
            faults
        }
        "any-kill" => any_kills(if short { 8 } else { 30 }, chance),
        _ => vec![Fault::StopLeader; if short { 1 } else { 5 }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_do_what_is_promised() {
        let count = |size| {
            let all = experiments(size, None, 1);
            all.iter().map(|one| one.trials.iter().map(Vec::len).sum::<usize>()).collect::<Vec<_>>()
        };
        assert_eq!(count(Size::Usual), [22, 60, 10]);
        assert_eq!(count(Size::Long), [110, 300, 50]);
        assert_eq!(count(Size::Short), [11]);
    }

    #[test]
    fn one_experiment_can_be_had_alone() {
        let names: Vec<&str> = experiments(Size::Usual, Some("any-kill"), 1).iter().map(|one| one.name).collect();
        assert_eq!(names, ["any-kill"]);
    }
}
