//! Infrastructure that every process shares: NATS, etcd, leader election, clock, tasks, settings, shutdown, health.
//!
//! Nothing here knows what a pod or a group is. Every call that leaves the process has a deadline.

pub mod admin;
pub mod backoff;
pub mod boot;
pub mod bus_accounts;
pub mod callback;
pub mod certificates;
pub mod clock;
pub mod duration;
pub mod election;
pub mod etcd;
pub mod http;
pub mod local;
pub mod nats;
pub mod process;
pub mod settings;
pub mod shutdown;
pub mod signing;
pub mod systemd;
pub mod tasks;
pub mod telemetry;
pub mod tls;
