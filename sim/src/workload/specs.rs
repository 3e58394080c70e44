//! Specs of groups and dependency pods: small and valid, but not always sound.
//!
//! The image name determines the behaviour of a container, see [`ContainerBehaviour`].

use contract::name::GroupName;
use contract::spec::{ContainerSpec, Dependency, HealthConfig, PodGroupSpec, PodSpec};
use contract::state::{DependencyPolicy, RestartPolicy};
use contract::time::Timestamp;

use testkit::container::ContainerBehaviour;
use testkit::random::Random;

/// True when every container of the pod comes up and stays up.
pub fn is_sound(pod: &PodSpec) -> bool {
    pod.containers.iter().all(|container| ContainerBehaviour::of(&container.image) == ContainerBehaviour::Well)
}

pub fn dependency_names() -> Vec<GroupName> {
    (0..2).filter_map(|number| format!("dep{number}.portal.portal").parse().ok()).collect()
}

pub fn group(name: &GroupName, at: Timestamp, random: &mut Random) -> Box<PodGroupSpec> {
    let spec = PodGroupSpec {
        name: name.to_string(),
        namespace: namespace(name),
        num_instances: i64::try_from(random.between(1, 5)).unwrap_or(1),
        restart_policy: if random.chance(80) { RestartPolicy::Always } else { RestartPolicy::OnFail },
        pod: pod(name, 4, random),
        ..Default::default()
    };
    Box::new(spec.for_creation(at))
}

/// A pod spec with a random version, which the leader must ignore; `spoiled` percent are not sound.
pub fn pod(name: &GroupName, spoiled: u64, random: &mut Random) -> PodSpec {
    let count = if random.chance(15) { 2 } else { 1 };
    let spoiled = random.chance(spoiled);
    let containers = (0..count).map(|_| container(spoiled, random)).collect();
    let health_config = HealthConfig {
        cmd: if spoiled || random.chance(30) { "check".to_owned() } else { String::new() },
        ..Default::default()
    };
    PodSpec {
        name: name.to_string(),
        namespace: namespace(name),
        version: u32::try_from(random.below(40)).unwrap_or(0),
        containers,
        dependencies: dependencies(random),
        annotation: annotation(random),
        stateful: random.chance(15),
        setup_time: if random.chance(20) { 2 } else { 0 },
        kill_timeout: 10,
        health_config,
        ..Default::default()
    }
}

pub fn dependency(name: &GroupName, random: &mut Random) -> Box<PodSpec> {
    let spoiled = random.chance(5);
    // A dependency pod runs on the nodes of its users, so it must fit everywhere.
    let container = ContainerSpec { memory_limit: 64 << 20, ..container(spoiled, random) };
    Box::new(PodSpec {
        name: name.to_string(),
        namespace: namespace(name),
        version: u32::try_from(random.below(40)).unwrap_or(0),
        containers: vec![container],
        kill_timeout: 10,
        ..Default::default()
    })
}

fn namespace(name: &GroupName) -> String {
    let even = name.as_str().bytes().filter(u8::is_ascii_digit).all(|digit| digit % 2 == 0);
    if even { "even".to_owned() } else { "odd".to_owned() }
}

fn container(spoiled: bool, random: &mut Random) -> ContainerSpec {
    let word = if spoiled { random.pick(&["ill", "dying", "stubborn", "broken"]).copied() } else { None };
    let memory_limit = match random.below(40) {
        // More than any node has, or a third of a node.
        0 => 100 << 30,
        1..3 => 20 << 30,
        _ => 64 << 20,
    };
    ContainerSpec {
        image: format!("{}:{}", word.unwrap_or("demo"), random.below(4)),
        cpu_limit: 1,
        memory_limit,
        volumes: if random.chance(8) { vec!["/data".to_owned()] } else { Vec::new() },
        ..Default::default()
    }
}

fn dependencies(random: &mut Random) -> Vec<Dependency> {
    let needs = random.below(10);
    let named = |(number, name): (usize, GroupName)| {
        let policy = if needs.is_multiple_of(2) { DependencyPolicy::Node } else { DependencyPolicy::Namespace };
        // One of the two, or both.
        let needed = needs < 4 && (needs == 3 || number as u64 == needs % 2);
        needed.then(|| Dependency { pod_name: name.to_string(), policy })
    };
    dependency_names().into_iter().enumerate().filter_map(named).collect()
}

/// 30 % of the specs declare one or two of three stream ports, so that groups conflict.
fn annotation(random: &mut Random) -> String {
    let port = |srcport: u64| format!(r#"{{"srcport":{srcport},"dstport":80,"proto":"tcp"}}"#);
    match random.below(10) {
        0..2 => format!(r#"{{"ports":[{}]}}"#, port(9001 + random.below(3))),
        2 => format!(r#"{{"ports":[{},{}]}}"#, port(9001), port(9002 + random.below(2))),
        _ => String::new(),
    }
}
