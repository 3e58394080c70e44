//! Adapters of phase transitions and in-place updates.

use contract::rollout::UpdatePolicy;
use planner::rollout::inplace::{Difference, Operation, TemplateChange, UpdateDecision, decide_update};
use planner::rollout::transition::{Confirmation, Transition, TransitionAction, TransitionInput, step};
use serde_json::{Value, json};

use super::input::{InputError, VectorInput, invalid};

pub(crate) fn cafe_release_step(input: &VectorInput) -> Result<Value, InputError> {
    let mark = match input.maybe_text("annotation")? {
        None => Confirmation::Absent,
        Some("false") => Confirmation::Asked,
        Some("true") => Confirmation::Given,
        Some(other) => return invalid(format!("no annotation {other:?}")),
    };
    let before = TransitionInput {
        phase: serde_json::from_value(json!(input.text("phase")?)).map_err(|e| InputError(e.to_string()))?,
        mark,
        is_paused: input.flag("paused")?,
        is_aborted: input.flag_or("aborted", false)?,
        needs_confirm: input.flag("need_confirm")?,
        batch_done: input.flag("batch_available")?,
        work_left: input.flag("work_left")?,
    };
    let Transition { phase, mark, action } = step(&before);
    let action = match action {
        TransitionAction::Nothing => "none",
        TransitionAction::StartBatch => "start-batch",
        TransitionAction::Finish => "finish",
    };
    let annotation = match mark {
        Confirmation::Absent => Value::Null,
        Confirmation::Asked => json!("false"),
        Confirmation::Given => json!("true"),
    };
    Ok(json!({"phase": phase, "annotation": annotation, "action": action}))
}

pub(crate) fn inplace_verdict(input: &VectorInput) -> Result<Value, InputError> {
    let policy = match input.text("policy")? {
        "ReCreate" => UpdatePolicy::ReCreate,
        "InPlaceIfPossible" => UpdatePolicy::InPlaceIfPossible,
        "InPlaceOnly" => UpdatePolicy::InPlaceOnly,
        other => return invalid(format!("no policy {other:?}")),
    };
    let difference = Difference {
        changes: input.list("changed_paths")?.iter().map(change).collect::<Result<_, InputError>>()?,
        allows_resources: input.flag_or("allow_resources", false)?,
        qos_changed: input.flag_or("qos_changed", false)?,
        removes_containers: input.flag_or("removes_containers", false)?,
    };
    Ok(json!(match decide_update(policy, &difference) {
        UpdateDecision::InPlace => "in-place",
        UpdateDecision::Recreate => "recreate",
        UpdateDecision::Reject => "reject",
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
