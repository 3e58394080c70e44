//! Detects an etcd outage, so that the apiserver refuses changes instead of queueing them for an unknown time.
//!
//! An outage needs both: a scheduler reported within 3 s that etcd does not answer, and there is no leader. A failover alone
//! is no outage (etcd answers); a scheduler that alone cannot reach etcd is none either (another one leads).

use std::time::Duration;

use contract::store::StoreWord;
use contract::subjects;
use contract::time::Timestamp;
use fabric::nats::Bus;
use fabric::shutdown::Shutdown;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::queries::Queries;

/// Schedulers report every second; two reports may be lost.
const VALID_FOR: Duration = Duration::from_secs(3);

/// The last report of a scheduler about etcd.
#[derive(Debug, Clone, Copy)]
struct LastReport {
    away_since: Option<Timestamp>,
    at: Instant,
}

impl LastReport {
    fn away_since(&self, now: Instant) -> Option<Timestamp> {
        self.away_since.filter(|_| now.saturating_duration_since(self.at) < VALID_FOR)
    }
}

/// Clones share the last report.
#[derive(Debug, Clone)]
pub struct StoreOutage {
    last: watch::Receiver<Option<LastReport>>,
    queries: Queries,
}

impl StoreOutage {
    /// Subscribes to the schedulers' reports until shutdown.
    pub async fn start(bus: &Bus, queries: Queries, shutdown: Shutdown) -> Result<Self, fabric::nats::Error> {
        let mut reports = bus.subscribe(subjects::STORE).await?;
        let (sender, last) = watch::channel(None);
        fabric::tasks::spawn("store reports", async move {
            loop {
                let message = tokio::select! {
                    message = reports.next() => message,
                    () = shutdown.wait() => None,
                };
                let Some(message) = message else { break };
                match message.decode::<StoreWord>() {
                    Ok(StoreWord { away_since, by }) => {
                        tracing::debug!(%by, ?away_since, "store report");
                        sender.send_replace(Some(LastReport { away_since, at: Instant::now() }));
                    }
                    Err(error) => tracing::debug!(%error, "cannot decode a store report"),
                }
            }
        });
        Ok(Self { last, queries })
    }

    /// Start of the current outage.
    pub async fn since(&self) -> Option<Timestamp> {
        let last = *self.last.borrow();
        let since = last?.away_since(Instant::now())?;
        let has_leader = self.queries.engine().await.is_some_and(|switches| !switches.stale);
        (!has_leader).then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_an_outage_is_valid_for_three_seconds() {
        let (at, since) = (Instant::now(), Timestamp::from_millis(7));
        let away = LastReport { away_since: Some(since), at };
        assert_eq!(away.away_since(at), Some(since));
        assert_eq!(away.away_since(at + Duration::from_millis(2999)), Some(since));
        assert_eq!(away.away_since(at + VALID_FOR), None);
        assert_eq!(LastReport { away_since: None, at }.away_since(at), None);
    }
}
