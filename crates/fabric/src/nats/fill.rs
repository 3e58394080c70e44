//! Size of a stream, and its server's clock.

use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::Info;
use contract::time::Timestamp;
use serde::Deserialize;

use super::connect::API_LIMIT;
use super::reader::nanoseconds;
use super::{Bus, Error, StreamIdentity};

/// State of a stream, as its server describes it.
#[derive(Debug, Clone)]
pub struct StreamState {
    pub identity: StreamIdentity,
    /// Sequence number of the oldest message.
    pub first_sequence: u64,
    /// When the server stored that message.
    pub first_stored_at: Timestamp,
    /// Size of all messages.
    pub bytes: u64,
    /// The server's clock when it answered; none from servers that do not send it.
    pub server_time: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Description {
    #[serde(flatten)]
    info: Info,
    #[serde(default)]
    ts: Option<String>,
}

impl Bus {
    /// Reads the state of a stream.
    pub async fn stream_state(&self, stream: &str) -> Result<StreamState, Error> {
        let doing = || format!("reading the state of stream {stream}");
        let asking = self.jetstream.request(format!("STREAM.INFO.{stream}"), &());
        let answer = match tokio::time::timeout(API_LIMIT, asking).await {
            Ok(answer) => answer.map_err(|source| Error::Failed { doing: doing(), source: source.into() })?,
            Err(_) => return Err(Error::TimedOut { doing: doing() }),
        };
        let Description { info, ts } = match answer {
            Response::Ok(description) => description,
            Response::Err { error } => return Err(Error::Failed { doing: doing(), source: error.into() }),
        };
        Ok(StreamState {
            identity: StreamIdentity::of(&info),
            first_sequence: info.state.first_sequence,
            first_stored_at: Timestamp::from_millis(nanoseconds(info.state.first_timestamp) / 1_000_000),
            bytes: info.state.bytes,
            server_time: ts.and_then(|text| Timestamp::parse(&text).ok()),
        })
    }
}
