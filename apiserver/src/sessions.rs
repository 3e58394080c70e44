//! Reads from agents piece by piece (see [`contract::session`]).

use std::time::Duration;

use contract::logs::LogLine;
use contract::name::NodeName;
use contract::session::{LogSelection, SessionContent, SessionRefusal, SessionReply, SessionRequest};
use contract::subjects;
use contract::time::Timestamp;
use fabric::nats::{Bus, RequestError};

/// Deadline for opening a session: the agent asks Docker for the container.
const OPEN: Duration = Duration::from_secs(8);
/// How long the agent waits for output before it answers a read.
const WAIT_MILLIS: u64 = 5_000;
/// Deadline of a read: the wait, and time to answer.
const READ: Duration = Duration::from_secs(10);

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no agent of {node} answers requests for logs: it is down, or older than this apiserver (upgrade it), or the NATS \
         accounts are of an older version (write them again with `deployctl bus-keys`)"
    )]
    NoAgent { node: NodeName },
    #[error(
        "NATS does not let this apiserver read logs, because its accounts are of an older version: write them again with \
         `deployctl bus-keys` and reload the NATS servers"
    )]
    NotPermitted,
    #[error("the instance has no node yet{why}")]
    NotPlaced { why: String },
    #[error("{node} did not answer in time: its agent or the connection of its machine is too slow")]
    Silent { node: NodeName },
    #[error("the apiserver is not connected to NATS")]
    Disconnected,
    #[error("{}", refusal(.node, .why))]
    Refused { node: NodeName, why: SessionRefusal },
}

impl Error {
    /// Whether reading this container again makes no sense.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused { why, .. } => match why {
                SessionRefusal::NoContainer | SessionRefusal::Unreadable { .. } | SessionRefusal::Unsupported => true,
                SessionRefusal::Full { .. } | SessionRefusal::NoSession | SessionRefusal::Engine { .. } => false,
            },
            Self::NotPlaced { .. } => true,
            Self::NoAgent { .. } | Self::NotPermitted | Self::Silent { .. } | Self::Disconnected => false,
        }
    }

    /// Whether the session ended, as after a restart of the agent.
    pub fn is_lost_session(&self) -> bool {
        matches!(self, Self::Refused { why: SessionRefusal::NoSession, .. })
    }

    pub fn is_no_container(&self) -> bool {
        matches!(self, Self::Refused { why: SessionRefusal::NoContainer, .. })
    }
}

fn refusal(node: &NodeName, why: &SessionRefusal) -> String {
    match why {
        SessionRefusal::Full { limit } => format!(
            "{node} reads {limit} logs already, which is its limit; wait until other readers have ended, or name fewer instances"
        ),
        SessionRefusal::NoContainer => format!("there is no such container on {node}"),
        SessionRefusal::Unreadable { driver } => format!(
            "Docker cannot read logs of the log driver {driver:?}; look where the driver sends them, or deploy with json-file, \
             local or journald"
        ),
        SessionRefusal::NoSession => format!("the agent of {node} has ended the session; read the log again"),
        SessionRefusal::Engine { reason } => format!("the engine of {node} failed: {reason}"),
        SessionRefusal::Unsupported => format!("the agent of {node} is older than this apiserver; upgrade it"),
    }
}

/// Clones share the connection.
#[derive(Debug, Clone)]
pub struct Sessions {
    bus: Bus,
}

impl Sessions {
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }

    pub async fn open_log(&self, node: &NodeName, selection: LogSelection) -> Result<LogSession, Error> {
        let request = SessionRequest::Open { what: SessionContent::Log(selection) };
        match ask(&self.bus, node, &request, OPEN).await? {
            SessionReply::Opened { session, started_at, at } => {
                let (bus, node) = (self.bus.clone(), node.clone());
                Ok(LogSession { bus, node, id: session, from: 0, started_at, at })
            }
            other => Err(unexpected(node, other)),
        }
    }
}

/// The log of one container. Dropping it ends the session.
#[derive(Debug)]
pub struct LogSession {
    bus: Bus,
    node: NodeName,
    id: String,
    from: u64,
    /// When the container last started.
    pub started_at: Timestamp,
    /// When it was opened, by the clock of the node.
    pub at: Timestamp,
}

impl LogSession {
    /// The next lines, which may be none, and whether they are the last ones.
    pub async fn read(&mut self) -> Result<(Vec<LogLine>, bool), Error> {
        let request = SessionRequest::Read { session: self.id.clone(), from: self.from, wait_millis: WAIT_MILLIS };
        let reply = match ask(&self.bus, &self.node, &request, READ).await {
            // The reply may be lost: the agent keeps its lines until a later read.
            Err(Error::Silent { .. }) => ask(&self.bus, &self.node, &request, READ).await,
            reply => reply,
        };
        match reply? {
            SessionReply::Lines { lines, next, is_end } => {
                self.from = next;
                Ok((lines, is_end))
            }
            other => Err(unexpected(&self.node, other)),
        }
    }
}

impl Drop for LogSession {
    fn drop(&mut self) {
        let (bus, subject) = (self.bus.clone(), subjects::session(&self.node));
        let close = SessionRequest::Close { session: std::mem::take(&mut self.id) };
        // Without it the agent ends the session when it was not read for a while.
        fabric::tasks::spawn("close session", async move { bus.publish(&subject, &close).await.ok() });
    }
}

async fn ask(bus: &Bus, node: &NodeName, request: &SessionRequest, limit: Duration) -> Result<SessionReply, Error> {
    let reply = bus.request(&subjects::session(node), request, limit).await;
    reply.map_err(|error| {
        tracing::debug!(%node, %error, "no answer to a request of a session");
        match error {
            RequestError::NoResponders { .. } => Error::NoAgent { node: node.clone() },
            RequestError::NotPermitted { .. } => Error::NotPermitted,
            RequestError::Disconnected => Error::Disconnected,
            RequestError::TimedOut { .. } | RequestError::TooLarge { .. } | RequestError::Send(_) => {
                Error::Silent { node: node.clone() }
            }
            RequestError::Malformed(_) => {
                Error::Refused { node: node.clone(), why: SessionRefusal::Engine { reason: error.to_string() } }
            }
        }
    })
}

fn unexpected(node: &NodeName, reply: SessionReply) -> Error {
    let why = match reply {
        SessionReply::Refused(why) => why,
        SessionReply::Opened { .. } | SessionReply::Lines { .. } => {
            SessionRefusal::Engine { reason: "it sent the answer to another request".to_owned() }
        }
    };
    Error::Refused { node: node.clone(), why }
}
