//! The scheduler as a process, against real nats-server and etcd.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod audit;
mod backup;
mod cluster;
mod commands;
mod growth;
mod life;
mod nodes;
mod plans;
mod rewound;
mod schema;
mod wire;
