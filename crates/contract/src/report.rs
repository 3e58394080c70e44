//! What a node sees: the agent's word to every scheduler, leader and standbys alike.
//!
//! A report is everything the node has. It travels whole, as a delta against the sequence number before it, or as a
//! heartbeat that only carries the digest; a scheduler whose own sum differs asks for the whole.

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

/// Everything one node has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// About the node.
    pub head: ReportHead,
    /// The pods it has, wanted or leaving.
    pub pods: BTreeMap<PodId, PodFacts>,
}

/// The part of a report that is about the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportHead {
    /// Which state of the node's world this is.
    pub stamp: Stamp,
    /// The order it obeys.
    pub applied: Fence,
    /// Digest of that order.
    pub order_digest: Digest,
    /// How the engine is.
    pub engine: EngineState,
    /// Capacity, labels, addresses.
    pub facts: NodeFacts,
    /// The commits that the store held when it sent that order.
    #[serde(default, skip_serializing_if = "Progress::is_unknown")]
    pub progress: Progress,
}

/// Names one state of one agent's world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The node.
    pub node: NodeName,
    /// Run of the agent process; a new one starts a new count.
    pub incarnation: String,
    /// Raised by each change.
    pub sequence: u64,
    /// Of the agent's state directory, whichever process uses it; empty from agents older than this.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub identity: Box<str>,
}

/// How the local Docker engine is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineState {
    /// Answers.
    #[default]
    Up,
    /// Does not answer in time.
    Hung,
    /// Cannot be reached.
    Down,
}

/// What a node is and has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFacts {
    /// Address of the engine, `host:port`.
    pub address: String,
    /// Address where published ports are reached.
    pub ip: String,
    /// Schedulable CPU in thousandths of a core, overcommitment included.
    pub cpu_millis: u64,
    /// Cores the machine has.
    pub cores: u32,
    /// Schedulable memory in bytes.
    pub memory: u64,
    /// Labels that constraints match.
    pub labels: BTreeMap<String, String>,
    /// The engine's version.
    pub engine_version: String,
    /// The agent's version.
    pub agent_version: String,
    /// Wire version the agent speaks.
    pub wire: u32,
    /// The agent fetches images for pods that are to be replaced ([`crate::order::Assignment::fetch`]).
    #[serde(skip_serializing_if = "is_default")]
    pub fetches_ahead: bool,
}

/// Compact facts of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodFacts {
    /// State of the pod: the worst of its containers.
    pub state: RunState,
    /// Worst health of its containers.
    #[serde(skip_serializing_if = "is_default")]
    pub health: HealthState,
    /// It is not in the order and on its way out.
    #[serde(skip_serializing_if = "is_default")]
    pub leaving: bool,
    /// Its containers, by index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerFacts>,
    /// Attempts in a row to create or start it that the engine refused; 0 from agents older than this.
    #[serde(skip_serializing_if = "is_default")]
    pub refusals: u32,
    /// Restarts counted in the present window.
    #[serde(skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// When it was last restarted.
    #[serde(skip_serializing_if = "is_default")]
    pub restarted_at: Timestamp,
    /// Crash-looping: the immediate restarts are spent, further ones follow with back-off. Agents of the first versions
    /// made no further attempt.
    #[serde(rename = "let_go", skip_serializing_if = "is_default")]
    pub is_crash_looping: bool,
    /// When its node starts it again; never when it runs, or when no start is planned.
    #[serde(skip_serializing_if = "is_default")]
    pub next_attempt: Timestamp,
    /// The last [`crate::order::Assignment::starts_requested`] that was done.
    #[serde(rename = "starts_answered", skip_serializing_if = "is_default")]
    pub starts_done: u32,
    /// The last [`crate::order::Assignment::restarts_requested`] that was done.
    #[serde(rename = "restarts_answered", skip_serializing_if = "is_default")]
    pub restarts_done: u32,
    /// Since when its health check says it is well; never when it does not, or when there is none.
    #[serde(skip_serializing_if = "is_default")]
    pub healthy_since: Timestamp,
    /// An image of it cannot be had, and trying again will not help.
    #[serde(skip_serializing_if = "is_default")]
    pub image_is_hopeless: bool,
    /// How far its node is with [`crate::order::Assignment::fetch`]; none when nothing is to be fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Fetched>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// When these facts last changed.
    pub updated_at: Timestamp,
}

/// How far a node is with what it fetches for a pod that is to be replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// The version the images are for.
    pub version: u32,
    /// How far it is.
    pub state: FetchState,
    /// Why an image did not come the last time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// How far a node is with images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FetchState {
    /// It is at it.
    Coming,
    /// All of them are on the node.
    Here,
    /// One cannot be had, and trying again will not help.
    Hopeless,
}

/// Compact facts of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerFacts {
    /// The engine's id.
    pub id: String,
    /// Runs now.
    pub running: bool,
    /// Address on the pod's network; empty when down.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Published port on the node; 0 when none.
    #[serde(skip_serializing_if = "is_default")]
    pub node_port: u16,
    /// Exit code of the last end.
    #[serde(skip_serializing_if = "is_default")]
    pub exit_code: i64,
    /// The kernel ended it for memory.
    #[serde(skip_serializing_if = "is_default")]
    pub oom_killed: bool,
    /// The engine's own error text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Last start.
    #[serde(skip_serializing_if = "is_default")]
    pub started_at: Timestamp,
    /// Last end.
    #[serde(skip_serializing_if = "is_default")]
    pub finished_at: Timestamp,
    /// Digest of the spec it has: from its label, or of the spec it was updated to live since.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spec_digest: String,
    /// Its last end that was not ordered, kept while it runs again; none when it never ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<ExitFacts>,
}

impl PodFacts {
    /// The latest end that was not ordered, of a container that runs again or not.
    pub fn last_exit(&self) -> Option<Exit> {
        let exits = self.containers.iter().filter_map(|container| container.last_exit.as_ref());
        exits.max_by_key(|exit| exit.at).map(|exit| self.exit(exit))
    }

    /// The latest end that was not ordered, of a container that is down since then.
    pub fn present_exit(&self) -> Option<Exit> {
        let down = self.containers.iter().filter(|container| !container.running);
        let exits = down.filter_map(|it| it.last_exit.as_ref().filter(|exit| exit.at == it.finished_at));
        exits.max_by_key(|exit| exit.at).map(|exit| self.exit(exit))
    }

    /// Digest of the pod and what every scheduler knows of it. Fields that the first versions do not have are no part of it:
    /// a scheduler of such a version would ask for the whole report at every heartbeat.
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
    /// The report itself.
    Whole(Report),
    /// The report as a change of the one at sequence `base`.
    Delta(ReportDelta),
    /// Still here, nothing changed.
    Heartbeat(Heartbeat),
}

/// A change of the report at sequence `base` of the same incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportDelta {
    /// Sequence number this is a change of.
    pub base: u64,
    /// The node after the change.
    pub head: ReportHead,
    /// Changed pods.
    pub pods: Changes<PodId, PodFacts>,
}

/// Sign of life with a sum to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Which state of the node's world is current.
    pub stamp: Stamp,
    /// Digest of its pods.
    pub digest: Digest,
}

impl Report {
    /// This report as a change of `base`.
    pub fn since(&self, base: &Self) -> ReportDelta {
        ReportDelta {
            base: base.head.stamp.sequence,
            head: self.head.clone(),
            pods: Changes::between(&base.pods, &self.pods),
        }
    }

    /// Makes the change, when it is one of this report.
    pub fn apply(&mut self, delta: &ReportDelta) -> bool {
        let (mine, theirs) = (&self.head.stamp, &delta.head.stamp);
        if mine.node != theirs.node || mine.incarnation != theirs.incarnation || mine.sequence != delta.base {
            return false;
        }
        self.head = delta.head.clone();
        delta.pods.apply(&mut self.pods);
        true
    }

    /// Digest of the pods.
    pub fn digest(&self) -> Digest {
        self.pods.iter().fold(Digest::default(), |sum, (pod, facts)| sum.with(facts.digest(pod)))
    }
}

impl ReportMessage {
    /// The stamp of the state this message tells about.
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
    fn what_older_schedulers_do_not_know_of_a_pod_is_no_part_of_the_digest() {
        let pod: PodId = "a.v1-i1-d0".parse().expect("a pod");
        let known = PodFacts { restarts: 3, containers: vec![ContainerFacts::default()], ..PodFacts::default() };
        let mut newer = PodFacts { next_attempt: Timestamp::from_millis(9), ..known.clone() };
        newer.containers[0].last_exit = Some(ExitFacts { code: 3, ..ExitFacts::default() });
        assert_eq!(newer.digest(&pod), Digest::of(&(&pod, &known)));
        assert_eq!(known.digest(&pod), Digest::of(&(&pod, &known)));
        assert_ne!(PodFacts { restarts: 4, ..newer }.digest(&pod), known.digest(&pod));
    }
}
