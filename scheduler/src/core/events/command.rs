//! Events about commands: what was requested, through which apiserver, and the outcome.

use std::collections::BTreeMap;

use contract::backup::Step;
use contract::callback_url;
use contract::command::{Command, Decision, Removal, RolloutAction, Verb};
use contract::event::{Event, Kind};
use contract::name::{GroupName, NodeName};
use contract::node::NodeChange;
use contract::ranges::Clamp;
use contract::spec::PodSpec;
use contract::time::Timestamp;

use crate::core::io::Effect;

use super::event;

/// The event of a command; built before the command is applied.
pub(in crate::core) struct CommandEvent {
    event: Event,
    by: String,
    /// Numbers of its spec that are used as others.
    clamps: Vec<String>,
}

impl CommandEvent {
    pub(in crate::core) fn of(command: &Command, now: Timestamp) -> Self {
        let (group, node, text) = about(&command.verb);
        let event = Event { group, node: node.cloned(), ..event(Kind::Accepted, text, now) };
        let clamps = pod_of(&command.verb).map(PodSpec::clamps).unwrap_or_default();
        let clamps = clamps.iter().map(Clamp::to_string).collect();
        Self { event, by: format!("asked through {} as {}", command.by, command.id), clamps }
    }

    /// The event, once the decision is known.
    pub(in crate::core) fn with_outcome(self, decision: &Decision) -> Effect {
        let Self { event: asked, by, clamps } = self;
        let (kind, word) = match decision {
            Decision::Accepted if clamps.is_empty() => (Kind::Accepted, "accepted".to_owned()),
            Decision::Accepted => (Kind::Accepted, format!("accepted, but {}", clamps.join(", "))),
            Decision::Refused(refusal) => (Kind::Refused, format!("refused: {refusal}")),
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
        | Verb::SetPolicy { .. }
        | Verb::RemovePolicy { .. }
        | Verb::CreateToken { .. }
        | Verb::ReportRefused { .. }
        | Verb::RevokeToken { .. }
        | Verb::CreateJoinToken { .. }
        | Verb::RevokeJoinToken { .. }
        | Verb::Join { .. }
        | Verb::EnforceAccess { .. }
        | Verb::Restore { .. } => None,
    }
}

/// The object of a command and a short text of the request.
fn about(verb: &Verb) -> (Option<GroupName>, Option<&NodeName>, String) {
    let named = |name: &GroupName| Some(name.clone());
    match verb {
        Verb::CreateGroup { spec } => {
            (spec.name.parse().ok(), None, format!("create with {} instances", spec.num_instances))
        }
        Verb::RemoveGroup { name, removal } => (named(name), None, removal_text(*removal).to_owned()),
        Verb::Replica { name, num_instances, restart_policy } => {
            let policy = restart_policy.map(|policy| format!(", restart policy {policy:?}")).unwrap_or_default();
            (named(name), None, format!("replica {num_instances}{policy}"))
        }
        Verb::PatchSpec { name, cause, .. } => (named(name), None, format!("spec{}", because(cause))),
        Verb::PatchStrategy { name, fields } => {
            let fields: Vec<&str> = fields.keys().map(String::as_str).collect();
            (named(name), None, format!("strategy {}", fields.join(", ")))
        }
        Verb::Rollout { name, action, .. } => (named(name), None, action_text(action)),
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
        Verb::Node { node, change } => (None, Some(node), node_change_text(node, change)),
        Verb::Join { join } => (None, Some(&join.node), format!("join {}", join.node)),
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
        | Verb::SetPolicy { .. }
        | Verb::RemovePolicy { .. }
        | Verb::CreateToken { .. }
        | Verb::ReportRefused { .. }
        | Verb::RevokeToken { .. }
        | Verb::CreateJoinToken { .. }
        | Verb::RevokeJoinToken { .. }
        | Verb::EnforceAccess { .. }
        | Verb::Restore { .. } => (None, None, cluster_text(verb)),
    }
}

fn removal_text(removal: Removal) -> &'static str {
    match removal {
        Removal::Foreground => "remove",
        Removal::Background => "remove in the background",
        Removal::Orphan => "remove and leave the containers",
    }
}

fn action_text(action: &RolloutAction) -> String {
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

fn node_change_text(node: &NodeName, change: &NodeChange) -> String {
    match change {
        NodeChange::Cordon { why } => format!("cordon {node}{}", because(why)),
        NodeChange::Uncordon => format!("uncordon {node}"),
        NodeChange::Drain { why, force } => {
            format!("drain {node}{}{}", if *force { " by force" } else { "" }, because(why))
        }
        NodeChange::Label { labels } => format!("label {node} {}", label_text(labels)),
        NodeChange::Approve => format!("approve {node}"),
        NodeChange::Remove { force } => format!("remove {node}{}", if *force { " by force" } else { "" }),
    }
}

/// Labels as people write them: `key=value` for one that is set, `key-` for one that is taken away.
pub(in crate::core) fn label_text(labels: &BTreeMap<String, Option<String>>) -> String {
    let word = |(key, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{key}={value}"),
        None => format!("{key}-"),
    };
    labels.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn because(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { format!(", because {cause:?}") }
}

fn cluster_text(verb: &Verb) -> String {
    let shown = |word: &str, value: &Option<bool>| value.map(|on| format!(" {word}={on}")).unwrap_or_default();
    match verb {
        Verb::AddCallback { url } => format!("add callback {}", callback_url::shown(url)),
        Verb::RemoveCallback { url } => format!("remove callback {}", callback_url::shown(url)),
        Verb::Configure { readonly, maintenance } => {
            format!("configure{}{}", shown("readonly", readonly), shown("maintenance", maintenance))
        }
        Verb::RunEngine { running } => if *running { "start the engine" } else { "stop the engine" }.to_owned(),
        Verb::Guard { working } => if *working { "wake the guard" } else { "put the guard to sleep" }.to_owned(),
        Verb::SetConstraint { constraint } => format!("set constraint {}", constraint.expression()),
        Verb::RemoveConstraint { kind } => format!("remove constraint {kind}"),
        Verb::SetPolicy { namespace, policy } => format!("set the policy of {namespace} to {}", policy.level),
        Verb::RemovePolicy { namespace } => format!("remove the policy of {namespace}"),
        Verb::CreateToken { token } => format!("create token {} for {}", token.id, token.principal),
        Verb::RevokeToken { id } => format!("revoke token {id}"),
        Verb::CreateJoinToken { token } => format!("create join token {} for {}", token.id, token.names),
        Verb::RevokeJoinToken { id } => format!("revoke join token {id}"),
        Verb::ReportRefused { .. } => "report refused requests".to_owned(),
        Verb::EnforceAccess { enforced } => if *enforced { "enforce access" } else { "open the API" }.to_owned(),
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
        | Verb::Join { .. }
        | Verb::CreateDependency { .. }
        | Verb::UpdateDependency { .. }
        | Verb::RemoveDependency { .. } => String::new(),
    }
}
