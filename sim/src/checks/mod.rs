//! What must hold in every history.
//!
//! [`Checker`](checker::Checker) sees every event and reports the first broken [`Invariant`](invariants::Invariant). Its
//! [`Model`](model::Model) replays the commands that the leader stored and compares the stored state with what they request;
//! [`convergence`] looks once more at the end, when nothing has gone wrong for a while.

pub mod agent_actions;
pub mod budgets;
pub mod checker;
pub mod commit_changes;
pub mod convergence;
pub mod counters;
pub mod decisions;
pub mod dependencies;
pub mod instances;
pub mod invariants;
pub mod model;
pub mod one_at_a_time;
pub mod revisions;
pub mod rollout_changes;
pub mod rollout_commands;
pub mod rollout_end;
pub mod rollouts;
pub mod serving;
pub mod stream_ports;
pub mod switches;
