//! The decisions of deployd: desired state, observed state and time in, a plan out.
//!
//! Synchronous and deterministic: no clock, no randomness, no I/O, no iteration in an arbitrary order. The planner never
//! fails: what it cannot do is part of its result.
//!
//! * [`group`]: what the scheduler does to the instances of a group. [`rollout`]: how a rollout proceeds.
//! * [`placement`], [`capacity`], [`expression`]: which nodes fit.
//! * [`instance`], [`restart`], [`check`], [`fence`]: what an agent does on its node.
//! * [`liveness`], [`overdue`], [`view`], [`history`], [`notices`]: what reports mean.
//! * [`dependency`], [`ports`], [`webhook`]: dependency pods, stream ports, retries of callbacks.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod capacity;
pub mod check;
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
