//! Adapters of the release machine and of updates in place.

use planner::rollout::inplace::{Change, Difference, Operation, Policy, Verdict, verdict};
use planner::rollout::lifecycle::{Event, Hooks, State, next};
use planner::rollout::release::{Action, Mark, Phase, Release, Transition, step};
use serde_json::{Value, json};

use crate::input::{Answer, Input, flaw};

const PHASES: [(&str, Phase); 5] = [
    ("Idle", Phase::Idle),
    ("Running", Phase::Running),
    ("WaitingForConfirm", Phase::WaitingForConfirm),
    ("Completed", Phase::Completed),
    ("Aborted", Phase::Aborted),
];

const STATES: [(&str, State); 7] = [
    ("PreparingNormal", State::PreparingNormal),
    ("Normal", State::Normal),
    ("PreparingUpdate", State::PreparingUpdate),
    ("Updating", State::Updating),
    ("Updated", State::Updated),
    ("PreparingDelete", State::PreparingDelete),
    ("Deleted", State::Deleted),
];

/// The rules name the states, not the events: only the first three words are known from a file.
const EVENTS: [(&str, Event); 7] = [
    ("scheduled", Event::Scheduled),
    ("start-update", Event::StartUpdate),
    ("hook-restored", Event::HookRestored),
    ("hook-released", Event::HookReleased),
    ("update-complete", Event::UpdateComplete),
    ("revert", Event::Revert),
    ("start-delete", Event::StartDelete),
];

/// The value a word stands for.
fn meant<T: Copy>(words: &[(&str, T)], word: &str) -> Answer<T> {
    let found = words.iter().find(|(known, _)| *known == word);
    found.map_or_else(|| flaw(format!("{word:?} is not known")), |(_, value)| Ok(*value))
}

/// The word a value has.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> Option<&'static str> {
    words.iter().find(|(_, known)| known == value).map(|(word, _)| *word)
}

pub(crate) fn cafe_release_step(input: &Input) -> Answer<Value> {
    let mark = match input.maybe_text("annotation")? {
        None => Mark::Absent,
        Some("false") => Mark::Asked,
        Some("true") => Mark::Given,
        Some(other) => Mark::Unclear(other.to_owned()),
    };
    let release = Release {
        phase: meant(&PHASES, input.text("phase")?)?,
        mark,
        is_paused: input.flag("paused")?,
        is_aborted: input.flag_or("aborted", false)?,
        needs_confirm: input.flag("need_confirm")?,
        group_done: input.flag("batch_available")?,
        work_left: input.flag("work_left")?,
    };
    let Transition { phase, mark, action } = step(&release);
    let action = match action {
        Action::Nothing => "none",
        Action::StartGroup => "start-batch",
        Action::Finish => "finish",
        Action::ResetConfirm => "reset-confirm",
    };
    let annotation = match mark {
        Mark::Absent => Value::Null,
        Mark::Asked => json!("false"),
        Mark::Given => json!("true"),
        Mark::Unclear(text) => json!(text),
    };
    Ok(json!({"phase": word(&PHASES, &phase), "annotation": annotation, "action": action}))
}

pub(crate) fn inplace_verdict(input: &Input) -> Answer<Value> {
    let policy = match input.text("policy")? {
        "ReCreate" => Policy::ReCreate,
        "InPlaceIfPossible" => Policy::InPlaceIfPossible,
        "InPlaceOnly" => Policy::InPlaceOnly,
        other => return flaw(format!("no policy {other:?}")),
    };
    let difference = Difference {
        changes: input.list("changed_paths")?.iter().map(change).collect::<Answer<_>>()?,
        allows_resources: input.flag_or("allow_resources", false)?,
        qos_changed: input.flag_or("qos_changed", false)?,
        removes_containers: input.flag_or("removes_containers", false)?,
    };
    Ok(json!(match verdict(policy, &difference) {
        Verdict::InPlace => "in-place",
        Verdict::Recreate => "recreate",
        Verdict::Reject => "reject",
    }))
}

fn change(value: &Value) -> Answer<Change> {
    let text = |at: usize| value.get(at).and_then(Value::as_str);
    let (Some(operation), Some(path)) = (text(0), text(1)) else {
        return flaw(format!("{value} is not an operation and a path"));
    };
    let operation = match operation {
        "add" => Operation::Add,
        "remove" => Operation::Remove,
        "replace" => Operation::Replace,
        other => return flaw(format!("no operation {other:?}")),
    };
    Ok(Change { operation, path: path.to_owned() })
}

pub(crate) fn inplace_next(input: &Input) -> Answer<Value> {
    let hooks = Hooks {
        update: input.flag_or("hooked_inplace", false)?,
        all_update: input.flag_or("all_hooked_inplace", true)?,
        delete: input.flag_or("hooked_predelete", false)?,
    };
    // A grace period changes what is done in a state, not which one it is; it is read to be of the right kind.
    input.count_or("grace", 0)?;
    let state = next(meant(&STATES, input.text("state")?)?, meant(&EVENTS, input.text("event")?)?, hooks);
    Ok(json!(word(&STATES, &state)))
}
