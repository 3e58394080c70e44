//! Placement alone: the planner places one group after another, on one core.
//!
//! The measured time includes the upkeep of used resources and of the sorted nodes, as in the scheduler.

use std::collections::BTreeMap;
use std::time::Instant;

use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::report::EngineState;
use contract::spec::PodSpec;
use planner::placement::{Candidate, Candidates, LoadRanking, Need, NodePreference, PlacedPods, Placer};

use crate::load::figures::{self, Figure};
use crate::load::process::processor_time;
use crate::load::settings::Placement;
use crate::load::workload;

/// The scheduler's default.
const QUOTA_CORES: u32 = 8;

struct NoTenants;

impl PlacedPods for NoTenants {
    fn visit(&self, _: &NodeName, _: &mut dyn FnMut(&PodId, &PodSpec)) {}
}

pub(crate) fn measure(settings: &Placement) -> Vec<Figure> {
    let mut hosts: BTreeMap<NodeName, Candidate> = (0..settings.nodes).map(host).collect();
    let mut standings = LoadRanking::default();
    let sizes = workload::sizes(settings.instances, settings.group_size);
    let (mut placed, mut unplaced) = (0_u64, 0_u64);
    let (began, used) = (Instant::now(), processor_time(std::process::id()));
    for (number, size) in (0..).zip(&sizes) {
        let pod = workload::group_spec(number, *size).pod;
        let need = Need::of(&pod, QUOTA_CORES);
        standings.prepare(&hosts, need);
        let candidates = Candidates { nodes: &hosts, ranking: Some(&standings), placed_pods: &NoTenants };
        let mut batch = Placer::new(candidates, &pod.filters, need, &BTreeMap::new());
        let chosen: Vec<_> = (0..*size).map(|_| batch.place(NodePreference::default())).collect();
        drop(batch);
        for node in chosen {
            let Ok(node) = node else {
                unplaced += 1;
                continue;
            };
            standings.touch(&node);
            if let Some(host) = hosts.get_mut(&node) {
                host.used = host.used.plus(need);
                placed += 1;
            }
        }
    }
    let (took, used) = (began.elapsed(), processor_time(std::process::id()).saturating_sub(used));
    vec![
        figures::count("nodes", "nodes", settings.nodes.into()),
        figures::count("instances", "instances", settings.instances.into()),
        figures::count("group_size", "instances of a group", settings.group_size.into()),
        figures::count("placed", "placed", placed),
        figures::count("unplaced", "found no place", unplaced),
        figures::seconds("placement_seconds", "placement alone, s", took),
        figures::seconds("placement_cpu_seconds", "placement alone, CPU, s", used),
    ]
}

fn host(number: u32) -> (NodeName, Candidate) {
    let name = workload::node_name(number).parse().expect("letters, digits and a dash are a name");
    let facts = workload::node_facts(number);
    (
        name,
        Candidate {
            facts,
            used: Need::default(),
            liveness: Liveness::Alive,
            engine: EngineState::Up,
            cordon: None,
            decommissioned: false,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_fits_is_placed() {
        let settings = Placement { nodes: 10, instances: 1_000, group_size: 300, json: None };
        let figures = measure(&settings);
        let placed = figures.iter().find(|figure| figure.key == "placed").map(|figure| figure.value);
        assert_eq!(placed, Some(1_000.0));
    }
}
