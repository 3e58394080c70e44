//! Merging a client's pod spec into the stored one.
//!
//! As in the original API, a CPU or memory limit of 0 keeps the previous limit, and a patch without a difference still
//! creates a new revision, because clients use it to redeploy.

use crate::spec::{ContainerSpec, PodSpec};
use crate::time::Timestamp;

impl PodSpec {
    /// This spec merged with `patch`, as the next revision.
    #[must_use]
    pub fn patched(&self, patch: Self, now: Timestamp) -> Self {
        let containers = patch.containers.into_iter().enumerate();
        let containers = containers.map(|(index, container)| self.limits_kept(index, container)).collect();
        let annotation = if patch.annotation.trim().is_empty() { "{}".to_owned() } else { patch.annotation };
        Self {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            network: self.network.clone(),
            created_at: self.created_at,
            version: self.version.saturating_add(1),
            updated_at: now,
            containers,
            annotation,
            ..patch
        }
    }

    /// Fills in limits of 0 from the container at the same index, or else from the first container.
    fn limits_kept(&self, index: usize, container: ContainerSpec) -> ContainerSpec {
        let Some(before) = self.containers.get(index).or_else(|| self.containers.first()) else { return container };
        let kept = |asked: i64, before: i64| if asked == 0 { before } else { asked };
        ContainerSpec {
            cpu_limit: kept(container.cpu_limit, before.cpu_limit),
            memory_limit: kept(container.memory_limit, before.memory_limit),
            ..container
        }
    }

    /// Whether both specs are equal except for revisions and times.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.timeless() == other.timeless()
    }

    fn timeless(&self) -> Self {
        let container = |container: &ContainerSpec| ContainerSpec {
            version: 0,
            created_at: Timestamp::NEVER,
            updated_at: Timestamp::NEVER,
            ..container.clone()
        };
        Self {
            version: 0,
            created_at: Timestamp::NEVER,
            updated_at: Timestamp::NEVER,
            containers: self.containers.iter().map(container).collect(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn container(image: &str, cpu: i64, memory: i64) -> ContainerSpec {
        ContainerSpec { image: image.to_owned(), cpu_limit: cpu, memory_limit: memory, ..Default::default() }
    }
    fn stored() -> PodSpec {
        PodSpec {
            name: "hello.web.web".to_owned(),
            namespace: "hello".to_owned(),
            network: "net".to_owned(),
            version: 4,
            created_at: Timestamp::from_millis(1),
            containers: vec![container("a:1", 3, 64)],
            labels: BTreeMap::from([("team".to_owned(), "x".to_owned())]),
            filters: vec!["constraint:group==default".to_owned()],
            annotation: "{\"mountpoint\":[]}".to_owned(),
            stateful: true,
            ..Default::default()
        }
    }

    #[test]
    fn a_patch_replaces_empty_fields_too_and_keeps_the_identity() {
        let patch = PodSpec {
            name: "other".to_owned(),
            namespace: "other".to_owned(),
            network: "other".to_owned(),
            version: 99,
            containers: vec![container("a:2", 1, 32)],
            ..Default::default()
        };
        let next = stored().patched(patch, Timestamp::from_millis(7));
        let expected = PodSpec {
            version: 5,
            updated_at: Timestamp::from_millis(7),
            containers: vec![container("a:2", 1, 32)],
            labels: BTreeMap::new(),
            filters: Vec::new(),
            annotation: "{}".to_owned(),
            stateful: false,
            ..stored()
        };
        assert_eq!(next, expected);
    }

    #[test]
    fn a_limit_of_zero_keeps_the_previous_limit_or_that_of_the_first_container() {
        let patch = PodSpec { containers: vec![container("a:2", 0, 0), container("b:1", 0, 8)], ..Default::default() };
        let next = stored().patched(patch, Timestamp::NEVER);
        assert_eq!(next.containers, [container("a:2", 3, 64), container("b:1", 3, 8)]);
    }

    #[test]
    fn specs_are_compared_without_versions_and_times() {
        let again = stored().patched(stored(), Timestamp::from_millis(9));
        assert_ne!(again, stored());
        assert!(again.asks_the_same(&stored()));
        assert!(!PodSpec { kill_timeout: 30, ..stored() }.asks_the_same(&stored()));
        assert!(!PodSpec { network: "n2".to_owned(), ..stored() }.asks_the_same(&stored()));
    }
}
