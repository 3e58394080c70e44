//! The Docker adapter and the whole agent against the real local engine.
//!
//! Every test has its own cluster: a unique label on everything it creates, by which everything is removed again, also after
//! a failure.

mod adapter;
mod away;
mod checks;
mod conformance;
mod crashes;
mod docker;
mod ends;
mod logs;
mod names;
mod networks;
mod node;
mod policies;
mod process;
mod requests;
mod rollouts;
mod tar;
