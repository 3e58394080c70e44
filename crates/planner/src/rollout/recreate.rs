//! Decides the next step of a Recreate rollout: all old pods stop before the first new pod starts.

/// The pods of other revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldSet {
    /// Desired pods.
    pub spec: i64,
    /// Pods that still exist.
    pub actual: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecreateStep {
    ScaleOldToZero,
    WaitForOldPods,
    CreateNew(i64),
    ScaleNew(i64),
    Nothing,
}

/// Decides one step. `new` is the size of the new set, if it exists.
pub fn step(replicas: i64, new: Option<i64>, old: &[OldSet]) -> RecreateStep {
    if old.iter().any(|set| set.spec > 0) {
        return RecreateStep::ScaleOldToZero;
    }
    if old.iter().any(|set| set.actual > 0) {
        return RecreateStep::WaitForOldPods;
    }
    match new {
        None => RecreateStep::CreateNew(replicas),
        Some(size) if size != replicas => RecreateStep::ScaleNew(replicas),
        Some(_) => RecreateStep::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    property! {
        fn no_new_pod_starts_before_all_old_pods_are_gone(
            replicas in 0..20i64, new in prop::option::of(0..20i64),
            old in prop::collection::vec((0..2i64, 0..2i64), 0..4),
        ) {
            let old: Vec<OldSet> = old.into_iter().map(|(spec, actual)| OldSet { spec, actual }).collect();
            let is_gone = old.iter().all(|set| set.spec == 0 && set.actual == 0);
            match step(replicas, new, &old) {
                RecreateStep::ScaleOldToZero => prop_assert!(old.iter().any(|set| set.spec > 0)),
                RecreateStep::WaitForOldPods => prop_assert!(!is_gone),
                RecreateStep::CreateNew(size) | RecreateStep::ScaleNew(size) => prop_assert!(is_gone && size == replicas),
                RecreateStep::Nothing => prop_assert!(is_gone && new == Some(replicas)),
            }
        }
    }
}
