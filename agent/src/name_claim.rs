//! Claims the node's name, so that a duplicate agent stops: asks at the start and after every reconnect whether another agent
//! has the name, and answers such questions.
//!
//! The agent that has the name keeps it; of two that ask at the same time the earlier one wins (`Presence::yields_to`). A
//! question that arrives while asking counts like an answer: its sender may have subscribed too late to answer ours. The
//! loser exits with [`EXIT_CODE`] and leaves its containers as they are.

use std::time::Duration;

use contract::name::NodeName;
use contract::node::Presence;
use contract::subjects;
use fabric::nats::{Bus, Error, Message, Subscription};
use fabric::shutdown::Shutdown;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

/// Exit code when the name is taken: `EX_UNAVAILABLE`, different from a wrong setting.
pub const EXIT_CODE: u8 = 69;
/// An agent answers immediately; the rest is for busy machines and slow networks. Every start waits this long.
const DEADLINE: Duration = Duration::from_millis(500);

/// Another agent has the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "node {node} is taken: the agent on host {} ({}) has the name since {}; stop it, or give this agent another \
     name with --name", other.host, other.address, other.since
)]
pub struct Taken {
    pub node: NodeName,
    pub other: Box<Presence>,
}

pub struct Claim {
    bus: Bus,
    node: NodeName,
    me: Presence,
    questions: Subscription,
    connected: watch::Receiver<bool>,
}

impl Claim {
    /// Subscribes to the questions of other agents.
    pub async fn new(bus: Bus, node: NodeName, me: Presence) -> Result<Self, Error> {
        let mut connected = bus.connected();
        connected.mark_unchanged();
        let questions = bus.subscribe(&subjects::presence(&node)).await?;
        Ok(Self { bus, node, me, questions, connected })
    }

    /// Asks for other agents; without an answer the name is ours.
    pub async fn settle(&mut self) -> Result<(), Taken> {
        self.me.settled = false;
        let subject = subjects::presence(&self.node);
        let (bus, me) = (self.bus.clone(), self.me.clone());
        let mut asked = std::pin::pin!(bus.request::<_, Presence>(&subject, &me, DEADLINE));
        loop {
            let (other, is_over) = tokio::select! {
                // No answer, also of a disconnected bus, counts as free; the agent asks again after a reconnect.
                answer = &mut asked => (answer.ok(), true),
                Some(question) = self.questions.next() => (self.answer(&question).await, false),
            };
            if let Some(other) = other.filter(|other| me.yields_to(other)) {
                return Err(Taken { node: self.node.clone(), other: Box::new(other) });
            }
            if is_over {
                self.me.settled = true;
                return Ok(());
            }
        }
    }

    /// Answers other agents and asks again after every reconnect, until shutdown. Losing the name stops the agent.
    pub fn keep(mut self, shutdown: Shutdown) -> JoinHandle<Result<(), Taken>> {
        fabric::tasks::spawn("name claim", async move {
            let lost = tokio::select! {
                lost = self.watch() => lost,
                () = shutdown.wait() => return Ok(()),
            };
            error!(%lost, "another agent has this node's name; stopping");
            shutdown.trigger();
            Err(lost)
        })
    }

    async fn watch(&mut self) -> Taken {
        loop {
            let is_back = tokio::select! {
                Some(question) = self.questions.next() => {
                    self.answer(&question).await;
                    false
                }
                Ok(()) = self.connected.changed() => *self.connected.borrow_and_update(),
                // The connection was closed: the process is ending.
                else => std::future::pending().await,
            };
            if is_back {
                match self.settle().await {
                    Ok(()) => info!(node = %self.node, "reconnected; no other agent has this node's name"),
                    Err(taken) => return taken,
                }
            }
        }
    }

    /// Answers another agent; returns its presence.
    async fn answer(&self, question: &Message) -> Option<Presence> {
        let other: Presence = question.decode().ok()?;
        if other.incarnation == self.me.incarnation {
            return None;
        }
        if self.me.settled {
            warn!(host = other.host, address = other.address, "refused this node's name to another agent");
        }
        if let Some(inbox) = &question.reply
            && let Err(reason) = self.bus.answer(inbox, &self.me).await
        {
            warn!(%reason, "could not answer another agent");
        }
        Some(other)
    }
}

/// The machine's host name, for messages.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}
