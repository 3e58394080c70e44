//! The decisions of deployd: facts and time in, a plan out.
//!
//! Synchronous and deterministic: no clock, no randomness, no I/O, nothing that iterates in an arbitrary order. What a
//! planner cannot do is a line in its report, never a failure.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod capacity;
pub mod dependency;
pub mod expression;
pub mod fence;
pub mod group;
pub mod history;
pub mod instance;
pub mod liveness;
pub mod notices;
pub mod overdue;
pub mod placement;
pub mod ports;
pub mod restart;
pub mod rollout;
pub mod view;
pub mod webhook;
