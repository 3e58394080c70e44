//! Tests of the core: a bench that plays disk, engine and schedulers, and one file per question.

mod bench;
mod converge;
mod engine;
mod lanes;
mod orders;
mod reports;
