//! A plan predicts what happens.

use super::super::super::dry_run::{self, Aborted, WorkLimit};
use super::strategies::in_units;
use super::*;

fn dry_run(facts: &GroupFacts<'_>, now: Timestamp) -> PlanView {
    dry_run::dry_run(facts, now, WorkLimit::new(&|| false)).expect("it is small")
}

fn planned(cluster: &TestCluster) -> PlanView {
    cluster.world.with_facts(|facts| dry_run(facts, at(cluster.now)))
}

fn changes(view: &PlanView) -> Vec<InstanceChange> {
    view.changes.values().copied().collect()
}

#[test]
fn the_plan_of_a_finished_group_is_empty() {
    let cluster = cluster(3, &["a", "b"], rolling(1, 0));
    let view = planned(&cluster);
    assert_eq!((view.steps.len(), changes(&view), view.completes), (0, vec![InstanceChange::Untouched; 3], true));
    assert_eq!((view.min_available[""], view.peak_extra_pods, view.is_new), (3, 0, false));
}

#[test]
fn the_plan_of_a_rolling_update_predicts_its_steps() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    cluster.patch(|pod| pod.containers[0].image = "j".to_owned());
    let view = planned(&cluster);
    assert_eq!((changes(&view), view.completes, view.release), (vec![InstanceChange::Recreated; 3], true, 1));
    assert_eq!((view.peak_extra_pods, view.peak_extra_memory), (1, 64 * MIB));
    assert_eq!((view.min_available[""], view.unplaced.len()), (3, 0));
    let actions: Vec<&str> =
        view.steps.iter().flat_map(|step| &step.actions).map(|action| action.action.as_str()).collect();
    assert_eq!(actions, ["Surge", "Promote", "Surge", "Promote", "Surge", "Promote"]);
    cluster.run(60);
    assert_eq!((cluster.fewest, cluster.most), (3, 4), "so it went");
}

#[test]
fn the_plan_of_a_beta_has_batches_and_units() {
    let mut cluster = in_units(4, batches(StrategyType::Beta, 4));
    cluster.patch(|_| ());
    let view = planned(&cluster);
    let groups: Vec<(u64, &str, usize)> =
        view.steps.iter().map(|step| (step.group, step.kind.as_str(), step.actions.len())).collect();
    assert_eq!(groups, [(1, "Beta", 2), (2, "Batch", 2)]);
    assert_eq!(view.min_available, BTreeMap::from([("A".to_owned(), 1), ("B".to_owned(), 1)]));
    let beta: BTreeSet<&str> = view.steps[0].actions.iter().map(|action| action.unit.as_str()).collect();
    assert_eq!(beta, BTreeSet::from(["A", "B"]));
}

#[test]
fn a_plan_names_updates_in_place() {
    let mut cluster = cluster(2, &["a", "b"], rolling(1, 0));
    cluster.world.record.spec.update_policy = UpdatePolicy::InPlaceIfPossible;
    let mut live = cluster.clone();
    live.patch(|pod| pod.containers[0].memory_limit = 80 << 20);
    let view = planned(&live);
    assert_eq!((changes(&view), view.peak_extra_pods), (vec![InstanceChange::InPlace; 2], 0));
    assert_eq!((view.min_available[""], view.peak_extra_memory), (2, 32 * MIB), "no instance goes down");
    cluster.patch(|pod| pod.containers[0].image = "j".to_owned());
    let view = planned(&cluster);
    assert_eq!((changes(&view), view.min_available[""]), (vec![InstanceChange::InPlace; 2], 1), "one at a time");
}

#[test]
fn a_plan_names_unschedulable_instances_with_every_node_and_reason() {
    let mut cluster = fresh(3, &["a", "b"], rolling(1, 0));
    cluster.world.candidate("a").facts.memory = 64 * MIB;
    cluster.world.candidate("b").facts.memory = 100 * MIB;
    let view = planned(&cluster);
    assert!(view.is_new && !view.completes);
    assert_eq!(changes(&view), [InstanceChange::Created; 3]);
    let [unplaced] = view.unplaced.as_slice() else { panic!("{:?}", view.unplaced) };
    assert_eq!((unplaced.instance, unplaced.nodes.len()), (3, 2));
    assert_eq!(unplaced.nodes[&name("b")], ["memory 28 MiB short"]);
    assert_eq!(cluster.world.instances.len(), 0, "nothing was done");
}

#[test]
fn a_plan_contains_scaling_and_moves() {
    let mut cluster = in_units(4, rolling(1, 0));
    let topology = cluster.world.record.spec.topology.as_mut().expect("units");
    topology.unit_replicas.insert("A".to_owned(), Amount::Count(1));
    let view = planned(&cluster);
    assert_eq!(changes(&view).iter().filter(|change| **change == InstanceChange::Moved).count(), 1, "{view:?}");
    cluster.world.record.spec.num_instances = 2;
    let view = planned(&cluster);
    assert_eq!(changes(&view).iter().filter(|change| **change == InstanceChange::Removed).count(), 2, "{view:?}");
}

#[test]
fn the_plan_of_a_serial_upgrade_has_one_instance_per_step() {
    let mut world = world(3, &["a"]).all_healthy();
    world.record.spec.num_instances = 4;
    world.patch(10, |pod| pod.containers[0].memory_limit = 128 << 20);
    let view = world.with_facts(|facts| dry_run(facts, at(10)));
    let actions: Vec<(u32, &str)> = view
        .steps
        .iter()
        .flat_map(|step| &step.actions)
        .map(|action| (action.instance, action.action.as_str()))
        .collect();
    assert_eq!(actions, [(4, "Create"), (1, "Renew"), (2, "Renew"), (3, "Renew")]);
    assert_eq!(view.steps.len(), 4);
    assert_eq!(
        changes(&view),
        [InstanceChange::Recreated, InstanceChange::Recreated, InstanceChange::Recreated, InstanceChange::Created]
    );
    assert_eq!((view.min_available[""], view.peak_extra_memory, view.completes), (3, (4 * 128 - 3 * 64) * MIB, true));
}

/// A group of many instances in many units, each with one node that has resources for all or for none.
fn many(instances: i64, units: usize, has_room: bool) -> TestCluster {
    let names: Vec<String> = (0..units).map(|unit| format!("n{unit:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut cluster = fresh(instances, &nodes, batches(StrategyType::Beta, 1));
    let declared: Vec<String> = (0..units).map(|unit| format!("u{unit:02}")).collect();
    for (node, unit) in nodes.iter().zip(&declared).filter(|_| has_room) {
        let candidate = cluster.world.candidate(node);
        candidate.facts.labels.insert("zone".to_owned(), unit.clone());
        (candidate.facts.memory, candidate.facts.cpu_millis) = (1 << 40, 1 << 40);
    }
    cluster.world.record.spec.topology =
        Some(Topology { unit_type: UnitType::Zone, values: declared, ..Topology::default() });
    cluster
}

/// CPU time of this thread, in milliseconds: another process on the machine does not change it.
fn cpu_millis() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).expect("nanoseconds") / 1_000_000
}

#[test]
fn a_plan_of_a_thousand_instances_in_64_units_is_cheap() {
    for has_room in [true, false] {
        let (cluster, before) = (many(1_000, 64, has_room), cpu_millis());
        let view = planned(&cluster);
        let taken = cpu_millis() - before;
        println!("{taken} ms, {} steps", view.steps.len());
        assert_eq!((view.steps.len(), view.completes), (937, has_room));
        // Tests are hardly optimised: a release build takes a third.
        assert!(taken < 1_500, "{taken} ms");
    }
}

#[test]
fn a_plan_that_takes_too_many_steps_or_too_long_ends_early() {
    let cluster = many(100, 4, true);
    let dry_run =
        |budget: WorkLimit<'_>| cluster.world.with_facts(|facts| dry_run::dry_run(facts, at(cluster.now), budget));
    let small = |left: usize| dry_run(WorkLimit { left, ..WorkLimit::new(&|| false) });
    assert_eq!((small(1_000), small(100_000).map(|view| view.completes)), (Err(Aborted::Costly), Ok(true)));
    let asked = std::cell::Cell::new(0);
    let is_expired = || asked.replace(asked.get() + 1) == 10;
    assert_eq!(dry_run(WorkLimit::new(&is_expired)), Err(Aborted::Expired));
    assert_eq!(asked.get(), 11, "nothing is computed after that");
}

#[test]
fn reasons_of_many_unschedulable_instances_are_limited() {
    let nodes: Vec<String> = (0..300).map(|node| format!("n{node}")).collect();
    let mut cluster = fresh(100, &nodes.iter().map(String::as_str).collect::<Vec<_>>(), rolling(1, 0));
    cluster.world.constraints = vec!["constraint:node==none".to_owned()];
    let view = planned(&cluster);
    let reported = view.unplaced.iter().filter(|it| it.nodes.len() == 300).count();
    assert_eq!((view.unplaced.len(), reported), (100, 67), "20,000 reasons, and the rest of the last instance");
    assert!(view.warnings.iter().any(|warning| warning.contains("33 instances")), "{:?}", view.warnings);
}
