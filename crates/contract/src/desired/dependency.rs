//! Names of a dependency pod on one node.
//!
//! Clients rely on the pod name `<dependency>-<node>-<namespace>`, the namespace `<dependency>` and the network
//! `<dependency>_<namespace>`. The pod name may be too long, or equal that of another combination, so callers must
//! check it.

use crate::name::{self, GroupName, NodeName};
use crate::pod_id::PodId;
use crate::spec::{PodSpec, PrevState};

/// Prefix of placement constraints that bind a pod to a node, soft ones (`==~`) included.
const NODE_FILTER: &str = "constraint:node==";

/// The node and namespace that one pod of a dependency serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The node it runs on.
    pub node: NodeName,
    /// Namespace of the instances it serves; the node's name when it serves the whole node.
    pub namespace: String,
}

impl Place {
    /// Name of the pod; an error when it is too long.
    pub fn pod_name(&self, dependency: &GroupName) -> Result<GroupName, name::Error> {
        format!("{dependency}-{}-{}", self.node, self.namespace).parse()
    }
    /// Id of the pod at a version.
    pub fn pod_id(&self, dependency: &GroupName, version: u32) -> Result<PodId, name::Error> {
        Ok(PodId { group: self.pod_name(dependency)?, instance: 0, version, drift: 0 })
    }
    /// The spec to run: `spec` with the name, namespace and network of this place, bound to its node.
    #[must_use]
    pub fn pod_spec(&self, spec: &PodSpec) -> PodSpec {
        let elsewhere = spec.filters.iter().filter(|filter| !filter.starts_with(NODE_FILTER)).cloned();
        PodSpec {
            name: format!("{}-{}-{}", spec.name, self.node, self.namespace),
            namespace: spec.name.clone(),
            network: format!("{}_{}", spec.name, self.namespace),
            filters: elsewhere.chain([format!("{NODE_FILTER}{}", self.node)]).collect(),
            prev_state: PrevState::default(),
            ..spec.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(namespace: &str) -> Place {
        Place { node: "node1".parse().expect("a name"), namespace: namespace.to_owned() }
    }
    fn portal() -> GroupName {
        "svc.portal.portal".parse().expect("a name")
    }

    #[test]
    fn a_dependency_pod_has_the_names_of_the_original_api() {
        let id = place("hello").pod_id(&portal(), 3).expect("a name");
        assert_eq!(id.to_string(), "svc.portal.portal-node1-hello.v3-i0-d0");
        let stored = PodSpec {
            name: "svc.portal.portal".to_owned(),
            namespace: "svc".to_owned(),
            network: "other".to_owned(),
            version: 3,
            filters: ["constraint:node==a", "constraint:group==default", "constraint:node==~b"]
                .map(str::to_owned)
                .into(),
            prev_state: PrevState { node_name: "a".to_owned(), ips: Vec::new() },
            ..Default::default()
        };
        let expected = PodSpec {
            name: "svc.portal.portal-node1-hello".to_owned(),
            namespace: "svc.portal.portal".to_owned(),
            network: "svc.portal.portal_hello".to_owned(),
            filters: ["constraint:group==default", "constraint:node==node1"].map(str::to_owned).into(),
            prev_state: PrevState::default(),
            ..stored.clone()
        };
        assert_eq!(place("hello").pod_spec(&stored), expected);
    }

    #[test]
    fn a_pod_name_that_is_too_long_is_an_error() {
        let error = place(&"x".repeat(120)).pod_id(&portal(), 0).expect_err("too long");
        assert_eq!(error, name::Error::TooLong(144));
    }
}
