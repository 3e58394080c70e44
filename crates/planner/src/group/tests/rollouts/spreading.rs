//! A finished rollout leaves the instances spread over the nodes as a first placement would.

use proptest::prelude::{ProptestConfig, prop, prop_assert, proptest};
use proptest::test_runner::RngSeed;

use super::*;

/// Instances on each node, fullest node first; nodes without an instance included.
fn spread(cluster: &TestCluster) -> Vec<usize> {
    let placed = |node: &NodeName| {
        cluster.world.instances.iter().filter(|instance| instance.node.as_ref() == Some(node)).count()
    };
    let mut counts: Vec<usize> = cluster.world.nodes.keys().map(placed).collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    counts
}

/// Two nodes differ by at most one instance.
fn is_even(counts: &[usize]) -> bool {
    counts.iter().max().zip(counts.iter().min()).is_none_or(|(most, fewest)| most - fewest <= 1)
}

#[test]
fn three_replicas_on_three_nodes_are_on_three_nodes_after_every_rolling_update() {
    let mut cluster = cluster(3, &["a", "b", "c"], rolling(1, 0));
    for image in ["j", "k", "l", "m", "n"] {
        update(&mut cluster, image);
        assert_eq!((cluster.status(), spread(&cluster)), (RolloutStatus::Complete, vec![1, 1, 1]), "image {image}");
    }
}

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Rolls another image out and waits for the end.
fn update(cluster: &mut TestCluster, image: &str) {
    cluster.patch(|pod| pod.containers[0].image = image.to_owned()).run(2);
    (0..100).find(|_| cluster.run(2).status() == RolloutStatus::Complete);
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(3), cases: 32, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_rollout_keeps_a_group_spread_whatever_its_budgets(
        (surge, unavailable) in (0_i64..4, 0_i64..4),
        instances in 1_i64..9,
        nodes in 2_usize..=NODES.len(),
        stop in 0_i64..4,
    ) {
        let mut cluster = cluster(instances, &NODES[..nodes], rolling(surge, unavailable.max(i64::from(surge == 0))));
        cluster.stop = stop;
        for image in ["j", "k"] {
            update(&mut cluster, image);
            prop_assert!(cluster.status() == RolloutStatus::Complete, "{:?}", cluster.status());
            prop_assert!(is_even(&spread(&cluster)), "image {image}: {:?}", cluster.world.places());
        }
    }

    #[test]
    fn a_rollout_that_surges_spreads_a_group_that_was_on_few_nodes(
        surge in 1_i64..4,
        instances in 1_i64..9,
        open in prop::collection::vec(prop::bool::ANY, NODES.len() - 1),
    ) {
        let mut cluster = fresh(instances, &NODES, rolling(surge, 0));
        for (node, _) in NODES[1..].iter().zip(open).filter(|(_, is_open)| !is_open) {
            cluster.world.candidate(node).cordon = Some("cordoned".to_owned());
        }
        cluster.run(40);
        cluster.world.nodes.values_mut().for_each(|candidate| candidate.cordon = None);
        update(&mut cluster, "j");
        prop_assert!(cluster.status() == RolloutStatus::Complete, "{:?}", cluster.status());
        prop_assert!(is_even(&spread(&cluster)), "{:?}", cluster.world.places());
    }

    #[test]
    fn a_group_whose_instances_are_replaced_in_batches_or_together_stays_spread(
        size in 1_i64..4,
        instances in 1_i64..9,
        nodes in 2_usize..=NODES.len(),
        is_batch in prop::bool::ANY,
    ) {
        let strategy = if is_batch { batches(StrategyType::Batch, size) } else { strategy(StrategyType::Recreate) };
        let mut cluster = cluster(instances, &NODES[..nodes], strategy);
        update(&mut cluster, "j");
        prop_assert!(cluster.status() == RolloutStatus::Complete, "{:?}", cluster.status());
        prop_assert!(is_even(&spread(&cluster)), "{:?}", cluster.world.places());
    }
}
