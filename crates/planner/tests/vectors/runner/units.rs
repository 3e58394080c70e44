//! Adapters of deployment units: allocation, batches, quotas.

use planner::rollout::batches::{self, BatchKind, BatchSettings, Spread};
use planner::rollout::numbers::Amount;
use planner::rollout::rebalance;
use planner::rollout::reschedule::{self, reschedule};
use planner::rollout::split::{Split, scaled};
use planner::rollout::units::{UnitPreference, Warning, allocate};
use serde_json::{Map, Value, json};

use super::input::{InputError, VectorInput, invalid};
use super::rolling::by_name;

pub(crate) fn allocate_units(input: &VectorInput) -> Result<Value, InputError> {
    let (values, preferences, current) =
        (input.texts("values")?, input.object("unit_replicas")?, input.object("current")?);
    // Rule 5 of R-46: the API rejects these.
    if let Some(unknown) = preferences.0.keys().find(|name| !values.contains(&name.as_str())) {
        return invalid(format!("a preference for {unknown:?}, which is no unit"));
    }
    if (1..values.len()).any(|at| values[..at].contains(&values[at])) {
        return invalid("a unit is named twice");
    }
    let unit =
        |name: &&str| Ok(UnitPreference { preference: preferences.amount(name)?, current: current.count_or(name, 0)? });
    let units: Vec<UnitPreference> = values.iter().map(unit).collect::<Result<_, InputError>>()?;
    let is_admissible = |preference: Amount| match preference {
        Amount::Count(count) => count >= 0,
        Amount::Percent(percent) => (0..=100).contains(&percent),
    };
    if units.iter().filter_map(|unit| unit.preference).any(|preference| !is_admissible(preference)) {
        return invalid("a preference below 0 or above 100%");
    }
    let allocation = allocate(input.count("replicas")?, &units);
    let warning = |warning: &Warning| match warning {
        Warning::Truncated(at) => format!("truncated:{}", values[*at]),
        Warning::PercentTruncated => "percent-truncated".to_owned(),
        Warning::Overflow => "overflow".to_owned(),
        Warning::Unsatisfiable => "unsatisfiable".to_owned(),
    };
    let warnings: Vec<String> = allocation.warnings.iter().map(warning).collect();
    Ok(json!({"units": by_name(values, &allocation.sizes), "warnings": warnings}))
}

pub(crate) fn resolve_batch_size(input: &VectorInput) -> Result<Value, InputError> {
    batch_size(input, input.count("replicas")?).map(|size| json!(size))
}

fn batch_size(input: &VectorInput, replicas: i64) -> Result<i64, InputError> {
    let size = input.amount("batch_size")?.map_or_else(|| invalid("no \"batch_size\""), Ok)?;
    Ok(batches::batch_size(size, replicas))
}

fn settings(input: &VectorInput, units: &[batches::UnitProgress]) -> Result<BatchSettings, InputError> {
    let beta = match input.text_or("upgrade_type", "Beta")? {
        "Beta" => true,
        "Batch" => false,
        other => return invalid(format!("no upgrade type {other:?}")),
    };
    let spread = match input.text_or("spread", "Proportional")? {
        "Proportional" => Spread::Proportional,
        "Even" => Spread::Even,
        "Sequential" => Spread::Sequential,
        other => return invalid(format!("no spread {other:?}")),
    };
    let replicas = units.iter().fold(0, |sum: i64, unit| sum.saturating_add(unit.target));
    Ok(BatchSettings { batch_size: batch_size(input, replicas)?, beta, spread })
}

/// Counts by unit, without zeros.
fn above_zero(names: &[&str], counts: &[i64]) -> Map<String, Value> {
    let named = names.iter().zip(counts).filter(|(_, count)| **count > 0);
    named.map(|(name, count)| ((*name).to_owned(), json!(count))).collect()
}

pub(crate) fn batch_plan(input: &VectorInput) -> Result<Value, InputError> {
    let (values, target, updated) = (input.texts("values")?, input.object("target")?, input.object("updated")?);
    let unit = |name: &&str| {
        Ok(batches::UnitProgress { target: target.count_or(name, 0)?, committed: updated.count_or(name, 0)? })
    };
    let units: Vec<batches::UnitProgress> = values.iter().map(unit).collect::<Result<_, InputError>>()?;
    let settings = settings(input, &units)?;
    let mut partition: Vec<i64> = units.iter().map(|unit| unit.committed).collect();
    let batch = |batch: batches::Batch| {
        for (now, add) in partition.iter_mut().zip(&batch.add) {
            *now += add;
        }
        let kind = match batch.kind {
            BatchKind::Beta => "Beta",
            BatchKind::Batch => "Batch",
        };
        let add = above_zero(&values, &batch.add);
        let partition = by_name(values.iter().copied(), &partition);
        json!({"kind": kind, "add": add, "partition": partition, "total": batch.add.iter().sum::<i64>()})
    };
    Ok(batches::batches(settings, &units).map(batch).collect())
}

pub(crate) fn unit_scale_split(input: &VectorInput) -> Result<Value, InputError> {
    let now = Split { updated: input.count("updated")?, old: input.count("old")? };
    let Split { updated, old } = scaled(now, input.count("target")?);
    Ok(json!({"updated": updated, "old": old}))
}

pub(crate) fn auto_reschedule(input: &VectorInput) -> Result<Value, InputError> {
    let values = input.texts("values")?;
    let (target, stuck, tried) = (input.object("target")?, input.object("stuck")?, input.object("tried")?);
    let (pinned, saturated) = (input.texts("pinned")?, input.texts("saturated")?);
    let instances = input.get("free_slots").map(|_| input.object("free_slots")).transpose()?;
    let unit = |name: &&str| {
        let tried = tried.texts(name)?;
        Ok(reschedule::UnitQuota {
            target: target.count_or(name, 0)?,
            stuck: stuck.count_or(name, 0)?,
            is_pinned: pinned.contains(name),
            is_saturated: saturated.contains(name),
            // If any unit has a known number of free places, a unit that is not listed has none.
            free_capacity: instances.as_ref().map(|instances| instances.count_or(name, 0)).transpose()?,
            tried: (0..values.len()).filter(|&at| tried.contains(&values[at])).collect(),
        })
    };
    let units: Vec<reschedule::UnitQuota> = values.iter().map(unit).collect::<Result<_, InputError>>()?;
    let result = reschedule(&units);
    let moves: Vec<[&str; 2]> = result.moves.iter().map(|step| [values[step.from], values[step.to]]).collect();
    let unplaced = above_zero(&values, &result.unplaced);
    let full: Vec<&str> = values.iter().zip(&units).filter(|(_, unit)| unit.is_full()).map(|(name, _)| *name).collect();
    Ok(json!({
        "target": by_name(values.iter().copied(), &result.targets),
        "moves": moves,
        "unplaced": unplaced,
        "saturated": full,
    }))
}

pub(crate) fn rebalance_step(input: &VectorInput) -> Result<Value, InputError> {
    let (target, spec, available) = (input.object("target")?, input.object("spec")?, input.object("available")?);
    let mut names: Vec<&str> = target.0.keys().chain(spec.0.keys()).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let unit = |name: &&str| {
        Ok(rebalance::UnitPods {
            target: target.count_or(name, 0)?,
            spec: spec.count_or(name, 0)?,
            available: available.count_or(name, 0)?,
        })
    };
    let units: Vec<rebalance::UnitPods> = names.iter().map(unit).collect::<Result<_, InputError>>()?;
    let sizes = rebalance::step(input.count("replicas")?, &units);
    Ok(by_name(names, &sizes))
}
