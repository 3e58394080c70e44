//! Tests of the core on a bench that simulates disk, Docker and schedulers.

mod bench;
mod checks;
mod clocks;
mod converge;
mod dependencies;
mod engine;
mod instances;
mod orders;
mod policies;
mod reports;
mod requests;
mod restarts;
mod rollouts;
