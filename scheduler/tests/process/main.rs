//! The scheduler as a process, against real nats-server and etcd.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod backup;
mod commands;
mod life;
mod nodes;
mod plans;
mod schema;
mod stage;
mod wire;
