//! The right that each command needs, and the object whose namespace decides.

use serde::Serialize;

use super::Right;
use crate::command::{RolloutAction, Verb};
use crate::digest::Digest;
use crate::name::GroupName;

/// What a command changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandTarget<'a> {
    /// A new object of this namespace.
    New(&'a str),
    /// A group.
    Group(&'a GroupName),
    /// A dependency pod.
    Dependency(&'a str),
    /// The cluster.
    Cluster,
}

impl Verb {
    /// The name of the command in the audit log, as in its JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateGroup { .. } => "CreateGroup",
            Self::RemoveGroup { .. } => "RemoveGroup",
            Self::Replica { .. } => "Replica",
            Self::PatchSpec { .. } => "PatchSpec",
            Self::PatchStrategy { .. } => "PatchStrategy",
            Self::Rollout { .. } => "Rollout",
            Self::SetGate { .. } => "SetGate",
            Self::Drained { .. } => "Drained",
            Self::Operate { .. } => "Operate",
            Self::Drift { .. } => "Drift",
            Self::Evacuate { .. } => "Evacuate",
            Self::Node { .. } => "Node",
            Self::CreateDependency { .. } => "CreateDependency",
            Self::UpdateDependency { .. } => "UpdateDependency",
            Self::RemoveDependency { .. } => "RemoveDependency",
            Self::AddCallback { .. } => "AddCallback",
            Self::RemoveCallback { .. } => "RemoveCallback",
            Self::Configure { .. } => "Configure",
            Self::RunEngine { .. } => "RunEngine",
            Self::Guard { .. } => "Guard",
            Self::SetConstraint { .. } => "SetConstraint",
            Self::RemoveConstraint { .. } => "RemoveConstraint",
            Self::SetPolicy { .. } => "SetPolicy",
            Self::RemovePolicy { .. } => "RemovePolicy",
            Self::Restore { .. } => "Restore",
            Self::CreateToken { .. } => "CreateToken",
            Self::RevokeToken { .. } => "RevokeToken",
            Self::CreateJoinToken { .. } => "CreateJoinToken",
            Self::RevokeJoinToken { .. } => "RevokeJoinToken",
            Self::Join { .. } => "Join",
            Self::ReportRefused { .. } => "ReportRefused",
            Self::EnforceAccess { .. } => "EnforceAccess",
        }
    }

    /// The right that the command needs.
    pub fn right(&self) -> Right {
        match self {
            Self::Rollout { action, .. } => match action {
                RolloutAction::Abort | RolloutAction::Undo { .. } => Right::Deploy,
                RolloutAction::Pause
                | RolloutAction::Resume
                | RolloutAction::Confirm { .. }
                | RolloutAction::Skip { .. }
                | RolloutAction::Freeze
                | RolloutAction::Unfreeze => Right::Release,
            },
            Self::SetGate { .. } | Self::Drained { .. } => Right::Release,
            // An apiserver and a node that joins prove what they may in other ways than by a role.
            Self::ReportRefused { .. } | Self::Join { .. } => Right::Status,
            Self::CreateGroup { .. }
            | Self::RemoveGroup { .. }
            | Self::Replica { .. }
            | Self::PatchSpec { .. }
            | Self::PatchStrategy { .. }
            | Self::Operate { .. }
            | Self::Drift { group: Some(_), .. }
            | Self::CreateDependency { .. }
            | Self::UpdateDependency { .. }
            | Self::RemoveDependency { .. } => Right::Deploy,
            Self::Drift { group: None, .. }
            | Self::Evacuate { .. }
            | Self::Node { .. }
            | Self::AddCallback { .. }
            | Self::RemoveCallback { .. }
            | Self::Configure { .. }
            | Self::RunEngine { .. }
            | Self::Guard { .. }
            | Self::SetConstraint { .. }
            | Self::RemoveConstraint { .. } => Right::Operate,
            Self::SetPolicy { .. }
            | Self::RemovePolicy { .. }
            | Self::Restore { .. }
            | Self::CreateToken { .. }
            | Self::RevokeToken { .. }
            | Self::CreateJoinToken { .. }
            | Self::RevokeJoinToken { .. }
            | Self::EnforceAccess { .. } => Right::Administer,
        }
    }

    /// What the command requests, in short, for the audit log. A pod spec has its digest: it may contain secrets.
    pub fn details(&self) -> String {
        match self {
            Self::CreateGroup { spec } => {
                format!("{} instances, pod spec {}", spec.num_instances, Digest::of(&spec.pod))
            }
            Self::Replica { num_instances, .. } => format!("{num_instances} instances"),
            Self::PatchSpec { pod, .. } | Self::CreateDependency { pod } | Self::UpdateDependency { pod } => {
                format!("pod spec {}", Digest::of(pod.as_ref()))
            }
            Self::PatchStrategy { fields, .. } => json(fields),
            Self::Rollout { action, .. } => json(action),
            Self::SetGate { instance, gate, is_true, .. } => format!("instance {instance}: {gate} {is_true}"),
            Self::Drained { instance, .. } => format!("instance {instance}"),
            Self::Operate { act, instance, .. } => format!("{} instance {instance}", json(act)),
            Self::Drift { drift, .. } => json(drift),
            Self::Node { change, .. } => json(change),
            Self::Configure { readonly, maintenance } => {
                format!("readonly {}, maintenance {}", json(readonly), json(maintenance))
            }
            Self::RunEngine { running: on } | Self::Guard { working: on } | Self::EnforceAccess { enforced: on } => {
                on.to_string()
            }
            Self::SetConstraint { constraint } => json(constraint),
            Self::RemoveConstraint { kind } => kind.clone(),
            Self::SetPolicy { policy, .. } => json(policy),
            Self::CreateToken { token } => {
                let bindings: Vec<String> = token.bindings.iter().map(ToString::to_string).collect();
                format!("for {}: {}, until {}", token.principal, bindings.join(", "), token.expires)
            }
            Self::CreateJoinToken { token } => {
                format!("for {}, {} uses, replaces {}, until {}", token.names, token.uses, token.replace, token.expires)
            }
            Self::RemoveGroup { removal, .. } => json(removal),
            Self::RemoveDependency { force, .. } => format!("force {force}"),
            // The object says everything.
            Self::Evacuate { .. }
            | Self::AddCallback { .. }
            | Self::RemoveCallback { .. }
            | Self::RemovePolicy { .. }
            | Self::Restore { .. }
            | Self::RevokeToken { .. }
            | Self::RevokeJoinToken { .. }
            | Self::Join { .. }
            | Self::ReportRefused { .. } => String::new(),
        }
    }

    /// What the command changes.
    pub fn target(&self) -> CommandTarget<'_> {
        match self {
            Self::CreateGroup { spec } => CommandTarget::New(&spec.namespace),
            Self::CreateDependency { pod } => CommandTarget::New(&pod.namespace),
            Self::RemoveGroup { name, .. }
            | Self::Replica { name, .. }
            | Self::PatchSpec { name, .. }
            | Self::PatchStrategy { name, .. }
            | Self::Rollout { name, .. }
            | Self::SetGate { name, .. }
            | Self::Drained { name, .. }
            | Self::Operate { name, .. }
            | Self::Drift { group: Some(name), .. } => CommandTarget::Group(name),
            Self::UpdateDependency { pod } => CommandTarget::Dependency(&pod.name),
            Self::RemoveDependency { name, .. } => CommandTarget::Dependency(name.as_str()),
            Self::Drift { group: None, .. }
            | Self::Evacuate { .. }
            | Self::Node { .. }
            | Self::AddCallback { .. }
            | Self::RemoveCallback { .. }
            | Self::Configure { .. }
            | Self::RunEngine { .. }
            | Self::Guard { .. }
            | Self::SetConstraint { .. }
            | Self::RemoveConstraint { .. }
            | Self::SetPolicy { .. }
            | Self::RemovePolicy { .. }
            | Self::Restore { .. }
            | Self::CreateToken { .. }
            | Self::RevokeToken { .. }
            | Self::CreateJoinToken { .. }
            | Self::RevokeJoinToken { .. }
            | Self::Join { .. }
            | Self::EnforceAccess { .. }
            | Self::ReportRefused { .. } => CommandTarget::Cluster,
        }
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
