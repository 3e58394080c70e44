//! Whole clusters of real processes on the local Docker engine: what users do, and what goes wrong.
//!
//! Each test starts its own cluster with `deployctl up` in a temporary directory on free ports and takes it down
//! again, containers included.

mod access;
mod backup;
mod bus_keys;
mod canaries;
mod cluster;
mod contract;
mod dependencies;
mod docker;
mod failover;
mod first_app;
mod forged;
mod generated;
mod healing;
mod joins;
mod logs;
mod measured;
mod no_image;
mod node_loss;
mod nodes;
mod notices;
mod old_clients;
mod operations;
mod outage;
mod ports;
mod readme;
#[path = "../../../notifier/tests/deliver/receiver.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the notifier's own tests use more of it, in their own manner")]
mod receiver;
#[path = "../../../apiserver/tests/api/access/requests.rs"]
mod requests;
mod rewound;
mod roles;
mod rollouts;
mod switches;
mod tls;
mod up;
