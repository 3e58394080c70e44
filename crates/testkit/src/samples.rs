//! Small valid values: names, ids and specs. They panic on text that is not valid.

use contract::access::token::{Credentials, Proof};
use contract::fence::{Fence, Term};
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::spec::{ContainerSpec, PodGroupSpec, PodSpec};

pub fn node(text: &str) -> NodeName {
    text.parse().expect("a name of a node")
}
pub fn group(text: &str) -> GroupName {
    text.parse().expect("a name of a group")
}
/// `web.v1-i2-d0`: instance 2 of the group web at revision 1, never moved.
pub fn pod(text: &str) -> PodId {
    text.parse().expect("an id of a pod")
}
pub fn fence(term: u64, generation: u64) -> Fence {
    Fence { term: Term(term), generation }
}

/// A container of 64 MiB.
pub fn container(image: &str) -> ContainerSpec {
    ContainerSpec { image: image.to_owned(), cpu_limit: 1, memory_limit: 64 << 20, ..ContainerSpec::default() }
}
/// A pod of one container in the namespace `hello`.
pub fn pod_spec(name: &str) -> PodSpec {
    let (name, namespace) = (name.to_owned(), "hello".to_owned());
    PodSpec { name, namespace, containers: vec![container("demo")], ..PodSpec::default() }
}
pub fn group_spec(name: &str, instances: i64) -> PodGroupSpec {
    let pod = pod_spec(name);
    PodGroupSpec {
        name: name.to_owned(),
        namespace: pod.namespace.clone(),
        num_instances: instances,
        pod,
        ..PodGroupSpec::default()
    }
}

/// The binding under which tests send commands to a cluster that asks who sends them; for `--anonymous`.
pub const ADMIN: &str = "admin@* from any";

/// Credentials of a client with the binding [`ADMIN`].
pub fn admin() -> Option<Box<Credentials>> {
    let proof = ADMIN.parse().ok().map(Proof::Anonymous);
    Some(Box::new(Credentials { apiserver: "tests".to_owned(), peer: "127.0.0.1".to_owned(), proof }))
}
