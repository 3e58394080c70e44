//! Workload policy: what a pod spec may request from the node that runs it.
//!
//! The leader applies a policy to each namespace (`/deployd/state/policy/<namespace>`) when a spec is written. The agent
//! applies its own policy file when it creates a container, and has the final say. Both use the same type. A [`Level`]
//! has rules; the lists of a [`Policy`] are exceptions from them.
//!
//! Example: under `baseline`, the bind `/srv/models:/models:ro` is refused by the rule `host-binds`. With
//! `host_binds: [{path: /srv, read_only: true}]` it is allowed, and `/srv/models:/models` is still refused.

mod check;
mod host_path;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use check::{Rule, Violation, sentence};
pub use host_path::{Bind, NEVER, lies_in, normalized};

/// Stands for all namespaces without a policy of their own.
pub const EVERY_NAMESPACE: &str = "*";
/// Limit of entries per list of a policy.
pub const MOST_ENTRIES: usize = 64;
/// Limit of a text in a policy, in bytes.
const LONGEST_ENTRY: usize = 256;

/// Capabilities of a container under `baseline`: enough for images that start as root, change the owner of files and
/// continue as another user. Docker's default set without `NET_RAW` (spoofed packets), `MKNOD` and `AUDIT_WRITE`.
pub const BASELINE_CAPABILITIES: [&str; 11] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Capabilities of a container under `restricted`.
pub const RESTRICTED_CAPABILITIES: [&str; 1] = ["NET_BIND_SERVICE"];

/// How much a workload may request; ordered from strict to permissive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As `baseline`; the user must not be root, and only `NET_BIND_SERVICE` remains of the capabilities.
    Restricted,
    /// Ordinary images run; nothing of the node or of other namespaces is shared.
    #[default]
    Baseline,
    /// Everything except what is never allowed. Equivalent to root on the node.
    Trusted,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 3] = [Self::Restricted, Self::Baseline, Self::Trusted];

    /// The word in files, commands and answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Restricted => "restricted",
            Self::Baseline => "baseline",
            Self::Trusted => "trusted",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Level {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.word() == text);
        found.ok_or_else(|| format!("{text:?} is not a level; write restricted, baseline or trusted"))
    }
}

/// A level and the exceptions from its rules. The names with dashes are those of the agent's policy file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
pub struct Policy {
    /// The rules that apply; default `baseline`.
    #[serde(alias = "level")]
    pub level: Level,
    /// Directories and files of the node that `SystemVolumes` may bind.
    #[serde(alias = "host-binds", skip_serializing_if = "Vec::is_empty")]
    pub host_binds: Vec<HostBind>,
    /// Docker networks that pods may join besides that of their namespace, and besides `none`.
    #[serde(alias = "networks", skip_serializing_if = "BTreeSet::is_empty")]
    pub networks: BTreeSet<String>,
    /// Log drivers besides `json-file`, `journald`, `local` and `none`.
    #[serde(alias = "log-drivers", skip_serializing_if = "BTreeSet::is_empty")]
    pub log_drivers: BTreeSet<String>,
    /// Capabilities that containers get besides those of the level, for example `NET_RAW`.
    #[serde(alias = "capabilities", skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<String>,
    /// Prefixes of labels that are otherwise reserved for other systems, for example `traefik.`.
    #[serde(alias = "labels", skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Images that may run: references, or prefixes such as `registry.example/*`. Empty means all.
    #[serde(alias = "images", skip_serializing_if = "BTreeSet::is_empty")]
    pub images: BTreeSet<String>,
    /// Users that `restricted` accepts besides numeric ids other than 0.
    #[serde(alias = "users", skip_serializing_if = "BTreeSet::is_empty")]
    pub users: BTreeSet<String>,
    /// Paths below `/dev` that `SystemVolumes` may bind.
    #[serde(alias = "devices", skip_serializing_if = "BTreeSet::is_empty")]
    pub devices: BTreeSet<String>,
    /// Limits of the namespace.
    #[serde(alias = "quota", skip_serializing_if = "Quota::is_unlimited")]
    pub quota: Quota,
}

/// A directory or file of the node that pods may bind. Only [`read_only`](Self::read_only) allows the paths below it too: in a
/// directory that containers may write, one of them could replace a path by a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct HostBind {
    /// The path, and with `read_only` everything below it.
    #[serde(alias = "path")]
    pub path: String,
    /// Only read-only binds are allowed.
    #[serde(alias = "read-only", default)]
    pub read_only: bool,
}

/// Limits of a namespace; none means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
pub struct Quota {
    /// PodGroups of the namespace.
    #[serde(alias = "groups", skip_serializing_if = "Option::is_none")]
    pub groups: Option<u64>,
    /// Instances of all its PodGroups together.
    #[serde(alias = "instances", skip_serializing_if = "Option::is_none")]
    pub instances: Option<u64>,
    /// Containers of one pod.
    #[serde(alias = "containers", skip_serializing_if = "Option::is_none")]
    pub containers: Option<u64>,
}

impl Quota {
    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// What a namespace uses, including the change that is being checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// PodGroups.
    pub groups: u64,
    /// Instances.
    pub instances: u64,
}

/// The policy of a namespace: a row of `GET /api/policies`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NamespacePolicy {
    /// The namespace, or [`EVERY_NAMESPACE`] for the default of the cluster.
    pub namespace: String,
    /// Its policy.
    pub policy: Policy,
}

/// What an agent applies to the containers of a group when it creates them. Orders carry it for groups whose level is
/// not `trusted`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardening {
    /// Level of the group's namespace.
    pub level: Level,
    /// [`Policy::capabilities`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<String>,
    /// [`Policy::networks`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub networks: BTreeSet<String>,
}

impl Hardening {
    /// The capabilities of a container; none means Docker's default set.
    pub fn capabilities(&self) -> Option<Vec<String>> {
        let own: &[&str] = match self.level {
            Level::Restricted => &RESTRICTED_CAPABILITIES,
            Level::Baseline => &BASELINE_CAPABILITIES,
            Level::Trusted => return None,
        };
        let all: BTreeSet<String> =
            own.iter().map(|name| (*name).to_owned()).chain(self.capabilities.iter().cloned()).collect();
        Some(all.into_iter().collect())
    }
}

impl Policy {
    /// A policy without exceptions.
    pub fn of(level: Level) -> Self {
        Self { level, ..Self::default() }
    }

    /// What orders carry for a group under this policy; none under `trusted`.
    pub fn hardening(&self) -> Option<Hardening> {
        let Self { level, capabilities, networks, .. } = self;
        let hardening = || Hardening { level: *level, capabilities: capabilities.clone(), networks: networks.clone() };
        (*level != Level::Trusted).then(hardening)
    }

    /// Checks the policy itself: each flaw names field and remedy.
    pub fn validate(&self) -> Result<(), Vec<crate::validate::Flaw>> {
        let mut flaws = Vec::new();
        let mut add = |field: &str, problem: String| {
            flaws.push(crate::validate::Flaw { field: field.to_owned(), problem });
        };
        for (index, bind) in self.host_binds.iter().enumerate() {
            if let Some(problem) = host_path::problem_of_entry(&bind.path) {
                add(&format!("HostBinds[{index}].Path"), problem);
            }
        }
        for path in self.devices.iter().filter(|path| !lies_in(path, "/dev") || **path != normalized(path)) {
            add("Devices", format!("{path:?} must be a path below /dev, without '..' and '//'"));
        }
        for name in self.networks.iter().filter(|name| crate::name::check(name).is_err()) {
            add("Networks", format!("{name:?} is not the name of a network"));
        }
        let is_capability = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        for name in self.capabilities.iter().filter(|name| !is_capability(name) || name.starts_with("CAP_")) {
            add("Capabilities", format!("{name:?} must be a name such as NET_RAW, in capitals and without CAP_"));
        }
        if self.capabilities.contains("ALL") {
            add("Capabilities", "ALL is not a capability; use the level trusted or list what is needed".to_owned());
        }
        for pattern in self.images.iter().filter(|pattern| !is_pattern(pattern)) {
            let rule = "may have one '*', at its end and after '/', ':' or '@'";
            add("Images", format!("{pattern:?} {rule}: registry.example* would also allow registry.example.org"));
        }
        for prefix in self.labels.iter().filter(|prefix| prefix.starts_with(crate::labels::RESERVED_PREFIX)) {
            add("Labels", format!("{prefix:?} is deployd's own and cannot be allowed"));
        }
        let lists = [
            ("Networks", &self.networks),
            ("LogDrivers", &self.log_drivers),
            ("Capabilities", &self.capabilities),
            ("Labels", &self.labels),
            ("Images", &self.images),
            ("Users", &self.users),
            ("Devices", &self.devices),
        ];
        for (field, list) in lists {
            if list.len() > MOST_ENTRIES {
                add(field, format!("{} entries are too many, at most {MOST_ENTRIES}", list.len()));
            }
            if list.iter().any(|text| text.is_empty() || text.len() > LONGEST_ENTRY) {
                add(field, format!("an entry must have 1 to {LONGEST_ENTRY} bytes"));
            }
        }
        if self.host_binds.len() > MOST_ENTRIES {
            add("HostBinds", format!("{} entries are too many, at most {MOST_ENTRIES}", self.host_binds.len()));
        }
        if flaws.is_empty() { Ok(()) } else { Err(flaws) }
    }
}

fn is_pattern(pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => true,
        Some((before, after)) => after.is_empty() && (before.is_empty() || before.ends_with(['/', ':', '@'])),
    }
}

/// Checks the name of a namespace that a policy is for: a name, or [`EVERY_NAMESPACE`].
pub fn check_namespace(namespace: &str) -> Result<(), crate::name::Error> {
    if namespace == EVERY_NAMESPACE { Ok(()) } else { crate::name::check(namespace) }
}

#[cfg(test)]
mod tests;
