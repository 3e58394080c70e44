//! Tests of groups with a strategy.

mod chaos;
mod defaults;
mod drain;
mod failures;
mod found;
mod inplace;
mod operations;
mod places;
mod plans;
mod prefetch;
mod spreading;
mod strategies;

use contract::rollout::{Amount, Strategy, StrategyType, Topology, UnitType};

use super::cluster::*;
use super::world::*;
use super::*;

/// A strategy of that kind with defaults.
fn strategy(kind: StrategyType) -> Strategy {
    Strategy { kind, ..Strategy::default() }
}

fn rolling(surge: i64, unavailable: i64) -> Strategy {
    Strategy {
        max_surge: Some(Amount::Count(surge)),
        max_unavailable: Some(Amount::Count(unavailable)),
        ..strategy(StrategyType::RollingUpdate)
    }
}

fn batches(kind: StrategyType, size: i64) -> Strategy {
    Strategy { batch_size: Some(Amount::Count(size)), ..strategy(kind) }
}
