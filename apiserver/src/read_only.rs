//! Whether changes are refused at the door: the read-only switch.
//!
//! The leader is the judge: it refuses changes itself, so nothing slips through here. This gate answers for what never
//! reaches the leader (HEAD, unknown paths, malformed requests), and asks at most once in a while. The surprise: only
//! "open" is remembered. A closed gate is asked again each time, so that whoever opened it is not refused afterwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::queries::Queries;

/// An open gate is believed for so long.
const BELIEVED: Duration = Duration::from_secs(1);

/// The door to all changes.
#[derive(Debug)]
pub struct ReadOnlySwitch {
    queries: Queries,
    started: Instant,
    /// Open until then, in milliseconds since `started`.
    open_until: AtomicU64,
}

impl ReadOnlySwitch {
    /// A gate that asks over `queries`.
    pub fn new(queries: Queries) -> Self {
        Self { queries, started: Instant::now(), open_until: AtomicU64::new(0) }
    }

    /// True when changes are refused. When nobody can tell, it is open: a change still meets the leader's own refusal.
    pub async fn is_closed(&self) -> bool {
        if self.elapsed() < self.open_until.load(Ordering::Relaxed) {
            return false;
        }
        let told = self.queries.engine().await;
        let closed = told.is_some_and(|told| told.engine.refuses_changes());
        if !closed {
            let believed = u64::try_from(BELIEVED.as_millis()).unwrap_or(0);
            self.open_until.store(self.elapsed() + believed, Ordering::Relaxed);
        }
        closed
    }

    /// The configuration was changed through this process: what was believed may be wrong.
    pub fn doubt(&self) {
        self.open_until.store(0, Ordering::Relaxed);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
