//! Time since the machine was booted, including suspended time.
//!
//! `std::time::Instant` stops while a machine is suspended, but etcd's leases do not: a leader that resumes and counts
//! by `Instant` would believe that it still leads.

use std::time::Duration;

pub fn time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
