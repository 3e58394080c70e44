//! Back-off with jitter: agents that lost the same server must not reconnect in the same millisecond.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

pub use contract::backoff::exponential;

/// The wait before retry `attempt`, from 1: [`exponential`] from `least` up to `most`, shortened by a random part of up
/// to half. With 100 ms and 2 s, retry 3 waits 200 to 400 ms.
pub fn delay(attempt: usize, least: Duration, most: Duration) -> Duration {
    exponential(least, attempt, most).mul_f64(0.5 + random_share() / 2.0)
}

/// A random number from 0 to 1, from the random keys of `RandomState`: enough for jitter, without another crate.
fn random_share() -> f64 {
    let bits = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or(0);
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_grows_to_its_limit_and_never_beyond() {
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(2));
        for attempt in 1..50 {
            let wait = delay(attempt, least, most);
            assert!(wait >= Duration::from_millis(50) && wait <= most, "attempt {attempt}: {wait:?}");
        }
        assert!(delay(40, least, most) >= Duration::from_secs(1));
    }

    #[test]
    fn two_processes_wait_for_different_times() {
        let waits: std::collections::BTreeSet<Duration> =
            (0..20).map(|_| delay(5, Duration::from_millis(100), Duration::from_secs(10))).collect();
        assert!(waits.len() > 10);
    }
}
