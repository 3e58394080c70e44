//! Tests of the group planner: rule by rule, and invariants for random input.

mod classify;
mod cluster;
mod durability;
mod evacuate;
mod obedience;
mod operations;
mod patches;
mod rollback;
mod rollouts;
mod serial;
mod tombstones;
mod upgrade;
mod whole;
mod world;

use contract::report::EngineState;
use contract::state::{HealthState, RunState, TargetState};

use super::*;
