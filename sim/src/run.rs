//! Runs a seed: the whole history twice, and compares.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::checks::invariants::{Invariant, Violation};
use crate::mutant::Mutant;
use crate::scenario::Scenario;
use crate::world::World;

/// How a history went.
#[derive(Debug)]
pub struct History {
    /// The first breach.
    pub violation: Option<Violation>,
    /// Sum over the trace.
    pub sum: u64,
    /// Lines of the trace.
    pub count: u64,
    /// The lines kept: all, or the last ones.
    pub lines: Vec<String>,
}

/// Runs one history.
pub fn once(seed: u64, mutant: Option<Mutant>, whole_trace: bool) -> History {
    let scenario = Scenario::new(seed);
    let mut world = None;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let world = world.insert(World::new(scenario, mutant, whole_trace));
        world.run();
    }));
    let panicked = result.err().map(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Violation { invariant: Invariant::NoPanic, detail: text.unwrap_or_default() }
    });
    match world {
        None => History { violation: panicked, sum: 0, count: 0, lines: Vec::new() },
        Some(world) => History {
            violation: panicked.or(world.checker.violation),
            sum: world.trace.sum(),
            count: world.trace.count(),
            lines: world.trace.into_lines(),
        },
    }
}

/// Runs one history twice: the second must be the first.
pub fn run(seed: u64, mutant: Option<Mutant>, whole_trace: bool) -> History {
    let (first, second) = (once(seed, mutant, whole_trace), once(seed, mutant, false));
    if first.violation.is_none() && (first.sum, first.count) != (second.sum, second.count) {
        let detail =
            format!("{} lines with sum {:x}, then {} with {:x}", first.count, first.sum, second.count, second.sum);
        return History { violation: Some(Violation { invariant: Invariant::Deterministic, detail }), ..first };
    }
    first
}
