//! Adapters of limits and rolling updates.

use planner::rollout::limits::{RolloutLimits, Strategy, resolve_budget};
use planner::rollout::numbers::Amount;
use planner::rollout::recreate;
use planner::rollout::rolling::{Removal, RollingStep, SetSize, Sets, clean_unhealthy, new_set_size, step};
use serde_json::{Value, json};

use super::input::{InputError, VectorInput, invalid};

/// The API's default of both budgets.
const QUARTER: Amount = Amount::Percent(25);

pub(crate) fn strategy(name: &str, surge: Option<Amount>, unavailable: Option<Amount>) -> Result<Strategy, InputError> {
    match name {
        "RollingUpdate" => Ok(Strategy::RollingUpdate { surge, unavailable }),
        "Recreate" => Ok(Strategy::Recreate),
        other => invalid(format!("no strategy {other:?}")),
    }
}

pub(crate) fn by_name<'a>(names: impl IntoIterator<Item = &'a str>, sizes: &[i64]) -> Value {
    names
        .into_iter()
        .zip(sizes)
        .map(|(name, size)| (name.to_owned(), json!(size)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn rolling_limits(input: &VectorInput) -> Result<RolloutLimits, InputError> {
    let strategy = strategy("RollingUpdate", input.amount("max_surge")?, input.amount("max_unavailable")?)?;
    Ok(RolloutLimits::of(strategy, input.count("replicas")?))
}

pub(crate) fn resolve_fenceposts(input: &VectorInput) -> Result<Value, InputError> {
    let posts = resolve_budget(input.amount("max_surge")?, input.amount("max_unavailable")?, input.count("desired")?);
    Ok(json!({"surge": posts.surge, "unavailable": posts.unavailable}))
}

pub(crate) fn effective_limits(input: &VectorInput) -> Result<Value, InputError> {
    let (surge, unavailable) = (input.amount_or("max_surge", QUARTER)?, input.amount_or("max_unavailable", QUARTER)?);
    let limits = RolloutLimits::of(strategy(input.text("strategy")?, surge, unavailable)?, input.count("replicas")?);
    Ok(json!({
        "surge": limits.surge,
        "unavailable": limits.unavailable,
        "min_available": limits.min_available,
        "max_total": limits.max_total,
    }))
}

pub(crate) fn new_set_target(input: &VectorInput) -> Result<Value, InputError> {
    let strategy = strategy(input.text("strategy")?, input.amount("max_surge")?, None)?;
    let (replicas, new) = (input.count("replicas")?, input.count("new_now")?);
    let size = match (strategy, recreate::step(replicas, Some(new), &[])) {
        (Strategy::RollingUpdate { .. }, _) => {
            new_set_size(&RolloutLimits::of(strategy, replicas), input.count("total_now")?, new)
        }
        (Strategy::Recreate, recreate::RecreateStep::ScaleNew(size)) => size,
        (Strategy::Recreate, _) => new,
    };
    Ok(json!(size))
}

fn size(input: &VectorInput) -> Result<SetSize, InputError> {
    Ok(SetSize { spec: input.count_or("spec", 0)?, available: input.count_or("available", 0)? })
}

/// The names and sizes of the old sets, oldest first; the name decides between sets of one age.
fn old_sets(input: &VectorInput) -> Result<(Vec<String>, Vec<SetSize>), InputError> {
    let set = |set: &VectorInput| Ok((set.moment_or("created", 0)?, set.text("name")?.to_owned(), size(set)?));
    let mut sets = input.objects("old")?.iter().map(set).collect::<Result<Vec<_>, InputError>>()?;
    sets.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    Ok(sets.into_iter().map(|(_, name, size)| (name, size)).unzip())
}

fn named(names: &[String], sizes: &[i64]) -> Value {
    by_name(names.iter().map(String::as_str), sizes)
}

pub(crate) fn rolling_step(input: &VectorInput) -> Result<Value, InputError> {
    let (names, old) = old_sets(input)?;
    let terminating = input.count_or("terminating", 0)?;
    let mut sets = Sets { new: size(&input.object("new")?)?, old, terminating };
    if input.flag_or("clamp_status", false)? {
        sets = sets.clamped();
    }
    let present: Vec<i64> = sets.old.iter().map(|set| set.spec).collect();
    let new = sets.new.spec;
    Ok(match step(&rolling_limits(input)?, &sets) {
        RollingStep::Nothing => json!({"action": "none", "new": new, "old": named(&names, &present)}),
        RollingStep::ScaleNew(size) => json!({"action": "scale-new", "new": size, "old": named(&names, &present)}),
        RollingStep::ScaleOld { sizes, cleaned, downed } => json!({
            "action": "scale-old",
            "new": new,
            "old": named(&names, &sizes),
            "cleaned": cleaned,
            "downed": downed,
        }),
    })
}

pub(crate) fn cleanup_unhealthy(input: &VectorInput) -> Result<Value, InputError> {
    let (names, old) = old_sets(input)?;
    let Removal { sizes, removed } = clean_unhealthy(&old, input.count("max_cleanup")?);
    Ok(json!({"cleaned": removed, "old": named(&names, &sizes)}))
}

/// The states `[old, new]` in which a rollout waits for pods: it takes steps until none is possible, then all new pods become
/// available (`new_healthy`) or none ever does.
pub(crate) fn rolling_trace(input: &VectorInput) -> Result<Value, InputError> {
    let limits = rolling_limits(input)?;
    let most = usize::try_from(input.count_or("limit", 60)?).unwrap_or(0);
    let (mut old, mut new) = (input.count_or("old_start", limits.replicas)?, SetSize::default());
    let mut states: Vec<[i64; 2]> = Vec::new();
    while states.len() < most {
        loop {
            match step(&limits, &Sets { new, old: vec![SetSize { spec: old, available: old }], terminating: 0 }) {
                RollingStep::Nothing => break,
                RollingStep::ScaleNew(size) => new.spec = size,
                RollingStep::ScaleOld { sizes, .. } => old = sizes.iter().sum(),
            }
        }
        if states.last() == Some(&[old, new.spec]) {
            break;
        }
        states.push([old, new.spec]);
        if !input.flag_or("new_healthy", true)? {
            break;
        }
        new.available = new.spec;
    }
    Ok(json!(states))
}
