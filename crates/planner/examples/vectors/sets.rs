//! Adapters of scaling, recreating, progress and revisions.

use planner::rollout::limits::Limits;
use planner::rollout::moment::Moment;
use planner::rollout::progress::{self, Condition, Counts, Facts, Generations, Reason, Status};
use planner::rollout::proportional::{ScaledSet, Stored, Wanted, fraction, scale};
use planner::rollout::recreate::{self, Phase, Step};
use planner::rollout::revisions;
use serde_json::{Value, json};

use crate::input::{Answer, Input, flaw};
use crate::rolling::{by_name, strategy};

pub(crate) fn scale_sets(input: &Input) -> Answer<Value> {
    let name = input.text_or("strategy", "RollingUpdate")?;
    let strategy = strategy(name, input.amount("max_surge")?, input.amount("max_unavailable")?)?;
    let limits = Limits::of(strategy, input.count("replicas")?);
    let wanted = Wanted { limits, seen: input.count_or("status_replicas", 0)? };
    let sets: Vec<ScaledSet> = input.objects("sets")?.iter().map(scaled_set).collect::<Answer<_>>()?;
    Ok(by_name(sets.iter().map(|set| set.name.as_str()), &scale(strategy, &wanted, &sets)))
}

fn scaled_set(set: &Input) -> Answer<ScaledSet> {
    Ok(ScaledSet {
        name: set.text("name")?.to_owned(),
        created: set.moment_or("created", 0)?,
        is_new: set.flag_or("is_new", false)?,
        spec: set.count_or("spec", 0)?,
        available: set.count_or("available", 0)?,
        stored: Stored { desired: set.maybe_count("desired_annotation")?, max: set.maybe_count("max_annotation")? },
    })
}

pub(crate) fn set_fraction(input: &Input) -> Answer<Value> {
    let strategy = strategy("RollingUpdate", input.amount("max_surge")?, None)?;
    let limits = Limits::of(strategy, input.count("replicas")?);
    let wanted = Wanted { limits, seen: input.count_or("status_replicas", 0)? };
    Ok(json!(fraction(&wanted, input.count("set_spec")?, input.maybe_count("max_annotation")?)))
}

/// What a pod is doing, by the word for it.
pub(crate) fn phase(text: &str) -> Answer<Phase> {
    match text {
        "Pending" => Ok(Phase::Pending),
        "Running" => Ok(Phase::Running),
        "Unknown" => Ok(Phase::Unknown),
        "Succeeded" => Ok(Phase::Succeeded),
        "Failed" => Ok(Phase::Failed),
        other => flaw(format!("no phase {other:?}")),
    }
}

pub(crate) fn recreate_step(input: &Input) -> Answer<Value> {
    let old = |set: &Input| Ok(recreate::OldSet { spec: set.count_or("spec", 0)?, actual: set.count_or("actual", 0)? });
    let old: Vec<recreate::OldSet> = input.objects("old")?.iter().map(old).collect::<Answer<_>>()?;
    let phases: Vec<Phase> = input.texts("old_pods_phases")?.into_iter().map(phase).collect::<Answer<_>>()?;
    let new = input.get("new").map(|_| input.object("new")?.count_or("spec", 0)).transpose()?;
    Ok(match recreate::step(input.count("replicas")?, new, &old, &phases) {
        Step::ScaleOldToZero => json!({"action": "scale-old-to-zero"}),
        Step::WaitForOldPods => json!({"action": "wait-old-pods"}),
        Step::CreateNew(replicas) => json!({"action": "create-new", "replicas": replicas}),
        Step::ScaleNew(replicas) => json!({"action": "scale-new", "replicas": replicas}),
        Step::Nothing => json!({"action": "none"}),
    })
}

fn counts(input: &Input) -> Answer<Counts> {
    Ok(Counts {
        replicas: input.count_or("replicas", 0)?,
        updated: input.count_or("updated", 0)?,
        ready: input.count_or("ready", 0)?,
        available: input.count_or("available", 0)?,
    })
}

pub(crate) fn deployment_complete(input: &Input) -> Answer<Value> {
    let generations = Generations { spec: input.count_or("generation", 1)?, observed: input.count_or("observed", 1)? };
    Ok(json!(progress::is_complete(input.count("desired")?, counts(input)?, generations)))
}

pub(crate) fn deployment_progressing(input: &Input) -> Answer<Value> {
    Ok(json!(progress::is_progressing(counts(&input.object("before")?)?, counts(&input.object("after")?)?)))
}

/// Every reason the rules name, by the word for it.
const REASONS: [(&str, Reason); 8] = [
    ("NewReplicaSetAvailable", Reason::NewReplicaSetAvailable),
    ("ReplicaSetUpdated", Reason::ReplicaSetUpdated),
    ("ProgressDeadlineExceeded", Reason::ProgressDeadlineExceeded),
    ("DeploymentPaused", Reason::DeploymentPaused),
    ("DeploymentResumed", Reason::DeploymentResumed),
    ("NewReplicaSetCreated", Reason::NewReplicaSetCreated),
    ("FoundNewReplicaSet", Reason::FoundNewReplicaSet),
    ("ReplicaSetCreateError", Reason::ReplicaSetCreateError),
];

fn reason(text: &str) -> Reason {
    let known = REASONS.into_iter().find(|(word, _)| *word == text);
    known.map_or_else(|| Reason::Other(text.to_owned()), |(_, reason)| reason)
}

fn reason_word(reason: &Reason) -> String {
    match REASONS.into_iter().find(|(_, known)| known == reason) {
        Some((word, _)) => word.to_owned(),
        None => match reason {
            Reason::Other(text) => text.clone(),
            known => format!("{known:?}"),
        },
    }
}

pub(crate) fn deployment_timed_out(input: &Input) -> Answer<Value> {
    let current = Condition {
        status: Status::True,
        reason: reason(input.text_or("reason", "")?),
        last_update: input.moment_or("last_update", 0)?,
        last_transition: Moment::default(),
    };
    let current = input.flag_or("has_condition", true)?.then_some(&current);
    let deadline = progress::deadline(input.maybe_count("deadline")?);
    Ok(json!(progress::is_timed_out(deadline, current, input.moment("now")?)))
}

pub(crate) fn progress_condition(input: &Input) -> Answer<Value> {
    let current = input.get("current").map(|_| condition(&input.object("current")?)).transpose()?;
    let facts = Facts {
        deadline: progress::deadline(input.maybe_count("deadline")?),
        desired: input.count("desired")?,
        generations: Generations { spec: 1, observed: 1 },
        before: counts(&input.object("before")?)?,
        after: counts(&input.object("after")?)?,
    };
    let condition = progress::condition(&facts, current, input.moment("now")?);
    Ok(condition.map_or(Value::Null, |condition| {
        json!({
            "status": format!("{:?}", condition.status),
            "reason": reason_word(&condition.reason),
            "last_update": seconds(condition.last_update.as_nanos()),
            "last_transition": seconds(condition.last_transition.as_nanos()),
        })
    }))
}

fn condition(input: &Input) -> Answer<Condition> {
    let status = match input.text("status")? {
        "True" => Status::True,
        "False" => Status::False,
        "Unknown" => Status::Unknown,
        other => return flaw(format!("no status {other:?}")),
    };
    Ok(Condition {
        status,
        reason: reason(input.text_or("reason", "")?),
        last_update: input.moment_or("last_update", 0)?,
        last_transition: input.moment_or("last_transition", 0)?,
    })
}

/// Nanoseconds as the seconds of the file: a whole number where it is one.
pub(crate) fn seconds(nanos: i64) -> Value {
    const SECOND: i64 = 1_000_000_000;
    if nanos % SECOND == 0 {
        return json!(nanos / SECOND);
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:09}", (nanos / SECOND).abs(), (nanos % SECOND).abs());
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Numbers, also as texts; what is neither could not be read.
fn revision(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

pub(crate) fn next_revision(input: &Input) -> Answer<Value> {
    let old: Vec<Option<i64>> = input.list("old_revisions")?.iter().map(revision).collect();
    Ok(json!(revisions::next_revision(&old, input.get("new_revision").and_then(revision))))
}

pub(crate) fn rollback_target(input: &Input) -> Answer<Value> {
    let known: Vec<Option<i64>> = input.list("revisions")?.iter().map(revision).collect();
    Ok(json!(revisions::rollback_target(&known, input.count_or("to_revision", 0)?)))
}

pub(crate) fn revision_history_append(input: &Input) -> Answer<Value> {
    let most = usize::try_from(input.count_or("limit_chars", 2000)?).unwrap_or(0);
    let Some(former) = input.digits("old_revision") else { return flaw("no \"old_revision\"") };
    Ok(json!(revisions::with_former(input.text_or("history", "")?, &former, most)))
}

pub(crate) fn history_cleanup(input: &Input) -> Answer<Value> {
    let old = |set: &Input| {
        Ok(revisions::OldSet {
            name: set.text("name")?.to_owned(),
            revision: set.get("revision").and_then(revision),
            created: set.moment_or("created", 0)?,
            spec: set.count_or("spec", 0)?,
            actual: set.count_or("actual", 0)?,
            is_observed: set.count_or("generation", 1)? <= set.count_or("observed", 1)?,
            is_deleting: set.flag_or("deleting", false)?,
            is_proven: false,
        })
    };
    let old: Vec<revisions::OldSet> = input.objects("old")?.iter().map(old).collect::<Answer<_>>()?;
    let forgotten = revisions::forgotten(&old, input.maybe_count("limit")?);
    Ok(json!(forgotten.into_iter().map(|at| &old[at].name).collect::<Vec<_>>()))
}
