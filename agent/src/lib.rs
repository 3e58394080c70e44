//! The agent: reconciles its node's order with the local Docker engine and reports the state of its pods.

pub mod address;
pub mod app;
pub mod circuit;
pub mod config;
pub mod container;
pub mod core;
pub mod device;
pub mod docker;
pub mod engine_health;
pub mod fault;
pub mod identity;
pub mod join;
pub mod ledger;
pub mod metrics;
pub mod name_claim;
pub mod policy;
pub mod pool;
pub mod sessions;
pub mod shell;
pub mod volumes;
