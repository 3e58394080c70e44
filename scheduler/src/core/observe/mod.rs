//! Observe: folds the reports of agents into the observed state.
//!
//! Owns [`reports::ReportCache`]: the last report of every node, on the leader and on standbys alike. The leader's loop calls
//! [`liveness`] with every report; what the report changes marks groups for `reconcile` and orders for `dispatch`.
//!
//! Example: node-2 reports that `web.v3-i1-d0` runs. The cache keeps the report, the node counts as alive for another
//! `suspect_after`, `history` notes the start, and group `web` is marked for reconciliation.

pub(in crate::core) mod clocks;
pub(in crate::core) mod duplicate_agents;
pub(in crate::core) mod history;
pub(in crate::core) mod listening;
pub(in crate::core) mod liveness;
pub(in crate::core) mod losses;
pub(in crate::core) mod older_store;
pub(in crate::core) mod pending;
pub(in crate::core) mod reports;
