//! The notifier: carries notices from the bus to the callback URLs.
//!
//! Any number may run; they share one durable consumer. Nothing is kept here: what must be tried again goes back to
//! the bus with a delay, so a notifier that dies loses nothing.

pub mod app;
pub mod callbacks;
pub mod config;
pub mod desk;
pub mod lane;
pub mod metrics;
pub mod post;
