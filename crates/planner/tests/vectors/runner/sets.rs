//! Adapters of scaling, Recreate, progress and revisions.

use planner::rollout::limits::RolloutLimits;
use planner::rollout::moment::Moment;
use planner::rollout::progress::{self, Counts, ProgressCondition, ProgressFacts, Reason, Status};
use planner::rollout::proportional::{ScaleTarget, ScaledFor, ScaledSet, fraction, scale};
use planner::rollout::ranking::PodPhase;
use planner::rollout::recreate::{self, RecreateStep};
use planner::rollout::revisions::{OldRevision, forgotten};
use serde_json::{Value, json};

use super::input::{InputError, VectorInput, invalid};
use super::rolling::{by_name, strategy};

pub(crate) fn scale_sets(input: &VectorInput) -> Result<Value, InputError> {
    let name = input.text_or("strategy", "RollingUpdate")?;
    let strategy = strategy(name, input.amount("max_surge")?, input.amount("max_unavailable")?)?;
    let limits = RolloutLimits::of(strategy, input.count("replicas")?);
    let wanted = ScaleTarget { limits, seen: input.count_or("status_replicas", 0)? };
    let inputs = oldest_first(input.objects("sets")?)?;
    let sets: Vec<ScaledSet> = inputs.iter().map(scaled_set).collect::<Result<_, InputError>>()?;
    let names = inputs.iter().map(|set| set.text("name")).collect::<Result<Vec<_>, InputError>>()?;
    Ok(by_name(names, &scale(strategy, &wanted, &sets)))
}

/// Sets by age; the name decides between sets of one age.
fn oldest_first(sets: Vec<VectorInput>) -> Result<Vec<VectorInput>, InputError> {
    let keyed = sets.into_iter().map(|set| Ok(((set.moment_or("created", 0)?, set.text("name")?.to_owned()), set)));
    let mut keyed = keyed.collect::<Result<Vec<_>, InputError>>()?;
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(keyed.into_iter().map(|(_, set)| set).collect())
}

fn scaled_set(set: &VectorInput) -> Result<ScaledSet, InputError> {
    Ok(ScaledSet {
        is_new: set.flag_or("is_new", false)?,
        spec: set.count_or("spec", 0)?,
        available: set.count_or("available", 0)?,
        stored: ScaledFor { desired: set.maybe_count("desired_annotation")?, max: set.maybe_count("max_annotation")? },
    })
}

pub(crate) fn set_fraction(input: &VectorInput) -> Result<Value, InputError> {
    let strategy = strategy("RollingUpdate", input.amount("max_surge")?, None)?;
    let limits = RolloutLimits::of(strategy, input.count("replicas")?);
    let wanted = ScaleTarget { limits, seen: input.count_or("status_replicas", 0)? };
    Ok(json!(fraction(&wanted, input.count("set_spec")?, input.maybe_count("max_annotation")?)))
}

pub(crate) fn phase(text: &str) -> Result<PodPhase, InputError> {
    match text {
        "Pending" => Ok(PodPhase::Pending),
        "Running" => Ok(PodPhase::Running),
        "Unknown" => Ok(PodPhase::Unknown),
        "Succeeded" => Ok(PodPhase::Succeeded),
        "Failed" => Ok(PodPhase::Failed),
        other => invalid(format!("no phase {other:?}")),
    }
}

pub(crate) fn recreate_step(input: &VectorInput) -> Result<Value, InputError> {
    let old =
        |set: &VectorInput| Ok(recreate::OldSet { spec: set.count_or("spec", 0)?, actual: set.count_or("actual", 0)? });
    let old: Vec<recreate::OldSet> = input.objects("old")?.iter().map(old).collect::<Result<_, InputError>>()?;
    let new = input.get("new").map(|_| input.object("new")?.count_or("spec", 0)).transpose()?;
    Ok(match recreate::step(input.count("replicas")?, new, &old) {
        RecreateStep::ScaleOldToZero => json!({"action": "scale-old-to-zero"}),
        RecreateStep::WaitForOldPods => json!({"action": "wait-old-pods"}),
        RecreateStep::CreateNew(replicas) => json!({"action": "create-new", "replicas": replicas}),
        RecreateStep::ScaleNew(replicas) => json!({"action": "scale-new", "replicas": replicas}),
        RecreateStep::Nothing => json!({"action": "none"}),
    })
}

fn counts(input: &VectorInput) -> Result<Counts, InputError> {
    Ok(Counts {
        replicas: input.count_or("replicas", 0)?,
        updated: input.count_or("updated", 0)?,
        ready: input.count_or("ready", 0)?,
        available: input.count_or("available", 0)?,
    })
}

pub(crate) fn deployment_complete(input: &VectorInput) -> Result<Value, InputError> {
    // The planner counts from the stored spec itself, so it never sees counts of an older generation.
    let is_current = input.count_or("observed", 1)? >= input.count_or("generation", 1)?;
    Ok(json!(is_current && progress::is_complete(input.count("desired")?, counts(input)?)))
}

pub(crate) fn deployment_progressing(input: &VectorInput) -> Result<Value, InputError> {
    Ok(json!(progress::is_progressing(counts(&input.object("before")?)?, counts(&input.object("after")?)?)))
}

const REASONS: [(&str, Reason); 6] = [
    ("NewReplicaSetAvailable", Reason::NewReplicaSetAvailable),
    ("ReplicaSetUpdated", Reason::ReplicaSetUpdated),
    ("ProgressDeadlineExceeded", Reason::ProgressDeadlineExceeded),
    ("DeploymentPaused", Reason::DeploymentPaused),
    ("DeploymentResumed", Reason::DeploymentResumed),
    ("NewReplicaSetCreated", Reason::NewReplicaSetCreated),
];

fn reason(text: &str) -> Result<Reason, InputError> {
    let known = REASONS.into_iter().find(|(word, _)| *word == text);
    known.map_or_else(|| invalid(format!("no reason {text:?}")), |(_, reason)| Ok(reason))
}

pub(crate) fn deployment_timed_out(input: &VectorInput) -> Result<Value, InputError> {
    let current = if input.flag_or("has_condition", true)? {
        Some(ProgressCondition {
            status: Status::True,
            reason: reason(input.text("reason")?)?,
            last_update: input.moment_or("last_update", 0)?,
            last_transition: Moment::default(),
        })
    } else {
        None
    };
    let deadline = progress::deadline(input.maybe_count("deadline")?);
    Ok(json!(progress::is_timed_out(deadline, current.as_ref(), input.moment("now")?)))
}

pub(crate) fn progress_condition(input: &VectorInput) -> Result<Value, InputError> {
    let current = input.get("current").map(|_| condition(&input.object("current")?)).transpose()?;
    let facts = ProgressFacts {
        deadline: progress::deadline(input.maybe_count("deadline")?),
        desired: input.count("desired")?,
        before: counts(&input.object("before")?)?,
        after: counts(&input.object("after")?)?,
    };
    let condition = progress::condition(&facts, current, input.moment("now")?);
    Ok(condition.map_or(Value::Null, |condition| {
        json!({
            "status": format!("{:?}", condition.status),
            "reason": format!("{:?}", condition.reason),
            "last_update": seconds(condition.last_update.as_nanos()),
            "last_transition": seconds(condition.last_transition.as_nanos()),
        })
    }))
}

fn condition(input: &VectorInput) -> Result<ProgressCondition, InputError> {
    let status = match input.text("status")? {
        "True" => Status::True,
        "False" => Status::False,
        "Unknown" => Status::Unknown,
        other => return invalid(format!("no status {other:?}")),
    };
    Ok(ProgressCondition {
        status,
        reason: reason(input.text("reason")?)?,
        last_update: input.moment_or("last_update", 0)?,
        last_transition: input.moment_or("last_transition", 0)?,
    })
}

/// Nanoseconds as seconds: an integer where it is one.
pub(crate) fn seconds(nanos: i64) -> Value {
    const SECOND: i64 = 1_000_000_000;
    if nanos % SECOND == 0 {
        return json!(nanos / SECOND);
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:09}", (nanos / SECOND).abs(), (nanos % SECOND).abs());
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// A number, also as text.
fn revision(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

pub(crate) fn history_cleanup(input: &VectorInput) -> Result<Value, InputError> {
    let Some(limit) = input.maybe_count("limit")? else { return Ok(json!([])) };
    // A revision that is being deleted is no longer in the stored history.
    let mut sets = Vec::new();
    for set in oldest_first(input.objects("old")?)? {
        if !set.flag_or("deleting", false)? {
            sets.push(set);
        }
    }
    sets.sort_by_key(|set| set.get("revision").and_then(revision).unwrap_or(0));
    let old = |set: &VectorInput| {
        // Counts of an older generation are ignored: the revision may have pods.
        let is_current = set.count_or("generation", 1)? <= set.count_or("observed", 1)?;
        let pods = set.count_or("spec", 0)?.max(set.count_or("actual", 0)?);
        Ok(OldRevision { pods: if is_current { pods } else { 1 }, is_last_completed: false })
    };
    let old: Vec<OldRevision> = sets.iter().map(old).collect::<Result<_, InputError>>()?;
    let names = forgotten(&old, limit).into_iter().map(|at| sets[at].text("name"));
    Ok(json!(names.collect::<Result<Vec<_>, InputError>>()?))
}
