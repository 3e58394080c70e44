//! Exponential back-off, for every retry in deployd.

use std::time::Duration;

/// The wait before retry `n`, from 1: doubles from `first` up to `max`. With 1 s and 10 s: 1, 2, 4, 8, 10, 10 s.
pub fn exponential(first: Duration, n: usize, max: Duration) -> Duration {
    let doublings = u32::try_from(n.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(2_u32.saturating_pow(doublings)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_limit() {
        let waits = [0, 1, 2, 3, 4, 5, 6, 40, usize::MAX]
            .map(|n| exponential(Duration::from_secs(1), n, Duration::from_secs(10)).as_secs());
        assert_eq!(waits, [1, 1, 2, 4, 8, 10, 10, 10, 10]);
    }
}
