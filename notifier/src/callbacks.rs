//! Knows which callbacks are registered, by asking the leader.
//!
//! A notice may wait for its next attempt for hours, and its callback may be removed meanwhile. Only an answer of the leader
//! that does not name the callback drops a notice; without an answer the notice is posted.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::query::{Answer, Query, Reply};
use contract::subjects;
use fabric::nats::Bus;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// An answer, or that there is none, is good for this long: one question for many notices.
const FRESH: Duration = Duration::from_secs(5);
/// The leader answers from memory; without an answer in this time there is no leader.
const DEADLINE: Duration = Duration::from_secs(1);

/// The registered callbacks.
#[derive(Debug)]
pub struct Callbacks {
    bus: Bus,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    asked_at: Option<Instant>,
    /// None when the leader did not answer.
    urls: Option<BTreeSet<String>>,
}

impl Callbacks {
    /// Asks over `bus`.
    pub fn new(bus: Bus) -> Self {
        Self { bus, known: Mutex::default() }
    }

    /// False only when the leader says that there is no such callback.
    pub async fn may_have(&self, callback: &str) -> bool {
        let mut known = self.known.lock().await;
        let is_fresh = known.asked_at.is_some_and(|at| at.elapsed() < FRESH);
        // A callback that the last answer does not name may have been registered since.
        if !(is_fresh && known.allows(callback)) {
            *known = Known { urls: self.ask().await, asked_at: Some(Instant::now()) };
        }
        known.allows(callback)
    }

    async fn ask(&self) -> Option<BTreeSet<String>> {
        match self.bus.request(subjects::QUERY_LEADER, &Query::Callbacks, DEADLINE).await {
            Ok(Reply { stale: false, answer: Answer::Callbacks(urls), .. }) => Some(urls.into_iter().collect()),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, "the leader does not name the callbacks");
                None
            }
        }
    }
}

impl Known {
    fn allows(&self, callback: &str) -> bool {
        self.urls.as_ref().is_none_or(|urls| urls.contains(callback))
    }
}
