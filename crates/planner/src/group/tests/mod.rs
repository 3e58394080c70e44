//! What planning a group promises, question by question and as a whole.

mod buckets;
mod drifting;
mod model;
mod obedience;
mod patches;
mod releases;
mod rollback;
mod serial;
mod storing;
mod tombstones;
mod turns;
mod upgrade;
mod whole;
mod world;

use contract::report::EngineState;
use contract::state::{HealthState, RunState, TargetState};

use super::*;
