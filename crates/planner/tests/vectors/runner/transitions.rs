//! Adapters of the release machine and of updates in place.

use planner::rollout::inplace::{Difference, Operation, Policy, TemplateChange, UpdateMethod, update_method};
use planner::rollout::transition::{Confirmation, RolloutPhase, Transition, TransitionAction, TransitionInput, step};
use serde_json::{Value, json};

use super::input::{InputError, VectorInput, invalid};

const PHASES: [(&str, RolloutPhase); 5] = [
    ("Idle", RolloutPhase::Idle),
    ("Running", RolloutPhase::Running),
    ("WaitingForConfirm", RolloutPhase::WaitingForConfirm),
    ("Completed", RolloutPhase::Completed),
    ("Aborted", RolloutPhase::Aborted),
];

/// The value a word stands for.
fn meant<T: Copy>(words: &[(&str, T)], word: &str) -> Result<T, InputError> {
    let found = words.iter().find(|(known, _)| *known == word);
    found.map_or_else(|| invalid(format!("{word:?} is not known")), |(_, value)| Ok(*value))
}

/// The word a value has.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> Option<&'static str> {
    words.iter().find(|(_, known)| known == value).map(|(word, _)| *word)
}

pub(crate) fn cafe_release_step(input: &VectorInput) -> Result<Value, InputError> {
    let mark = match input.maybe_text("annotation")? {
        None => Confirmation::Absent,
        Some("false") => Confirmation::Asked,
        Some("true") => Confirmation::Given,
        Some(other) => Confirmation::Unclear(other.to_owned()),
    };
    let release = TransitionInput {
        phase: meant(&PHASES, input.text("phase")?)?,
        mark,
        is_paused: input.flag("paused")?,
        is_aborted: input.flag_or("aborted", false)?,
        needs_confirm: input.flag("need_confirm")?,
        batch_done: input.flag("batch_available")?,
        work_left: input.flag("work_left")?,
    };
    let Transition { phase, mark, action } = step(&release);
    let action = match action {
        TransitionAction::Nothing => "none",
        TransitionAction::StartBatch => "start-batch",
        TransitionAction::Finish => "finish",
        TransitionAction::ResetConfirm => "reset-confirm",
    };
    let annotation = match mark {
        Confirmation::Absent => Value::Null,
        Confirmation::Asked => json!("false"),
        Confirmation::Given => json!("true"),
        Confirmation::Unclear(text) => json!(text),
    };
    Ok(json!({"phase": word(&PHASES, &phase), "annotation": annotation, "action": action}))
}

pub(crate) fn inplace_verdict(input: &VectorInput) -> Result<Value, InputError> {
    let policy = match input.text("policy")? {
        "ReCreate" => Policy::ReCreate,
        "InPlaceIfPossible" => Policy::InPlaceIfPossible,
        "InPlaceOnly" => Policy::InPlaceOnly,
        other => return invalid(format!("no policy {other:?}")),
    };
    let difference = Difference {
        changes: input.list("changed_paths")?.iter().map(change).collect::<Result<_, InputError>>()?,
        allows_resources: input.flag_or("allow_resources", false)?,
        qos_changed: input.flag_or("qos_changed", false)?,
        removes_containers: input.flag_or("removes_containers", false)?,
    };
    Ok(json!(match update_method(policy, &difference) {
        UpdateMethod::InPlace => "in-place",
        UpdateMethod::Recreate => "recreate",
        UpdateMethod::Reject => "reject",
    }))
}

fn change(value: &Value) -> Result<TemplateChange, InputError> {
    let text = |at: usize| value.get(at).and_then(Value::as_str);
    let (Some(operation), Some(path)) = (text(0), text(1)) else {
        return invalid(format!("{value} is not an operation and a path"));
    };
    let operation = match operation {
        "add" => Operation::Add,
        "remove" => Operation::Remove,
        "replace" => Operation::Replace,
        other => return invalid(format!("no operation {other:?}")),
    };
    Ok(TemplateChange { operation, path: path.to_owned() })
}
