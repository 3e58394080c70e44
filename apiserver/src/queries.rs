//! Asks the schedulers and the agents.
//!
//! The leader first, again and again until the deadline, because a leader may just be changing; then any standby,
//! whose answer is marked as one that may be behind. Agents get one try: an answer without them is still an answer.

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

/// One try with the leader: it answers from memory, so a second means that it is gone or not yet there.
const ONE_TRY: Duration = Duration::from_secs(1);
/// One try for a question that many requests wait for.
const GLANCE: Duration = Duration::from_millis(500);
/// Between two tries when nobody even listens.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// Nodes asked at once.
const NODES_AT_ONCE: usize = 256;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bus is away.
    #[error("the message bus cannot be reached")]
    Disconnected,
    /// No leader and no standby answered.
    #[error("no scheduler answered: {0}")]
    Unanswered(#[source] RequestError),
    /// A scheduler answered something else than what was asked.
    #[error("a scheduler answered another question")]
    Mismatch,
}

/// Asks questions; clones share the bus.
#[derive(Debug, Clone)]
pub struct Queries {
    bus: Bus,
    metrics: Metrics,
    deadline: Duration,
    inspect_deadline: Duration,
    /// What the engine was last told to be doing.
    running: Arc<AtomicBool>,
}

/// The engine's switches, as somebody told them just now.
#[derive(Debug, Clone, Copy)]
pub struct EngineSwitches {
    /// The switches.
    pub engine: EngineRecord,
    /// A standby told them.
    pub stale: bool,
}

impl Queries {
    /// Asks over `bus`: `deadline` is for the leader, `inspect_deadline` for all nodes of one group together.
    pub fn new(bus: Bus, metrics: Metrics, deadline: Duration, inspect_deadline: Duration) -> Self {
        Self { bus, metrics, deadline, inspect_deadline, running: Arc::new(AtomicBool::new(true)) }
    }

    /// The answer to `query` by the leader, or else by a standby.
    pub async fn ask(&self, query: &Query) -> Result<Reply, Error> {
        let until = Instant::now() + self.deadline;
        while Instant::now() < until {
            if !*self.bus.connected().borrow() {
                return Err(Error::Disconnected);
            }
            match self.bus.request(subjects::QUERY_LEADER, query, ONE_TRY).await {
                Ok(reply) => return Ok(self.counted(reply)),
                Err(RequestError::Disconnected) => return Err(Error::Disconnected),
                Err(error) => tracing::debug!(%error, "the leader does not answer"),
            }
            // Not a wait for something to happen: only so that a missing leader is not asked in a tight loop.
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

    /// What a spec would do. A plan is costly, so only the leader is asked, and only once: it computes nothing for a client
    /// that does not wait any longer.
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

    /// The engine's switches, if anybody tells them at once: the leader, or else a standby, one short try each.
    pub async fn engine(&self) -> Option<EngineSwitches> {
        for subject in [subjects::QUERY_LEADER, subjects::QUERY_STANDBY] {
            if !*self.bus.connected().borrow() {
                return None;
            }
            match self.bus.request(subject, &Query::Engine, GLANCE).await {
                Ok(Reply { stale, answer: Answer::Engine(engine), .. }) => {
                    self.running.store(engine.running, Ordering::Relaxed);
                    return Some(EngineSwitches { engine, stale });
                }
                Ok(_) => tracing::warn!("a scheduler answered another question"),
                Err(error) => tracing::debug!(%error, subject, "the engine's switches are not told"),
            }
        }
        None
    }

    /// Whether the engine was running when last asked; true before anybody answered.
    pub fn last_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// What became of a command, if the leader can tell within one try.
    pub async fn outcome(&self, id: &CommandId) -> Option<Outcome> {
        let query = Query::Operation { id: id.clone() };
        match self.bus.request(subjects::QUERY_LEADER, &query, ONE_TRY).await {
            Ok(Reply { answer: Answer::Operation(outcome), .. }) => outcome,
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, %id, "outcome not known");
                None
            }
        }
    }

    /// The engines' own view of pods, by node, as far as the nodes answer in time.
    pub async fn inspect(&self, questions: BTreeMap<NodeName, Vec<PodId>>) -> Inspected {
        let until = Instant::now() + self.inspect_deadline;
        let asked = questions.len();
        let mut answers = futures_util::stream::iter(questions)
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
                tracing::debug!(%node, %error, "node does not describe its containers");
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
