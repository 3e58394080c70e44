//! What the conductor does, by example and over random histories, in a cluster of its own.

mod batches;
mod chaos;
mod cluster;
mod control;
mod dry_run;
mod failures;
mod histories;
mod quotas;
mod rebalance;
mod rolling;
mod scaling;
mod states;
