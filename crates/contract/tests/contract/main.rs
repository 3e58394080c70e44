//! Tests of the contract: golden files of every message, validation, and deltas.

mod access_samples;
mod backup;
mod backup_samples;
mod delta;
mod earlier;
mod golden;
mod join_samples;
mod layout;
mod node_samples;
mod policy_samples;
mod progress_samples;
mod rollout_rules;
mod rollout_samples;
mod rollouts;
mod samples;
mod session_samples;
mod validate;
