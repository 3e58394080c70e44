//! Adapters of limits and rolling updates.

use planner::rollout::limits::{Flaw, Limits, Request, Strategy, fenceposts, flaws};
use planner::rollout::numbers::Amount;
use planner::rollout::rolling::{
    OldSet, Removal, Sets, Size, Step, clean_unhealthy, new_set_size, resting_states, step,
};
use serde_json::{Value, json};

use crate::input::{Answer, Input, flaw};

/// What the API fills in for a budget nobody gave.
const QUARTER: Amount = Amount::Percent(25);

/// The strategy an input names, with the budgets it gives.
pub(crate) fn strategy(name: &str, surge: Option<Amount>, unavailable: Option<Amount>) -> Answer<Strategy> {
    match name {
        "RollingUpdate" => Ok(Strategy::RollingUpdate { surge, unavailable }),
        "Recreate" => Ok(Strategy::Recreate),
        other => flaw(format!("no strategy {other:?}")),
    }
}

/// Sizes by the names of their sets.
pub(crate) fn by_name<'a>(names: impl IntoIterator<Item = &'a str>, sizes: &[i64]) -> Value {
    names
        .into_iter()
        .zip(sizes)
        .map(|(name, size)| (name.to_owned(), json!(size)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn rolling_limits(input: &Input) -> Answer<Limits> {
    let strategy = strategy("RollingUpdate", input.amount("max_surge")?, input.amount("max_unavailable")?)?;
    Ok(Limits::of(strategy, input.count("replicas")?))
}

pub(crate) fn resolve_fenceposts(input: &Input) -> Answer<Value> {
    let posts = fenceposts(input.amount("max_surge")?, input.amount("max_unavailable")?, input.count("desired")?);
    Ok(json!({"surge": posts.surge, "unavailable": posts.unavailable}))
}

pub(crate) fn effective_limits(input: &Input) -> Answer<Value> {
    let (surge, unavailable) = (input.amount_or("max_surge", QUARTER)?, input.amount_or("max_unavailable", QUARTER)?);
    let limits = Limits::of(strategy(input.text("strategy")?, surge, unavailable)?, input.count("replicas")?);
    Ok(json!({
        "surge": limits.surge,
        "unavailable": limits.unavailable,
        "min_available": limits.min_available,
        "max_total": limits.max_total,
    }))
}

pub(crate) fn validate_rolling(input: &Input) -> Answer<Value> {
    // A text that is no percentage is a rule violated too; it never becomes an amount.
    let mut names = Vec::new();
    let mut amount = |name: &str, shown: &str| match input.amount(name) {
        Ok(amount) => amount.unwrap_or(Amount::Count(0)),
        Err(_) => {
            names.push(format!("{shown}:invalid"));
            Amount::Count(1)
        }
    };
    let (surge, unavailable) = (amount("max_surge", "maxSurge"), amount("max_unavailable", "maxUnavailable"));
    let deadline =
        if input.0.contains_key("progress_deadline") { input.maybe_count("progress_deadline")? } else { Some(600) };
    let request = Request {
        surge: Some(surge),
        unavailable: Some(unavailable),
        min_ready: input.count_or("min_ready_seconds", 0)?,
        deadline,
    };
    names.extend(flaws(&request).into_iter().map(|flaw| flaw_name(flaw).to_owned()));
    names.sort();
    Ok(json!(names))
}

fn flaw_name(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::BothZero => "both-zero",
        Flaw::NegativeSurge => "maxSurge:negative",
        Flaw::NegativeUnavailable => "maxUnavailable:negative",
        Flaw::UnavailableAboveAll => "maxUnavailable>100%",
        Flaw::DeadlineNotAfterMinReady => "progressDeadline<=minReady",
    }
}

pub(crate) fn new_set_target(input: &Input) -> Answer<Value> {
    let strategy = strategy(input.text("strategy")?, input.amount("max_surge")?, None)?;
    let limits = Limits::of(strategy, input.count("replicas")?);
    Ok(json!(new_set_size(strategy, &limits, input.count("total_now")?, input.count("new_now")?)))
}

fn size(input: &Input) -> Answer<Size> {
    Ok(Size { spec: input.count_or("spec", 0)?, available: input.count_or("available", 0)? })
}

fn old_sets(input: &Input) -> Answer<Vec<OldSet>> {
    let set = |set: &Input| {
        let name = set.text("name")?.to_owned();
        Ok(OldSet { name, created: set.moment_or("created", 0)?, size: size(set)? })
    };
    input.objects("old")?.iter().map(set).collect()
}

fn named(old: &[OldSet], sizes: &[i64]) -> Value {
    by_name(old.iter().map(|set| set.name.as_str()), sizes)
}

pub(crate) fn rolling_step(input: &Input) -> Answer<Value> {
    let mut sets = Sets { new: size(&input.object("new")?)?, old: old_sets(input)?, terminating: 0 };
    if input.flag_or("clamp_status", false)? {
        sets = sets.clamped();
    }
    let present: Vec<i64> = sets.old.iter().map(|set| set.size.spec).collect();
    let new = sets.new.spec;
    Ok(match step(&rolling_limits(input)?, &sets) {
        Step::Nothing => json!({"action": "none", "new": new, "old": named(&sets.old, &present)}),
        Step::ScaleNew(size) => json!({"action": "scale-new", "new": size, "old": named(&sets.old, &present)}),
        Step::ScaleOld { sizes, cleaned, downed } => json!({
            "action": "scale-old",
            "new": new,
            "old": named(&sets.old, &sizes),
            "cleaned": cleaned,
            "downed": downed,
        }),
    })
}

pub(crate) fn cleanup_unhealthy(input: &Input) -> Answer<Value> {
    let old = old_sets(input)?;
    let Removal { sizes, removed } = clean_unhealthy(&old, input.count("max_cleanup")?);
    Ok(json!({"cleaned": removed, "old": named(&old, &sizes)}))
}

pub(crate) fn rolling_trace(input: &Input) -> Answer<Value> {
    let limits = rolling_limits(input)?;
    let most = usize::try_from(input.count_or("limit", 60)?).unwrap_or(0);
    let start = input.count_or("old_start", limits.replicas)?;
    let states = resting_states(&limits, start, input.flag_or("new_healthy", true)?, most);
    Ok(json!(states.iter().map(|(old, new)| [*old, *new]).collect::<Vec<_>>()))
}
