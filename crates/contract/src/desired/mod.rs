//! Desired state, as users write it.

pub mod check;
pub mod dependency;
pub mod node;
pub mod policy;
pub mod ports;
pub mod rollout;
pub mod spec;
pub mod switches;
