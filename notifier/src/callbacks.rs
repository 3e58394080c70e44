//! Caches which callbacks are registered; the leader knows.
//!
//! A notice may wait hours for its next attempt, and a user may remove its callback meanwhile. The notifier drops a notice
//! only when the leader answers and does not name the callback; without an answer it posts the notice.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::query::{Answer, Query, Reply};
use contract::subjects;
use fabric::nats::Bus;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Cache lifetime, also of a missing answer: one query serves many notices.
const FRESH: Duration = Duration::from_secs(5);
/// The leader answers from memory; silence for this long means there is no leader.
const DEADLINE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Callbacks {
    bus: Bus,
    known: Mutex<CachedUrls>,
}

#[derive(Debug, Default)]
struct CachedUrls {
    asked_at: Option<Instant>,
    /// None when the leader did not answer.
    urls: Option<BTreeSet<String>>,
}

impl Callbacks {
    pub fn new(bus: Bus) -> Self {
        Self { bus, known: Mutex::default() }
    }

    /// False only when the leader answered and does not know the callback.
    pub async fn may_have(&self, callback: &str) -> bool {
        let mut known = self.known.lock().await;
        let is_fresh = known.asked_at.is_some_and(|at| at.elapsed() < FRESH);
        // A callback that the last answer does not name may have been registered since.
        if !(is_fresh && known.allows(callback)) {
            *known = CachedUrls { urls: self.ask().await, asked_at: Some(Instant::now()) };
        }
        known.allows(callback)
    }

    async fn ask(&self) -> Option<BTreeSet<String>> {
        match self.bus.request(subjects::QUERY_LEADER, &Query::Callbacks, DEADLINE).await {
            Ok(Reply { stale: false, answer: Answer::Callbacks(urls), .. }) => Some(urls.into_iter().collect()),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, "could not query the callbacks");
                None
            }
        }
    }
}

impl CachedUrls {
    fn allows(&self, callback: &str) -> bool {
        self.urls.as_ref().is_none_or(|urls| urls.contains(callback))
    }
}
