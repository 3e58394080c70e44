//! fabric against real servers: every test starts its own nats-server or etcd on a free port in a temporary directory.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod bus;
mod bus_accounts;
mod bus_attacks;
mod bus_joins;
mod consumers;
mod elections;
mod servers;
mod store;
mod streams;
mod tls;
