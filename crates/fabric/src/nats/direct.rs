//! Reads stored messages directly, without a consumer.
//!
//! A process that may create a consumer can make JetStream deliver to any subject of its account. So apiservers read with
//! `DIRECT.GET`: one request, answered by a batch of messages. Servers before 2.11 know no batches and answer with one message.

use async_nats::{HeaderMap, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::connect::API_LIMIT;
use super::{Bus, Error, Stored};

/// In each message of a batch; a server without batches leaves it out.
const PENDING: &str = "Nats-Num-Pending";

/// 204, which async-nats does not name.
const END_OF_BATCH: u16 = 204;

/// The answer to a direct read.
pub(super) enum Direct {
    /// The messages from the requested one on, in order; empty at the end of the stream.
    Messages(Vec<Stored>),
    /// The stream does not exist, an older scheduler has created it, or the accounts are of the first layout, which does not
    /// allow it.
    Unavailable,
}

impl Bus {
    /// Reads at most `most` messages, starting with number `from`.
    pub(super) async fn read_direct(&self, stream: &str, from: u64, most: u64) -> Result<Direct, Error> {
        self.direct(stream, json!({ "seq": from.max(1), "next_by_subj": ">", "batch": most })).await
    }

    /// Reads the last message.
    pub(super) async fn last_direct(&self, stream: &str) -> Result<Direct, Error> {
        self.direct(stream, json!({ "last_by_subj": ">" })).await
    }

    async fn direct(&self, stream: &str, request: Value) -> Result<Direct, Error> {
        let subject = format!("$JS.API.DIRECT.GET.{stream}");
        let doing = || format!("reading stream {stream}");
        let reading = async {
            tokio::select! {
                // First: what was refused once is not asked again on this connection.
                biased;
                () = self.refusal(&subject) => Ok(Direct::Unavailable),
                read = self.batch(&subject, &request) => read,
            }
        };
        match tokio::time::timeout(API_LIMIT, reading).await {
            Ok(read) => read.map_err(|source| Error::Failed { doing: doing(), source }),
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }

    async fn batch(&self, subject: &str, request: &Value) -> Result<Direct, async_nats::Error> {
        let inbox = self.inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await?;
        let payload = Bytes::from(serde_json::to_vec(request)?);
        self.client.publish_with_reply(subject.to_owned(), inbox, payload).await?;
        let mut found = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer.status {
                None | Some(StatusCode::OK) => {}
                Some(StatusCode::NO_RESPONDERS) => return Ok(Direct::Unavailable),
                // The end of a batch, or no message from that number on.
                Some(status) if status.as_u16() == END_OF_BATCH || status == StatusCode::NOT_FOUND => break,
                Some(status) => return Err(format!("{status}: {}", answer.description.unwrap_or_default()).into()),
            }
            let is_batch = answer.headers.as_ref().is_some_and(|headers| headers.get(PENDING).is_some());
            found.push(Stored::of_direct(answer.try_into()?));
            if !is_batch {
                break;
            }
        }
        Ok(Direct::Messages(found))
    }
}

/// Sequence number of a message that the server announced with its headers only.
pub(super) fn announced_sequence(headers: &HeaderMap) -> Option<u64> {
    headers.get("Nats-Sequence").and_then(|value| value.as_str().parse().ok())
}
