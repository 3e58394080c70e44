//! Decides whether a group of a release failed, and where a failed release goes back to (D-5, D-6, D-18).
//!
//! Failure is seen before the deadline where it is plain. What follows from it (hold, roll back, go on) is the group's
//! setting; a rollback goes to the newest revision that ever completed and is itself never rolled back.

use super::numbers::Amount;

/// What is known of a pod at the new revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signs {
    /// Times it was started again.
    pub restarts: i64,
    /// Its image cannot be had, and trying again will not help.
    pub image_is_hopeless: bool,
    /// Times it ended before it was available.
    pub early_exits: i64,
    /// It failed, and its restart policy does not start it again.
    pub stays_failed: bool,
}

/// Restarts after which a pod counts as failed, unless the group says otherwise.
pub const FAIL_FAST_RESTARTS: i64 = 3;

/// A new pod that will not do: its group failed, whatever the deadline says (D-5).
pub fn is_plain(signs: Signs, fail_fast_restarts: i64) -> bool {
    signs.restarts >= fail_fast_restarts || signs.image_is_hopeless || signs.early_exits >= 2 || signs.stays_failed
}

/// More pods are unavailable at the deadline than the group bears (D-18). A percentage is of the pods of the group.
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
