//! Decides how a pod gets another spec: updated live, recreated with the same address, or recreated.
//!
//! Only resource limits differ: the container is updated. Also images, labels and the annotation: the container is recreated
//! with the same address. Everything else needs a new pod, and is refused if the update policy is `InPlaceOnly`. Names, times
//! and versions are no differences; deploying the same spec again recreates the containers.

use contract::rollout::UpdatePolicy;
use contract::spec::{ContainerSpec, PodSpec};

use crate::rollout::inplace::{Difference, Operation, TemplateChange, UpdateDecision, decide_update};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateMethod {
    /// The containers stay and get other limits.
    Live,
    /// The containers are recreated on the same node with the same addresses.
    SameAddress,
    /// A new pod replaces it.
    Recreate,
    /// The policy `InPlaceOnly` does not allow the change.
    Refused {
        /// The fields that cannot be changed in place, as users write them.
        fields: Vec<String>,
    },
}

struct SpecDifference {
    change: TemplateChange,
    field: String,
}

/// Decides how a pod gets from one spec to another.
pub fn update_method(policy: UpdatePolicy, before: &PodSpec, after: &PodSpec) -> UpdateMethod {
    let found = differences(before, after);
    let changes = || found.iter().map(|found| found.change.clone());
    match decide_update(policy, &difference(changes().collect())) {
        UpdateDecision::InPlace if !found.is_empty() && changes().all(|change| is_limit(&change)) => UpdateMethod::Live,
        UpdateDecision::InPlace => UpdateMethod::SameAddress,
        UpdateDecision::Recreate => UpdateMethod::Recreate,
        UpdateDecision::Reject => {
            let is_refused = |it: &&SpecDifference| {
                decide_update(policy, &difference(vec![it.change.clone()])) == UpdateDecision::Reject
            };
            UpdateMethod::Refused { fields: found.iter().filter(is_refused).map(|found| found.field.clone()).collect() }
        }
    }
}

fn difference(changes: Vec<TemplateChange>) -> Difference {
    // Added and removed containers are among the changes, and limits form no classes of service here.
    Difference { changes, allows_resources: true, qos_changed: false, removes_containers: false }
}

fn is_limit(change: &TemplateChange) -> bool {
    change.path.contains("/resources/")
}

fn differences(before: &PodSpec, after: &PodSpec) -> Vec<SpecDifference> {
    let PodSpec {
        name: _,
        namespace: _,
        version: _,
        created_at: _,
        updated_at: _,
        prev_state: _,
        network,
        containers,
        filters,
        labels,
        dependencies,
        annotation,
        stateful,
        setup_time,
        kill_timeout,
        health_config,
    } = after;
    let differs = [
        ("/spec/network", "Network", *network != before.network),
        ("/spec/filters", "Filters", *filters != before.filters),
        ("/metadata/labels", "Labels", *labels != before.labels),
        ("/spec/dependencies", "Dependencies", *dependencies != before.dependencies),
        ("/metadata/annotations", "Annotation", *annotation != before.annotation),
        ("/spec/stateful", "Stateful", *stateful != before.stateful),
        ("/spec/setupTime", "SetupTime", *setup_time != before.setup_time),
        ("/spec/killTimeout", "KillTimeout", *kill_timeout != before.kill_timeout),
        ("/spec/healthConfig", "HealthConfig", *health_config != before.health_config),
        ("/spec/containers", "Containers", containers.len() != before.containers.len()),
    ];
    let of_pod = differs.into_iter().filter(|(_, _, differs)| *differs).map(|(path, field, _)| SpecDifference {
        change: TemplateChange { operation: Operation::Replace, path: path.to_owned() },
        field: format!("Pod.{field}"),
    });
    let pairs = before.containers.iter().zip(containers).enumerate();
    of_pod.chain(pairs.flat_map(|(index, (before, after))| container(index, before, after))).collect()
}

fn container(index: usize, before: &ContainerSpec, after: &ContainerSpec) -> Vec<SpecDifference> {
    let ContainerSpec {
        name: _,
        namespace: _,
        version: _,
        created_at: _,
        updated_at: _,
        image,
        env,
        user,
        working_dir,
        dns_search,
        volumes,
        system_volumes,
        cloud_volumes,
        command,
        entrypoint,
        cpu_limit,
        memory_limit,
        expose,
        log_config,
    } = after;
    // The engine can change a memory limit of a running container, but neither add nor remove it.
    let memory = match (before.memory_limit, *memory_limit) {
        (1.., 1..) => Operation::Replace,
        (..=0, 1..) => Operation::Add,
        (_, ..=0) => Operation::Remove,
    };
    let differs = [
        ("image", "Image", Operation::Replace, *image != before.image),
        ("resources/limits/cpu", "CpuLimit", Operation::Replace, *cpu_limit != before.cpu_limit),
        ("resources/limits/memory", "MemoryLimit", memory, *memory_limit != before.memory_limit),
        ("env", "Env", Operation::Replace, *env != before.env),
        ("user", "User", Operation::Replace, *user != before.user),
        ("workingDir", "WorkingDir", Operation::Replace, *working_dir != before.working_dir),
        ("dnsSearch", "DnsSearch", Operation::Replace, *dns_search != before.dns_search),
        ("volumes", "Volumes", Operation::Replace, *volumes != before.volumes),
        ("systemVolumes", "SystemVolumes", Operation::Replace, *system_volumes != before.system_volumes),
        ("cloudVolumes", "CloudVolumes", Operation::Replace, *cloud_volumes != before.cloud_volumes),
        ("command", "Command", Operation::Replace, *command != before.command),
        ("entrypoint", "Entrypoint", Operation::Replace, *entrypoint != before.entrypoint),
        ("expose", "Expose", Operation::Replace, *expose != before.expose),
        ("logConfig", "LogConfig", Operation::Replace, *log_config != before.log_config),
    ];
    let found = |(path, field, operation, _)| SpecDifference {
        change: TemplateChange { operation, path: format!("/spec/containers/{index}/{path}") },
        field: format!("Pod.Containers[{index}].{field}"),
    };
    differs.into_iter().filter(|(_, _, _, differs)| *differs).map(found).collect()
}
