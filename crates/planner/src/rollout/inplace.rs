//! Decides whether a change of the template can be applied without replacing the pod.
//!
//! In place: image, labels, annotations, CPU and memory limits. Anything else needs a new pod.

use contract::rollout::UpdatePolicy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Add,
    Remove,
    Replace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateChange {
    pub operation: Operation,
    /// JSON pointer.
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub changes: Vec<TemplateChange>,
    /// Resources may change in place.
    pub allows_resources: bool,
    /// The QoS class changes.
    pub qos_changed: bool,
    /// A container is removed.
    pub removes_containers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateDecision {
    InPlace,
    Recreate,
    Reject,
}

pub fn decide_update(policy: UpdatePolicy, difference: &Difference) -> UpdateDecision {
    let is_possible =
        !difference.removes_containers && difference.changes.iter().all(|change| is_eligible(change, difference));
    match policy {
        UpdatePolicy::ReCreate => UpdateDecision::Recreate,
        UpdatePolicy::InPlaceIfPossible | UpdatePolicy::InPlaceOnly if is_possible => UpdateDecision::InPlace,
        UpdatePolicy::InPlaceIfPossible => UpdateDecision::Recreate,
        UpdatePolicy::InPlaceOnly => UpdateDecision::Reject,
    }
}

fn is_eligible(change: &TemplateChange, difference: &Difference) -> bool {
    let parts: Vec<&str> = change.path.split('/').collect();
    match parts.as_slice() {
        ["", "metadata", "labels" | "annotations", ..] => true,
        ["", "spec", "containers", index, "image"] => change.operation == Operation::Replace && is_index(index),
        ["", "spec", "containers", index, "resources", _, ..] => {
            change.operation == Operation::Replace
                && is_index(index)
                && difference.allows_resources
                && !difference.qos_changed
        }
        _ => false,
    }
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
