//! With nodes that obey, operations end with every instance in its desired state, and never take down more than one instance
//! at a time.

use contract::command::Drift;
use proptest::prelude::*;

use super::cluster::{PodBehaviour, TestCluster, running_on_nodes};
use super::world::*;
use super::*;

/// Ticks until a container runs, is gone, and is healthy; none without a health check.
type Delays = (i64, i64, Option<i64>);

fn any_delays() -> impl Strategy<Value = Delays> {
    (0_i64..6, 0_i64..12, proptest::option::of(0_i64..8))
}

/// Nodes with these delays obey the orders for a group until nothing changes.
fn obeyed(world: TestGroup, (start, stop, health): Delays, bad: Option<u32>) -> TestCluster {
    let mut model = running_on_nodes(world);
    (model.start, model.stop, model.health) = (start, stop, health);
    model.behaviour.extend(bad.map(|version| (version, PodBehaviour::Unwell)));
    model.run_until_quiet();
    model
}

prop_compose! {
    /// A running group with some stopped instances and some history.
    fn any_world()(
        targets in proptest::collection::vec(prop::bool::weighted(0.8), 1..7),
        nodes in 2_usize..5,
        setup_time in prop::sample::select(vec![0_i64, 7, 45]),
        stateful in prop::bool::weighted(0.2),
        drifts in proptest::collection::vec(0_u32..4, 7),
        asked in 0_u32..3,
    ) -> TestGroup {
        let names: Vec<String> = (0..nodes).map(|index| format!("n{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = world(i64::try_from(targets.len()).expect("few"), &names);
        world.record.spec.pod.setup_time = setup_time;
        if stateful {
            world.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
        }
        let mut world = world.all_running();
        for ((instance, runs), drift) in world.instances.iter_mut().zip(targets).zip(drifts) {
            instance.target = if runs { TargetState::Run } else { TargetState::Stop };
            (instance.drift, instance.starts_requested, instance.restarts_requested) = (drift, asked, asked);
        }
        world.record.proven = Some(0);
        world
    }
}

fn runs_all(model: &TestCluster) -> bool {
    let mut instances = model.world.instances.iter().zip(&model.world.observed);
    instances.all(|(instance, observed)| {
        let up = observed.as_ref().is_some_and(|observed| observed.state == RunState::Success);
        up == (instance.target == TargetState::Run)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_upgrade_reaches_all_instances_one_at_a_time(
        mut world in any_world(),
        delays in any_delays(),
        elsewhere in any::<bool>(),
        again in any::<bool>(),
    ) {
        let change = |pod: &mut PodSpec| {
            if elsewhere {
                pod.filters = vec!["constraint:node!=n0".to_owned()];
            }
        };
        let stateful = world.record.spec.pod.is_stateful();
        world.patch(1_000, change);
        if again {
            let plan = world.plan(1_000);
            world.take(&plan);
            world.patch(1_000, |_| ());
        }
        let model = obeyed(world, delays, None);
        let present = model.world.record.spec.version;
        prop_assert!(model.most_down <= 1, "{}", model.most_down);
        if !(stateful && elsewhere) {
            prop_assert!(runs_all(&model), "{:?}", model.world);
            prop_assert_eq!(model.world.versions(), vec![present; model.world.instances.len()]);
            prop_assert_eq!((model.world.operation(), model.world.record.proven), (None, Some(present)));
            prop_assert!(model.world.record.former.is_empty());
        }
        prop_assert_eq!(&model.incidents, &vec![]);
        prop_assert!(!elsewhere || stateful || model.world.places().iter().all(|place| *place != Some("n0")));
    }

    #[test]
    fn a_bad_upgrade_is_rolled_back_and_affects_one_instance(
        mut world in any_world(),
        delays in any_delays(),
        health in 0_i64..8,
    ) {
        let before = world.instances.clone();
        let first = before.iter().position(|instance| instance.target == TargetState::Run);
        world.patch(1_000, |_| ());
        let model = obeyed(world, (delays.0, delays.1, Some(health)), Some(1));
        let record = &model.world.record;
        prop_assert!(model.most_down <= 1);
        prop_assert!(runs_all(&model));
        prop_assert_eq!(model.world.operation(), None);
        let Some(first) = first else {
            prop_assert_eq!((record.spec.version, record.proven), (1, Some(1)), "no instance tried it");
            return Ok(());
        };
        let number = u32::try_from(first + 1).expect("few");
        prop_assert_eq!(&model.incidents, &vec![(number, Incident::BadUpgrade { version: 1 })]);
        prop_assert_eq!((record.spec.version, record.proven), (2, Some(2)));
        for (index, (instance, old)) in model.world.instances.iter().zip(&before).enumerate() {
            let expected = if index > first { old.version } else { 2 };
            prop_assert_eq!((instance.version, instance.drift), (expected, old.drift));
        }
    }

    #[test]
    fn a_move_empties_a_node_one_instance_at_a_time(
        mut world in any_world(),
        delays in any_delays(),
        force in any::<bool>(),
        twice in any::<bool>(),
    ) {
        let before = world.instances.clone();
        let bound = world.record.spec.pod.is_stateful() && !force;
        let drift = Drift { from: name("n0"), to: None, force, instance: None };
        world.record.drifts = vec![drift; if twice { 2 } else { 1 }];
        let model = obeyed(world, delays, None);
        prop_assert!(model.most_down <= 1);
        prop_assert!(runs_all(&model));
        prop_assert_eq!((model.world.operation(), model.world.record.drifts.len()), (None, 0));
        for (instance, old) in model.world.instances.iter().zip(&before) {
            let leaves = old.node == Some(name("n0")) && !bound;
            prop_assert_eq!(instance.drift, old.drift + u32::from(leaves));
            prop_assert_eq!(instance.node != old.node, leaves);
            prop_assert_eq!(&instance.leaves, &None);
        }
    }

    #[test]
    fn each_instance_restarts_once_one_at_a_time(
        mut world in any_world(),
        delays in any_delays(),
        one in proptest::option::of(1_u32..7),
    ) {
        let count = u32::try_from(world.instances.len()).expect("few");
        let range = one.map_or(1..=count, |one| one.min(count)..=one.min(count));
        let stopped: Vec<usize> = (0..world.instances.len()).filter(|index| world.instances[*index].target == TargetState::Stop).collect();
        let before = world.instances.clone();
        world.run_operation(Operation::Restarting, range.clone(), 1_000);
        let model = obeyed(world, delays, None);
        prop_assert!(model.most_down <= 1, "{}", model.most_down);
        prop_assert!(runs_all(&model));
        prop_assert_eq!(model.world.operation(), None);
        prop_assert_eq!(model.world.record.last_error.as_str(), "");
        for (index, (instance, old)) in model.world.instances.iter().zip(&before).enumerate() {
            let meant = range.contains(&u32::try_from(index + 1).expect("few"));
            prop_assert_eq!(instance.restarts_requested, old.restarts_requested + u32::from(meant));
            prop_assert_eq!(instance.target == TargetState::Stop, stopped.contains(&index) && !meant);
        }
    }

    #[test]
    fn starts_and_stops_are_done_and_survive_an_upgrade(
        mut world in any_world(),
        delays in any_delays(),
        starts in any::<bool>(),
    ) {
        let count = u32::try_from(world.instances.len()).expect("few");
        let (kind, target) = if starts { (Operation::Starting, TargetState::Run) } else { (Operation::Stopping, TargetState::Stop) };
        world.run_operation(kind, 1..=count, 1_000);
        let model = obeyed(world, delays, None);
        prop_assert!(runs_all(&model));
        prop_assert_eq!(model.world.operation(), None);
        let mut world = model.world;
        world.patch(1_000, |_| ());
        let model = obeyed(world, delays, None);
        prop_assert!(runs_all(&model));
        prop_assert!(model.world.instances.iter().all(|instance| (instance.target, instance.version) == (target, 1)));
    }
}
