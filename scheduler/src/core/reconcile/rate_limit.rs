//! Limits how often reports lead to plans.
//!
//! Instances report one by one and a plan reads all of them, so 1,000 reports must not lead to 1,000 plans. Every plan adds a
//! debt that decays with time. Without debt a report is planned for immediately; with debt reports wait and share one plan. So
//! one large group is followed closely, and in a cluster that starts everywhere the leader still has most of its time for
//! reports. The debt counts instances and not time spent, so the same inputs lead to the same plans.
//!
//! Example: planning 10,000 instances adds 150 ms of debt. A report right afterwards waits 146 ms, because 4 ms are free.

use std::time::Duration;

use contract::time::Timestamp;

/// What planning one instance counts for; a few times what it takes.
const EACH: Duration = Duration::from_micros(15);
/// A debt up to this is none.
const FREE: Duration = Duration::from_millis(4);
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(in crate::core) struct RateLimit {
    debt: Duration,
    at: Timestamp,
}

impl RateLimit {
    /// A group of this many instances was planned.
    pub(super) fn planned(&mut self, instances: usize, now: Timestamp) {
        self.decay(now);
        let cost = EACH.saturating_mul(u32::try_from(instances).unwrap_or(u32::MAX));
        self.debt = (self.debt + cost).min(FREE + LONGEST);
    }

    /// Until when a report waits; none when the group is planned now.
    pub(super) fn delayed_until(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.decay(now);
        // Times are whole milliseconds: less than one is none.
        let wait = self.debt.saturating_sub(FREE).as_millis();
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(u64::MAX));
        (!wait.is_zero()).then(|| now + wait)
    }

    fn decay(&mut self, now: Timestamp) {
        self.debt = self.debt.saturating_sub(now.since(self.at));
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    #[test]
    fn a_report_after_small_plans_is_planned_immediately() {
        let mut limit = RateLimit::default();
        assert_eq!(limit.delayed_until(NOW), None);
        limit.planned(100, NOW);
        assert_eq!(limit.delayed_until(NOW), None);
    }

    #[test]
    fn a_large_plan_makes_reports_gather_and_time_pays_it_off() {
        let mut limit = RateLimit::default();
        limit.planned(10_000, NOW);
        let until = limit.delayed_until(NOW).expect("a debt");
        assert_eq!(until, NOW + EACH * 10_000 - FREE);
        assert_eq!(limit.delayed_until(NOW + Duration::from_millis(10)), Some(until), "waiting does not put it off");
        assert_eq!(limit.delayed_until(until), None);
    }

    #[test]
    fn the_delay_is_at_most_ten_seconds() {
        let mut limit = RateLimit::default();
        for _ in 0..1_000 {
            limit.planned(1_000_000, NOW);
        }
        assert_eq!(limit.delayed_until(NOW), Some(NOW + LONGEST));
    }
}
