//! Sees to it that one agent speaks for a node: asks at the start and after every reconnect who else does, and answers.
//!
//! Whoever has the name keeps it; of two who ask at the same time the earlier one does (`Presence::yields_to`). A question
//! heard while asking counts like an answer: who subscribed a moment later could not answer ours. The loser takes no part and
//! ends with [`EXIT_CODE`]; what its containers do is nobody's business until it is given another name.

use std::time::Duration;

use contract::name::NodeName;
use contract::node::Presence;
use contract::subjects;
use fabric::nats::{Bus, Error, Message, Subscription};
use fabric::shutdown::Shutdown;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

/// How the process ends when its name is taken: `EX_UNAVAILABLE`, unlike a setting that is wrong.
pub const EXIT_CODE: u8 = 69;
/// An agent answers at once; a busy machine and a long line get some time more. Every start waits for so long.
const DEADLINE: Duration = Duration::from_millis(500);

/// Somebody else speaks for the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "node {node} is taken: the agent on host {} ({}) speaks for it since {}; stop that one, or give this one another \
     name with --name", other.host, other.address, other.since
)]
pub struct Taken {
    /// The name.
    pub node: NodeName,
    /// Who has it.
    pub other: Box<Presence>,
}

/// Who speaks for a node.
pub struct Claim {
    bus: Bus,
    node: NodeName,
    me: Presence,
    questions: Subscription,
    connected: watch::Receiver<bool>,
}

impl Claim {
    /// Begins to listen for others.
    pub async fn new(bus: Bus, node: NodeName, me: Presence) -> Result<Self, Error> {
        let mut connected = bus.connected();
        connected.mark_unchanged();
        let questions = bus.subscribe(&subjects::presence(&node)).await?;
        Ok(Self { bus, node, me, questions, connected })
    }

    /// Asks who else is there; this agent has the name when nobody is.
    pub async fn settle(&mut self) -> Result<(), Taken> {
        self.me.settled = false;
        let subject = subjects::presence(&self.node);
        let (bus, me) = (self.bus.clone(), self.me.clone());
        let mut asked = std::pin::pin!(bus.request::<_, Presence>(&subject, &me, DEADLINE));
        loop {
            let (other, is_over) = tokio::select! {
                // Silence, and a bus that is away, are no proof of anybody; after the next reconnect it is asked again.
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

    /// Answers whoever else asks, and asks again after every reconnect, until shutdown; a name that is lost ends the agent.
    pub fn keep(mut self, shutdown: Shutdown) -> JoinHandle<Result<(), Taken>> {
        fabric::tasks::spawn("presence", async move {
            let lost = tokio::select! {
                lost = self.watch() => lost,
                () = shutdown.wait() => return Ok(()),
            };
            error!(%lost, "another agent has this node's name; this one ends");
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
                // The connection was closed for good: the process is ending.
                else => std::future::pending().await,
            };
            if is_back {
                match self.settle().await {
                    Ok(()) => info!(node = %self.node, "connected again; nobody else has this node's name"),
                    Err(taken) => return taken,
                }
            }
        }
    }

    /// Answers a question of somebody else; who it is.
    async fn answer(&self, question: &Message) -> Option<Presence> {
        let other: Presence = question.decode().ok()?;
        if other.incarnation == self.me.incarnation {
            return None;
        }
        if self.me.settled {
            warn!(host = other.host, address = other.address, "another agent wants this node's name and is refused");
        }
        if let Some(inbox) = &question.reply
            && let Err(reason) = self.bus.answer(inbox, &self.me).await
        {
            warn!(%reason, "another agent could not be answered");
        }
        Some(other)
    }
}

/// The machine's own name, for people.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}
