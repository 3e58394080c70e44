//! Decides whether a batch of a rollout failed.
//!
//! Some pods fail visibly before the progress deadline. The reaction (hold, roll back, continue) is a setting of the group.

use super::numbers::Amount;

/// Signs of failure of a pod at the target revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signs {
    pub restarts: i64,
    /// The image cannot be pulled, and a retry will not help.
    pub image_is_hopeless: bool,
    /// Exits before it was available.
    pub early_exits: i64,
    /// It failed, and its restart policy does not restart it.
    pub stays_failed: bool,
}

/// Default of `FailFastRestarts`.
pub const FAIL_FAST_RESTARTS: i64 = 3;

/// The pod failed visibly: the rollout does not wait for the progress deadline.
pub fn is_plain(signs: Signs, fail_fast_restarts: i64) -> bool {
    signs.restarts >= fail_fast_restarts || signs.image_is_hopeless || signs.early_exits >= 2 || signs.stays_failed
}

/// More pods are unavailable at the deadline than the failure threshold allows. A threshold of 25% of 4 pods allows 1.
pub fn is_above_threshold(unavailable: i64, pods: i64, threshold: Amount) -> bool {
    unavailable > threshold.rounded_down(pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_will_not_do_is_recognised_before_the_deadline() {
        let failed = |signs| is_plain(signs, FAIL_FAST_RESTARTS);
        assert!(!failed(Signs { restarts: 2, early_exits: 1, ..Signs::default() }));
        assert!(failed(Signs { stays_failed: true, ..Signs::default() }));
        assert!(failed(Signs { restarts: 3, ..Signs::default() }));
        assert!(failed(Signs { image_is_hopeless: true, ..Signs::default() }));
        assert!(failed(Signs { early_exits: 2, ..Signs::default() }));
    }

    #[test]
    fn by_default_no_pod_may_be_missing_at_the_deadline() {
        assert!(!is_above_threshold(0, 4, Amount::Count(0)));
        assert!(is_above_threshold(1, 4, Amount::Count(0)));
        assert!(!is_above_threshold(1, 4, Amount::Percent(25)));
        assert!(is_above_threshold(2, 4, Amount::Percent(25)));
    }
}
