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

use contract::command::Drift;
use contract::record::{Draining, Fetching};
use contract::report::ContainerFacts;
use contract::rollout::{
    Amount, AutoReschedule, Drain, FailureAction, PodReplacement, Strategy, StrategyType, Topology, UnitType,
    UpdatePolicy,
};
use contract::rollout_view::{InstanceChange, PlanView};
use contract::spec::PodGroupSpec;
use contract::state::RestartPolicy;

use super::cluster::*;
use super::world::*;
use super::*;
use crate::rollout::controller::{Cause, Control, RolloutStatus, apply};
use crate::rollout::moment::Moment;

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

fn zones(names: &[&str]) -> Topology {
    let values = names.iter().map(|name| (*name).to_owned()).collect();
    Topology { unit_type: UnitType::Zone, values, ..Topology::default() }
}

/// Puts each node into a zone.
fn label(cluster: &mut TestCluster, zones: &[(&str, &str)]) {
    for (node, zone) in zones {
        cluster.world.candidate(node).facts.labels.insert("zone".to_owned(), (*zone).to_owned());
    }
}

/// The instances that are drained.
fn drained(cluster: &TestCluster) -> Vec<usize> {
    let instances = cluster.world.instances.iter().enumerate();
    instances.filter(|(_, instance)| instance.draining.is_some()).map(|(index, _)| index + 1).collect()
}
