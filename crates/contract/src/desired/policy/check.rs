//! Checks a spec against a policy. Total: every violation is reported, each with rule, field and remedy.

use std::fmt;

use super::host_path::{Bind, NEVER, lies_in, normalized};
use super::{HostBind, Level, Policy, Usage};
use crate::spec::{ContainerSpec, PodGroupSpec, PodSpec};

/// Log drivers that write only to the node and send nothing elsewhere.
const LOCAL_LOG_DRIVERS: [&str; 5] = ["", "json-file", "journald", "local", "none"];
/// Labels by which other systems recognise containers as theirs.
const FOREIGN_LABELS: [&str; 3] = ["com.docker.", "traefik.", "io.kubernetes."];
/// Networks that Docker itself has; `none` isolates and is always allowed.
const SHARED_NETWORKS: [&str; 3] = ["host", "bridge", "default"];

/// A rule of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Paths that no level allows.
    Never,
    /// `SystemVolumes`.
    HostBinds,
    /// Binds below `/dev`.
    Devices,
    /// Docker networks.
    Networks,
    /// Log drivers.
    LogDrivers,
    /// Labels of other systems.
    Labels,
    /// Images.
    Images,
    /// The user of the processes.
    Users,
    /// A volume inside another volume.
    NestedVolumes,
    /// Limits of the namespace.
    Quota,
}

impl Rule {
    /// The word in messages and documentation.
    pub fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::HostBinds => "host-binds",
            Self::Devices => "devices",
            Self::Networks => "networks",
            Self::LogDrivers => "log-drivers",
            Self::Labels => "labels",
            Self::Images => "images",
            Self::Users => "users",
            Self::NestedVolumes => "nested-volumes",
            Self::Quota => "quota",
        }
    }
}

/// A spec breaks one rule in one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Path of the field, for example `Pod.Containers[0].SystemVolumes[1]`.
    pub field: String,
    /// The problem and the remedy.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rule {}): {}", self.field, self.rule.word(), self.problem)
    }
}

/// All violations in one line.
pub fn sentence(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("; ")
}

#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, rule: Rule, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Violation { rule, field: field.into(), problem: problem.into() });
    }
}

impl Policy {
    /// What a group's spec violates.
    pub fn check(&self, spec: &PodGroupSpec) -> Vec<Violation> {
        self.check_pod(&spec.pod, &[])
    }

    /// What a pod violates. No pod may bind a path in `protected` or in [`NEVER`].
    pub fn check_pod(&self, pod: &PodSpec, protected: &[String]) -> Vec<Violation> {
        let mut violations = Violations::default();
        self.check_network(pod, &mut violations);
        self.check_labels(pod, &mut violations);
        let containers = pod.containers.len() as u64;
        if let Some(limit) = self.quota.containers.filter(|limit| containers > *limit) {
            let problem = format!("{containers} containers are too many, the namespace allows {limit} per pod");
            violations.add(Rule::Quota, "Pod.Containers", problem);
        }
        for (index, container) in pod.containers.iter().enumerate() {
            let at = format!("Pod.Containers[{index}]");
            self.check_binds(container, &at, protected, &mut violations);
            self.check_container(container, &at, &mut violations);
        }
        if self.level < Level::Trusted {
            check_nesting(pod, &mut violations);
        }
        violations.0
    }

    /// What the whole namespace violates after a change.
    pub fn check_usage(&self, usage: Usage) -> Vec<Violation> {
        let mut violations = Violations::default();
        if let Some(limit) = self.quota.groups.filter(|limit| usage.groups > *limit) {
            let problem = format!("the namespace would have {} PodGroups, its quota is {limit}", usage.groups);
            violations.add(Rule::Quota, "Namespace", problem);
        }
        if let Some(limit) = self.quota.instances.filter(|limit| usage.instances > *limit) {
            let problem = format!("the namespace would have {} instances, its quota is {limit}", usage.instances);
            violations.add(Rule::Quota, "NumInstances", problem);
        }
        violations.0
    }

    /// The network that counts is the one the pod joins: a namespace may be called `host`.
    fn check_network(&self, pod: &PodSpec, violations: &mut Violations) {
        let name = pod.network_name();
        if name.starts_with("container:") {
            violations.add(Rule::Never, "Pod.Network", "a pod cannot share the network of a container; leave it empty");
            return;
        }
        let is_own = name == pod.namespace && !SHARED_NETWORKS.contains(&name);
        if self.level == Level::Trusted || is_own || name == "none" || self.networks.contains(name) {
            return;
        }
        let problem = match SHARED_NETWORKS.contains(&name) {
            true => format!("{name:?} is a network of the node, not of the namespace"),
            false => format!("{name:?} is not the network of the namespace {:?}", pod.namespace),
        };
        violations.add(
            Rule::Networks,
            "Pod.Network",
            format!("{problem}; leave it empty, or allow it (--allow-network)"),
        );
    }

    fn check_labels(&self, pod: &PodSpec, violations: &mut Violations) {
        if self.level == Level::Trusted {
            return;
        }
        for label in pod.labels.keys() {
            // Some systems ignore case: Traefik reads `Traefik.Enable` too.
            let lower = label.to_ascii_lowercase();
            let foreign = FOREIGN_LABELS.into_iter().find(|prefix| lower.starts_with(prefix));
            let is_allowed = self.labels.iter().any(|prefix| label.starts_with(prefix));
            if let Some(prefix) = foreign.filter(|_| !is_allowed) {
                let problem = format!(
                    "{label:?} makes the container part of another system ({prefix}); remove it, or allow it (--allow-label)"
                );
                violations.add(Rule::Labels, "Pod.Labels", problem);
            }
        }
    }

    fn check_binds(&self, container: &ContainerSpec, at: &str, protected: &[String], violations: &mut Violations) {
        for (index, text) in container.system_volumes.iter().enumerate() {
            let field = format!("{at}.SystemVolumes[{index}]");
            match Bind::parse(text) {
                Some(bind) => self.check_bind(&bind, field, protected, violations),
                None if self.level == Level::Trusted => {}
                None => violations.add(
                    Rule::HostBinds,
                    field,
                    format!(
                        "{text:?} must be HOST:CONTAINER or HOST:CONTAINER:ro with absolute paths; use Volumes for data"
                    ),
                ),
            }
        }
    }

    fn check_bind(&self, bind: &Bind, field: String, protected: &[String], violations: &mut Violations) {
        let Bind { source, .. } = bind;
        let never = NEVER.into_iter().chain(protected.iter().map(String::as_str)).find(|never| lies_in(source, never));
        if let Some(never) = never {
            let problem = format!("{source} is or lies in {never}, which no level allows; remove it");
            return violations.add(Rule::Never, field, problem);
        }
        if self.level == Level::Trusted || bind.is_always_allowed() {
            return;
        }
        if !bind.is_plain() {
            let options = bind.options.join(",");
            let problem = format!("the options {options:?} change mounts or labels of the node; use ro or rw");
            return violations.add(Rule::HostBinds, field, problem);
        }
        if lies_in(source, "/dev") {
            if !self.devices.contains(source) {
                let problem = format!("{source} is a device of the node; allow it (--allow-device {source})");
                violations.add(Rule::Devices, field, problem);
            }
            return;
        }
        let containing: Vec<_> = self.host_binds.iter().filter(|allowed| lies_in(source, &allowed.path)).collect();
        if let Some(problem) = self.replaceable(source) {
            return violations.add(Rule::HostBinds, field, problem);
        }
        if containing.iter().any(|allowed| !allowed.read_only || bind.is_read_only()) {
            return;
        }
        let problem = match containing.is_empty() {
            true => format!("{source} belongs to the node; use Volumes for data, or allow it (--allow-bind {source})"),
            false => format!("{source} is allowed only for reading; write {source}:{}:ro", bind.target),
        };
        violations.add(Rule::HostBinds, field, problem);
    }

    fn check_container(&self, container: &ContainerSpec, at: &str, violations: &mut Violations) {
        let image = &container.image;
        if !self.images.is_empty() && !self.images.iter().any(|pattern| matches(pattern, image)) {
            let allowed = self.images.iter().cloned().collect::<Vec<_>>().join(", ");
            violations.add(Rule::Images, format!("{at}.Image"), format!("{image:?} is not one of {allowed}"));
        }
        if self.level == Level::Trusted {
            return;
        }
        let driver = &container.log_config.kind;
        if !LOCAL_LOG_DRIVERS.contains(&driver.as_str()) && !self.log_drivers.contains(driver) {
            let problem = format!(
                "{driver:?} makes Docker, which is root, connect elsewhere; use json-file, journald, local or none, or allow \
                 it (--allow-log-driver {driver})"
            );
            violations.add(Rule::LogDrivers, format!("{at}.LogConfig.Type"), problem);
        }
        if self.level == Level::Restricted && !is_unprivileged(&container.user) && !self.users.contains(&container.user)
        {
            let problem = format!(
                "{:?} is or may be root: a name means what the image says; give a numeric id other than 0, or allow it \
                 (--allow-user)",
                container.user
            );
            violations.add(Rule::Users, format!("{at}.User"), problem);
        }
    }
}

/// A plain decimal number other than 0, with or without a group. Docker also reads `+0` and `00` as 0.
fn is_unprivileged(user: &str) -> bool {
    let id = user.split(':').next().unwrap_or_default();
    id.bytes().all(|byte| byte.is_ascii_digit()) && id.parse::<u32>().is_ok_and(|id| id != 0)
}

fn matches(pattern: &str, image: &str) -> bool {
    pattern.strip_suffix('*').map_or(image == pattern, |prefix| image.starts_with(prefix))
}

/// A volume inside another one is a directory that the container itself can replace by a link.
fn check_nesting(pod: &PodSpec, violations: &mut Violations) {
    let all = places(pod);
    for VolumePath { field, path } in &all {
        if let Some(outer) = all.iter().find(|outer| outer.path != *path && lies_in(path, &outer.path)) {
            let problem = format!("it lies in the volume of {}; mount only the outer one", outer.field);
            violations.add(Rule::NestedVolumes, field, problem);
        }
    }
    let clouds = all.iter().filter(|place| place.path.starts_with(SINGLE));
    for VolumePath { field, path } in clouds.filter(|place| has_number(&place.path)) {
        let problem = format!("{} is the directory of an instance; choose another name", &path[SINGLE.len()..]);
        violations.add(Rule::NestedVolumes, field, problem);
    }
}

/// Directories of cloud volumes that all instances share.
const SINGLE: &str = "/single";

/// Directories of cloud volumes of type `multi` begin with the number of their instance.
fn has_number(path: &str) -> bool {
    let first = path[SINGLE.len()..].split('/').find(|part| !part.is_empty()).unwrap_or_default();
    !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit())
}

/// The directory of a volume, relative to a root that other places share.
struct VolumePath {
    field: String,
    path: String,
}

fn places(pod: &PodSpec) -> Vec<VolumePath> {
    let mut places = Vec::new();
    for (index, container) in pod.containers.iter().enumerate() {
        let part = if pod.containers.len() > 1 { format!("/c{index}") } else { String::new() };
        for (number, path) in container.volumes.iter().enumerate() {
            let field = format!("Pod.Containers[{index}].Volumes[{number}]");
            places.push(VolumePath { field, path: normalized(&format!("/local{part}/{path}")) });
        }
        for (number, volume) in container.cloud_volumes.iter().enumerate() {
            let root = if volume.kind == "multi" { "/multi" } else { SINGLE };
            for (dir, path) in volume.dirs.iter().enumerate() {
                let field = format!("Pod.Containers[{index}].CloudVolumes[{number}].Dirs[{dir}]");
                places.push(VolumePath { field, path: normalized(&format!("{root}/{path}")) });
            }
        }
    }
    places
}

impl Policy {
    /// Why a path could be a link that a container made: this policy lets containers write a directory above it. Docker, which
    /// is root, would follow the link to any file of the node.
    fn replaceable(&self, source: &str) -> Option<String> {
        let above =
            |allowed: &&HostBind| !allowed.read_only && source != allowed.path && lies_in(source, &allowed.path);
        let HostBind { path, .. } = self.host_binds.iter().find(above)?;
        Some(format!(
            "{source} lies in {path}, which containers may write: one could replace it by a link to any file of the node; bind \
             {path} itself, or allow {path} only for reading (--allow-bind {path}:ro)"
        ))
    }

    /// What a pod violates on a node that also runs pods under `others`: the policies of other namespaces may let containers
    /// write directories above its binds.
    pub fn check_binds_beside<'p>(&self, pod: &PodSpec, others: impl Iterator<Item = &'p Policy>) -> Vec<Violation> {
        let (others, mut violations) = (others.collect::<Vec<_>>(), Violations::default());
        let containers = pod.containers.iter().enumerate().filter(|_| self.level < Level::Trusted);
        let binds = containers.flat_map(|(at, it)| it.system_volumes.iter().enumerate().map(move |bind| (at, bind)));
        for (container, (number, text)) in binds {
            let bind = Bind::parse(text).filter(|bind| !bind.is_always_allowed());
            if let Some(problem) = bind.and_then(|bind| others.iter().find_map(|other| other.replaceable(&bind.source)))
            {
                let field = format!("Pod.Containers[{container}].SystemVolumes[{number}]");
                violations.add(Rule::HostBinds, field, format!("{problem} in every namespace"));
            }
        }
        violations.0
    }

    /// What a pod violates beside pods of the same group with another spec, which may run at the same time: one must not
    /// be able to replace a directory that the other one mounts.
    pub fn check_beside(&self, pod: &PodSpec, other: &PodSpec) -> Vec<Violation> {
        let mut violations = Violations::default();
        let others = places(other);
        let nests = |one: &str, other: &str| one != other && (lies_in(one, other) || lies_in(other, one));
        for VolumePath { field, path } in places(pod).into_iter().filter(|_| self.level < Level::Trusted) {
            if others.iter().any(|other| nests(&path, &other.path)) {
                let problem = "it lies in, or contains, a volume of a revision that may still run; choose another path, or \
                               delete the PodGroup first";
                violations.add(Rule::NestedVolumes, field, problem);
            }
        }
        violations.0
    }
}
