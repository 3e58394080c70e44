//! Words for what happened: one event each, never longer than a stream takes.
//!
//! Nothing here remembers or decides; `journal` knows what was told before.

pub(in crate::core) mod conditions;
pub(in crate::core) mod dedup;
pub(in crate::core) mod incident;
pub(in crate::core) mod placement;
pub(in crate::core) mod rollout;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::backup::Step;
use contract::command::{Command, Removal, RolloutAction, Verb, Verdict};
use contract::event::{Event, Kind};
use contract::name::{GroupName, NodeName};
use contract::node::NodeChange;
use contract::ranges::Clamp;
use contract::spec::PodSpec;
use contract::switches::EngineRecord;
use contract::time::Timestamp;

use crate::core::io::Effect;

/// Longest sentence kept, in bytes.
const LONGEST_MESSAGE: usize = 4096;
/// Nodes whose reasons are kept.
const MOST_NODES: usize = 200;
/// Bytes of reasons kept: with the sentence and the rest an event stays below 64 KiB.
const MOST_REASONS: usize = 48 * 1024;

/// An event about nothing in particular; the callers say what it is about.
pub(in crate::core) fn event(kind: Kind, message: impl Into<String>, now: Timestamp) -> Event {
    let mut message = message.into();
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        message.push('…');
    }
    Event { at: now, kind, group: None, instance: 0, node: None, message, reasons: BTreeMap::new() }
}

/// An event about a group.
pub(in crate::core) fn of_group(kind: Kind, group: &GroupName, message: impl Into<String>, now: Timestamp) -> Event {
    Event { group: Some(group.clone()), ..event(kind, message, now) }
}

/// An event about a node.
pub(in crate::core) fn of_node(node: &NodeName, message: impl Into<String>, now: Timestamp) -> Effect {
    Effect::Record(Event { node: Some(node.clone()), ..event(Kind::Node, message, now) })
}

/// What became of a command; made from it before it is obeyed.
pub(in crate::core) struct Asked {
    event: Event,
    by: String,
    /// Numbers of its spec that are used as others.
    clamps: Vec<String>,
}

impl Asked {
    pub(in crate::core) fn of(command: &Command, now: Timestamp) -> Self {
        let (group, node, text) = about(&command.verb);
        let event = Event { group, node: node.cloned(), ..event(Kind::Accepted, text, now) };
        let clamps = pod_of(&command.verb).map(PodSpec::clamps).unwrap_or_default();
        let clamps = clamps.iter().map(Clamp::to_string).collect();
        Self { event, by: format!("asked through {} as {}", command.by, command.id), clamps }
    }

    /// The event, once the verdict is known.
    pub(in crate::core) fn became(self, verdict: &Verdict) -> Effect {
        let Self { event: asked, by, clamps } = self;
        let (kind, word) = match verdict {
            Verdict::Accepted if clamps.is_empty() => (Kind::Accepted, "accepted".to_owned()),
            Verdict::Accepted => (Kind::Accepted, format!("accepted, but {}", clamps.join(", "))),
            Verdict::Refused(refusal) => (Kind::Refused, format!("refused: {refusal}")),
        };
        let message = event(kind, format!("{}: {word}; {by}", asked.message), asked.at).message;
        Effect::Record(Event { kind, message, ..asked })
    }
}

/// The pod spec that a command brings.
fn pod_of(verb: &Verb) -> Option<&PodSpec> {
    match verb {
        Verb::CreateGroup { spec } => Some(&spec.pod),
        Verb::PatchSpec { pod, .. } | Verb::CreateDependency { pod } | Verb::UpdateDependency { pod } => Some(pod),
        Verb::RemoveGroup { .. }
        | Verb::Replica { .. }
        | Verb::PatchStrategy { .. }
        | Verb::Rollout { .. }
        | Verb::SetGate { .. }
        | Verb::Drained { .. }
        | Verb::Operate { .. }
        | Verb::Drift { .. }
        | Verb::Evacuate { .. }
        | Verb::Node { .. }
        | Verb::RemoveDependency { .. }
        | Verb::AddCallback { .. }
        | Verb::RemoveCallback { .. }
        | Verb::Configure { .. }
        | Verb::RunEngine { .. }
        | Verb::Guard { .. }
        | Verb::SetConstraint { .. }
        | Verb::RemoveConstraint { .. }
        | Verb::Restore { .. } => None,
    }
}

/// Whom a command is about, and what it asks for.
fn about(verb: &Verb) -> (Option<GroupName>, Option<&NodeName>, String) {
    let named = |name: &GroupName| Some(name.clone());
    match verb {
        Verb::CreateGroup { spec } => {
            (spec.name.parse().ok(), None, format!("create with {} instances", spec.num_instances))
        }
        Verb::RemoveGroup { name, removal } => (named(name), None, removal_words(*removal).to_owned()),
        Verb::Replica { name, num_instances, restart_policy } => {
            let policy = restart_policy.map(|policy| format!(", restart policy {policy:?}")).unwrap_or_default();
            (named(name), None, format!("replica {num_instances}{policy}"))
        }
        Verb::PatchSpec { name, cause, .. } => (named(name), None, format!("spec{}", because(cause))),
        Verb::PatchStrategy { name, fields } => {
            let fields: Vec<&str> = fields.keys().map(String::as_str).collect();
            (named(name), None, format!("strategy {}", fields.join(", ")))
        }
        Verb::Rollout { name, action, .. } => (named(name), None, action_words(action)),
        Verb::SetGate { name, instance, gate, is_true, .. } => {
            (named(name), None, format!("gate {gate} of instance {instance} is {is_true}"))
        }
        Verb::Drained { name, instance } => (named(name), None, format!("instance {instance} is drained")),
        Verb::Operate { name, act, instance: 0 } => (named(name), None, format!("{act:?} every instance")),
        Verb::Operate { name, act, instance } => (named(name), None, format!("{act:?} instance {instance}")),
        Verb::Drift { drift, group } => {
            let to = drift.to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
            let force = if drift.force { ", by force" } else { "" };
            let which = drift.instance.map(|number| format!(" instance {number}")).unwrap_or_default();
            (group.clone(), Some(&drift.from), format!("drift{which} from {}{to}{force}", drift.from))
        }
        Verb::Evacuate { node } => (None, Some(node), format!("evacuate {node}")),
        Verb::Node { node, change } => (None, Some(node), change_words(node, change)),
        Verb::CreateDependency { pod } => (pod.name.parse().ok(), None, "create dependency".to_owned()),
        Verb::UpdateDependency { pod } => (pod.name.parse().ok(), None, "update dependency".to_owned()),
        Verb::RemoveDependency { name, force } => {
            (named(name), None, if *force { "remove dependency by force" } else { "remove dependency" }.to_owned())
        }
        Verb::AddCallback { .. }
        | Verb::RemoveCallback { .. }
        | Verb::Configure { .. }
        | Verb::RunEngine { .. }
        | Verb::Guard { .. }
        | Verb::SetConstraint { .. }
        | Verb::RemoveConstraint { .. }
        | Verb::Restore { .. } => (None, None, about_cluster(verb)),
    }
}

fn removal_words(removal: Removal) -> &'static str {
    match removal {
        Removal::Foreground => "remove",
        Removal::Background => "remove in the background",
        Removal::Orphan => "remove and leave the containers",
    }
}

fn action_words(action: &RolloutAction) -> String {
    match action {
        RolloutAction::Pause => "pause".to_owned(),
        RolloutAction::Resume => "resume".to_owned(),
        RolloutAction::Confirm { group } => format!("confirm group {group}"),
        RolloutAction::Skip { group } => format!("skip group {group}"),
        RolloutAction::Abort => "abort".to_owned(),
        RolloutAction::Undo { revision, cause } => {
            let to = revision.map(|revision| format!(" to revision {revision}")).unwrap_or_default();
            format!("undo{to}{}", because(cause))
        }
        RolloutAction::Freeze => "freeze".to_owned(),
        RolloutAction::Unfreeze => "unfreeze".to_owned(),
    }
}

fn change_words(node: &NodeName, change: &NodeChange) -> String {
    match change {
        NodeChange::Cordon { why } => format!("cordon {node}{}", because(why)),
        NodeChange::Uncordon => format!("uncordon {node}"),
        NodeChange::Drain { why, force } => {
            format!("drain {node}{}{}", if *force { " by force" } else { "" }, because(why))
        }
        NodeChange::Label { labels } => format!("label {node} {}", label_words(labels)),
        NodeChange::Remove { force } => format!("remove {node}{}", if *force { " by force" } else { "" }),
    }
}

/// Labels as people write them: `key=value` for one that is set, `key-` for one that is taken away.
pub(in crate::core) fn label_words(labels: &BTreeMap<String, Option<String>>) -> String {
    let word = |(key, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{key}={value}"),
        None => format!("{key}-"),
    };
    labels.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn because(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { format!(", because {cause:?}") }
}

fn about_cluster(verb: &Verb) -> String {
    let shown = |word: &str, value: &Option<bool>| value.map(|on| format!(" {word}={on}")).unwrap_or_default();
    match verb {
        Verb::AddCallback { url } => format!("add callback {url}"),
        Verb::RemoveCallback { url } => format!("remove callback {url}"),
        Verb::Configure { readonly, maintenance } => {
            format!("configure{}{}", shown("readonly", readonly), shown("maintenance", maintenance))
        }
        Verb::RunEngine { running } => if *running { "start the engine" } else { "stop the engine" }.to_owned(),
        Verb::Guard { working } => if *working { "wake the guard" } else { "put the guard to sleep" }.to_owned(),
        Verb::SetConstraint { constraint } => format!("set constraint {}", constraint.expression()),
        Verb::RemoveConstraint { kind } => format!("remove constraint {kind}"),
        Verb::Restore { step: Step::Stage { restore, part, .. } } => format!("keep part {part} of restore {restore}"),
        Verb::Restore { step: Step::Finish { restore, .. } } => format!("restore {restore}"),
        Verb::Restore { step: Step::Abort } => "forget the parts of a restore".to_owned(),
        Verb::CreateGroup { .. }
        | Verb::RemoveGroup { .. }
        | Verb::Replica { .. }
        | Verb::PatchSpec { .. }
        | Verb::PatchStrategy { .. }
        | Verb::Rollout { .. }
        | Verb::SetGate { .. }
        | Verb::Drained { .. }
        | Verb::Operate { .. }
        | Verb::Drift { .. }
        | Verb::Evacuate { .. }
        | Verb::Node { .. }
        | Verb::CreateDependency { .. }
        | Verb::UpdateDependency { .. }
        | Verb::RemoveDependency { .. } => String::new(),
    }
}

/// Why an instance of the group found no place: every node with every reason, as far as there is room.
pub(in crate::core) fn unplaceable(
    group: &GroupName,
    sentence: &str,
    reasons: &BTreeMap<NodeName, BTreeSet<String>>,
    now: Timestamp,
) -> Effect {
    let (mut kept, mut bytes) = (BTreeMap::new(), 0);
    for (node, reasons) in reasons.iter().take(MOST_NODES) {
        let reasons: Vec<String> = reasons.iter().cloned().collect();
        // As long as it is on the wire, escapes included.
        bytes += serde_json::to_string(&(node, &reasons)).map_or(MOST_REASONS, |text| text.len());
        if bytes > MOST_REASONS {
            break;
        }
        kept.insert(node.clone(), reasons);
    }
    let more = reasons.len() - kept.len();
    let more = if more > 0 { format!(" (the reasons of {more} more nodes are left out)") } else { String::new() };
    let event = of_group(Kind::Unplaceable, group, format!("{sentence}{more}"), now);
    Effect::Record(Event { reasons: kept, ..event })
}

/// One of the engine's switches or a constraint changed.
pub(in crate::core) fn engine(message: impl Into<String>, now: Timestamp) -> Effect {
    Effect::Record(event(Kind::Engine, message, now))
}

/// Which of the engine's switches changed.
pub(in crate::core) fn switched(before: EngineRecord, after: EngineRecord, now: Timestamp) -> Vec<Effect> {
    let changes = [
        (before.running, after.running, ["the engine was stopped", "the engine was started"]),
        (before.guarding, after.guarding, ["the guard sleeps", "the guard works"]),
        (before.readonly, after.readonly, ["changes are taken again", "read-only: changes are refused"]),
        (before.maintenance, after.maintenance, ["maintenance is over", "maintenance: what ends is not restarted"]),
    ];
    let changed = changes.into_iter().filter(|(before, after, _)| before != after);
    changed.map(|(_, after, words)| engine(words[usize::from(after)], now)).collect()
}

/// A span as people read it.
pub(in crate::core) fn shown(span: Duration) -> String {
    format!("{}.{} s", span.as_secs(), span.subsec_millis() / 100)
}
