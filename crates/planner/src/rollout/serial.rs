//! What deployd does with numbered instances (section 10): the strategy of groups that name none.
//!
//! Instances are numbered from 1 without gaps; a group grows and shrinks at the top. An upgrade goes by number, and only one
//! gate can turn it back: before the second instance, when the first is unhealthy and the former spec is still known.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::moment::Moment;

/// Instances that come and go; empty ranges when none does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaling {
    /// Instances to deploy, from the lowest.
    pub deploy: RangeInclusive<i64>,
    /// Instances to remove, to be taken from the highest.
    pub remove: RangeInclusive<i64>,
}

/// The instances that come or go with another number of them.
pub fn scaling(current: i64, wanted: i64) -> Scaling {
    let (current, wanted) = (current.max(0), wanted.max(0));
    Scaling { deploy: current.saturating_add(1)..=wanted, remove: wanted.saturating_add(1)..=current }
}

/// One step of a serial upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This instance gets the new spec.
    Upgrade(i64),
    /// This instance gets the former spec again, and the upgrade ends.
    Rollback(i64),
}

/// The steps of an upgrade. A later instance that is unhealthy does not stop it.
pub fn upgrade(instances: i64, first_healthy: bool, former_known: bool) -> impl Iterator<Item = Step> {
    let turns_back = instances >= 2 && !first_healthy && former_known;
    let last = if turns_back { 1 } else { instances };
    (1..=last).map(Step::Upgrade).chain(turns_back.then_some(Step::Rollback(1)))
}

/// Is a dependency pod collected? Only when both the last sign that it is needed and the start of who listens for such
/// signs are longer ago than this.
pub fn is_collected(now: Moment, verified: Moment, started: Moment, after: Duration) -> bool {
    verified.after(after) < now && started.after(after) < now
}

/// An instance that may be asked to leave its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance<'a> {
    /// Where it is; empty when it is nowhere.
    pub node: &'a str,
    /// Its data is there.
    pub is_stateful: bool,
    /// It has no place yet.
    pub is_pending: bool,
}

/// A request to leave a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drift<'a> {
    /// The node to leave.
    pub from: &'a str,
    /// Where to go; any other node when none is named.
    pub to: Option<&'a str>,
    /// Also for what has its data there.
    pub is_forced: bool,
}

/// Does the instance leave?
pub fn leaves(instance: Instance<'_>, drift: Drift<'_>) -> bool {
    !instance.is_pending
        && !instance.node.is_empty()
        && instance.node == drift.from
        && drift.to != Some(instance.node)
        && (!instance.is_stateful || drift.is_forced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_grows_and_shrinks_at_the_top() {
        let numbers = |current, wanted| {
            let Scaling { deploy, remove } = scaling(current, wanted);
            (deploy.collect::<Vec<_>>(), remove.rev().collect::<Vec<_>>())
        };
        assert_eq!(numbers(2, 4), (vec![3, 4], vec![]));
        assert_eq!(numbers(4, 2), (vec![], vec![4, 3]));
        assert_eq!(numbers(2, 0), (vec![], vec![2, 1]));
        assert_eq!(numbers(3, 3), (vec![], vec![]));
        assert_eq!(numbers(-1, 1), (vec![1], vec![]));
    }

    #[test]
    fn only_the_first_instance_can_turn_an_upgrade_back() {
        let steps = |instances, healthy, known| upgrade(instances, healthy, known).collect::<Vec<_>>();
        let all = [Step::Upgrade(1), Step::Upgrade(2), Step::Upgrade(3)];
        assert_eq!(steps(3, true, true), all);
        assert_eq!(steps(3, false, false), all);
        assert_eq!(steps(3, false, true), [Step::Upgrade(1), Step::Rollback(1)]);
        assert_eq!(steps(1, false, true), [Step::Upgrade(1)], "nobody looks after the only one");
        assert_eq!(steps(0, false, true), []);
    }

    #[test]
    fn a_dependency_pod_is_collected_when_both_clocks_have_run_out() {
        let at = Moment::from_secs;
        let collected =
            |verified, started| is_collected(at(1_000), at(verified), at(started), Duration::from_secs(300));
        assert!(collected(699, 699));
        assert!(!collected(700, 0));
        assert!(!collected(0, 700));
    }

    #[test]
    fn an_instance_leaves_only_the_node_that_is_named() {
        let here = Instance { node: "a", is_stateful: false, is_pending: false };
        let away = Drift { from: "a", to: None, is_forced: false };
        assert!(leaves(here, away));
        assert!(leaves(here, Drift { to: Some("b"), ..away }));
        assert!(!leaves(here, Drift { to: Some("a"), is_forced: true, ..away }));
        assert!(!leaves(Instance { node: "c", ..here }, away));
        assert!(!leaves(Instance { is_pending: true, ..here }, away));
        assert!(!leaves(Instance { node: "", ..here }, Drift { from: "", ..away }));
        let stateful = Instance { is_stateful: true, ..here };
        assert!(!leaves(stateful, away));
        assert!(leaves(stateful, Drift { is_forced: true, ..away }));
    }
}
