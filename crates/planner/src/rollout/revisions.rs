//! Decides which old revisions the history forgets.
//!
//! Only the oldest surplus is considered. With a limit of 2 and old revisions 1 to 4, revisions 1 and 2 are candidates; when
//! revision 1 still has pods it stays, and revision 3 does not go in its place.

/// A revision that is not the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldRevision {
    /// Pods ordered or running at this revision.
    pub pods: i64,
    /// The last revision that completed: an automatic rollback needs it.
    pub is_last_completed: bool,
}

/// Positions in `oldest_first` of the revisions to forget; at most `limit` candidates stay.
pub fn forgotten(oldest_first: &[OldRevision], limit: i64) -> Vec<usize> {
    let surplus = oldest_first.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let is_unused = |at: &usize| oldest_first[*at].pods == 0 && !oldest_first[*at].is_last_completed;
    (0..surplus).filter(is_unused).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    const NONE: [usize; 0] = [];
    const UNUSED: OldRevision = OldRevision { pods: 0, is_last_completed: false };

    #[test]
    fn the_oldest_surplus_goes_and_a_revision_in_use_is_not_replaced() {
        let mut old = [UNUSED; 3];
        assert_eq!(forgotten(&old, 1), [0, 1]);
        old[0].pods = 1;
        assert_eq!(forgotten(&old, 1), [1]);
        assert_eq!(forgotten(&old, 2), NONE);
        old[1].is_last_completed = true;
        assert_eq!(forgotten(&old, 1), NONE, "the last completed revision stays (R-7)");
        assert_eq!(forgotten(&old, i64::MAX), NONE);
        assert_eq!(forgotten(&[UNUSED], -1), [0], "a negative limit keeps none");
    }

    property! {
        fn forgetting_spares_the_last_completed_revision_and_all_in_use(
            pods in prop::collection::vec(0..2i64, 0..10), limit in 0..6i64, completed in 0..10usize,
        ) {
            let revision = |(at, pods)| OldRevision { pods, is_last_completed: at == completed };
            let old: Vec<OldRevision> = pods.into_iter().enumerate().map(revision).collect();
            let gone = forgotten(&old, limit);
            prop_assert!(!gone.contains(&completed), "R-7");
            prop_assert!(gone.iter().all(|&at| old[at].pods == 0));
            let surplus = old.len().saturating_sub(usize::try_from(limit).expect("small"));
            prop_assert!(gone.len() <= surplus && gone.iter().all(|&at| at < surplus));
        }
    }
}
