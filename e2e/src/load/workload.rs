//! What the cluster is and what it is asked to run: three sizes of nodes, three sizes of pods.

use std::collections::BTreeMap;

use contract::report::NodeFacts;
use contract::spec::{ContainerSpec, PodGroupSpec, PodSpec};

/// Memory of the pods, by turns.
const POD_MEMORY: [i64; 3] = [64 << 20, 128 << 20, 256 << 20];
/// Cores of the nodes, by turns; with each come four GiB.
const CORES: [u32; 3] = [32, 64, 96];
/// What an agent offers of its cores unless told otherwise.
const OVERCOMMIT: u64 = 8;

/// A node's name.
pub(crate) fn node_name(number: u32) -> String {
    format!("node-{number:05}")
}

/// A group's name.
pub(crate) fn group_name(number: u32) -> String {
    format!("scale.app{number:05}.web")
}

/// What node `number` is and has.
pub(crate) fn node_facts(number: u32) -> NodeFacts {
    let cores = CORES[number as usize % CORES.len()];
    let ip = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
    NodeFacts {
        address: format!("{ip}:2375"),
        ip,
        cpu_millis: u64::from(cores) * 1000 * OVERCOMMIT,
        cores,
        memory: u64::from(cores) * (4 << 30),
        labels: BTreeMap::from([("group".to_owned(), "default".to_owned())]),
        engine_version: "28.0.0".to_owned(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        wire: contract::WIRE_VERSION,
        fetches_ahead: true,
    }
}

/// Group `number` with so many instances, as a client asks for it.
pub(crate) fn group_spec(number: u32, instances: u32) -> PodGroupSpec {
    let (name, namespace) = (group_name(number), format!("app{number:05}"));
    let container = ContainerSpec {
        image: format!("app{number:05}:1"),
        env: vec!["PORT=8080".to_owned(), "LEVEL=info".to_owned()],
        cpu_limit: 1,
        memory_limit: POD_MEMORY[number as usize % POD_MEMORY.len()],
        expose: 8080,
        ..ContainerSpec::default()
    };
    let pod = PodSpec {
        name: name.clone(),
        namespace: namespace.clone(),
        containers: vec![container],
        filters: vec!["constraint:group==default".to_owned()],
        ..PodSpec::default()
    };
    PodGroupSpec { name, namespace, pod, num_instances: i64::from(instances), ..PodGroupSpec::default() }
}

/// How many instances each group has.
pub(crate) fn sizes(instances: u32, group_size: u32) -> Vec<u32> {
    let full = usize::try_from(instances / group_size).unwrap_or(0);
    let rest = instances % group_size;
    let mut sizes = vec![group_size; full];
    sizes.extend(Some(rest).filter(|rest| *rest > 0));
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_the_groups_come_to_all_instances() {
        assert_eq!(sizes(10, 4), [4, 4, 2]);
        assert_eq!(sizes(8, 4), [4, 4]);
        assert_eq!(sizes(3, 4), [3]);
    }
}
