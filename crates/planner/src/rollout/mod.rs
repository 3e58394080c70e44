//! How a running PodGroup is changed: the arithmetic of releases.
//!
//! Every function here is total: counts are `i64` and saturate, there are no floats, and whatever comes in, something
//! sensible comes out. Nothing knows about groups, slots, orders or records: the callers translate. Units are positions in
//! declaration order; sets and pods are what the caller passes, and answers are parallel to them. Section numbers and `D-n`
//! in comments are those of the rollout rules; `cargo run -p planner --example vectors -- FILE` holds the functions against
//! a file of known answers.

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
