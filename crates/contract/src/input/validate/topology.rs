//! Validates the deployment units of a group.
//!
//! A unit is the value of a node label and becomes part of a placement constraint, so it must be a plain name: a star
//! or a slash has another meaning there.

use super::Flaws;
use super::rollout::SHARE;
use crate::ranges;
use crate::rollout::{Spread, StrategyType, Topology, UnitType};

/// Limit of units per group; each decision iterates over all of them.
pub const MOST_UNITS: usize = 64;

pub(super) fn check_topology(topology: &Topology, kind: StrategyType, flaws: &mut Flaws) {
    match topology.unit_type {
        UnitType::None => check_without_units(topology, flaws),
        UnitType::Cell | UnitType::Zone => check_units(topology, kind, flaws),
    }
}

fn check_without_units(topology: &Topology, flaws: &mut Flaws) {
    for (field, is_set) in [
        ("Topology.UnitLabel", !topology.unit_label.is_empty()),
        ("Topology.Values", !topology.values.is_empty()),
        ("Topology.UnitReplicas", !topology.unit_replicas.is_empty()),
        ("Topology.AutoReschedule", topology.auto_reschedule.is_some()),
        ("Topology.Spread", topology.spread != Spread::default()),
    ] {
        if is_set {
            flaws.add(field, "needs a UnitType, Cell or Zone: without one there are no units");
        }
    }
}

fn check_units(topology: &Topology, kind: StrategyType, flaws: &mut Flaws) {
    if !topology.unit_label.is_empty() {
        flaws.label("Topology.UnitLabel", &topology.unit_label);
    }
    check_values(&topology.values, flaws);
    for (unit, quota) in &topology.unit_replicas {
        let field = format!("Topology.UnitReplicas.{unit}");
        if topology.values.contains(unit) {
            flaws.amount(field, *quota, &SHARE);
        } else {
            flaws.add(field, "is not one of Values; name the unit there too, or leave it out here");
        }
    }
    if let Some(auto) = &topology.auto_reschedule {
        flaws.within(auto.initial_delay_seconds, ranges::INITIAL_DELAY_SECONDS);
    }
    if topology.spread != Spread::default() {
        flaws.only_with("Topology.Spread", &[StrategyType::Batch, StrategyType::Beta], kind);
    }
}

fn check_values(values: &[String], flaws: &mut Flaws) {
    if values.is_empty() {
        flaws.add("Topology.Values", "must name at least one unit: the values of the node label");
    }
    if values.len() > MOST_UNITS {
        flaws.add("Topology.Values", format!("{} are too many, at most {MOST_UNITS}", values.len()));
    }
    for (index, unit) in values.iter().enumerate() {
        let field = format!("Topology.Values[{index}]");
        if values[..index].contains(unit) {
            flaws.add(field, format!("names {unit:?} a second time"));
        } else {
            flaws.name(&field, unit);
        }
    }
}
