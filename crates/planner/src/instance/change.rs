//! Decides what a spec change means for existing containers: nothing, new resource limits, or recreation.

use contract::spec::{ContainerSpec, HealthConfig, PodSpec};
use contract::time::Timestamp;

/// Whether containers created from `before` must be recreated for `after`. Times, placement and timeouts do not reach the
/// engine and never cause a recreation.
pub fn makes_other_containers(before: &PodSpec, after: &PodSpec) -> bool {
    reaching_the_engine(before) != reaching_the_engine(after)
}

/// Whether existing containers can be updated from `before` to `after`: only resource limits differ.
pub fn can_be_updated(before: &PodSpec, after: &PodSpec) -> bool {
    !makes_other_containers(&without_limits(before), &without_limits(after))
}

fn reaching_the_engine(spec: &PodSpec) -> PodSpec {
    let container = |container: &ContainerSpec| ContainerSpec {
        name: String::new(),
        namespace: String::new(),
        version: 0,
        created_at: Timestamp::NEVER,
        updated_at: Timestamp::NEVER,
        ..container.clone()
    };
    PodSpec {
        namespace: spec.namespace.clone(),
        network: spec.network.clone(),
        containers: spec.containers.iter().map(container).collect(),
        labels: spec.labels.clone(),
        annotation: spec.annotation.clone(),
        // The agent performs the other checks itself.
        health_config: HealthConfig {
            cmd: spec.health_config.cmd.clone(),
            options: spec.health_config.options.clone(),
            ..HealthConfig::default()
        },
        ..PodSpec::default()
    }
}

fn without_limits(spec: &PodSpec) -> PodSpec {
    let container = |container: &ContainerSpec| ContainerSpec { cpu_limit: 0, memory_limit: 0, ..container.clone() };
    PodSpec { containers: spec.containers.iter().map(container).collect(), ..spec.clone() }
}
