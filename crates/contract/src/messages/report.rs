//! Reports: the observed state that an agent sends to every scheduler, leader and standbys alike.
//!
//! A report describes everything on the node. The agent sends it as a whole, as a delta against the previous sequence
//! number, or as a heartbeat that carries only a digest. A scheduler whose own digest differs requests the whole
//! report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::delta::Changes;
use crate::digest::Digest;
use crate::exit::{Exit, ExitFacts};
use crate::fence::Fence;
use crate::name::NodeName;
use crate::pod_id::PodId;
use crate::progress::Progress;
use crate::state::{HealthState, RunState};
use crate::time::Timestamp;

/// The observed state of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The node itself.
    pub head: ReportHead,
    /// All pods on the node, ordered ones and ones that are being removed.
    pub pods: BTreeMap<PodId, PodFacts>,
}

/// The part of a report that describes the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportHead {
    /// Sender and sequence number.
    pub stamp: Stamp,
    /// Fence of the order that the agent follows.
    pub applied: Fence,
    /// Digest of that order.
    pub order_digest: Digest,
    /// State of the Docker engine.
    pub engine: EngineState,
    /// Capacity, labels, addresses and versions.
    pub facts: NodeFacts,
    /// Commits that the store held when the scheduler sent that order.
    #[serde(default, skip_serializing_if = "Progress::is_unknown")]
    pub progress: Progress,
}

/// Identifies one report: the agent and the sequence number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Name of the node.
    pub node: NodeName,
    /// Random id of the agent process. Sequence numbers start again with a new one.
    pub incarnation: String,
    /// Increases with each change.
    pub sequence: u64,
    /// Random id of the agent's state directory; survives restarts. Empty from older agents.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub identity: Box<str>,
}

/// State of the local Docker engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineState {
    /// It answers in time.
    #[default]
    Up,
    /// It accepts connections but does not answer in time.
    Hung,
    /// It cannot be reached.
    Down,
}

/// What an agent reports about its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFacts {
    /// Address of the Docker engine, `host:port`.
    pub address: String,
    /// IP address on which published ports are reachable.
    pub ip: String,
    /// Schedulable CPU, in thousandths of a core, overcommitment included.
    pub cpu_millis: u64,
    /// Number of cores of the machine.
    pub cores: u32,
    /// Schedulable memory, in bytes.
    pub memory: u64,
    /// Labels that placement constraints match.
    pub labels: BTreeMap<String, String>,
    /// Docker's version.
    pub engine_version: String,
    /// The agent's version.
    pub agent_version: String,
    /// Wire version of the agent: [`crate::WIRE_VERSION`].
    pub wire: u32,
    /// The agent supports [`crate::order::Assignment::fetch`].
    #[serde(skip_serializing_if = "is_default")]
    pub fetches_ahead: bool,
}

impl NodeFacts {
    /// A pebibyte: no machine of today has more.
    const MOST_MEMORY: u64 = 1 << 50;
    /// Cores of a machine; with overcommitment a node may offer more CPU.
    const MOST_CORES: u32 = 1 << 16;
    const MOST_CPU_MILLIS: u64 = 1_000_000_000;
    const MOST_LABELS: usize = 256;
    /// Bytes of a text, and of the key or the value of a label.
    const LONGEST_TEXT: usize = 1024;

    /// Cuts what no real machine reports, so that a wrong or hostile report can neither overflow sums nor fill the store.
    pub fn bound(&mut self) {
        self.memory = self.memory.min(Self::MOST_MEMORY);
        self.cores = self.cores.min(Self::MOST_CORES);
        self.cpu_millis = self.cpu_millis.min(Self::MOST_CPU_MILLIS);
        for text in [&mut self.address, &mut self.ip, &mut self.engine_version, &mut self.agent_version] {
            text.truncate(text.floor_char_boundary(Self::LONGEST_TEXT));
        }
        self.labels.retain(|key, value| key.len() <= Self::LONGEST_TEXT && value.len() <= Self::LONGEST_TEXT);
        while self.labels.len() > Self::MOST_LABELS {
            self.labels.pop_last();
        }
    }
}

/// Observed state of one pod. Default values are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodFacts {
    /// Run state: the worst of its containers.
    pub state: RunState,
    /// Health: the worst of its containers.
    #[serde(skip_serializing_if = "is_default")]
    pub health: HealthState,
    /// It is not in the order any more and is being removed.
    #[serde(skip_serializing_if = "is_default")]
    pub leaving: bool,
    /// Its containers in the order of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerFacts>,
    /// Consecutive attempts to create or start it that Docker refused; 0 from older agents.
    #[serde(skip_serializing_if = "is_default")]
    pub refusals: u32,
    /// Restarts in the current restart window, or since the crash loop began.
    #[serde(skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// When the agent last restarted it.
    #[serde(skip_serializing_if = "is_default")]
    pub restarted_at: Timestamp,
    /// Crash-looping: the immediate restarts are used up and further ones follow with back-off. Agents of the first
    /// versions made no further attempt.
    #[serde(rename = "let_go", skip_serializing_if = "is_default")]
    pub is_crash_looping: bool,
    /// When the agent will start it again; never while it runs or no start is planned.
    #[serde(skip_serializing_if = "is_default")]
    pub next_attempt: Timestamp,
    /// The last [`crate::order::Assignment::starts_requested`] that the agent has performed.
    #[serde(rename = "starts_answered", skip_serializing_if = "is_default")]
    pub starts_done: u32,
    /// The last [`crate::order::Assignment::restarts_requested`] that the agent has performed.
    #[serde(rename = "restarts_answered", skip_serializing_if = "is_default")]
    pub restarts_done: u32,
    /// Since when the health check succeeds; never while it fails, or without a health check.
    #[serde(skip_serializing_if = "is_default")]
    pub healthy_since: Timestamp,
    /// An image cannot be pulled and a retry will not help, for example because it does not exist.
    #[serde(skip_serializing_if = "is_default")]
    pub image_is_hopeless: bool,
    /// State of [`crate::order::Assignment::fetch`]; none when nothing is to be pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Fetched>,
    /// Last error; empty when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// When any of these fields last changed.
    pub updated_at: Timestamp,
}

/// State of the images that a node pulls before the pod is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Revision that needs the images.
    pub version: u32,
    /// Progress of the pull.
    pub state: FetchState,
    /// Error of the last attempt; empty when there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Progress of pulling images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FetchState {
    /// The agent is pulling.
    Coming,
    /// All images are on the node.
    Here,
    /// An image cannot be pulled and a retry will not help.
    Hopeless,
}

/// Observed state of one container. Default values are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerFacts {
    /// Docker's container id.
    pub id: String,
    /// Whether it runs now.
    pub running: bool,
    /// IP address on the pod's network; empty while it is down.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Published port on the node; 0 when none.
    #[serde(skip_serializing_if = "is_default")]
    pub node_port: u16,
    /// Exit code of the last exit.
    #[serde(skip_serializing_if = "is_default")]
    pub exit_code: i64,
    /// The kernel killed it for exceeding its memory limit.
    #[serde(skip_serializing_if = "is_default")]
    pub oom_killed: bool,
    /// Docker's error text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// When it last started.
    #[serde(skip_serializing_if = "is_default")]
    pub started_at: Timestamp,
    /// When it last exited.
    #[serde(skip_serializing_if = "is_default")]
    pub finished_at: Timestamp,
    /// Digest of its spec: from its label, or of the spec that it was updated to in place since.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spec_digest: String,
    /// Its last exit that deployd did not request; kept after a restart. None if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<ExitFacts>,
}

impl PodFacts {
    /// The latest exit that deployd did not request, even if the container runs again.
    pub fn last_exit(&self) -> Option<Exit> {
        let exits = self.containers.iter().filter_map(|container| container.last_exit.as_ref());
        exits.max_by_key(|exit| exit.at).map(|exit| self.exit(exit))
    }

    /// The latest exit that deployd did not request, of a container that is still down.
    pub fn present_exit(&self) -> Option<Exit> {
        let down = self.containers.iter().filter(|container| !container.running);
        let exits = down.filter_map(|it| it.last_exit.as_ref().filter(|exit| exit.at == it.finished_at));
        exits.max_by_key(|exit| exit.at).map(|exit| self.exit(exit))
    }

    /// Digest of the fields that every scheduler version knows. Newer fields are excluded, or a scheduler of the first
    /// version would request the whole report after every heartbeat.
    pub fn digest(&self, pod: &PodId) -> Digest {
        let is_newer = self.next_attempt.happened() || self.containers.iter().any(|it| it.last_exit.is_some());
        if !is_newer {
            return Digest::of(&(pod, self));
        }
        let mut known = Self { next_attempt: Timestamp::NEVER, ..self.clone() };
        known.containers.iter_mut().for_each(|container| container.last_exit = None);
        Digest::of(&(pod, &known))
    }

    fn exit(&self, exit: &ExitFacts) -> Exit {
        Exit {
            code: exit.code,
            out_of_memory: exit.out_of_memory,
            at: exit.at,
            restarts: self.restarts,
            next_attempt: self.next_attempt,
            last_line: exit.last_line.clone(),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A report on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportMessage {
    /// The whole report.
    Whole(Report),
    /// The difference from the report at sequence number `base`.
    Delta(ReportDelta),
    /// Nothing changed.
    Heartbeat(Heartbeat),
}

/// The difference from the report at sequence number `base` of the same agent process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportDelta {
    /// Sequence number of the earlier report.
    pub base: u64,
    /// The new state of the node.
    pub head: ReportHead,
    /// Changed and removed pods.
    pub pods: Changes<PodId, PodFacts>,
}

/// Tells schedulers that the agent is alive, and lets them detect a missed report by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Sender and current sequence number.
    pub stamp: Stamp,
    /// [`Report::digest`] of the current report.
    pub digest: Digest,
}

impl Report {
    /// The difference from `base` to this report.
    pub fn since(&self, base: &Self) -> ReportDelta {
        ReportDelta {
            base: base.head.stamp.sequence,
            head: self.head.clone(),
            pods: Changes::between(&base.pods, &self.pods),
        }
    }

    /// Applies the delta; returns false and changes nothing when it is not based on this report.
    pub fn apply(&mut self, delta: &ReportDelta) -> bool {
        let (mine, theirs) = (&self.head.stamp, &delta.head.stamp);
        if mine.node != theirs.node || mine.incarnation != theirs.incarnation || mine.sequence != delta.base {
            return false;
        }
        self.head = delta.head.clone();
        delta.pods.apply(&mut self.pods);
        true
    }

    /// Sum of the digests of the pods.
    pub fn digest(&self) -> Digest {
        self.pods.iter().fold(Digest::default(), |sum, (pod, facts)| sum.with(facts.digest(pod)))
    }
}

impl ReportMessage {
    /// The description of the node; a heartbeat has none.
    pub fn head_mut(&mut self) -> Option<&mut ReportHead> {
        match self {
            Self::Whole(report) => Some(&mut report.head),
            Self::Delta(delta) => Some(&mut delta.head),
            Self::Heartbeat(_) => None,
        }
    }

    /// Sender and sequence number of the report.
    pub fn stamp(&self) -> &Stamp {
        match self {
            Self::Whole(report) => &report.head.stamp,
            Self::Delta(delta) => &delta.head.stamp,
            Self::Heartbeat(heartbeat) => &heartbeat.stamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_no_machine_has_are_cut() {
        let labels = (0..1000).map(|number| (format!("label-{number}"), "x".to_owned())).collect();
        let mut facts =
            NodeFacts { memory: u64::MAX, cpu_millis: u64::MAX, cores: u32::MAX, labels, ..NodeFacts::default() };
        facts.ip = "\u{e4}".repeat(10_000);
        facts.bound();
        assert_eq!((facts.memory, facts.cpu_millis, facts.cores), (1 << 50, 1_000_000_000, 1 << 16));
        assert_eq!((facts.labels.len(), facts.ip.len()), (256, 1024));
        let real = NodeFacts { memory: 2 << 40, cpu_millis: 8 * 256_000, cores: 256, ..NodeFacts::default() };
        let mut bound = real.clone();
        bound.bound();
        assert_eq!(bound, real);
    }

    #[test]
    fn fields_unknown_to_older_schedulers_are_not_part_of_the_digest() {
        let pod: PodId = "a.v1-i1-d0".parse().expect("a pod");
        let known = PodFacts { restarts: 3, containers: vec![ContainerFacts::default()], ..PodFacts::default() };
        let mut newer = PodFacts { next_attempt: Timestamp::from_millis(9), ..known.clone() };
        newer.containers[0].last_exit = Some(ExitFacts { code: 3, ..ExitFacts::default() });
        assert_eq!(newer.digest(&pod), Digest::of(&(&pod, &known)));
        assert_eq!(known.digest(&pod), Digest::of(&(&pod, &known)));
        assert_ne!(PodFacts { restarts: 4, ..newer }.digest(&pod), known.digest(&pod));
    }
}
