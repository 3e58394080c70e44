//! Whether the store is away: etcd does not answer, so nobody can lead, and a change would wait for who knows how long.
//!
//! Two things together say so: a scheduler said it just now, and nobody leads. A change of leaders alone says nothing, because
//! then etcd answers; and one scheduler that alone cannot reach etcd says nothing, because another leads.

use std::time::Duration;

use contract::store::StoreWord;
use contract::subjects;
use contract::time::Timestamp;
use fabric::nats::Bus;
use fabric::shutdown::Shutdown;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::queries::Queries;

/// A word is said every second: two may be lost.
const BELIEVED: Duration = Duration::from_secs(3);

/// The last word, and when it was heard.
#[derive(Debug, Clone, Copy)]
struct Heard {
    away_since: Option<Timestamp>,
    at: Instant,
}

impl Heard {
    /// Since when etcd does not answer, as far as this word goes.
    fn away_since(&self, now: Instant) -> Option<Timestamp> {
        self.away_since.filter(|_| now.saturating_duration_since(self.at) < BELIEVED)
    }
}

/// What was heard of the store; clones share it.
#[derive(Debug, Clone)]
pub struct StoreOutage {
    heard: watch::Receiver<Option<Heard>>,
    queries: Queries,
}

impl StoreOutage {
    /// Listens until shutdown.
    pub async fn start(bus: &Bus, queries: Queries, shutdown: Shutdown) -> Result<Self, fabric::nats::Error> {
        let mut words = bus.subscribe(subjects::STORE).await?;
        let (sender, heard) = watch::channel(None);
        fabric::tasks::spawn("words about the store", async move {
            loop {
                let message = tokio::select! {
                    message = words.next() => message,
                    () = shutdown.wait() => None,
                };
                let Some(message) = message else { break };
                match message.decode::<StoreWord>() {
                    Ok(StoreWord { away_since, by }) => {
                        tracing::debug!(%by, ?away_since, "a word about the store");
                        sender.send_replace(Some(Heard { away_since, at: Instant::now() }));
                    }
                    Err(error) => tracing::debug!(%error, "a word about the store that cannot be read"),
                }
            }
        });
        Ok(Self { heard, queries })
    }

    /// Since when the store is away, if it is.
    pub async fn since(&self) -> Option<Timestamp> {
        let heard = *self.heard.borrow();
        let since = heard?.away_since(Instant::now())?;
        let led = self.queries.engine().await.is_some_and(|told| !told.stale);
        (!led).then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_believed_for_three_seconds_and_a_good_one_says_nothing() {
        let (at, since) = (Instant::now(), Timestamp::from_millis(7));
        let away = Heard { away_since: Some(since), at };
        assert_eq!(away.away_since(at), Some(since));
        assert_eq!(away.away_since(at + Duration::from_millis(2999)), Some(since));
        assert_eq!(away.away_since(at + BELIEVED), None);
        assert_eq!(Heard { away_since: None, at }.away_since(at), None);
    }
}
