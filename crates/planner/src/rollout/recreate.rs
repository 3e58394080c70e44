//! Decides the next step of a Recreate rollout: all old pods stop before the first new pod starts.
//!
//! A pod in an unknown state counts as running.

/// The pods of other revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldSet {
    /// Desired pods.
    pub spec: i64,
    /// Pods that still exist.
    pub actual: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    Pending,
    Running,
    Unknown,
    Succeeded,
    /// Crash-looping, and in back-off now.
    Failed,
}

impl PodPhase {
    /// Not running. A crash-looping pod counts as finished although the agent restarts it after its back-off.
    pub fn is_finished(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Pending | Self::Running | Self::Unknown => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecreateStep {
    ScaleOldToZero,
    WaitForOldPods,
    CreateNew(i64),
    ScaleNew(i64),
    Nothing,
}

/// Decides one step. `new` is the size of the new set, if it exists; `phases` are those of old pods.
pub fn step(replicas: i64, new: Option<i64>, old: &[OldSet], phases: &[PodPhase]) -> RecreateStep {
    if old.iter().any(|set| set.spec > 0) {
        return RecreateStep::ScaleOldToZero;
    }
    if old.iter().any(|set| set.actual > 0) || phases.iter().any(|phase| !phase.is_finished()) {
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

    fn any_phase() -> impl Strategy<Value = PodPhase> {
        let all = [PodPhase::Pending, PodPhase::Running, PodPhase::Unknown, PodPhase::Succeeded, PodPhase::Failed];
        prop::sample::select(all.to_vec())
    }

    property! {
        fn no_new_pod_starts_before_all_old_pods_are_gone(
            replicas in 0..20i64, new in prop::option::of(0..20i64),
            old in prop::collection::vec((0..2i64, 0..2i64), 0..4), phases in prop::collection::vec(any_phase(), 0..4),
        ) {
            let old: Vec<OldSet> = old.into_iter().map(|(spec, actual)| OldSet { spec, actual }).collect();
            let is_empty = old.iter().all(|set| set.spec == 0 && set.actual == 0);
            let is_gone = is_empty && phases.iter().all(|phase| phase.is_finished());
            match step(replicas, new, &old, &phases) {
                RecreateStep::ScaleOldToZero => prop_assert!(old.iter().any(|set| set.spec > 0)),
                RecreateStep::WaitForOldPods => prop_assert!(!is_gone),
                RecreateStep::CreateNew(size) | RecreateStep::ScaleNew(size) => prop_assert!(is_gone && size == replicas),
                RecreateStep::Nothing => prop_assert!(is_gone && new == Some(replicas)),
            }
        }
    }
}
