//! The controller in a fake cluster, by example and over random histories.

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
