//! Reconcile: compares the desired and the observed state of one group and decides.
//!
//! [`queue`] keeps the groups to reconcile, [`input`] gathers what the planner reads, and the plan becomes one bundle of writes,
//! order changes and events. [`coalesce`] and [`rate_limit`] bound how often reports lead to a plan.
//!
//! Example: node-1 is lost. Every group with an instance there is marked; for each of them the planner picks another node, and
//! the bundle stores the placement and withdraws the pod from node-1.

pub(in crate::core) mod apply;
pub(in crate::core) mod coalesce;
pub(in crate::core) mod dependencies;
pub(in crate::core) mod input;
pub(in crate::core) mod ports;
pub(in crate::core) mod queue;
mod rate_limit;
pub(in crate::core) mod removal;
pub(in crate::core) mod waits;
