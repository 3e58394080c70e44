//! The Docker adapter and the whole agent against the real local engine.
//!
//! Every test has a cluster of its own: a unique label on everything it makes, by which everything is removed again,
//! also when the test fails.

mod adapter;
mod away;
mod crashes;
mod docker;
mod ends;
mod names;
mod networks;
mod node;
mod process;
mod requests;
mod rollouts;
mod tar;
