//! What time it is.
//!
//! The wall clock is read once, at start; from then on a clock counts that is never set ([`crate::boot`]). An administrator
//! who sets the clock, or a machine that slews it, therefore never makes a wait shorter or a node look silent. The time
//! that the machine is suspended counts, as it does for all other machines.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::time::Timestamp;

/// A clock that is never set.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Reads the time since a fixed moment.
    counter: fn() -> Duration,
    started: Duration,
    wall_at_start: Timestamp,
}

impl Clock {
    /// Reads the wall clock and starts to count.
    pub fn start() -> Self {
        Self::counting(crate::boot::time)
    }

    fn counting(counter: fn() -> Duration) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { counter, started: counter(), wall_at_start: Timestamp::from_millis(0) + since_1970 }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.wall_at_start + (self.counter)().saturating_sub(self.started)
    }

    /// How long until `time`; zero when it has passed.
    pub fn until(&self, time: Timestamp) -> Duration {
        time.since(self.now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_time_that_a_machine_is_suspended_counts() {
        static SUSPENDED: AtomicU64 = AtomicU64::new(0);
        let clock = Clock::counting(|| crate::boot::time() + Duration::from_secs(SUSPENDED.load(Ordering::Relaxed)));
        let before = clock.now();
        SUSPENDED.store(3600, Ordering::Relaxed);
        assert_eq!(clock.now().since(before).as_secs() / 60, 60);
        assert_eq!(clock.until(before + Duration::from_secs(1800)), Duration::ZERO);
    }
}
