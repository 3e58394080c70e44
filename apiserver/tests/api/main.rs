//! The API as clients see it: a real apiserver on a real nats-server, with a fake leader.

#![allow(clippy::unwrap_used, reason = "a test may panic when its setup fails")]

mod access;
mod backups;
mod bodies;
mod browser;
mod clients;
mod contract;
mod depends;
mod events;
mod examples;
mod leader;
mod leaving;
mod logs;
mod node;
mod node_changes;
mod outage;
mod peer;
mod peers;
mod policies;
mod ports;
mod reads;
mod rollouts;
mod routing;
mod switches;
mod transport;
mod world;
mod writes;
