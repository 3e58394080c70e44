//! The apiserver: deployd's HTTP API in front of the bus.
//!
//! It is stateless: several may run, and each answers any request. It publishes commands and waits for their outcomes,
//! and sends queries to the leader. It speaks only NATS and HTTP.

pub mod access;
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
pub mod rates;
pub mod read_only;
pub mod refused;
pub mod sessions;
pub mod store_outage;
pub mod streams;
pub mod synthetic_inspect;
pub mod view;
