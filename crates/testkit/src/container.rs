//! A container of the fake engine, and the behaviour that its image gives it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::core::io::{ContainerSeen, Phase};
use contract::digest::Digest;
use contract::labels::{self, Identity, Owner};
use contract::pod_id::PodId;
use contract::spec::PodSpec;
use contract::state::HealthState;
use contract::time::Timestamp;

/// The name of the image determines how a container behaves, so that engine, checks and readers of a trace agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerBehaviour {
    /// Run; healthy if they have a health check.
    Well,
    /// Run; unhealthy if they have a health check.
    Ill,
    /// Exit soon after each start.
    Dying,
    /// The engine creates them and refuses to start them.
    Stubborn,
    /// The engine refuses to create them.
    Broken,
}

impl ContainerBehaviour {
    pub fn of(image: &str) -> Self {
        match image.split(':').next() {
            Some("ill") => Self::Ill,
            Some("dying") => Self::Dying,
            Some("stubborn") => Self::Stubborn,
            Some("broken") => Self::Broken,
            Some(_) | None => Self::Well,
        }
    }
}

/// Small, so that a million containers fit into one process: views are computed on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub origin: Origin,
    pub phase: Phase,
    pub exit_code: i64,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    pub starts: u32,
    pub health: HealthState,
    pub oom_killed: bool,
    /// The engine's message about a failed start.
    pub error: String,
    pub address: String,
    /// Digest of the spec that it was made from or last updated to.
    pub limits_of: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// An agent created it.
    Pod { owner: Owner, identity: Identity, spec: Arc<PodSpec>, digest: Arc<str> },
    /// Another program created it, maybe with some of our labels.
    Foreign { name: String, labels: BTreeMap<String, String> },
}

impl Container {
    /// A container of a pod that was never started.
    pub fn of_pod(owner: &Owner, (pod, index): (&PodId, usize), spec: &Arc<PodSpec>, address: String) -> Self {
        let digest: Arc<str> = Digest::of(spec.as_ref()).to_string().into();
        let (owner, identity, spec) = (owner.clone(), Identity { pod: pod.clone(), index }, Arc::clone(spec));
        let limits_of = Arc::clone(&digest);
        Self { address, limits_of, ..Self::new(Origin::Pod { owner, identity, spec, digest }) }
    }
    /// A running container of another program.
    pub fn foreign(name: &str, labels: BTreeMap<String, String>, now: Timestamp) -> Self {
        let origin = Origin::Foreign { name: name.to_owned(), labels };
        Self { phase: Phase::Running, started_at: now, starts: 1, ..Self::new(origin) }
    }
    /// A container that an earlier agent created from a spec that is not known.
    pub fn found(owner: &Owner, seen: &ContainerSeen) -> Self {
        let (owner, identity, spec) = (owner.clone(), seen.identity.clone(), Arc::default());
        let digest: Arc<str> = seen.spec_digest.as_str().into();
        Self {
            phase: seen.phase,
            exit_code: seen.exit_code,
            started_at: seen.started_at,
            finished_at: seen.finished_at,
            starts: u32::from(seen.phase != Phase::Created),
            health: seen.health,
            oom_killed: seen.oom_killed,
            error: seen.error.clone(),
            address: seen.ip.clone(),
            limits_of: Arc::clone(&digest),
            ..Self::new(Origin::Pod { owner, identity, spec, digest })
        }
    }
    fn new(origin: Origin) -> Self {
        Self {
            origin,
            phase: Phase::Created,
            exit_code: 0,
            started_at: Timestamp::NEVER,
            finished_at: Timestamp::NEVER,
            starts: 0,
            health: HealthState::None,
            oom_killed: false,
            error: String::new(),
            address: String::new(),
            limits_of: "".into(),
        }
    }

    pub fn name(&self) -> String {
        match &self.origin {
            Origin::Pod { identity, spec, .. } => identity.pod.container_name(identity.index, spec.containers.len()),
            Origin::Foreign { name, .. } => name.clone(),
        }
    }
    pub fn image(&self) -> &str {
        match &self.origin {
            Origin::Pod { identity, spec, .. } => spec.containers.get(identity.index).map_or("", |c| c.image.as_str()),
            Origin::Foreign { name, .. } => name,
        }
    }
    pub fn behaviour(&self) -> ContainerBehaviour {
        ContainerBehaviour::of(self.image())
    }
    /// The spec that it was created from; none for a foreign container.
    pub fn spec(&self) -> Option<&PodSpec> {
        match &self.origin {
            Origin::Pod { spec, .. } => Some(spec),
            Origin::Foreign { .. } => None,
        }
    }
    pub fn has_health_check(&self) -> bool {
        self.spec().is_some_and(|spec| !spec.health_config.cmd.is_empty())
    }
    /// Cluster and node of the agent that created it; none for a foreign container.
    pub fn owner(&self) -> Option<&Owner> {
        match &self.origin {
            Origin::Pod { owner, .. } => Some(owner),
            Origin::Foreign { .. } => None,
        }
    }
    /// Pod and index, if `owner` owns it.
    pub fn identity(&self, owner: &Owner) -> Option<Identity> {
        match &self.origin {
            Origin::Pod { owner: creator, identity, .. } => (creator == owner).then(|| identity.clone()),
            Origin::Foreign { labels, .. } => labels::identify(owner, |key| labels.get(key).map(String::as_str)),
        }
    }
    /// What the agent of `owner` sees of it.
    pub fn seen(&self, owner: &Owner, id: &str) -> Option<ContainerSeen> {
        let identity = self.identity(owner)?;
        let running = self.phase == Phase::Running;
        let spec_digest = match &self.origin {
            Origin::Pod { digest, .. } => digest.as_ref().to_owned(),
            Origin::Foreign { labels, .. } => labels.get(labels::SPEC_DIGEST).cloned().unwrap_or_default(),
        };
        Some(ContainerSeen {
            id: id.to_owned(),
            identity,
            phase: self.phase,
            health: if running { self.health } else { HealthState::None },
            exit_code: self.exit_code,
            oom_killed: self.oom_killed,
            error: self.error.clone(),
            started_at: self.started_at,
            finished_at: self.finished_at,
            ip: if running { self.address.clone() } else { String::new() },
            node_port: 0,
            spec_digest,
            last_line: String::new(),
        })
    }
    pub(crate) fn start(&mut self, now: Timestamp) {
        if self.phase != Phase::Running {
            self.phase = Phase::Running;
            self.started_at = now;
            self.starts += 1;
            self.oom_killed = false;
            self.health = if self.has_health_check() { HealthState::Starting } else { HealthState::None };
        }
    }
}
