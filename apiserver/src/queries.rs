//! Queries schedulers and agents.
//!
//! Retries the leader until the deadline, because of failovers; then asks a standby, whose answer is marked as stale. Each
//! agent gets one try: the answer can be built without it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::command::Outcome;
use contract::name::{CommandId, NodeName};
use contract::pod_id::PodId;
use contract::query::{Answer, InspectReply, InspectRequest, Query, Reply};
use contract::spec::PodGroupSpec;
use contract::subjects;
use contract::switches::EngineRecord;
use fabric::nats::{Bus, RequestError};
use futures_util::StreamExt;
use tokio::time::{Instant, sleep, timeout_at};

use crate::metrics::Metrics;
use crate::view::Inspected;

/// Deadline of one try. The leader answers from memory, so silence for a second means there is no leader.
const ONE_TRY: Duration = Duration::from_secs(1);
/// Deadline for the switches, which many requests wait for.
const SWITCHES_TRY: Duration = Duration::from_millis(500);
/// Pause between tries.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// Concurrent inspect requests.
const NODES_AT_ONCE: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the message bus cannot be reached")]
    Disconnected,
    #[error("no scheduler answered: {0}")]
    Unanswered(#[source] RequestError),
    #[error("a scheduler sent the answer to another query")]
    Mismatch,
}

/// Clones share the connection.
#[derive(Debug, Clone)]
pub struct Queries {
    bus: Bus,
    metrics: Metrics,
    deadline: Duration,
    inspect_deadline: Duration,
    /// Last known value of the scheduling switch.
    running: Arc<AtomicBool>,
}

/// The cluster's switches.
#[derive(Debug, Clone, Copy)]
pub struct EngineSwitches {
    pub engine: EngineRecord,
    /// Answered by a standby.
    pub stale: bool,
}

impl Queries {
    /// `deadline` is for the leader, `inspect_deadline` for all nodes of one group together.
    pub fn new(bus: Bus, metrics: Metrics, deadline: Duration, inspect_deadline: Duration) -> Self {
        Self { bus, metrics, deadline, inspect_deadline, running: Arc::new(AtomicBool::new(true)) }
    }

    /// Asks the leader, then a standby.
    pub async fn ask(&self, query: &Query) -> Result<Reply, Error> {
        let until = Instant::now() + self.deadline;
        while Instant::now() < until {
            if !*self.bus.connected().borrow() {
                return Err(Error::Disconnected);
            }
            match self.bus.request(subjects::QUERY_LEADER, query, ONE_TRY).await {
                Ok(reply) => return Ok(self.counted(reply)),
                Err(RequestError::Disconnected) => return Err(Error::Disconnected),
                Err(error) => tracing::debug!(%error, "no answer from the leader"),
            }
            // Avoids a tight loop when no leader is subscribed.
            sleep(BETWEEN_TRIES.min(until.saturating_duration_since(Instant::now()))).await;
        }
        match self.bus.request(subjects::QUERY_STANDBY, query, ONE_TRY).await {
            Ok(reply) => Ok(self.counted(reply)),
            Err(error) => {
                self.metrics.unanswered.inc();
                Err(Error::Unanswered(error))
            }
        }
    }

    /// Asks the scheduler behind `subject` once; none without an answer in time.
    pub async fn ask_once(&self, subject: &str, query: &Query, deadline: Duration) -> Option<Reply> {
        if !*self.bus.connected().borrow() {
            return None;
        }
        match self.bus.request(subject, query, deadline).await {
            Ok(reply) => Some(reply),
            Err(error) => {
                tracing::debug!(%error, subject, "no answer");
                None
            }
        }
    }

    /// Previews a spec. A plan is expensive, so only the leader is asked, once, with the deadline: it computes nothing for a
    /// client that has given up.
    pub async fn plan(&self, spec: Box<PodGroupSpec>) -> Result<Reply, Error> {
        let within_millis = Some(u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX));
        let query = Query::Plan { spec, within_millis };
        if !*self.bus.connected().borrow() {
            return Err(Error::Disconnected);
        }
        self.bus.request(subjects::QUERY_LEADER, &query, self.deadline).await.map_err(|error| {
            self.metrics.unanswered.inc();
            Error::Unanswered(error)
        })
    }

    /// The cluster's switches: one short try with the leader, then with a standby.
    pub async fn engine(&self) -> Option<EngineSwitches> {
        for subject in [subjects::QUERY_LEADER, subjects::QUERY_STANDBY] {
            if !*self.bus.connected().borrow() {
                return None;
            }
            match self.bus.request(subject, &Query::Engine, SWITCHES_TRY).await {
                Ok(Reply { stale, answer: Answer::Engine(engine), .. }) => {
                    self.running.store(engine.running, Ordering::Relaxed);
                    return Some(EngineSwitches { engine, stale });
                }
                Ok(_) => tracing::warn!("a scheduler sent the answer to another query"),
                Err(error) => tracing::debug!(%error, subject, "no answer about the switches"),
            }
        }
        None
    }

    /// Last known value of the scheduling switch; true before the first answer.
    pub fn last_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// The outcome of a command, if the leader knows it; one try.
    pub async fn outcome(&self, id: &CommandId) -> Option<Outcome> {
        let query = Query::Operation { id: id.clone() };
        match self.bus.request(subjects::QUERY_LEADER, &query, ONE_TRY).await {
            Ok(Reply { answer: Answer::Operation(outcome), .. }) => outcome,
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, %id, "no answer about the outcome");
                None
            }
        }
    }

    /// Docker's view of pods, from the nodes that answer in time.
    pub async fn inspect(&self, pods_by_node: BTreeMap<NodeName, Vec<PodId>>) -> Inspected {
        let until = Instant::now() + self.inspect_deadline;
        let asked = pods_by_node.len();
        let mut answers = futures_util::stream::iter(pods_by_node)
            .map(|(node, pods)| self.inspect_node(node, pods))
            .buffer_unordered(NODES_AT_ONCE);
        let (mut inspected, mut answered) = (Inspected::new(), 0);
        while let Ok(Some(answer)) = timeout_at(until, answers.next()).await {
            if let Some(reply) = answer {
                answered += 1;
                inspected.extend(reply.pods);
            }
        }
        self.metrics.silent_nodes.inc_by(u64::try_from(asked - answered).unwrap_or(0));
        inspected
    }

    async fn inspect_node(&self, node: NodeName, pods: Vec<PodId>) -> Option<InspectReply> {
        let subject = subjects::inspect(&node);
        match self.bus.request(&subject, &InspectRequest { pods }, self.inspect_deadline).await {
            Ok(reply) => Some(reply),
            Err(error) => {
                tracing::debug!(%node, %error, "no answer to an inspect request");
                None
            }
        }
    }

    fn counted(&self, reply: Reply) -> Reply {
        if reply.stale {
            self.metrics.stale.inc();
        }
        reply
    }
}
