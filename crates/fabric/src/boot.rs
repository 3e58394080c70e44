//! Time since the machine was started, including the time it was suspended.
//!
//! `std::time::Instant` stands still while a machine is suspended, but etcd's leases do not: a resumed leader that counts by it
//! believes that it still leads.

use std::time::Duration;

/// Reads the time since the machine was started.
pub fn time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
