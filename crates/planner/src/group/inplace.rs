//! Decides how a pod comes to another spec: live, with the same address, or as another pod.
//!
//! Only limits: the container stays and is updated. Also images, labels and the annotation: another container with the same
//! address takes its place. Everything else is another pod, or refused where a group allows nothing but that. What is only
//! informational (names, times, versions) is no difference; a spec that asks for nothing new is deployed again all the same.

use contract::rollout::UpdatePolicy;
use contract::spec::{ContainerSpec, PodSpec};

use crate::rollout::inplace::{Difference, Operation, Policy, TemplateChange, UpdateMethod, update_method};

/// How a pod comes to another spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// Its containers stay and get other limits.
    Live,
    /// Other containers take the place of its own, on the same node and with the same addresses.
    SameAddress,
    /// Another pod takes its place.
    Anew,
    /// Not at all: the policy allows only what can be done in place.
    Refused {
        /// What cannot be changed in place, as users write it.
        fields: Vec<String>,
    },
}

/// One difference between two specs.
struct Found {
    change: TemplateChange,
    field: String,
}

/// Decides how a pod comes from one spec to another.
pub fn update_way(policy: UpdatePolicy, before: &PodSpec, after: &PodSpec) -> Way {
    let found = differences(before, after);
    let policy = match policy {
        UpdatePolicy::ReCreate => Policy::ReCreate,
        UpdatePolicy::InPlaceIfPossible => Policy::InPlaceIfPossible,
        UpdatePolicy::InPlaceOnly => Policy::InPlaceOnly,
    };
    let changes = || found.iter().map(|found| found.change.clone());
    match update_method(policy, &difference(changes().collect())) {
        UpdateMethod::InPlace if !found.is_empty() && changes().all(|change| is_limit(&change)) => Way::Live,
        UpdateMethod::InPlace => Way::SameAddress,
        UpdateMethod::Recreate => Way::Anew,
        UpdateMethod::Reject => {
            let is_refused =
                |it: &&Found| update_method(policy, &difference(vec![it.change.clone()])) == UpdateMethod::Reject;
            Way::Refused { fields: found.iter().filter(is_refused).map(|found| found.field.clone()).collect() }
        }
    }
}

fn difference(changes: Vec<TemplateChange>) -> Difference {
    // A container that is gone or new is among the changes, and limits are no classes of service here.
    Difference { changes, allows_resources: true, qos_changed: false, removes_containers: false }
}

fn is_limit(change: &TemplateChange) -> bool {
    change.path.contains("/resources/")
}

fn differences(before: &PodSpec, after: &PodSpec) -> Vec<Found> {
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
    let of_pod = differs.into_iter().filter(|(_, _, differs)| *differs).map(|(path, field, _)| Found {
        change: TemplateChange { operation: Operation::Replace, path: path.to_owned() },
        field: format!("Pod.{field}"),
    });
    let pairs = before.containers.iter().zip(containers).enumerate();
    of_pod.chain(pairs.flat_map(|(index, (before, after))| container(index, before, after))).collect()
}

fn container(index: usize, before: &ContainerSpec, after: &ContainerSpec) -> Vec<Found> {
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
    // An engine raises and lowers a limit of a container that runs; it neither gives it one nor takes it away.
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
    let found = |(path, field, operation, _)| Found {
        change: TemplateChange { operation, path: format!("/spec/containers/{index}/{path}") },
        field: format!("Pod.Containers[{index}].{field}"),
    };
    differs.into_iter().filter(|(_, _, _, differs)| *differs).map(found).collect()
}
