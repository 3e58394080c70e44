//! How long to wait before trying again.
//!
//! Always with jitter: a hundred agents that lost the same server must not come back in the same millisecond.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// The wait before attempt `attempt` (the first retry is 1): doubles from `least` up to `most`, of which a random
/// half is taken away.
pub fn delay(attempt: usize, least: Duration, most: Duration) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(20);
    let full = least.saturating_mul(2_u32.saturating_pow(doublings)).min(most);
    full.mul_f64(0.5 + random_share() / 2.0)
}

/// A number from 0 to 1. The keys of `RandomState` are the standard library's own randomness: good enough to
/// spread retries, and one crate less.
fn random_share() -> f64 {
    let bits = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or(0);
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_grows_to_its_bound_and_never_beyond() {
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(2));
        for attempt in 1..50 {
            let wait = delay(attempt, least, most);
            assert!(wait >= Duration::from_millis(50) && wait <= most, "attempt {attempt}: {wait:?}");
        }
        assert!(delay(40, least, most) >= Duration::from_secs(1));
    }

    #[test]
    fn two_processes_do_not_wait_equally_long() {
        let waits: std::collections::BTreeSet<Duration> =
            (0..20).map(|_| delay(5, Duration::from_millis(100), Duration::from_secs(10))).collect();
        assert!(waits.len() > 10);
    }
}
