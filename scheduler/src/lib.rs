//! The scheduler: one leader turns commands and reports into placements and orders.
//!
//! `core` decides and knows no network; `shell` is its hands; `app` puts them together.

pub mod app;
pub mod config;
pub mod core;
mod metrics;
pub mod migration;
mod shell;

pub use shell::schema;
