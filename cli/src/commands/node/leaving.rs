//! Decides which instances have not left a node, and says why. Pure.

use contract::node_view::{NodeStatus, PodOnNode};

use crate::output::table::cut;

/// Longest reason of one instance, in characters.
const LONGEST_REASON: usize = 160;
/// Instances named in one sentence.
const MOST_NAMED: usize = 5;

/// Instances that have not left a node.
#[derive(Debug)]
pub(crate) struct Left<'a> {
    /// Bound to their data, and not forced.
    pub(crate) bound: Vec<&'a PodOnNode>,
    /// On their way, or waiting for a place.
    pub(crate) moving: Vec<&'a PodOnNode>,
}

/// The pods of the node that `is_asked` addresses.
pub(crate) fn left(status: &NodeStatus, force: bool, is_asked: impl Fn(&PodOnNode) -> bool) -> Left<'_> {
    let asked = status.pods.iter().filter(|pod| is_asked(pod));
    let (bound, moving) = asked.partition(|pod| pod.bound && !pod.leaving && !force);
    Left { bound, moving }
}

/// Why a node may have more pods than its status shows: the leader knows only what the node has reported to it.
pub(crate) fn unheard(status: &NodeStatus) -> Option<String> {
    let name = &status.node.name;
    let text = || {
        format!(
            "{name} has not been heard since the leader was elected, so what runs there is not known; if the machine is gone, \
             `deployctl node remove {name}` forgets it"
        )
    };
    (!status.heard_at.happened()).then(text)
}

/// The pods, each with its reason.
pub(crate) fn names(pods: &[&PodOnNode]) -> String {
    let name = |pod: &&PodOnNode| match pod.why.as_str() {
        "" => pod.name.clone(),
        why => format!("{} ({})", pod.name, cut(why, LONGEST_REASON)),
    };
    let named: Vec<String> = pods.iter().take(MOST_NAMED).map(name).collect();
    let more = pods.len().saturating_sub(MOST_NAMED);
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_instances_are_distinguished_from_those_on_their_way() {
        let pod =
            |name: &str, bound, leaving| PodOnNode { name: name.to_owned(), bound, leaving, ..PodOnNode::default() };
        let pods = vec![pod("a", false, false), pod("b", true, false), pod("c", true, true), pod("d", false, true)];
        let status = NodeStatus { pods, ..NodeStatus::default() };
        let found = left(&status, false, |_| true);
        assert_eq!((names(&found.bound), names(&found.moving)), ("b".to_owned(), "a, c, d".to_owned()));
        assert!(left(&status, true, |_| true).bound.is_empty());
        assert_eq!(names(&left(&status, false, |pod| pod.name == "d").moving), "d");
    }

    #[test]
    fn many_names_are_cut_short_and_reasons_are_named() {
        let pod = |number: usize| PodOnNode { name: format!("p{number}"), ..PodOnNode::default() };
        let many: Vec<PodOnNode> = (1..=7).map(pod).collect();
        assert_eq!(names(&many.iter().collect::<Vec<_>>()), "p1, p2, p3, p4, p5 and 2 more");
        let stuck = PodOnNode { why: "no node fits".to_owned(), ..pod(1) };
        assert_eq!(names(&[&stuck]), "p1 (no node fits)");
    }
}
