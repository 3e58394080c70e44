//! Caches which callbacks are registered; the leader knows.
//!
//! A notice may wait hours for its next attempt, and a user may remove its callback meanwhile. The notifier drops a notice
//! only when the leader answers and does not name the callback; without an answer it posts the notice.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::notice::Notice;
use contract::query::{Answer, Query, Reply};
use contract::subjects;
use fabric::nats::{Bus, RequestError};
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
    answer: Option<Registered>,
}

#[derive(Debug)]
struct Registered {
    urls: BTreeSet<String>,
    /// Those that may have internal addresses; none from a scheduler that does not say it.
    former: Option<BTreeSet<String>>,
}

impl Callbacks {
    pub fn new(bus: Bus) -> Self {
        Self { bus, known: Mutex::default() }
    }

    /// Whether this callback may have an internal address, as far as the leader knows now: access may have been enforced since
    /// the notice was made. None only when the leader answered and does not know the callback.
    pub async fn is_former(&self, notice: &Notice) -> Option<bool> {
        let mut known = self.known.lock().await;
        let is_fresh = known.asked_at.is_some_and(|at| at.elapsed() < FRESH);
        // A callback that the last answer does not name may have been registered since.
        if !(is_fresh && known.is_former(notice).is_some()) {
            *known = CachedUrls { answer: self.ask().await, asked_at: Some(Instant::now()) };
        }
        known.is_former(notice)
    }

    /// Accounts that an older `deployctl bus-keys` wrote, and older schedulers, know the subject of all queries only.
    async fn ask(&self) -> Option<Registered> {
        let ask = |subject| self.bus.request(subject, &Query::Callbacks, DEADLINE);
        let reply = match ask(subjects::QUERY_CALLBACKS).await {
            Err(RequestError::NotPermitted { .. } | RequestError::NoResponders { .. }) => {
                ask(subjects::QUERY_LEADER).await
            }
            reply => reply,
        };
        match reply {
            Ok(Reply { stale: false, answer: Answer::Callbacks(urls), former_callbacks: former, .. }) => {
                Some(Registered { urls: urls.into_iter().collect(), former })
            }
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, "could not query the callbacks");
                None
            }
        }
    }
}

impl CachedUrls {
    fn is_former(&self, notice: &Notice) -> Option<bool> {
        let Some(Registered { urls, former }) = &self.answer else { return Some(notice.is_former) };
        let is_still_former = former.as_ref().is_none_or(|former| former.contains(&notice.callback));
        urls.contains(&notice.callback).then_some(notice.is_former && is_still_former)
    }
}
