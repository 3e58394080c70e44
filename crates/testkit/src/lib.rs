//! Fakes for tests, each once: a Docker engine, a node, an etcd, random numbers and sample values.
//!
//! Every fake is a value in memory. Time and randomness are arguments, so a test with the same inputs always runs the same way.
//! Tests and the tools `sim` and `e2e` use this crate; no product crate depends on it outside its tests.

pub mod container;
pub mod engine;
pub mod node;
pub mod random;
pub mod samples;
pub mod store;
