//! Decides by its fence whether an agent accepts an order.
//!
//! Fences compare the term first, so everything a deposed leader still sends is lower than the first order of its successor.
//! An equal fence with the same content is a repeated message; with other content it is a bug.

use contract::fence::Fence;
use contract::progress::Progress;
use contract::store::Stores;

/// How an incoming order compares with the order in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceCheck {
    /// Newer: the agent writes it to the ledger and obeys it.
    Accept,
    /// The order in force: the agent acknowledges it again.
    Repeat,
    /// Older: a newer leader or generation has replaced it.
    Stale,
    /// The same fence with other content: a bug of the sender.
    Conflict,
}

/// Compares the fence `incoming` with the fence `have` of the order in force; `same_content` matters only for equal fences.
pub fn check(have: Fence, incoming: Fence, same_content: bool) -> FenceCheck {
    match incoming.cmp(&have) {
        std::cmp::Ordering::Greater => FenceCheck::Accept,
        std::cmp::Ordering::Less => FenceCheck::Stale,
        std::cmp::Ordering::Equal if same_content => FenceCheck::Repeat,
        std::cmp::Ordering::Equal => FenceCheck::Conflict,
    }
}

/// Whether an order comes from another store than the order in force: terms of two stores cannot be compared. An order
/// without a store name comes from an older release and never counts as foreign.
pub fn is_foreign(ours: &Stores, theirs: &Stores) -> bool {
    !ours.is_empty() && !theirs.is_empty() && ours.is_disjoint(theirs)
}

/// Whether an order comes from an earlier state of the store than the order in force. Older schedulers do not name the
/// commits.
pub fn is_behind(ours: &Progress, theirs: &Progress) -> bool {
    !theirs.is_unknown() && !theirs.covers(ours)
}

#[cfg(test)]
mod tests {
    use contract::fence::Term;

    use super::*;

    fn fence(term: u64, generation: u64) -> Fence {
        Fence { term: Term(term), generation }
    }

    #[test]
    fn a_higher_term_wins_over_any_generation() {
        assert_eq!(check(fence(5, 900), fence(6, 1), false), FenceCheck::Accept);
        assert_eq!(check(fence(6, 1), fence(5, 901), false), FenceCheck::Stale);
        assert_eq!(check(fence(6, 1), fence(5, 901), true), FenceCheck::Stale);
    }

    #[test]
    fn within_a_term_the_generation_decides() {
        assert_eq!(check(fence(5, 1), fence(5, 2), false), FenceCheck::Accept);
        assert_eq!(check(fence(5, 2), fence(5, 1), false), FenceCheck::Stale);
    }

    #[test]
    fn the_same_fence_is_a_repeat_or_a_bug() {
        assert_eq!(check(fence(5, 2), fence(5, 2), true), FenceCheck::Repeat);
        assert_eq!(check(fence(5, 2), fence(5, 2), false), FenceCheck::Conflict);
    }

    #[test]
    fn a_foreign_store_is_recognised_by_name_and_a_restored_store_has_both_names() {
        let stores = |names: &[&str]| -> Stores { names.iter().map(|&name| name.to_owned()).collect() };
        assert!(is_foreign(&stores(&["a"]), &stores(&["b"])));
        assert!(!is_foreign(&stores(&["a"]), &stores(&["a", "b"])));
        assert!(!is_foreign(&stores(&["a", "b"]), &stores(&["b"])));
        assert!(!is_foreign(&stores(&[]), &stores(&["b"])) && !is_foreign(&stores(&["a"]), &stores(&[])));
    }

    #[test]
    fn the_first_order_ever_is_accepted() {
        assert_eq!(check(Fence::default(), fence(1, 1), false), FenceCheck::Accept);
    }
}
