//! Commands: judges what an API call requests and changes records accordingly.
//!
//! [`apply`] reads the command stream: it deduplicates, calls the handler of the command and stores the effect, the outcome and
//! the cursor in one bundle. A handler changes only the record of its object; `reconcile` changes the instances.
//!
//! Example: `replica web 5` passes [`limits`] and [`admission`], the record of `web` gets 5 instances and the operation
//! `Scheduling`, the outcome is `Accepted`, and group `web` is marked for reconciliation.

pub(in crate::core) mod access;
pub(in crate::core) mod admission;
pub(in crate::core) mod apply;
pub(in crate::core) mod cluster;
mod collisions;
pub(in crate::core) mod create;
pub(in crate::core) mod dependencies;
pub(in crate::core) mod evacuate;
pub(in crate::core) mod join;
pub(in crate::core) mod limits;
pub(in crate::core) mod nodes;
pub(in crate::core) mod policies;
pub(in crate::core) mod restore;
pub(in crate::core) mod rollout;
mod scale;
pub(in crate::core) mod spec;
pub(in crate::core) mod strategy;
