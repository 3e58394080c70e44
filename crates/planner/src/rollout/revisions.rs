//! Decides which number a revision gets, which one a rollback returns to, and which are forgotten (sections 2.9, 2.10).
//!
//! Numbers are only ever raised, also when an old revision is used again. Those that could not be read come in as none and
//! are ignored. The surprise: cleaning up looks at the oldest surplus only; one of them that is still in use is spared and
//! no younger one goes instead.

use super::moment::Moment;

/// The number the new set must carry.
pub fn next_revision(old: &[Option<i64>], new: Option<i64>) -> i64 {
    let highest = old.iter().flatten().copied().max().unwrap_or(0).max(0);
    highest.saturating_add(1).max(new.unwrap_or(0))
}

/// The revision a rollback returns to; none when there is no such revision. Asked for 0, it is the second highest, where
/// another set with the highest number counts as second.
pub fn rollback_target(revisions: &[Option<i64>], asked: i64) -> Option<i64> {
    if asked != 0 {
        return revisions.iter().flatten().copied().find(|revision| *revision == asked);
    }
    let mut sorted: Vec<i64> = revisions.iter().flatten().copied().collect();
    sorted.sort_unstable();
    // A set without a number counts as 0, which is no revision to go to.
    sorted.into_iter().rev().nth(1).filter(|revision| *revision > 0)
}

/// The former numbers of a set that is used again, with one more. The oldest are dropped to stay within `most` characters;
/// what does not fit even alone is not added.
pub fn with_former(history: &str, revision: &str, most: usize) -> String {
    let mut kept = history;
    loop {
        let whole = if kept.is_empty() { revision.to_owned() } else { format!("{kept},{revision}") };
        if whole.chars().count() <= most {
            return whole;
        }
        if kept.is_empty() {
            return history.to_owned();
        }
        kept = kept.split_once(',').map_or("", |(_oldest, younger)| younger);
    }
}

/// A set of an earlier revision, as far as forgetting it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldSet {
    /// Its name.
    pub name: String,
    /// Its number; none counts as 0.
    pub revision: Option<i64>,
    /// When it was made.
    pub created: Moment,
    /// Pods asked for.
    pub spec: i64,
    /// Pods it reports.
    pub actual: i64,
    /// What it reports belongs to what was last asked of it.
    pub is_observed: bool,
    /// It is going away already.
    pub is_deleting: bool,
    /// It is the last revision that completed: what a rollback needs (D-7).
    pub is_proven: bool,
}

/// The old sets to forget, as positions in `old`, the oldest first. No limit, or the largest 32-bit number, keeps all.
pub fn forgotten(old: &[OldSet], limit: Option<i64>) -> Vec<usize> {
    let Some(limit) = limit.filter(|limit| *limit != i64::from(i32::MAX)) else { return Vec::new() };
    let mut candidates: Vec<usize> = (0..old.len()).filter(|&at| !old[at].is_deleting).collect();
    candidates.sort_by_key(|&at| (old[at].revision.unwrap_or(0), old[at].created, &old[at].name));
    let excess = candidates.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let is_unused = |set: &OldSet| set.spec == 0 && set.actual == 0 && set.is_observed && !set.is_proven;
    candidates.into_iter().take(excess).filter(|&at| is_unused(&old[at])).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    const NONE: [usize; 0] = [];

    fn set(revision: i64) -> OldSet {
        OldSet {
            name: format!("r{revision}"),
            revision: Some(revision),
            created: Moment::from_secs(0),
            spec: 0,
            actual: 0,
            is_observed: true,
            is_deleting: false,
            is_proven: false,
        }
    }

    #[test]
    fn a_revision_is_only_ever_raised() {
        assert_eq!(next_revision(&[], None), 1);
        assert_eq!(next_revision(&[Some(3), None], None), 4);
        assert_eq!(next_revision(&[Some(3)], Some(7)), 7);
        assert_eq!(next_revision(&[Some(9)], Some(2)), 10);
        assert_eq!(next_revision(&[Some(i64::MAX)], None), i64::MAX);
    }

    #[test]
    fn the_previous_revision_is_the_second_highest() {
        assert_eq!(rollback_target(&[Some(7), Some(3), None, Some(5)], 0), Some(5));
        assert_eq!(rollback_target(&[Some(3), Some(3), Some(1)], 0), Some(3));
        assert_eq!(rollback_target(&[Some(3)], 0), None);
        assert_eq!(rollback_target(&[Some(3), Some(0)], 0), None);
        assert_eq!(rollback_target(&[Some(1), Some(2)], 1), Some(1));
        assert_eq!(rollback_target(&[Some(1), Some(2)], 3), None);
    }

    #[test]
    fn former_numbers_are_kept_as_far_as_they_fit() {
        assert_eq!(with_former("", "1", 2000), "1");
        assert_eq!(with_former("1,3", "5", 2000), "1,3,5");
        assert_eq!(with_former("1,2,3", "4", 5), "2,3,4");
        assert_eq!(with_former("100,2", "5", 5), "2,5");
        assert_eq!(with_former("1,2", "55555", 5), "55555");
        assert_eq!(with_former("1", "123456", 5), "1");
        assert_eq!(with_former("", "1", 0), "");
    }

    #[test]
    fn the_oldest_surplus_goes_and_what_is_in_use_is_not_replaced() {
        let mut old = vec![set(3), set(1), set(2)];
        assert_eq!(forgotten(&old, Some(1)), [1, 2]);
        old[1].actual = 1;
        assert_eq!(forgotten(&old, Some(1)), [2]);
        assert_eq!(forgotten(&old, Some(2)), NONE);
        old[2].is_proven = true;
        assert_eq!(forgotten(&old, Some(1)), NONE, "the last completed revision stays (D-7)");
        assert_eq!(forgotten(&old, None), NONE);
        assert_eq!(forgotten(&old, Some(i64::from(i32::MAX))), NONE);
    }

    #[test]
    fn a_set_that_is_going_does_not_count_and_one_not_looked_at_is_spared() {
        let going = OldSet { is_deleting: true, ..set(1) };
        assert_eq!(forgotten(&[going, set(2)], Some(1)), NONE);
        let unseen = OldSet { is_observed: false, ..set(1) };
        assert_eq!(forgotten(&[unseen, set(2)], Some(1)), NONE);
    }

    #[test]
    fn age_and_name_decide_between_sets_without_a_number() {
        let plain = |name: &str, created| OldSet {
            name: name.to_owned(),
            revision: None,
            created: Moment::from_secs(created),
            ..set(0)
        };
        assert_eq!(forgotten(&[plain("b", 1), plain("c", 0), plain("a", 1)], Some(1)), [1, 2]);
    }

    property! {
        fn a_history_never_outgrows_its_limit(
            numbers in prop::collection::vec(1..1_000_000i64, 1..30), most in 0..40usize,
        ) {
            let history = numbers.iter().fold(String::new(), |history, n| with_former(&history, &n.to_string(), most));
            prop_assert!(history.len() <= most);
        }

        fn revisions_only_rise(pushes in prop::collection::vec((any::<bool>(), 0..5usize), 1..20)) {
            let mut known: Vec<Option<i64>> = vec![None];
            for (is_reused, which) in pushes {
                let highest = known.iter().flatten().copied().max().unwrap_or(0);
                let reused = if is_reused { known.get(which).copied().flatten() } else { None };
                let old: Vec<Option<i64>> = known.iter().copied().filter(|it| it.is_none() || *it != reused).collect();
                let next = next_revision(&old, reused);
                prop_assert!(next > highest || (reused == Some(highest) && next == highest));
                known = old.into_iter().chain([Some(next)]).collect();
            }
        }

        fn a_rollback_goes_to_a_revision_there_is_below_the_present(
            known in prop::collection::vec(prop::option::of(0..9i64), 0..8), asked in 0..9i64,
        ) {
            let highest = known.iter().flatten().copied().max();
            if let Some(target) = rollback_target(&known, asked) {
                prop_assert!(known.contains(&Some(target)));
                prop_assert!(asked == 0 || target == asked);
                let twice = known.iter().filter(|it| **it == highest).count() > 1;
                prop_assert!(asked != 0 || Some(target) < highest || twice);
            }
        }

        fn forgetting_spares_the_last_completed_revision_and_all_in_use(
            sets in prop::collection::vec((prop::option::of(0..9i64), 0..2i64, 0..2i64, any::<[bool; 2]>()), 0..10),
            limit in 0..6i64, proven in 0..10usize,
        ) {
            let old = |(at, (revision, spec, actual, [is_observed, is_deleting])): (usize, (_, _, _, [bool; 2]))| OldSet {
                name: format!("s{at}"), revision, spec, actual, is_observed, is_deleting, is_proven: at == proven, ..set(0)
            };
            let old: Vec<OldSet> = sets.into_iter().enumerate().map(old).collect();
            let gone = forgotten(&old, Some(limit));
            prop_assert!(!gone.contains(&proven), "D-7");
            prop_assert!(gone.iter().all(|&at| old[at].spec == 0 && old[at].actual == 0 && !old[at].is_deleting));
            let candidates = old.iter().filter(|set| !set.is_deleting).count();
            prop_assert!(gone.len() <= candidates.saturating_sub(usize::try_from(limit).expect("small")));
        }
    }
}
