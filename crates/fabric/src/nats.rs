//! NATS client: one connection per process, with deadlines on everything.
//!
//! The client keeps trying to reconnect, with jitter, and pings every 5 s, so a dead server is detected within seconds. A
//! message that exceeds the server's limit is split and reassembled (`parts`), invisibly to users of this module.
//! Streams are in `stream`, reading them in `reader`, `follow` and backwards in `past`, shared consumers in `consumer`.

mod connect;
mod consumer;
mod direct;
mod durability;
mod error;
mod fill;
mod follow;
mod notes;
mod parts;
mod past;
mod reader;
mod reload;
mod stream;

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

pub use connect::Args;
pub use consumer::{Consumer, Job, SharedConsumer};
pub use error::{Error, RequestError};
pub use fill::StreamState;
pub use follow::StreamFollower;
pub use notes::Noted;
pub use past::PastReader;
pub use reader::{Stored, StreamPosition, StreamReader};
pub use stream::{Discard, DurableAck, StreamIdentity, StreamSpec};

/// Limit for handing a message to the connection. It is exceeded when the buffer is full because the server is down.
const PUBLISH_LIMIT: Duration = Duration::from_secs(2);

/// How long a request waits for an answer although the server has refused its subject on this connection.
const REFUSAL_GRACE: Duration = Duration::from_secs(1);

/// The connection of this process; clones share it.
#[derive(Debug, Clone)]
pub struct Bus {
    client: async_nats::Client,
    jetstream: async_nats::jetstream::Context,
    connected: watch::Receiver<bool>,
    /// Number of connections so far. A reader that sees it change knows that messages may be lost.
    connections: watch::Receiver<u64>,
    /// Subjects that the server did not let this process publish to since it connected.
    refused: watch::Receiver<BTreeSet<String>>,
    /// Replicas per stream.
    replicas: usize,
}

impl Bus {
    /// Connects. Retries with jittered back-off for up to 30 s and refuses servers older than 2.10.
    pub async fn connect(args: &Args, name: &str) -> Result<Self, Error> {
        Box::pin(connect::connect(args, name)).await
    }

    /// Whether the connection is up, and its changes.
    pub fn connected(&self) -> watch::Receiver<bool> {
        self.connected.clone()
    }

    /// Whether JetStream syncs to disk before it acknowledges; none when the server does not tell.
    pub async fn syncs_always(&self) -> Option<bool> {
        match durability::check(&self.client).await {
            durability::Durability::Always => Some(true),
            durability::Durability::Periodically => Some(false),
            durability::Durability::Unknown => None,
        }
    }

    /// Waits until the server has received everything sent so far; call it before the process exits.
    pub async fn flush(&self) -> Result<(), Error> {
        let doing = || "flushing".to_owned();
        match tokio::time::timeout(connect::API_LIMIT, self.client.flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(Error::Failed { doing: doing(), source: source.into() }),
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }

    /// A unique subject for replies.
    pub fn inbox(&self) -> String {
        self.client.new_inbox()
    }

    /// Publishes a value as JSON to the current subscribers.
    pub async fn publish<T: Serialize + ?Sized>(&self, subject: &str, value: &T) -> Result<(), Error> {
        self.publish_bytes(subject, None, encode(subject, value)?).await
    }

    /// Publishes bytes as they are.
    pub async fn publish_bytes(&self, subject: &str, reply: Option<String>, payload: Bytes) -> Result<(), Error> {
        self.send(subject, reply, None, payload).await
    }

    /// Publishes a value with a header.
    pub async fn publish_marked<T: Serialize + ?Sized>(
        &self,
        subject: &str,
        header: (&'static str, &str),
        value: &T,
    ) -> Result<(), Error> {
        let header = Some((header.0, header.1.to_owned()));
        self.send(subject, None, header, encode(subject, value)?).await
    }

    /// Replies on an inbox. Refuses any other subject: a question must not make this process send, say, an order.
    pub async fn answer<T: Serialize + ?Sized>(&self, inbox: &str, value: &T) -> Result<(), Error> {
        if !contract::bus::is_inbox(inbox) {
            return Err(Error::NoInbox { subject: inbox.to_owned() });
        }
        self.publish(inbox, value).await
    }

    /// Sends a request and waits for the reply until the deadline. If the connection is down, waits for it within the
    /// deadline before sending.
    pub async fn request<Q: Serialize + ?Sized, R: DeserializeOwned>(
        &self,
        subject: &str,
        question: &Q,
        deadline: Duration,
    ) -> Result<R, RequestError> {
        self.request_bytes(subject, encode(subject, question)?, None, deadline).await
    }

    /// Like [`Bus::request`], with the encoded question and a header.
    pub async fn request_bytes<R: DeserializeOwned>(
        &self,
        subject: &str,
        payload: Bytes,
        header: Option<(&'static str, String)>,
        deadline: Duration,
    ) -> Result<R, RequestError> {
        let until = Instant::now() + deadline;
        let timed_out = || RequestError::TimedOut { subject: subject.to_owned() };
        self.wait_connected(until).await.map_err(|_| RequestError::Disconnected)?;
        let inbox = self.inbox();
        let mut answers = timeout_at(until, self.subscribe(&inbox)).await.map_err(|_| timed_out())??;
        timeout_at(until, self.send(subject, Some(inbox), header, payload)).await.map_err(|_| timed_out())??;
        let answered = tokio::select! {
            answered = timeout_at(until, answers.next_or_no_responders()) => answered,
            () = self.refusal_without_answer(subject) => {
                return Err(RequestError::NotPermitted { subject: subject.to_owned() });
            }
        };
        match answered {
            Err(_) => Err(timed_out()),
            Ok(Answered::Message(message)) => message.decode().map_err(RequestError::Malformed),
            Ok(Answered::NoResponders) => Err(RequestError::NoResponders { subject: subject.to_owned() }),
            Ok(Answered::Closed) => Err(RequestError::Disconnected),
        }
    }

    /// Subscribes to `subject`. Large messages are reassembled.
    pub async fn subscribe(&self, subject: &str) -> Result<Subscription, Error> {
        let doing = || format!("subscribing to {subject}");
        let inner = tokio::time::timeout(PUBLISH_LIMIT, self.client.subscribe(subject.to_owned()))
            .await
            .map_err(|_| Error::TimedOut { doing: doing() })?
            .map_err(|source| Error::Failed { doing: doing(), source: source.into() })?;
        Ok(Subscription { inner, assembler: parts::Assembler::default() })
    }

    /// Subscribes as a member of `queue`: each message goes to one member. Only for messages that fit one NATS message,
    /// because the parts of a larger one would go to different members.
    pub async fn queue_subscribe(&self, subject: &str, queue: &str) -> Result<Subscription, Error> {
        let doing = || format!("subscribing to {subject} in {queue}");
        let subscribing = self.client.queue_subscribe(subject.to_owned(), queue.to_owned());
        let inner = tokio::time::timeout(PUBLISH_LIMIT, subscribing)
            .await
            .map_err(|_| Error::TimedOut { doing: doing() })?
            .map_err(|source| Error::Failed { doing: doing(), source: source.into() })?;
        Ok(Subscription { inner, assembler: parts::Assembler::default() })
    }

    /// Returns when the server refuses to let this process publish to `subject`.
    async fn refusal(&self, subject: &str) {
        let mut refused = self.refused.clone();
        if refused.wait_for(|known| known.contains(subject)).await.is_err() {
            // The connection was closed permanently; the caller has its own deadline.
            std::future::pending::<()>().await;
        }
    }

    /// The same, some time later: the refusal may be older than the present accounts of the server, and then an answer arrives.
    async fn refusal_without_answer(&self, subject: &str) {
        self.refusal(subject).await;
        tokio::time::sleep(REFUSAL_GRACE).await;
    }

    /// Returns once connected, or with an error at `until`.
    async fn wait_connected(&self, until: Instant) -> Result<(), Error> {
        let mut connected = self.connected.clone();
        match timeout_at(until, connected.wait_for(|up| *up)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::Disconnected),
        }
    }

    async fn send(
        &self,
        subject: &str,
        reply: Option<String>,
        header: Option<(&'static str, String)>,
        payload: Bytes,
    ) -> Result<(), Error> {
        let doing = || format!("publishing to {subject}");
        let sending = async {
            for mut part in parts::split(subject, payload, self.client.max_payload())? {
                if let Some((name, value)) = &header {
                    part.headers.get_or_insert_default().insert(*name, value.as_str());
                }
                self.send_one(subject, reply.clone(), part)
                    .await
                    .map_err(|source| Error::Failed { doing: doing(), source: source.into() })?;
            }
            Ok(())
        };
        match tokio::time::timeout(PUBLISH_LIMIT, sending).await {
            Ok(result) => result,
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }

    async fn send_one(
        &self,
        subject: &str,
        reply: Option<String>,
        part: parts::Part,
    ) -> Result<(), async_nats::PublishError> {
        let subject = subject.to_owned();
        match (reply, part.headers) {
            (None, None) => self.client.publish(subject, part.payload).await,
            (None, Some(headers)) => self.client.publish_with_headers(subject, headers, part.payload).await,
            (Some(reply), None) => self.client.publish_with_reply(subject, reply, part.payload).await,
            (Some(reply), Some(headers)) => {
                self.client.publish_with_reply_and_headers(subject, reply, headers, part.payload).await
            }
        }
    }
}

fn encode<T: Serialize + ?Sized>(subject: &str, value: &T) -> Result<Bytes, Error> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|source| Error::Encode { subject: subject.to_owned(), source })
}

/// Messages of a subscription.
#[derive(Debug)]
pub struct Subscription {
    inner: async_nats::Subscriber,
    assembler: parts::Assembler,
}

enum Answered {
    Message(Message),
    NoResponders,
    Closed,
}

impl Subscription {
    /// The next message; none when the connection was closed permanently. Cancel-safe.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            match self.next_or_no_responders().await {
                Answered::Message(message) => return Some(message),
                Answered::NoResponders => {}
                Answered::Closed => return None,
            }
        }
    }

    async fn next_or_no_responders(&mut self) -> Answered {
        while let Some(message) = self.inner.next().await {
            if message.status == Some(async_nats::StatusCode::NO_RESPONDERS) {
                return Answered::NoResponders;
            }
            if let Some(whole) = self.assembler.add(message) {
                return Answered::Message(whole);
            }
        }
        Answered::Closed
    }
}

/// One message, reassembled.
#[derive(Debug, Clone)]
pub struct Message {
    pub subject: String,
    /// Subject for the reply.
    pub reply: Option<String>,
    pub payload: Bytes,
    headers: Option<HeaderMap>,
}

impl Message {
    /// Decodes the payload as JSON.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.payload).map_err(|error| error.to_string())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.as_ref().and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str)
    }
}
