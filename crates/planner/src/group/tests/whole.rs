//! Invariants of the planner for random input.

use contract::command::Drift;
use proptest::prelude::*;

use super::world::*;
use super::*;

fn any_state() -> impl Strategy<Value = Option<PodFacts>> {
    use RunState::{Error, Exit, Missing, Pending, Success};
    prop_oneof![Just(None), prop::sample::select(vec![Pending, Success, Exit, Missing, Error]).prop_map(reported)]
}
fn any_liveness() -> impl Strategy<Value = Liveness> {
    prop::sample::select(vec![Liveness::Alive, Liveness::Alive, Liveness::Suspect, Liveness::Lost, Liveness::Unknown])
}

prop_compose! {
    fn any_world()(
        instances in 0_i64..12,
        later in 0_i64..12,
        observed in proptest::collection::vec(any_state(), 12),
        livenesses in proptest::collection::vec(any_liveness(), 1..5),
        stateful in any::<bool>(),
        room in 0_u64..8,
    ) -> TestGroup {
        let names: Vec<String> = (0..livenesses.len()).map(|index| format!("n{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = world(instances, &names);
        for candidate in world.nodes.values_mut() {
            candidate.facts.memory = room * (64 << 20);
        }
        if stateful {
            world.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
        }
        world.settle(0);
        world.observed = observed[..world.instances.len()].to_vec();
        for (candidate, liveness) in world.nodes.values_mut().zip(livenesses) {
            candidate.liveness = liveness;
        }
        world.record.spec.num_instances = later;
        world
    }
}

fn any_node() -> impl Strategy<Value = NodeName> {
    (0_usize..4).prop_map(|index| name(&format!("n{index}")))
}

fn any_facts() -> impl Strategy<Value = Option<PodFacts>> {
    use HealthState::{Healthy, None as Unchecked, Starting, Unhealthy};
    let health = prop::sample::select(vec![Unchecked, Starting, Healthy, Unhealthy]);
    let up = (health, 0_i64..600, 0_u32..3).prop_map(|(health, since, answered)| {
        let mut facts = running(health, since).expect("facts");
        (facts.starts_done, facts.restarts_done) = (answered, answered);
        Some(facts)
    });
    prop_oneof![2 => up, 1 => any_state()]
}

prop_compose! {
    fn any_instance()(
        node in proptest::option::weighted(0.9, any_node()),
        leaves in proptest::option::weighted(0.2, any_node()),
        version in 0_u32..4,
        (runs, since, retry_at) in (prop::bool::weighted(0.8), 0_i64..600, proptest::option::of(400_i64..600)),
        (drift, asked) in (0_u32..3, 0_u32..3),
    ) -> Instance {
        Instance {
            leaves: leaves.filter(|left| node.as_ref().is_some_and(|node| node != left)),
            node,
            version,
            drift,
            target: if runs { TargetState::Run } else { TargetState::Stop },
            since: at(since),
            retry_at: retry_at.map_or(Timestamp::NEVER, at),
            starts_requested: asked,
            restarts_requested: asked,
            ..Instance::default()
        }
    }
}

prop_compose! {
    fn any_operation()(kind in prop::sample::select(vec![
        Operation::Deploying, Operation::Scheduling, Operation::Upgrading, Operation::Drifting, Operation::Starting,
        Operation::Stopping, Operation::Restarting,
    ]), since in 0_i64..500, next in 0_u32..6, last in 0_u32..6) -> OperationRecord {
        OperationRecord { kind, since: at(since), next, last }
    }
}

prop_compose! {
    fn any_drift()(from in any_node(), to in proptest::option::of(any_node()), force in any::<bool>(),
        instance in proptest::option::of(0_u32..6)) -> Drift {
        Drift { from, to, force, instance }
    }
}

prop_compose! {
    /// A group in any state, plausible or not.
    fn any_group_state()(
        instances in proptest::collection::vec((any_instance(), any_facts(), any::<bool>()), 0..6),
        livenesses in proptest::collection::vec(any_liveness(), 4),
        operation in proptest::option::of(any_operation()),
        drifts in proptest::collection::vec(any_drift(), 0..3),
        (count, present, proven) in (0_i64..6, 0_u32..5, proptest::option::of(0_u32..4)),
        equals in proptest::option::weighted(0.2, 0_u32..4),
        needs in proptest::collection::vec(16_i64..400, 5),
        stateful in proptest::collection::vec(prop::bool::weighted(0.2), 5),
    ) -> TestGroup {
        let mut world = world(count, &["n0", "n1", "n2", "n3"]);
        for (candidate, liveness) in world.nodes.values_mut().zip(livenesses) {
            candidate.liveness = liveness;
        }
        let pod = world.record.spec.pod.clone();
        let revision = |version: u32, (need, stateful): (i64, bool)| {
            let mut pod = PodSpec { version, stateful, ..pod.clone() };
            pod.containers[0].memory_limit = need << 20;
            pod
        };
        let revisions = (0..5).zip(needs.into_iter().zip(stateful));
        let mut former: BTreeMap<u32, PodSpec> =
            revisions.map(|(version, kind)| (version, revision(version, kind))).collect();
        world.record.spec.version = present;
        world.record.spec.pod = former.remove(&present).expect("one of five");
        former.retain(|version, _| *version < present);
        world.record.former = former;
        world.record.operation = operation;
        (world.record.drifts, world.record.proven) = (drifts, proven);
        world.record.equals = equals.into_iter().collect();
        for (index, (instance, mut observed, clings)) in instances.into_iter().enumerate() {
            if let Some(observed) = &mut observed {
                // An agent confirms only requested starts.
                observed.starts_done = observed.starts_done.min(instance.starts_requested);
                observed.restarts_done = observed.restarts_done.min(instance.restarts_requested);
            }
            // A pod that was not ordered yet is not reported.
            world.observed.push(observed.filter(|_| instance.leaves.is_none()));
            world.instances.push(instance);
            if clings {
                world.still_on_old_node.insert(index);
            }
        }
        world
    }
}

/// The instances of a plan, without tombstones.
fn instances(plan: &GroupPlan) -> impl Iterator<Item = &Instance> {
    plan.instances.iter().filter(|instance| instance.presence == Presence::Pod)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_instance_has_a_status_and_a_node_or_a_reason(mut world in any_world()) {
        let plan = world.settle(100);
        let wanted = usize::try_from(world.record.spec.num_instances).expect("not negative");
        prop_assert_eq!((instances(&plan).count(), plan.statuses.len()), (wanted, wanted));
        for instance in instances(&plan) {
            prop_assert!(instance.node.is_some() || !instance.why.is_empty());
        }
        for candidate in world.nodes.values() {
            prop_assert!(candidate.used.memory <= candidate.facts.memory);
        }
    }

    #[test]
    fn planning_twice_changes_nothing(mut world in any_world()) {
        world.settle(100);
        let again = world.settle(100);
        prop_assert!(!again.store, "{again:?}");
        prop_assert_eq!(world.plan(100), world.plan(100));
    }

    #[test]
    fn running_instances_on_live_nodes_are_never_touched(mut world in any_world()) {
        let before = world.instances.clone();
        let observed = world.observed.clone();
        let plan = world.settle(100);
        for (index, instance) in instances(&plan).enumerate().take(before.len()) {
            let runs = observed[index].as_ref().is_some_and(|facts| facts.state == RunState::Success);
            let lost = before[index].node.as_ref().is_some_and(|node| world.nodes[node].liveness == Liveness::Lost);
            if runs && !lost {
                prop_assert_eq!((&instance.node, instance.drift), (&before[index].node, before[index].drift));
            }
        }
    }

    #[test]
    fn planning_converges_for_any_record(mut world in any_group_state()) {
        let rest = (0..40).any(|_| world.settle(500).wake_at.is_none_or(|wake| wake > at(500)));
        prop_assert!(rest, "{world:?}");
        let again = world.plan(500);
        prop_assert_eq!((again.store, &again.record), (false, &None));
        prop_assert!(instances(&again).all(|instance| instance.node.is_some() || !instance.why.is_empty()));
    }

    #[test]
    fn no_instance_is_moved_while_its_node_may_still_run_it(world in any_group_state()) {
        let plan = world.plan(500);
        for (index, (old, new)) in world.instances.iter().zip(instances(&plan)).enumerate() {
            let Some(node) = old.node.as_ref().filter(|node| Some(*node) != new.node.as_ref()) else { continue };
            let lost = world.nodes.get(node).is_some_and(|candidate| candidate.liveness == Liveness::Lost);
            let nothing_there = world.observed[index].as_ref().is_some_and(|observed| {
                matches!(observed.state, RunState::Missing | RunState::Error) && !observed.containers.iter().any(|c| c.running)
            });
            let never_there = old.leaves.is_some();
            prop_assert!(new.leaves.is_some() || lost || nothing_there || never_there, "{old:?} {new:?}");
        }
    }

    #[test]
    fn one_plan_takes_down_one_running_instance_at_most(world in any_group_state()) {
        let plan = world.plan(500);
        let taken = world.instances.iter().zip(instances(&plan)).zip(&world.observed).filter(|((old, new), observed)| {
            let runs = observed.as_ref().is_some_and(|observed| observed.state == RunState::Success && !observed.leaving);
            let heard = old.node.as_ref().and_then(|node| world.nodes.get(node));
            let heard = heard.is_some_and(|candidate| candidate.liveness == Liveness::Alive);
            let taken = (&old.node, old.version, old.drift, old.restarts_requested)
                != (&new.node, new.version, new.drift, new.restarts_requested);
            runs && heard && taken && old.leaves.is_none() && old.target == TargetState::Run
        });
        prop_assert!(taken.count() <= 1, "{plan:?}");
    }

    #[test]
    fn facts_in_any_order_give_the_same_plan(world in any_group_state()) {
        let mut other = world.clone();
        other.nodes = world.nodes.iter().rev().map(|(name, candidate)| (name.clone(), candidate.clone())).collect();
        let former = world.record.former.iter().rev();
        other.record.former = former.map(|(version, pod)| (*version, pod.clone())).collect();
        other.record.equals = world.record.equals.iter().rev().copied().collect();
        prop_assert_eq!(world.plan(500), other.plan(500));
    }
}
