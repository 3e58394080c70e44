//! The apiserver: deployd's HTTP API in front of the bus.
//!
//! It keeps nothing: any number of them may run, and any of them answers any request. A command is published and
//! its outcome awaited, a question is asked of the leader. It speaks NATS and HTTP and nothing else.

pub mod app;
pub mod commands;
pub mod config;
pub mod debug_vars;
pub mod http;
pub mod listen;
pub mod metrics;
pub mod peers;
pub mod pending;
pub mod queries;
pub mod read_only;
pub mod store_outage;
pub mod streams;
pub mod synthetic_inspect;
pub mod view;
