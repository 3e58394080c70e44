//! The agent: makes its node's order true with the local Docker engine and reports what it sees.

pub mod core;
