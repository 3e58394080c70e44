//! Notes: metadata that users keep on a stream and that disappear with it.
//!
//! Ensuring a stream keeps its notes, and so does every other change of its settings.

use super::connect::API_LIMIT;
use super::{Bus, Error, StreamIdentity};

/// A stream with its notes.
#[derive(Debug, Clone)]
pub struct Noted {
    pub identity: StreamIdentity,
    /// Sequence number of its last message.
    pub last_sequence: u64,
    notes: std::collections::HashMap<String, String>,
}

impl Noted {
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.get(name).map(String::as_str)
    }
}

impl Bus {
    /// Reads the notes of a stream.
    pub async fn stream_notes(&self, stream: &str) -> Result<Noted, Error> {
        let doing = || format!("reading the notes on stream {stream}");
        match tokio::time::timeout(API_LIMIT, self.jetstream.get_stream(stream)).await {
            Ok(Ok(found)) => {
                let info = found.cached_info();
                let (identity, notes) = (StreamIdentity::of(info), info.config.metadata.clone());
                Ok(Noted { identity, last_sequence: info.state.last_sequence, notes })
            }
            Ok(Err(error)) => Err(Error::Failed { doing: doing(), source: error.into() }),
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }

    /// Sets notes on a stream, replacing notes of the same name.
    pub async fn note_on_stream(&self, stream: &str, notes: &[(&str, String)]) -> Result<(), Error> {
        let doing = || format!("putting notes on stream {stream}");
        let writing = async {
            let found = self.jetstream.get_stream(stream).await.map_err(async_nats::Error::from)?;
            let mut config = found.cached_info().config.clone();
            config.metadata.extend(notes.iter().map(|(name, text)| ((*name).to_owned(), text.clone())));
            self.jetstream.update_stream(config).await.map_err(async_nats::Error::from)
        };
        match tokio::time::timeout(API_LIMIT, writing).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(source)) => Err(Error::Failed { doing: doing(), source }),
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }
}
