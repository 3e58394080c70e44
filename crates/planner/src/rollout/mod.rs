//! Rollouts: how the instances of a PodGroup come to a new revision, are scaled and are moved between units.
//!
//! [`controller`] makes the decisions; the other modules are the arithmetic below it and know nothing of records and orders.
//! Every function is total: counts are `i64` and saturate, there are no floats. Units are identified by their position in
//! declaration order; answers are parallel to the slices that the caller passes.
//!
//! Comments cite the rules of `docs/rollout-rules.md` as `R-n`. `tests/vectors` checks the arithmetic against
//! a file of known answers; `cargo run -p planner --example vectors -- FILE` checks another file.

pub mod apportion;
pub mod availability;
pub mod batches;
pub mod controller;
pub mod failure;
pub mod inplace;
pub mod keeping;
pub mod limits;
pub mod moment;
pub mod numbers;
pub mod progress;
#[cfg(test)]
mod properties;
pub mod proportional;
pub mod ranking;
pub mod rebalance;
pub mod recreate;
pub mod reschedule;
pub mod revisions;
pub mod rolling;
pub mod split;
pub mod transition;
pub mod units;
