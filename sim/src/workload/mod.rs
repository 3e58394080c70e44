//! What users do in a history: which commands they send and when, and how they answer rollouts that wait for someone.

pub mod cordons;
pub mod next_command;
pub mod rollout_operator;
pub mod rollout_specs;
pub mod rollouts;
pub mod specs;
pub mod switches;
mod timeline;
pub mod users;

pub use timeline::*;
