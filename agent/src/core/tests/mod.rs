//! Tests of the core: a bench that plays disk, engine and schedulers, and one file per question.

mod asks;
mod bench;
mod clocks;
mod converge;
mod dependencies;
mod engine;
mod lanes;
mod orders;
mod releases;
mod reports;
mod restarts;
