//! Deltas: applying one produces the sender's state, and one that does not match is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::delta::Changes;
use contract::fence::{Fence, Term};
use contract::order::{Assignment, Fetch, Order};
use contract::pod_id::PodId;
use contract::report::{PodFacts, Report};
use contract::spec::PodSpec;
use contract::state::{RestartPolicy, RunState, TargetState};
use contract::switches::Switches;
use proptest::prelude::*;

use crate::samples;

fn fences() -> impl Strategy<Value = Fence> {
    (0..5u64, 0..50u64).prop_map(|(term, generation)| Fence { term: Term(term), generation })
}

fn pod_ids() -> impl Strategy<Value = PodId> {
    (0..3u8, 1..6u32, 0..3u32, 0..3u32).prop_map(|(group, instance, version, drift)| PodId {
        group: format!("g{group}.web.web").parse().expect("a name"),
        instance,
        version,
        drift,
    })
}

fn assignments() -> impl Strategy<Value = Assignment> {
    (any::<bool>(), any::<bool>(), 0..3u32, 0..3u32).prop_map(|(stop, always, starts_requested, restarts_requested)| {
        Assignment {
            target: if stop { TargetState::Stop } else { TargetState::Run },
            restart_policy: if always { RestartPolicy::Always } else { RestartPolicy::Never },
            starts_requested,
            restarts_requested,
            updated_to: (starts_requested > 1).then_some(restarts_requested),
            addresses: vec!["10.0.0.7".to_owned(); usize::from(always)],
            fetch: stop.then(|| Fetch { version: starts_requested, images: BTreeSet::from(["web:2".to_owned()]) }),
        }
    })
}

fn orders() -> impl Strategy<Value = Order> {
    let pods = prop::collection::btree_map(pod_ids(), assignments(), 0..12);
    let spared = prop::collection::btree_set(pod_ids().prop_map(|id| id.group), 0..3);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(hold_restarts, hold_missing, paused)| Switches { hold_restarts, hold_missing, paused });
    (fences(), pods, 0..4i64, spared, switches).prop_map(|(fence, pods, setup_time, spared, switches)| {
        let spec = |id: &PodId| Arc::new(PodSpec { version: id.version, setup_time, ..Default::default() });
        let specs = pods.keys().map(|id| (id.spec_key(), spec(id))).collect();
        Order { fence, pods, specs, spared, switches, ..Order::default() }
    })
}

fn facts() -> impl Strategy<Value = BTreeMap<PodId, PodFacts>> {
    let one = (0..4u32).prop_map(|restarts| PodFacts { state: RunState::Success, restarts, ..Default::default() });
    prop::collection::btree_map(pod_ids(), one, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_delta_turns_the_earlier_order_into_the_later(before in orders(), after in orders()) {
        prop_assert_eq!(before.changed_by(before.digest(), &after.since(&before)), Some(after));
    }

    #[test]
    fn a_delta_of_another_order_is_refused(before in orders(), after in orders(), other in orders()) {
        prop_assume!(other.fence != before.fence);
        prop_assert_eq!(other.changed_by(other.digest(), &after.since(&before)), None);
    }

    #[test]
    fn a_delta_on_a_corrupted_order_is_refused(before in orders(), after in orders(), other in orders()) {
        let corrupted = Order { fence: before.fence, ..other };
        if let Some(result) = corrupted.changed_by(corrupted.digest(), &after.since(&before)) {
            prop_assert_eq!(result, after, "accepted only when the result is right anyway");
        }
    }

    #[test]
    fn a_delta_turns_the_earlier_report_into_the_later(before in facts(), after in facts()) {
        let (first, second) = samples::reports();
        let mut standby = Report { pods: before, ..first };
        let after = Report { pods: after, ..second };
        let delta = after.since(&standby);
        prop_assert!(standby.apply(&delta));
        prop_assert_eq!(&standby, &after);
        prop_assert!(!standby.apply(&delta), "the same change twice does not fit");
    }

    #[test]
    fn the_delta_of_equal_maps_is_empty(map in facts()) {
        prop_assert!(Changes::between(&map, &map).is_empty());
    }

    #[test]
    fn a_pod_id_round_trips(id in pod_ids()) {
        prop_assert_eq!(id.to_string().parse::<PodId>(), Ok(id));
    }
}
