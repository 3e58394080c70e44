//! The policy of this node: its own file, what the order says about a group, and what every container is denied.
//!
//! The stricter of the two levels applies, so the file has the final say. Without a file the node allows what the leader allows,
//! except for paths that are never allowed.

use std::path::{Path, PathBuf};

use contract::pod_id::PodId;
use contract::policy::{Hardening, Level, Policy, sentence};
use contract::spec::PodSpec;

/// Read when it exists and no other file is given.
pub const DEFAULT_FILE: &str = "/etc/deployd/policy.toml";
/// Networks of the engine that containers of all namespaces share with the node or with each other.
const SHARED_NETWORKS: [&str; 3] = ["host", "bridge", "default"];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot read the policy file {}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("the policy file {} is wrong: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePolicy {
    file: Option<Policy>,
    /// Paths of this agent that no container may bind.
    protected: Vec<String>,
    /// Processes of one container; 0 means unlimited.
    pids: i64,
}

/// What a container is denied. Nothing under `trusted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restraints {
    /// All capabilities that it has.
    pub capabilities: Vec<String>,
    /// Processes at most; 0 means unlimited.
    pub pids: i64,
    /// Whether it may join a network that does not belong to this cluster.
    pub joins_foreign: bool,
}

impl NodePolicy {
    /// Without a file.
    pub fn new(protected: &[&Path], pids: i64) -> Self {
        // Docker follows links, so a path is protected under both of its names.
        let both = |path: &&Path| [path.to_path_buf(), path.canonicalize().unwrap_or_else(|_| path.to_path_buf())];
        let texts = protected.iter().filter(|path| path.is_absolute()).flat_map(both);
        let protected = texts.map(|path| contract::policy::normalized(&path.display().to_string())).collect();
        Self { file: None, protected, pids }
    }

    /// With the file at `path`, or the default one if it exists.
    pub fn with_file(self, path: Option<&Path>) -> Result<Self, Error> {
        let given = path.unwrap_or_else(|| Path::new(DEFAULT_FILE));
        let text = match std::fs::read_to_string(given) {
            Ok(text) => text,
            Err(error) if path.is_none() && error.kind() == std::io::ErrorKind::NotFound => return Ok(self),
            Err(error) => return Err(Error::Unreadable { path: given.to_owned(), reason: error.to_string() }),
        };
        let malformed = |reason| Error::Malformed { path: given.to_owned(), reason };
        let policy: Policy = toml::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        policy.validate().map_err(|flaws| malformed(contract::validate::sentence(&flaws)))?;
        Ok(Self { file: Some(policy), ..self })
    }

    /// The level of the file, for the log.
    pub fn level(&self) -> Option<Level> {
        self.file.as_ref().map(|policy| policy.level)
    }

    /// Why this node does not run a pod.
    pub fn check(&self, pod: &PodId, spec: &PodSpec) -> Result<(), String> {
        let lenient = Policy::of(Level::Trusted);
        let policy = self.file.as_ref().unwrap_or(&lenient);
        let violations = match pod.instance {
            // The leader chooses the network of a dependency pod.
            0 => policy.check_pod(&PodSpec { network: String::new(), ..spec.clone() }, &self.protected),
            _ => policy.check_pod(spec, &self.protected),
        };
        let whose = if self.file.is_some() { "the policy file of this node" } else { "this node" };
        let problem = || format!("{whose} does not allow it: {}", sentence(&violations));
        if violations.is_empty() { Ok(()) } else { Err(problem()) }
    }

    /// What a container of the pod is denied, or why it may not run.
    pub fn restrain(&self, ordered: Option<&Hardening>, spec: &PodSpec) -> Result<Option<Restraints>, String> {
        let Some(hardening) = self.effective(ordered) else { return Ok(None) };
        let Some(capabilities) = hardening.capabilities() else { return Ok(None) };
        let network = spec.network_name();
        let joins_foreign = hardening.networks.contains(network);
        if SHARED_NETWORKS.contains(&network) && !joins_foreign {
            return Err(format!("the network {network} belongs to the node (rule networks); leave Pod.Network empty"));
        }
        Ok(Some(Restraints { capabilities, pids: self.pids, joins_foreign }))
    }

    /// The stricter of the order and the file; exceptions need both.
    fn effective(&self, ordered: Option<&Hardening>) -> Option<Hardening> {
        let own = self.file.as_ref().and_then(Policy::hardening);
        match (ordered, own) {
            (None, None) => None,
            (Some(only), None) => Some(only.clone()),
            (None, Some(only)) => Some(only),
            (Some(ordered), Some(own)) => Some(Hardening {
                level: ordered.level.min(own.level),
                capabilities: &ordered.capabilities & &own.capabilities,
                networks: &ordered.networks & &own.networks,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write as _;

    use contract::spec::ContainerSpec;

    use super::*;

    fn file(text: &str) -> Result<NodePolicy, Error> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        NodePolicy::new(&[Path::new("/srv/agent")], 512).with_file(Some(file.path()))
    }
    fn pod(instance: u32) -> PodId {
        PodId { group: "web".parse().expect("a name"), instance, version: 1, drift: 0 }
    }
    fn spec(bind: &str, network: &str) -> PodSpec {
        let container = ContainerSpec { system_volumes: vec![bind.to_owned()], ..ContainerSpec::default() };
        let (namespace, network) = ("shop".to_owned(), network.to_owned());
        PodSpec { namespace, network, containers: vec![container], ..PodSpec::default() }
    }
    fn ordered(level: Level, capabilities: &[&str]) -> Hardening {
        let capabilities = capabilities.iter().map(|name| (*name).to_owned()).collect();
        Hardening { level, capabilities, networks: BTreeSet::new() }
    }

    #[test]
    fn without_a_file_only_what_is_never_allowed_is_refused() {
        let policy = NodePolicy::new(&[Path::new("/srv/agent")], 512);
        assert_eq!(policy.check(&pod(1), &spec("/etc:/x", "host")), Ok(()));
        for never in ["/run/docker.sock:/x", "/srv/agent/ledger:/x:ro", "/srv//agent/.:/x"] {
            let refused = policy.check(&pod(1), &spec(never, "")).expect_err("refused");
            assert!(refused.starts_with("this node does not allow it") && refused.contains("rule never"), "{refused}");
        }
        assert_eq!(policy.restrain(None, &spec("/etc:/x", "host")), Ok(None));
    }

    #[test]
    fn the_file_has_the_final_say() {
        let text = "level = \"baseline\"\nhost-binds = [{ path = \"/srv/models\", read-only = true }]\n\
                    capabilities = [\"NET_RAW\"]\nquota = { containers = 2 }\n";
        let policy = file(text).expect("a policy");
        assert_eq!(policy.check(&pod(1), &spec("/srv/models:/m:ro", "")), Ok(()));
        assert!(policy.check(&pod(1), &spec("/etc:/x", "")).expect_err("refused").contains("rule host-binds"));
        assert!(policy.check(&pod(1), &spec("/srv/models:/m:ro", "other")).is_err());
        assert_eq!(policy.check(&pod(0), &spec("/srv/models:/m:ro", "dep_shop")), Ok(()), "a dependency pod");
        let capabilities = |order: Option<&Hardening>| {
            policy.restrain(order, &spec("/srv/models:/m:ro", "")).expect("allowed").expect("restrained").capabilities
        };
        assert_eq!(capabilities(None).len(), 12, "an order of a trusted namespace is restrained too");
        assert_eq!(capabilities(Some(&ordered(Level::Baseline, &["SYS_ADMIN"]))).len(), 11, "exceptions need both");
        assert_eq!(
            capabilities(Some(&ordered(Level::Restricted, &["NET_RAW", "SYS_ADMIN"]))),
            ["NET_BIND_SERVICE", "NET_RAW"]
        );
        assert!(policy.restrain(None, &spec("/a:/b", "host")).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_used_stops_the_agent() {
        for wrong in ["level = \"open\"", "levle = \"baseline\"", "host-binds = [{ path = \"/var\" }]", "level ="] {
            assert!(matches!(file(wrong), Err(Error::Malformed { .. })), "{wrong}");
        }
        let missing = NodePolicy::new(&[], 0).with_file(Some(Path::new("/nowhere/policy.toml")));
        assert!(matches!(missing, Err(Error::Unreadable { .. })));
    }
}
