//! Tests of the group planner: rule by rule, and invariants for random input.

mod classify;
mod durability;
mod evacuate;
mod model;
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
