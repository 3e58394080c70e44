//! What time it is.
//!
//! The wall clock is read once, at start; from then on the monotonic clock counts. An administrator who sets the
//! clock, or a machine that slews it, therefore never makes a wait shorter or a node look silent.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use contract::time::Timestamp;

/// A clock that never jumps.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    wall_at_start: Timestamp,
}

impl Clock {
    /// Reads the wall clock and starts to count.
    pub fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { started: Instant::now(), wall_at_start: Timestamp::from_millis(0) + since_1970 }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.wall_at_start + self.started.elapsed()
    }

    /// How long until `time`; zero when it has passed.
    pub fn until(&self, time: Timestamp) -> Duration {
        time.since(self.now())
    }
}
