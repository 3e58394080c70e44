//! Decides when the notifier retries a notice, and when it gives up.
//!
//! The number of attempts is the only state, and the bus counts it. The hash of the notice gives the jitter: the same notice
//! always waits the same time, and a thousand simultaneous notices do not retry simultaneously.

use std::time::Duration;

/// Waits between attempts; the first attempt is immediate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    delays: Vec<Duration>,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    RetryIn(Duration),
    GiveUp,
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

impl Default for Schedule {
    /// Seven attempts over 17.6 hours, so a receiver that is down for a night still gets the notice.
    fn default() -> Self {
        let seconds = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR];
        Self { delays: seconds.map(Duration::from_secs).to_vec() }
    }
}

impl Schedule {
    pub fn new(delays: Vec<Duration>) -> Self {
        Self { delays }
    }

    /// What follows when attempt `attempt` (the first is 1) of the notice with hash `key` failed.
    pub fn after_failure(&self, attempt: u64, key: u64) -> AfterFailure {
        let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        match self.delays.get(index) {
            Some(delay) => AfterFailure::RetryIn(jittered(*delay, key)),
            None => AfterFailure::GiveUp,
        }
    }
}

/// `delay`, longer by 0 to 20 % of it, by `key`.
pub fn jittered(delay: Duration, key: u64) -> Duration {
    // Integer arithmetic in thousandths gives the same result on every machine.
    let extra = u32::try_from(key % 201).unwrap_or(0);
    delay + delay / 1000 * extra
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notifier_gives_up_after_the_last_delay() {
        let schedule = Schedule::default();
        let waits: Vec<_> = (1..=7).map(|attempt| schedule.after_failure(attempt, 0)).collect();
        let again = |seconds| AfterFailure::RetryIn(Duration::from_secs(seconds));
        assert_eq!(
            waits,
            [again(5), again(300), again(1800), again(7200), again(18_000), again(36_000), AfterFailure::GiveUp]
        );
    }

    #[test]
    fn impossible_attempt_numbers_are_handled() {
        let schedule = Schedule::default();
        assert_eq!(schedule.after_failure(0, 0), AfterFailure::RetryIn(Duration::from_secs(5)));
        assert_eq!(schedule.after_failure(u64::MAX, 0), AfterFailure::GiveUp);
        assert_eq!(Schedule::new(Vec::new()).after_failure(1, 0), AfterFailure::GiveUp);
    }

    #[test]
    fn jitter_is_at_most_a_fifth_and_the_same_for_the_same_key() {
        let delay = Duration::from_secs(100);
        let waits: Vec<_> = (0..1000).map(|key| jittered(delay, key)).collect();
        assert!(waits.iter().all(|wait| (delay..=delay + delay / 5).contains(wait)));
        assert!(waits.iter().any(|wait| *wait > delay + delay / 10), "it does spread");
        assert_eq!(jittered(delay, 77), jittered(delay, 77));
    }
}
