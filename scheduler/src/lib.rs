//! The scheduler: one leader turns commands and reports into placements and orders.
//!
//! `core` decides and does no I/O; `shell` talks to NATS and etcd for it; `app` builds and runs both.

pub mod app;
pub mod config;
pub mod core;
mod metrics;
pub mod migration;
mod shell;

pub use shell::schema;
