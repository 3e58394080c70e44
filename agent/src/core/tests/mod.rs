//! Tests of the core: a bench that plays disk, engine and schedulers, and one file per question.

mod bench;
mod clocks;
mod converge;
mod dependencies;
mod engine;
mod instances;
mod orders;
mod reports;
mod requests;
mod restarts;
mod rollouts;
