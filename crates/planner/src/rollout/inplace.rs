//! Decides whether a change of the template can be applied without replacing the pod.
//!
//! In place: a container's image, labels, annotations and, where allowed, resources that keep the pod's QoS class. Any other
//! change needs a new pod.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Always a new pod.
    #[default]
    ReCreate,
    InPlaceIfPossible,
    /// Rejects a change that needs a new pod.
    InPlaceOnly,
}

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

pub fn decide_update(policy: Policy, difference: &Difference) -> UpdateDecision {
    let is_possible =
        !difference.removes_containers && difference.changes.iter().all(|change| is_eligible(change, difference));
    match policy {
        Policy::ReCreate => UpdateDecision::Recreate,
        Policy::InPlaceIfPossible | Policy::InPlaceOnly if is_possible => UpdateDecision::InPlace,
        Policy::InPlaceIfPossible => UpdateDecision::Recreate,
        Policy::InPlaceOnly => UpdateDecision::Reject,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn change(operation: Operation, path: &str) -> Difference {
        let changes = vec![TemplateChange { operation, path: path.to_owned() }];
        Difference { changes, allows_resources: false, qos_changed: false, removes_containers: false }
    }

    fn possible(difference: &Difference) -> bool {
        decide_update(Policy::InPlaceOnly, difference) == UpdateDecision::InPlace
    }

    #[test]
    fn an_image_and_metadata_change_in_place() {
        assert!(possible(&change(Operation::Replace, "/spec/containers/12/image")));
        for operation in [Operation::Add, Operation::Remove, Operation::Replace] {
            assert!(possible(&change(operation, "/metadata/labels/x")));
            assert!(possible(&change(operation, "/metadata/annotations")));
        }
    }

    #[test]
    fn anything_else_does_not() {
        for path in [
            "/spec/initContainers/0/image",
            "/spec/containers/0/env/0/value",
            "/spec/containers/0/imagePullPolicy",
            "/spec/containers/0",
            "/spec/containers/-/image",
            "/spec/volumes/1",
            "/metadata/name",
            "",
        ] {
            assert!(!possible(&change(Operation::Replace, path)), "{path}");
        }
        assert!(!possible(&change(Operation::Add, "/spec/containers/0/image")));
        assert!(!possible(&Difference {
            removes_containers: true,
            ..change(Operation::Replace, "/spec/containers/0/image")
        }));
    }

    #[test]
    fn resources_change_in_place_where_allowed_and_within_the_class() {
        let closed = change(Operation::Replace, "/spec/containers/0/resources/limits/cpu");
        let open = Difference { allows_resources: true, ..closed.clone() };
        assert!(!possible(&closed));
        assert!(possible(&open));
        assert!(!possible(&Difference { qos_changed: true, ..open }));
        let added = change(Operation::Add, "/spec/containers/0/resources/limits/cpu");
        assert!(!possible(&Difference { allows_resources: true, ..added }));
    }

    #[test]
    fn the_policy_decides_what_happens_when_it_cannot_be_done() {
        let (image, volume) =
            (change(Operation::Replace, "/spec/containers/0/image"), change(Operation::Add, "/spec/volumes/1"));
        let methods = |policy| [decide_update(policy, &image), decide_update(policy, &volume)];
        assert_eq!(methods(Policy::ReCreate), [UpdateDecision::Recreate, UpdateDecision::Recreate]);
        assert_eq!(methods(Policy::InPlaceIfPossible), [UpdateDecision::InPlace, UpdateDecision::Recreate]);
        assert_eq!(methods(Policy::InPlaceOnly), [UpdateDecision::InPlace, UpdateDecision::Reject]);
    }
}
