//! The notifier: posts notices from the bus to callback URLs.
//!
//! Several may run; they share one durable consumer. A notifier keeps no state: a notice to retry goes back to the bus with
//! a delay, so a crash loses nothing.

pub mod app;
pub mod callbacks;
pub mod config;
pub mod metrics;
pub mod post;
pub mod queue;
pub mod resolve;
pub mod router;
pub mod signature;
