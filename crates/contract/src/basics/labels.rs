//! Every container label. The agent recognises its containers by them.
//!
//! The first seven exist in the original and clients read them. The others are additions that identify cluster, node
//! and spec. A container without them is foreign, and the agent never touches it.

use std::collections::BTreeMap;

use crate::digest::Digest;
use crate::name::NodeName;
use crate::pod_id::PodId;
use crate::spec::PodSpec;

/// Prefix that labels of users must not have.
pub const RESERVED_PREFIX: &str = "cc.bdp.lain.deployd.";

/// Name of the pod.
pub const POD_NAME: &str = "cc.bdp.lain.deployd.pg_name";
/// Namespace of the pod.
pub const POD_NAMESPACE: &str = "cc.bdp.lain.deployd.pg_namespace";
/// Instance number.
pub const INSTANCE: &str = "cc.bdp.lain.deployd.instance_no";
/// Revision of the spec.
pub const VERSION: &str = "cc.bdp.lain.deployd.version";
/// Drift count: how many times the instance was recreated.
pub const DRIFT: &str = "cc.bdp.lain.deployd.drift_count";
/// Index of the container in its pod.
pub const CONTAINER_INDEX: &str = "cc.bdp.lain.deployd.container_index";
/// Raw annotation text.
pub const ANNOTATION: &str = "cc.bdp.lain.deployd.annotation";

/// The cluster the container belongs to.
pub const CLUSTER: &str = "cc.bdp.lain.deployd.cluster";
/// The node it was created for: several agents may share one Docker engine.
pub const NODE: &str = "cc.bdp.lain.deployd.node";
/// Digest of the spec it was created from.
pub const SPEC_DIGEST: &str = "cc.bdp.lain.deployd.spec_digest";

/// The agent that a container belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Cluster id.
    pub cluster: String,
    /// Name of the node.
    pub node: NodeName,
}

/// The container of a pod that labels describe.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The pod.
    pub pod: PodId,
    /// Index of the container in the pod, from 0.
    pub index: usize,
}

/// The labels of container `index` of `pod`.
pub fn of(owner: &Owner, pod: &PodId, spec: &PodSpec, index: usize) -> BTreeMap<String, String> {
    let mut labels = spec.labels.clone();
    let ours = [
        (POD_NAME, pod.group.to_string()),
        (POD_NAMESPACE, spec.namespace.clone()),
        (INSTANCE, pod.instance.to_string()),
        (VERSION, pod.version.to_string()),
        (DRIFT, pod.drift.to_string()),
        (CONTAINER_INDEX, index.to_string()),
        (ANNOTATION, spec.annotation.clone()),
        (CLUSTER, owner.cluster.clone()),
        (NODE, owner.node.to_string()),
        (SPEC_DIGEST, Digest::of(spec).to_string()),
    ];
    labels.extend(ours.map(|(key, value)| (key.to_owned(), value)));
    labels
}

/// Parses labels; none unless the container belongs to `owner` and all labels are valid.
pub fn identify<'a>(owner: &Owner, get: impl Fn(&str) -> Option<&'a str>) -> Option<Identity> {
    if get(CLUSTER)? != owner.cluster || get(NODE)? != owner.node.as_str() {
        return None;
    }
    let number = |key: &str| get(key)?.parse().ok();
    let pod = PodId {
        group: get(POD_NAME)?.parse().ok()?,
        instance: number(INSTANCE)?,
        version: number(VERSION)?,
        drift: number(DRIFT)?,
    };
    Some(Identity { pod, index: get(CONTAINER_INDEX)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(node: &str) -> Owner {
        Owner { cluster: "c1".to_owned(), node: node.parse().expect("a name") }
    }

    #[test]
    fn labels_identify_a_container_only_to_its_owner() {
        let pod: PodId = "hello.web.web.v2-i3-d1".parse().expect("a pod");
        let spec = PodSpec { labels: BTreeMap::from([("team".to_owned(), "x".to_owned())]), ..Default::default() };
        let labels = of(&owner("n1"), &pod, &spec, 1);
        let get = |key: &str| labels.get(key).map(String::as_str);
        assert_eq!(identify(&owner("n1"), get), Some(Identity { pod, index: 1 }));
        assert_eq!(identify(&owner("n2"), get), None);
        assert_eq!(identify(&Owner { cluster: "c2".to_owned(), ..owner("n1") }, get), None);
        assert_eq!(labels["team"], "x");
    }

    #[test]
    fn a_container_with_incomplete_labels_is_foreign() {
        let labels = BTreeMap::from([(POD_NAME, "hello.web.web"), (INSTANCE, "1"), (VERSION, "0"), (DRIFT, "0")]);
        assert_eq!(identify(&owner("n1"), |key| labels.get(key).copied()), None);
    }
}
