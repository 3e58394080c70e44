//! The current time.
//!
//! The wall clock is read once, at start; then a clock counts that cannot be set ([`crate::boot`]). Setting or slewing
//! the wall clock therefore never shortens a wait or makes a node look lost. Suspended time counts, as it does on all
//! other machines.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::time::Timestamp;

/// A clock that cannot be set.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Time since a fixed moment.
    counter: fn() -> Duration,
    started: Duration,
    wall_at_start: Timestamp,
}

impl Clock {
    pub fn start() -> Self {
        Self::counting(crate::boot::time)
    }

    fn counting(counter: fn() -> Duration) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { counter, started: counter(), wall_at_start: Timestamp::from_millis(0) + since_1970 }
    }

    pub fn now(&self) -> Timestamp {
        self.wall_at_start + (self.counter)().saturating_sub(self.started)
    }

    /// Time until `time`; zero when it has passed.
    pub fn until(&self, time: Timestamp) -> Duration {
        time.since(self.now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn suspended_time_counts() {
        static SUSPENDED: AtomicU64 = AtomicU64::new(0);
        let clock = Clock::counting(|| crate::boot::time() + Duration::from_secs(SUSPENDED.load(Ordering::Relaxed)));
        let before = clock.now();
        SUSPENDED.store(3600, Ordering::Relaxed);
        assert_eq!(clock.now().since(before).as_secs() / 60, 60);
        assert_eq!(clock.until(before + Duration::from_secs(1800)), Duration::ZERO);
    }
}
