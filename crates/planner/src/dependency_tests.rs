//! Pairs are added, kept, updated and removed as the facts require.

use contract::spec::PodSpec;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}
fn place(node: &str, namespace: &str) -> Place {
    Place { node: node.parse().expect("a name"), namespace: namespace.to_owned() }
}
fn pair(node: &str, namespace: &str, version: u32, since: i64) -> Pair {
    let Place { node, namespace } = place(node, namespace);
    Pair { node, namespace, version, since: at(since), idle_since: Timestamp::NEVER }
}
fn idle(since: i64, pair: Pair) -> Pair {
    Pair { idle_since: at(since), ..pair }
}
fn record(version: u32) -> DependencyRecord {
    let spec = |version| PodSpec { name: "d".to_owned(), version, ..Default::default() };
    let former = (0..version).map(|version| (version, spec(version))).collect();
    DependencyRecord { spec: spec(version), former, delete_when_unused: false, removing_since: None }
}
fn up() -> PodFacts {
    PodFacts { state: RunState::Success, ..Default::default() }
}

/// Facts to change before planning; idle timeout 300 s, start timeout 100 s, removal timeout 600 s.
struct DependencyInput {
    record: DependencyRecord,
    pairs: Vec<Pair>,
    needed: BTreeSet<Place>,
    observed: Vec<Option<PodFacts>>,
    nodes: BTreeMap<NodeName, Candidate>,
    has_leftovers: bool,
}

fn world(version: u32, pairs: &[Pair], needed: &[Place]) -> DependencyInput {
    DependencyInput {
        record: record(version),
        pairs: pairs.to_vec(),
        needed: needed.iter().cloned().collect(),
        observed: vec![Some(up()); pairs.len()],
        nodes: BTreeMap::new(),
        has_leftovers: false,
    }
}

impl DependencyInput {
    fn plan(&self, now: i64) -> DependencyPlan {
        let seconds = Duration::from_secs;
        let observed: Vec<Option<&PodFacts>> = self.observed.iter().map(Option::as_ref).collect();
        let facts = DependencyFacts {
            record: &self.record,
            pairs: &self.pairs,
            needed: &self.needed,
            observed: &observed,
            nodes: &self.nodes,
            has_leftovers: self.has_leftovers,
            timeouts: DependencyTimeouts { idle: seconds(300), coming_up: seconds(100), removal: seconds(600) },
        };
        plan_dependency(&facts, at(now))
    }
    fn lose(&mut self, node: &str) {
        let candidate = Candidate { liveness: Liveness::Lost, ..Candidate::alive(Default::default()) };
        self.nodes.insert(node.parse().expect("a name"), candidate);
    }
}

fn only_pairs(pairs: Vec<Pair>) -> DependencyPlan {
    DependencyPlan { pairs, ..Default::default() }
}

#[test]
fn every_place_that_needs_the_pod_gets_it_immediately() {
    let world = world(0, &[pair("b", "x", 0, 1)], &[place("b", "y"), place("a", "x"), place("b", "x")]);
    let expected = vec![pair("a", "x", 0, 9), pair("b", "x", 0, 1), pair("b", "y", 0, 9)];
    assert_eq!(world.plan(9), only_pairs(expected));
}

#[test]
fn a_plan_without_differences_changes_nothing() {
    let pairs = [pair("a", "x", 0, 1), pair("b", "x", 0, 1)];
    let world = world(0, &pairs, &[place("a", "x"), place("b", "x")]);
    assert_eq!(world.plan(1_000_000), only_pairs(pairs.to_vec()));
}

#[test]
fn an_unneeded_pair_is_removed_after_the_idle_timeout() {
    let mut world = world(0, &[pair("a", "x", 0, 1)], &[]);
    let first = world.plan(50);
    assert_eq!(first.pairs, [idle(50, pair("a", "x", 0, 1))]);
    assert_eq!(first.wake_at, Some(at(350)));
    world.pairs = first.pairs;
    assert_eq!(world.plan(349), DependencyPlan { wake_at: Some(at(350)), ..only_pairs(world.pairs.clone()) });
    assert_eq!(world.plan(350), only_pairs(Vec::new()));
}

#[test]
fn a_pair_that_is_needed_again_is_not_idle() {
    let world = world(0, &[idle(50, pair("a", "x", 0, 1))], &[place("a", "x")]);
    assert_eq!(world.plan(1_000), only_pairs(vec![pair("a", "x", 0, 1)]), "however long it was idle");
}

#[test]
fn a_pair_on_a_lost_node_stays_until_the_idle_timeout() {
    let mut needed = world(0, &[pair("a", "x", 0, 1)], &[place("a", "x")]);
    needed.lose("a");
    assert_eq!(needed.plan(9_000), only_pairs(vec![pair("a", "x", 0, 1)]));
    let mut idle_one = world(0, &[idle(50, pair("a", "x", 0, 1))], &[]);
    idle_one.lose("a");
    assert_eq!(idle_one.plan(60).pairs.len(), 1);
    assert_eq!(idle_one.plan(350), only_pairs(Vec::new()));
}

#[test]
fn a_new_version_updates_one_pair_after_another() {
    let places = [place("a", "x"), place("b", "x"), place("c", "x")];
    let mut world = world(1, &[pair("a", "x", 0, 1), pair("b", "x", 0, 1), pair("c", "x", 0, 1)], &places);
    let first = world.plan(50);
    assert_eq!(first.pairs, [pair("a", "x", 1, 50), pair("b", "x", 0, 1), pair("c", "x", 0, 1)]);
    assert_eq!((first.wake_at, &first.record), (Some(at(150)), &None));
    world.pairs = first.pairs;
    world.observed[0] = None;
    assert_eq!(world.plan(60), DependencyPlan { wake_at: Some(at(150)), ..only_pairs(world.pairs.clone()) });
    world.observed[0] = Some(up());
    world.pairs = world.plan(70).pairs;
    assert_eq!(world.pairs, [pair("a", "x", 1, 50), pair("b", "x", 1, 70), pair("c", "x", 0, 1)]);
    world.pairs = world.plan(80).pairs;
    let last = world.plan(90);
    assert_eq!(last.pairs, [pair("a", "x", 1, 50), pair("b", "x", 1, 70), pair("c", "x", 1, 80)]);
    assert_eq!(last.record.map(|record| record.former), Some(BTreeMap::new()), "no pair runs the previous version");
}

#[test]
fn an_update_skips_a_pair_that_times_out_or_whose_node_is_lost() {
    let places = [place("a", "x"), place("b", "x")];
    let mut world = world(1, &[pair("a", "x", 1, 50), pair("b", "x", 0, 1)], &places);
    for bad in [
        None,
        Some(PodFacts { state: RunState::Fail, ..up() }),
        Some(PodFacts { health: HealthState::Starting, ..up() }),
        Some(PodFacts { leaving: true, ..up() }),
    ] {
        world.observed[0] = bad;
        assert_eq!(world.plan(149).pairs[1].version, 0);
        assert_eq!(world.plan(150).pairs[1], pair("b", "x", 1, 150));
    }
    world.lose("a");
    assert_eq!(world.plan(60).pairs[1], pair("b", "x", 1, 60));
}

#[test]
fn an_update_waits_for_a_new_pair() {
    let mut world = world(1, &[pair("a", "x", 0, 1)], &[place("a", "x"), place("b", "x")]);
    let plan = world.plan(50);
    assert_eq!(plan.pairs, [pair("a", "x", 0, 1), pair("b", "x", 1, 50)]);
    assert_eq!(plan.wake_at, Some(at(150)));
    world.pairs = plan.pairs;
    world.observed.push(Some(up()));
    assert_eq!(world.plan(51).pairs, [pair("a", "x", 1, 51), pair("b", "x", 1, 50)]);
}

#[test]
fn a_deleted_pod_stays_while_it_is_needed() {
    let mut world = world(0, &[pair("a", "x", 0, 1), idle(40, pair("b", "x", 0, 1))], &[place("a", "x")]);
    world.record.delete_when_unused = true;
    assert_eq!(world.plan(50).pairs, world.pairs);
    world.needed.clear();
    let plan = world.plan(60);
    let removing = DependencyRecord { removing_since: Some(at(60)), ..world.record.clone() };
    let expected = DependencyPlan { pairs: Vec::new(), record: Some(removing), gone: false, wake_at: Some(at(660)) };
    assert_eq!(plan, expected);
}

#[test]
fn a_deleted_pod_that_runs_nowhere_is_gone_immediately() {
    let mut world = world(0, &[], &[]);
    world.record.delete_when_unused = true;
    assert!(world.plan(60).gone);
    world.has_leftovers = true;
    assert!(!world.plan(60).gone, "a node still has one");
}

#[test]
fn a_forced_removal_ends_when_all_nodes_confirm_or_at_the_timeout() {
    let mut world = world(0, &[pair("a", "x", 0, 1)], &[place("a", "x")]);
    world.record.removing_since = Some(at(50));
    let leaving = DependencyPlan { wake_at: Some(at(650)), ..DependencyPlan::default() };
    assert_eq!(world.plan(51), leaving);
    world.pairs.clear();
    world.has_leftovers = true;
    assert_eq!(world.plan(52), leaving);
    assert_eq!(world.plan(650), DependencyPlan { gone: true, ..DependencyPlan::default() });
    world.has_leftovers = false;
    assert_eq!(world.plan(53), DependencyPlan { gone: true, ..DependencyPlan::default() });
}
