//! Validates a spec before it is stored. Reports every flaw, each with the field and the remedy.

mod rollout;
mod topology;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::{Check, CheckKind};
use crate::labels::RESERVED_PREFIX;
use crate::name;
use crate::ports;
use crate::ranges::{self, Range};
use crate::spec::{ContainerSpec, PodGroupSpec, PodSpec};
use crate::time::Timestamp;

pub use rollout::{LONGEST_WAIT, MOST_CONDUCTED, MOST_GATES, MOST_REVISIONS};
pub use topology::MOST_UNITS;

/// Limit of instances per group.
pub const MOST_INSTANCES: i64 = 5_000;
/// Limit of what a plan costs: instances × units. 1,000 instances in 64 units are 64,000 and take 0.2 s of a core.
pub const MOST_PLAN_UNITS: i64 = 200_000;
const _: () = assert!(MOST_INSTANCES <= MOST_PLAN_UNITS && MOST_CONDUCTED * MOST_UNITS as i64 <= MOST_PLAN_UNITS);
/// Limit of containers per pod.
pub const MOST_CONTAINERS: usize = 16;
/// Limit of volumes per container.
pub const MOST_VOLUMES: usize = 32;
/// Limit of environment entries per container.
pub const MOST_ENV: usize = 256;
/// Limit of placement filters per pod: each placement evaluates all of them for every node.
pub const MOST_FILTERS: usize = 64;
/// Limit of labels per pod.
pub const MOST_LABELS: usize = 64;
/// Limit of dependency pods per pod.
pub const MOST_DEPENDENCIES: usize = 32;
/// Limit of DNS search domains per container.
pub const MOST_DNS_SEARCH: usize = 8;
/// Limit of words in a command or entrypoint.
pub const MOST_WORDS: usize = 256;
/// Limit of bind mounts per container.
pub const MOST_SYSTEM_VOLUMES: usize = 16;
/// Limit of a user's reason for a change, in bytes; it is stored with the revision.
pub const LONGEST_CAUSE: usize = 1024;
/// Limit of request bodies, in bytes; specs are sent over NATS and stored in etcd as a whole.
pub const LARGEST_BODY: usize = 256 * 1024;

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaw {
    /// Path of the field, for example `Pod.Containers[0].Image`.
    pub field: String,
    /// The problem and the remedy.
    pub problem: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// All flaws in one line.
pub fn sentence(flaws: &[Flaw]) -> String {
    flaws.iter().map(Flaw::to_string).collect::<Vec<_>>().join("; ")
}

#[derive(Default)]
struct Flaws(Vec<Flaw>);

impl Flaws {
    fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Flaw { field: field.into(), problem: problem.into() });
    }
    fn name(&mut self, field: &str, text: &str) {
        if let Err(error) = name::check(text) {
            self.add(field, error.to_string());
        }
    }
    /// Adds a flaw if a plain request with this number is refused.
    fn range(&mut self, field: impl Into<String>, number: i64, range: Range) {
        if range.refuses(number) {
            self.add(field, range.problem(number));
        }
    }
    fn count(&mut self, field: impl Into<String>, number: usize, most: usize) {
        if number > most {
            self.add(field, format!("{number} are too many, at most {most}"));
        }
    }
    fn done(self) -> Result<(), Vec<Flaw>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

impl PodGroupSpec {
    /// Validates a group.
    pub fn validate(&self) -> Result<(), Vec<Flaw>> {
        let mut flaws = Flaws::default();
        self.check_settings(&mut flaws);
        if !self.pod.name.is_empty() && self.pod.name != self.name {
            flaws.add("Pod.Name", format!("must equal Name, {:?}, is {:?}", self.name, self.pod.name));
        }
        // Network and volumes follow the pod's namespace, access and policy that of the group.
        if !self.pod.namespace.is_empty() && self.pod.namespace != self.namespace {
            let problem = format!("must equal Namespace, {:?}, is {:?}", self.namespace, self.pod.namespace);
            flaws.add("Pod.Namespace", problem);
        }
        check_pod(&self.pod, "Pod", &mut flaws);
        flaws.done()
    }

    /// Validates a group except for its pod spec, which may have been stored before a rule existed.
    pub fn validate_settings(&self) -> Result<(), Vec<Flaw>> {
        let mut flaws = Flaws::default();
        self.check_settings(&mut flaws);
        flaws.done()
    }

    fn check_settings(&self, flaws: &mut Flaws) {
        flaws.name("Name", &self.name);
        flaws.name("Namespace", &self.namespace);
        flaws.range(ranges::NUM_INSTANCES.field, self.num_instances, ranges::NUM_INSTANCES);
        if self.num_instances <= MOST_INSTANCES && self.num_instances > self.most_instances() {
            flaws.add(
                "NumInstances",
                format!(
                    "must be 0..{MOST_CONDUCTED} with Strategy.Type {:?}, because what a decision costs grows with their \
                     square, is {}; Serial takes up to {MOST_INSTANCES}",
                    self.strategy_type(),
                    self.num_instances
                ),
            );
        }
        rollout::check_rollout(self, flaws);
    }

    /// Limit of instances with its strategy.
    pub fn most_instances(&self) -> i64 {
        if self.has_strategy() { MOST_CONDUCTED } else { MOST_INSTANCES }
    }

    /// The spec as stored for a new group: deployd sets versions and times, and an empty annotation becomes `{}`.
    #[must_use]
    pub fn for_creation(mut self, now: Timestamp) -> Self {
        self.version = 0;
        self.created_at = now;
        self.updated_at = Timestamp::NEVER;
        self.pod.version = 0;
        self.pod.created_at = now;
        self.pod.updated_at = Timestamp::NEVER;
        if self.pod.annotation.trim().is_empty() {
            self.pod.annotation = "{}".to_owned();
        }
        self
    }
}

impl PodSpec {
    /// Validates a pod spec without a group: a patch, or a dependency pod. Paths start with `Pod`, as in a group.
    pub fn validate(&self) -> Result<(), Vec<Flaw>> {
        let mut flaws = Flaws::default();
        check_pod(self, "Pod", &mut flaws);
        flaws.done()
    }
}

fn check_pod(pod: &PodSpec, at: &str, flaws: &mut Flaws) {
    flaws.name(&format!("{at}.Name"), &pod.name);
    flaws.name(&format!("{at}.Namespace"), &pod.namespace);
    if !pod.network.is_empty() {
        flaws.name(&format!("{at}.Network"), &pod.network);
    }
    if !pod.annotation.trim().is_empty() && !matches!(serde_json::from_str(&pod.annotation), Ok(Value::Object(_))) {
        flaws.add(format!("{at}.Annotation"), "must be empty or a JSON object as text");
    } else if !pod.annotation.trim().is_empty() {
        for (field, problem) in ports::flaws(&pod.annotation) {
            flaws.add(format!("{at}.Annotation.{field}"), problem);
        }
    }
    for label in pod.labels.keys().filter(|label| label.starts_with(RESERVED_PREFIX)) {
        flaws.add(format!("{at}.Labels"), format!("{label:?} starts with {RESERVED_PREFIX:?}, which is reserved"));
    }
    if pod.containers.is_empty() {
        flaws.add(format!("{at}.Containers"), "must not be empty");
    }
    flaws.count(format!("{at}.Containers"), pod.containers.len(), MOST_CONTAINERS);
    flaws.count(format!("{at}.Filters"), pod.filters.len(), MOST_FILTERS);
    flaws.count(format!("{at}.Labels"), pod.labels.len(), MOST_LABELS);
    flaws.count(format!("{at}.Dependencies"), pod.dependencies.len(), MOST_DEPENDENCIES);
    for kind in CheckKind::ALL {
        if let Some(check) = pod.health_config.check(kind) {
            check_health(check, pod.containers.len(), &format!("{at}.HealthConfig.{}", kind.word()), flaws);
        }
    }
    for (index, container) in pod.containers.iter().enumerate() {
        check_container(container, &format!("{at}.Containers[{index}]"), flaws);
    }
}

/// Validates a check that the agent performs.
fn check_health(check: &Check, containers: usize, at: &str, flaws: &mut Flaws) {
    for (name, written, range) in [
        ("period", check.period, ranges::CHECK_PERIOD),
        ("timeout", check.timeout, ranges::CHECK_TIMEOUT),
        ("failures", check.failures, ranges::CHECK_FAILURES),
        ("successes", check.successes, ranges::CHECK_SUCCESSES),
        ("port", check.port, ranges::EXPOSE),
    ] {
        flaws.range(format!("{at}.{name}"), written, range);
    }
    flaws.count(format!("{at}.command"), check.command.len(), MOST_WORDS);
    if check.probe().is_none() {
        flaws.add(at, "must have either http and port, or port alone for TCP, or command");
    }
    let is_path =
        check.http.starts_with('/') && check.http.len() <= 1024 && check.http.bytes().all(|b| b.is_ascii_graphic());
    if !check.http.is_empty() && !is_path {
        flaws.add(format!("{at}.http"), "must be a URL path such as /healthz: printable ASCII, at most 1,024 bytes");
    }
    if usize::try_from(check.container).map_or(true, |index| index >= containers.max(1)) {
        flaws.add(
            format!("{at}.container"),
            format!("must be the index of a container, from 0, is {}", check.container),
        );
    }
}

fn check_container(container: &ContainerSpec, at: &str, flaws: &mut Flaws) {
    if container.image.is_empty() {
        flaws.add(format!("{at}.Image"), "must not be empty");
    } else if container.image.chars().any(|c| c.is_whitespace() || c.is_control()) || container.image.len() > 512 {
        flaws.add(format!("{at}.Image"), "must be an image reference: no blanks, at most 512 bytes");
    }
    flaws.range(format!("{at}.CpuLimit"), container.cpu_limit, ranges::CPU_LIMIT);
    flaws.range(format!("{at}.MemoryLimit"), container.memory_limit, ranges::MEMORY_LIMIT);
    // Docker's minimum; a smaller limit would fail on every node.
    if (1..6 * 1024 * 1024).contains(&container.memory_limit) {
        flaws.add(
            format!("{at}.MemoryLimit"),
            format!("must be 0 (no limit) or at least 6 MiB, is {} bytes", container.memory_limit),
        );
    }
    flaws.range(format!("{at}.Expose"), container.expose, ranges::EXPOSE);
    if container.env.len() > MOST_ENV {
        flaws.add(format!("{at}.Env"), format!("{} entries are too many, at most {MOST_ENV}", container.env.len()));
    }
    for (index, entry) in container.env.iter().enumerate() {
        if entry.starts_with('=') || !entry.contains('=') || entry.contains('\0') {
            flaws.add(format!("{at}.Env[{index}]"), "must be of the form KEY=value");
        }
    }
    flaws.count(format!("{at}.Volumes"), container.volumes.len(), MOST_VOLUMES);
    flaws.count(format!("{at}.SystemVolumes"), container.system_volumes.len(), MOST_SYSTEM_VOLUMES);
    flaws.count(format!("{at}.DnsSearch"), container.dns_search.len(), MOST_DNS_SEARCH);
    flaws.count(format!("{at}.Command"), container.command.len(), MOST_WORDS);
    flaws.count(format!("{at}.Entrypoint"), container.entrypoint.as_ref().map_or(0, Vec::len), MOST_WORDS);
    for (index, path) in container.volumes.iter().enumerate() {
        check_path(path, format!("{at}.Volumes[{index}]"), flaws);
    }
    flaws.count(format!("{at}.CloudVolumes"), container.cloud_volumes.len(), MOST_VOLUMES);
    for (index, volume) in container.cloud_volumes.iter().enumerate() {
        flaws.count(format!("{at}.CloudVolumes[{index}].Dirs"), volume.dirs.len(), MOST_VOLUMES);
        if !matches!(volume.kind.as_str(), "multi" | "single") {
            flaws.add(
                format!("{at}.CloudVolumes[{index}].Type"),
                format!("must be \"multi\" or \"single\", is {:?}", volume.kind),
            );
        }
        for (dir, path) in volume.dirs.iter().enumerate() {
            check_path(path, format!("{at}.CloudVolumes[{index}].Dirs[{dir}]"), flaws);
        }
    }
}

/// A path inside the container; it also becomes a directory below the volume root.
fn check_path(path: &str, field: String, flaws: &mut Flaws) {
    let leaves = path.split('/').any(|part| matches!(part, "." | ".."));
    if !path.starts_with('/') || path.trim_matches('/').is_empty() || leaves || path.contains([':', ',', '\0']) {
        flaws.add(field, format!("must be an absolute path without '.', '..', ':' or ',', is {path:?}"));
    }
}
