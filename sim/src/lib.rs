//! The proof: real scheduler and agent cores on simulated etcd, NATS, Docker and time. One seed is one history.
//!
//! Nothing here touches a network, a disk or a clock. See [`run::run`] for the way in, [`invariants`] for what must
//! hold and [`faults`] for what goes wrong.

pub mod actions;
pub mod asking;
pub mod braking;
pub mod budgets;
pub mod bus;
pub mod changes;
pub mod claims;
pub mod concluding;
pub mod conducted;
pub mod convergence;
pub mod cordoning;
pub mod counts;
pub mod decisions;
pub mod describe;
pub mod election;
pub mod engine;
pub mod event;
pub mod faults;
pub mod hardship;
pub mod invariants;
pub mod machine;
pub mod mishap;
pub mod model;
pub mod mutant;
pub mod needs;
pub mod outage;
pub mod plan;
pub mod played;
pub mod progress;
pub mod queue;
pub mod random;
pub mod releases;
pub mod run;
pub mod said;
pub mod seat;
pub mod service;
pub mod slots;
pub mod specs;
pub mod stage;
pub mod steering;
pub mod store;
pub mod switches;
pub mod tending;
pub mod trace;
pub mod turns;
pub mod users;
pub mod versions;
pub mod watch;
pub mod workload;
pub mod world;
