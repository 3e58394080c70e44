//! Checks whether the cluster has room for a group with another pod size.
//!
//! The scheduler asks before it accepts a spec patch. Only memory and CPU count; filters and concurrent changes show at the
//! placement. The resources of the group's present instances count as free, because each instance frees them before it takes
//! the new ones. Example: nodes with 100 and 65 MiB free hold 3 + 2 instances of 30 MiB. An unusable node contributes
//! nothing, a cordoned one only what the group uses there.

use std::collections::BTreeMap;

use contract::name::NodeName;
use contract::query::Liveness;
use contract::report::EngineState;

use crate::placement::{Candidate, Need};

/// Whether `instances` of `need` fit once the group's present instances, given by node and size, are gone.
pub fn fits<'a>(
    nodes: &BTreeMap<NodeName, Candidate>,
    present: impl IntoIterator<Item = (&'a NodeName, Need)>,
    need: Need,
    instances: u64,
) -> bool {
    let mut given_back: BTreeMap<&NodeName, Need> = BTreeMap::new();
    for (node, need) in present {
        let sum = given_back.entry(node).or_default();
        *sum = sum.plus(need);
    }
    let room = |(name, candidate): (&NodeName, &Candidate)| {
        let back = given_back.get(name).copied().unwrap_or_default();
        let whole = if candidate.cordon.is_some() { candidate.used } else { candidate.room() };
        times_on(candidate, whole.minus(candidate.used.minus(back)), need)
    };
    !nodes.is_empty() && nodes.iter().map(room).fold(0, u64::saturating_add) >= instances
}

/// How many pods of a size fit on a node besides those that it has; a cordoned node takes none.
pub(crate) fn room_on(candidate: &Candidate, need: Need) -> u64 {
    let is_open = candidate.cordon.is_none();
    if is_open { times_on(candidate, candidate.room().minus(candidate.used), need) } else { 0 }
}

/// How often a size fits into the free resources of a node; a size of zero fits any number of times.
fn times_on(candidate: &Candidate, free: Need, need: Need) -> u64 {
    if candidate.liveness != Liveness::Alive || candidate.engine != EngineState::Up {
        return 0;
    }
    let times = |free: u64, need: u64| free.checked_div(need).unwrap_or(u64::MAX);
    times(free.memory, need.memory).min(times(free.cpu_millis, need.cpu_millis))
}

#[cfg(test)]
mod tests {
    use contract::report::NodeFacts;

    use super::*;

    fn need(memory: u64, cpu_millis: u64) -> Need {
        Need { memory, cpu_millis }
    }
    fn nodes(used: &[Need]) -> BTreeMap<NodeName, Candidate> {
        let facts = NodeFacts { memory: 100, cpu_millis: 1_000, ..Default::default() };
        let candidate = |used: &Need| Candidate { used: *used, ..Candidate::alive(facts.clone()) };
        used.iter().enumerate().map(|(index, used)| (name(index), candidate(used))).collect()
    }
    fn name(index: usize) -> NodeName {
        format!("n{index}").parse().expect("a name")
    }
    fn most(nodes: &BTreeMap<NodeName, Candidate>, present: &[(NodeName, Need)], need: Need) -> Option<u64> {
        let present = || present.iter().map(|(node, need)| (node, *need));
        (0..1_000).take_while(|instances| fits(nodes, present(), need, *instances)).last()
    }

    #[test]
    fn capacity_is_counted_node_by_node() {
        let nodes = nodes(&[need(0, 0), need(35, 0), need(95, 0)]);
        assert_eq!(most(&nodes, &[], need(30, 0)), Some(5), "three and two; what is left over does not add up");
        assert_eq!(most(&nodes, &[], need(30, 500)), Some(4), "CPU counts too");
        assert_eq!(most(&nodes, &[], need(101, 0)), Some(0));
    }

    #[test]
    fn a_resource_that_is_not_needed_is_no_limit() {
        assert_eq!(most(&nodes(&[need(100, 0)]), &[], need(0, 250)), Some(4));
        assert!(fits(&nodes(&[need(100, 1_000)]), [], Need::default(), u64::MAX));
    }

    #[test]
    fn resources_of_present_instances_count_as_free_on_their_node() {
        let nodes = nodes(&[need(100, 1_000), need(90, 0)]);
        assert_eq!(most(&nodes, &[], need(50, 0)), Some(0));
        let present = [(name(0), need(25, 250)), (name(0), need(25, 250)), (name(7), need(100, 0))];
        assert_eq!(most(&nodes, &present, need(50, 500)), Some(1));
    }

    #[test]
    fn an_unusable_node_contributes_nothing() {
        assert_eq!(most(&BTreeMap::new(), &[], need(0, 0)), None);
        let free = || nodes(&[need(0, 0), need(0, 0)]);
        for change in [
            |candidate: &mut Candidate| candidate.liveness = Liveness::Lost,
            |candidate: &mut Candidate| candidate.liveness = Liveness::Suspect,
            |candidate: &mut Candidate| candidate.engine = EngineState::Hung,
        ] {
            let mut nodes = free();
            nodes.values_mut().take(1).for_each(change);
            assert_eq!(most(&nodes, &[], need(50, 0)), Some(2));
        }
        let mut cordoned = free();
        cordoned.values_mut().take(1).for_each(|candidate| candidate.cordon = Some("cordoned".to_owned()));
        assert_eq!(most(&cordoned, &[], need(50, 0)), Some(2));
        cordoned.values_mut().for_each(|candidate| candidate.used = need(50, 0));
        assert_eq!(most(&cordoned, &[(name(0), need(50, 0))], need(50, 0)), Some(2), "present instances may stay");
        let overfull = nodes(&[need(200, 0)]);
        assert_eq!(most(&overfull, &[], need(50, 0)), Some(0));
    }
}
