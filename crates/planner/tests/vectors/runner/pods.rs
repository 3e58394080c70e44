//! Adapters of availability, slow start and ranking.

use std::time::Duration;

use planner::rollout::availability::{Ready, is_available, next_check};
use planner::rollout::keeping::{BURST, ReplicaChange, play, slow_start, step};
use planner::rollout::ranking::{self, PodPhase, RankedPod, Readiness};
use serde_json::{Value, json};

use super::input::{InputError, VectorInput};
use super::sets::{phase, seconds};

fn ready(input: &VectorInput) -> Result<Ready, InputError> {
    Ok(Ready { ready: input.flag_or("ready", false)?, since: input.maybe_moment("ready_since")? })
}

pub(crate) fn pod_available(input: &VectorInput) -> Result<Value, InputError> {
    let min_ready = input.span_or("min_ready_seconds", 0)?;
    Ok(json!(is_available(ready(input)?, min_ready, input.moment("now")?)))
}

pub(crate) fn next_availability_check(input: &VectorInput) -> Result<Value, InputError> {
    let pods: Vec<Ready> = input.objects("pods")?.iter().map(ready).collect::<Result<_, InputError>>()?;
    let wait = next_check(&pods, input.span_or("min_ready_seconds", 0)?, input.moment("now")?);
    let nanos = |wait: Duration| i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
    Ok(wait.map_or(Value::Null, |wait| seconds(nanos(wait))))
}

pub(crate) fn slow_start_batches(input: &VectorInput) -> Result<Value, InputError> {
    Ok(json!(slow_start(input.count("count")?, input.count_or("initial", 1)?)))
}

pub(crate) fn slow_start_run(input: &VectorInput) -> Result<Value, InputError> {
    let outcome = play(input.count("count")?, input.count("success_limit")?, input.count_or("initial", 1)?);
    Ok(json!({
        "calls": outcome.calls,
        "successes": outcome.successes,
        "error": outcome.failed,
        "expectations_to_lower": outcome.unexpected,
    }))
}

pub(crate) fn manage_replicas(input: &VectorInput) -> Result<Value, InputError> {
    Ok(match step(input.count("active")?, input.count("desired")?, input.count_or("burst", BURST)?) {
        ReplicaChange::Nothing => json!({}),
        ReplicaChange::Create(batches) => json!({"create": batches.iter().sum::<i64>(), "batches": batches}),
        ReplicaChange::Delete { count, ranked } => json!({"delete": count, "rank": ranked}),
    })
}

pub(crate) fn parse_deletion_cost(input: &VectorInput) -> Result<Value, InputError> {
    Ok(json!(ranking::deletion_cost(input.digits("text").as_deref())))
}

pub(crate) fn age_bucket(input: &VectorInput) -> Result<Value, InputError> {
    Ok(json!(ranking::age_bucket(input.moment("then")?, input.moment("now")?)))
}

fn pod(input: &VectorInput) -> Result<RankedPod, InputError> {
    let phase = input.maybe_text("phase")?.map_or(Ok(PodPhase::Pending), phase)?;
    let is_available = input.flag_or("available", input.flag_or("ready", false)?)?;
    let is_ready = input.flag_or("ready", is_available)?;
    Ok(RankedPod {
        // The name is the default of the uid.
        uid: input.maybe_text("uid")?.map_or_else(|| input.text("name"), Ok)?.to_owned(),
        node: input.text_or("node", "")?.to_owned(),
        phase,
        readiness: match (is_ready, is_available) {
            (true, true) => Readiness::Available,
            (true, false) => Readiness::Ready,
            (false, _) => Readiness::NotReady,
        },
        ready_since: input.maybe_moment("ready_since")?,
        created: input.maybe_moment("created")?,
        cost: ranking::deletion_cost(input.digits("cost").as_deref()),
        restarts: input.count_or("restarts", 0)?,
        is_active: input.flag_or("active", !phase.is_finished())?,
    })
}

fn pods(input: &VectorInput, name: &str) -> Result<Vec<RankedPod>, InputError> {
    input.objects(name)?.iter().map(pod).collect()
}

fn name(input: &VectorInput, at: usize) -> Result<Value, InputError> {
    Ok(json!(input.objects("pods")?[at].text("name")?))
}

pub(crate) fn deletion_order(input: &VectorInput) -> Result<Value, InputError> {
    let pods_given = pods(input, "pods")?;
    let related = if input.get("related").is_some() { pods(input, "related")? } else { pods_given.clone() };
    let order = ranking::deletion_order(&pods_given, &related, input.moment("now")?);
    order.into_iter().map(|at| name(input, at)).collect()
}

pub(crate) fn pick_beta_pod(input: &VectorInput) -> Result<Value, InputError> {
    ranking::beta_pod(&pods(input, "pods")?).map_or(Ok(Value::Null), |at| name(input, at))
}
