//! Caches the read-only switch.
//!
//! The leader enforces it. This cache covers requests that never reach the leader (HEAD, unknown paths, malformed
//! requests). It caches only "off", for 1 s: "on" is queried each time, so that a user who switched it off is not refused
//! afterwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::queries::Queries;

/// Cache lifetime of "off".
const CACHED_FOR: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct ReadOnlySwitch {
    queries: Queries,
    started: Instant,
    /// Known to be off until then, in milliseconds since `started`.
    off_until: AtomicU64,
}

impl ReadOnlySwitch {
    pub fn new(queries: Queries) -> Self {
        Self { queries, started: Instant::now(), off_until: AtomicU64::new(0) }
    }

    /// True when changes are refused. Without an answer it counts as off: the leader still refuses the change itself.
    pub async fn is_on(&self) -> bool {
        if self.elapsed() < self.off_until.load(Ordering::Relaxed) {
            return false;
        }
        let switches = self.queries.engine().await;
        let is_on = switches.is_some_and(|switches| switches.engine.refuses_changes());
        if !is_on {
            let lifetime = u64::try_from(CACHED_FOR.as_millis()).unwrap_or(0);
            self.off_until.store(self.elapsed() + lifetime, Ordering::Relaxed);
        }
        is_on
    }

    /// Drops the cached value after a change through this process.
    pub fn invalidate(&self) {
        self.off_until.store(0, Ordering::Relaxed);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
