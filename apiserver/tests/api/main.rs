//! The API as clients see it: a real apiserver on a real nats-server, with a stand-in for the leader that speaks its
//! side of the contract over the bus.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod backups;
mod bodies;
mod browser;
mod clients;
mod contract;
mod depends;
mod events;
mod examples;
mod leader;
mod leader_rollouts;
mod leaving;
mod node;
mod node_changes;
mod outage;
mod peers;
mod policies;
mod ports;
mod reads;
mod rollouts;
mod routing;
mod switches;
mod world;
mod writes;
