//! The ranking, criterion by criterion.

use proptest::prelude::*;

use super::*;
use crate::rollout::properties::property;

const NOW: Moment = Moment::from_secs(100_000);

fn pod(uid: &str) -> RankedPod {
    RankedPod {
        uid: uid.to_owned(),
        node: "n".to_owned(),
        phase: PodPhase::Running,
        readiness: Readiness::Available,
        ready_since: Some(Moment::from_secs(0)),
        created: Some(Moment::from_secs(0)),
        cost: 0,
        restarts: 0,
        is_active: true,
    }
}

#[track_caller]
fn goes_first(first: RankedPod, second: RankedPod) {
    assert_eq!(deletion_order(&[second.clone(), first.clone()], &[], NOW), [1, 0]);
    assert_eq!(deletion_order(&[first, second], &[], NOW), [0, 1]);
}

fn ago(hours: i64) -> Option<Moment> {
    Some(Moment::from_nanos(NOW.as_nanos() - hours * 3_600_000_000_000))
}

#[test]
fn each_criterion_decides_when_those_before_it_do_not() {
    goes_first(RankedPod { node: String::new(), ..pod("z") }, RankedPod { phase: PodPhase::Pending, ..pod("a") });
    goes_first(RankedPod { phase: PodPhase::Pending, ..pod("z") }, RankedPod { phase: PodPhase::Unknown, ..pod("a") });
    goes_first(
        RankedPod { phase: PodPhase::Unknown, ..pod("z") },
        RankedPod { readiness: Readiness::NotReady, ..pod("a") },
    );
    goes_first(RankedPod { readiness: Readiness::NotReady, cost: 9, ..pod("z") }, pod("a"));
    goes_first(RankedPod { readiness: Readiness::Ready, cost: 9, ..pod("z") }, pod("a"));
    goes_first(RankedPod { cost: -1, ..pod("z") }, RankedPod { ready_since: None, ..pod("a") });
    goes_first(
        RankedPod { ready_since: None, ..pod("z") },
        RankedPod { ready_since: Some(NOW), restarts: 5, ..pod("a") },
    );
    goes_first(
        RankedPod { ready_since: ago(2), ..pod("z") },
        RankedPod { ready_since: ago(5), restarts: 5, ..pod("a") },
    );
    goes_first(RankedPod { restarts: 1, ..pod("z") }, RankedPod { created: ago(1), ..pod("a") });
    goes_first(RankedPod { created: ago(2), ..pod("z") }, RankedPod { created: ago(5), ..pod("a") });
    goes_first(RankedPod { created: ago(8), ..pod("a") }, RankedPod { created: ago(5), ..pod("z") });
}

#[test]
fn the_ready_time_of_a_pod_that_is_not_ready_is_ignored() {
    let down = |uid, since| RankedPod { readiness: Readiness::NotReady, ready_since: since, ..pod(uid) };
    goes_first(down("a", Some(Moment::from_secs(0))), down("b", None));
}

#[test]
fn a_pod_on_a_crowded_node_goes_first_and_only_active_ones_crowd() {
    let on = |uid, node: &str| RankedPod { node: node.to_owned(), ..pod(uid) };
    let pods = [on("a", "n1"), on("b", "n2")];
    let gone = RankedPod { is_active: false, ..on("gone", "n1") };
    let related = [pods[0].clone(), gone, pods[1].clone(), on("other", "n2")];
    assert_eq!(deletion_order(&pods, &related, NOW), [1, 0]);
}

/// The example of R-9, on which the comparator of Kubernetes is not transitive.
#[test]
fn the_order_is_total() {
    let since = |uid, nanos, restarts| RankedPod { ready_since: Some(Moment::from_nanos(nanos)), restarts, ..pod(uid) };
    let witness = [since("3", 0, 5), since("1", 0, 0), since("2", 1, 0)];
    assert_eq!(deletion_order(&witness, &witness, NOW), [0, 1, 2]);
}

#[test]
fn buckets_have_their_edges_at_powers_of_two() {
    let bucket = |age| age_bucket(Moment::from_nanos(0), Moment::from_nanos(age));
    assert_eq!([bucket(-5), bucket(0), bucket(1), bucket(2), bucket(3), bucket(4)], [-1, -1, 0, 1, 1, 2]);
    assert_eq!([bucket((1 << 44) - 1), bucket(1 << 44), bucket(i64::MAX)], [43, 44, 62]);
}

#[test]
fn a_batch_takes_preparing_and_unavailable_pods_first() {
    let pods = [
        pod("a"),
        RankedPod { readiness: Readiness::NotReady, ..pod("b") },
        pod("c"),
        RankedPod { cost: -1, ..pod("d") },
    ];
    assert_eq!(update_order(&pods, |pod| pod.uid == "c", NOW), [2, 1, 3, 0]);
}

fn any_pod() -> impl Strategy<Value = RankedPod> {
    let time = || prop::option::of((0..200_000_000_000i64).prop_map(Moment::from_nanos));
    (0..4u8, 0..3u8, time(), time(), -1..2i32, 0..3i64).prop_map(|(node, readiness, ready, created, cost, restarts)| {
        RankedPod {
            uid: String::new(),
            node: if node == 0 { String::new() } else { format!("n{node}") },
            readiness: [Readiness::NotReady, Readiness::Ready, Readiness::Available][usize::from(readiness)],
            ready_since: ready,
            created,
            cost,
            restarts,
            ..pod("")
        }
    })
}

property! {
    fn the_order_does_not_depend_on_the_input_order(pods in prop::collection::vec(any_pod(), 0..12)) {
        let named = |(at, pod): (usize, RankedPod)| RankedPod { uid: format!("{at:02}"), ..pod };
        let pods: Vec<RankedPod> = pods.into_iter().enumerate().map(named).collect();
        let reversed: Vec<RankedPod> = pods.iter().rev().cloned().collect();
        let uids = |pods: &[RankedPod]| -> Vec<String> {
            deletion_order(pods, pods, NOW).into_iter().map(|at| pods[at].uid.clone()).collect()
        };
        prop_assert_eq!(uids(&pods), uids(&reversed));
    }

    fn the_order_is_total_and_available_pods_come_last(pods in prop::collection::vec(any_pod(), 0..12)) {
        let named = |(at, pod): (usize, RankedPod)| RankedPod { uid: format!("{at:02}"), ..pod };
        let pods: Vec<RankedPod> = pods.into_iter().enumerate().map(named).collect();
        let order = deletion_order(&pods, &pods, NOW);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..pods.len()).collect::<Vec<_>>(), "each once");
        for two in order.windows(2) {
            // Two neighbours alone keep their order when the related pods are the same.
            let pair = [pods[two[0]].clone(), pods[two[1]].clone()];
            prop_assert_eq!(deletion_order(&pair, &pods, NOW), vec![0, 1]);
        }
        let canary = beta_pod(&pods).map(|at| pods[at].readiness);
        let best = pods.iter().map(|pod| pod.readiness).max();
        prop_assert!(canary == best || best != Some(Readiness::Available), "the canary is available if any pod is");
    }
}
