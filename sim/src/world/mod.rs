//! The simulated world: scheduler and agent processes, etcd, NATS, Docker engines and time.

pub mod bus;
pub mod election;
pub mod event;
mod event_loop;
pub mod event_queue;
pub mod faultless;
pub mod node_process;
pub mod scheduler_process;

pub use event_loop::{GroundTruth, World};
