//! What planning a group promises, bucket by bucket and as a whole.

use contract::name::GroupName;
use contract::pod_id::PodId;
use contract::report::NodeFacts;
use contract::spec::{ContainerSpec, PodSpec};
use proptest::prelude::*;

use super::*;

struct Nobody;
impl Tenants for Nobody {
    fn visit(&self, _: &NodeName, _: &mut dyn FnMut(&PodId, &PodSpec)) {}
}

/// A group and its world, built up by the tests.
#[derive(Debug, Clone)]
struct World {
    spec: PodGroupSpec,
    operation: Option<OperationRecord>,
    slots: Vec<Slot>,
    seen: Vec<Option<PodFacts>>,
    lingers: bool,
    blocked: bool,
    guarding: bool,
    constraints: Vec<String>,
    hosts: BTreeMap<NodeName, Host>,
}

fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}
fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}
fn reported(state: RunState) -> Option<PodFacts> {
    Some(PodFacts { state, last_error: "E".to_owned(), ..Default::default() })
}

fn world(instances: i64, nodes: &[&str]) -> World {
    let group: GroupName = "web".parse().expect("a name");
    let container = ContainerSpec { image: "i".to_owned(), cpu_limit: 1, memory_limit: 64 << 20, ..Default::default() };
    let pod = PodSpec { name: group.to_string(), containers: vec![container], ..Default::default() };
    let facts = NodeFacts { memory: 1024 << 20, cpu_millis: 8_000, ..Default::default() };
    let host = Host { facts, used: Need::default(), liveness: Liveness::Alive, engine: EngineState::Up };
    World {
        spec: PodGroupSpec { name: group.to_string(), num_instances: instances, pod, ..Default::default() },
        operation: Some(OperationRecord { kind: Operation::Deploying, since: at(0) }),
        slots: Vec::new(),
        seen: Vec::new(),
        lingers: false,
        blocked: false,
        guarding: true,
        constraints: Vec::new(),
        hosts: nodes.iter().map(|node| (name(node), host.clone())).collect(),
    }
}

impl World {
    fn plan(&self, now: i64) -> GroupPlan {
        let seen: Vec<Option<&PodFacts>> = self.seen.iter().map(Option::as_ref).collect();
        let facts = GroupFacts {
            spec: &self.spec,
            need: Need::of(&self.spec.pod, 8),
            operation: self.operation.as_ref(),
            operation_limit: Duration::from_secs(600),
            slots: &self.slots,
            seen: &seen,
            lingers: self.lingers,
            blocked: self.blocked,
            guarding: self.guarding,
            constraints: &self.constraints,
            hosts: &self.hosts,
            tenants: &Nobody,
        };
        plan_group(&facts, at(now))
    }
    /// Carries the plan out: the accounts follow, and new pods are not reported yet.
    fn take(&mut self, plan: &GroupPlan) {
        let need = Need::of(&self.spec.pod, 8);
        for node in self.slots.iter().filter_map(|slot| slot.node.as_ref()) {
            let host = self.hosts.get_mut(node).expect("a node");
            host.used = host.used.minus(need);
        }
        for node in plan.slots.iter().filter_map(|slot| slot.node.as_ref()) {
            let host = self.hosts.get_mut(node).expect("a node");
            host.used = host.used.plus(need);
        }
        self.seen.resize(plan.slots.len(), None);
        for (index, slot) in plan.slots.iter().enumerate() {
            let same = self.slots.get(index).is_some_and(|old| old.node == slot.node && old.drift == slot.drift);
            if !same {
                self.seen[index] = None;
            }
        }
        self.slots.clone_from(&plan.slots);
        if plan.finished {
            self.operation = None;
        }
    }
    fn settle(&mut self, now: i64) -> GroupPlan {
        let plan = self.plan(now);
        self.take(&plan);
        plan
    }
    fn all_running(mut self) -> Self {
        self.settle(0);
        self.seen = vec![reported(RunState::Success); self.slots.len()];
        self.settle(1);
        self
    }
    fn places(&self) -> Vec<Option<&str>> {
        self.slots.iter().map(|slot| slot.node.as_ref().map(NodeName::as_str)).collect()
    }
    fn host(&mut self, node: &str) -> &mut Host {
        self.hosts.get_mut(&name(node)).expect("a node")
    }
}

#[test]
fn a_new_group_is_spread_and_its_operation_ends_when_all_run() {
    let mut world = world(3, &["a", "b"]);
    let plan = world.settle(0);
    assert_eq!(world.places(), [Some("a"), Some("b"), Some("a")]);
    assert_eq!((plan.store, plan.finished, plan.wake_at), (true, false, Some(at(600))));
    world.seen = vec![reported(RunState::Success), reported(RunState::Success), reported(RunState::Pending)];
    assert!(!world.plan(1).finished);
    world.seen[2] = reported(RunState::Success);
    let plan = world.plan(2);
    assert_eq!((plan.store, plan.finished, plan.buckets), (false, true, vec![Bucket::Running; 3]));
}

#[test]
fn an_operation_gives_its_lock_back_at_its_limit() {
    let mut world = world(1, &["a"]);
    world.settle(0);
    assert!(!world.plan(599).finished);
    assert!(world.plan(600).finished);
}

#[test]
fn an_instance_that_fits_nowhere_waits_and_says_why() {
    let mut world = world(1, &["a"]);
    world.spec.pod.filters = vec!["constraint:group==x".to_owned()];
    let plan = world.settle(0);
    assert_eq!((plan.waiting, plan.finished, plan.wake_at), (true, true, None));
    assert_eq!(world.slots[0].why, "no node fits: a: constraint:group==x not met");
    assert!(!world.plan(1).store, "the reason alone is not worth a write");
    world.host("a").facts.labels.insert("group".to_owned(), "x".to_owned());
    world.settle(2);
    assert_eq!((world.places(), world.slots[0].drift, world.slots[0].why.as_str()), (vec![Some("a")], 0, ""));
}

#[test]
fn scaling_down_drops_the_highest_numbers_and_scaling_up_appends() {
    let mut world = world(4, &["a", "b"]).all_running();
    let before = world.slots.clone();
    world.spec.num_instances = 2;
    world.settle(2);
    assert_eq!(world.slots, before[..2]);
    world.spec.num_instances = 3;
    world.settle(3);
    assert_eq!((&world.slots[..2], world.slots.len()), (&before[..2], 3));
}

#[test]
fn a_scheduling_operation_waits_for_the_surplus_to_go() {
    let mut world = world(2, &["a"]).all_running();
    world.operation = Some(OperationRecord { kind: Operation::Scheduling, since: at(2) });
    world.spec.num_instances = 1;
    world.lingers = true;
    world.settle(2);
    assert!(!world.plan(3).finished);
    world.lingers = false;
    assert!(world.plan(4).finished);
}

#[test]
fn a_failed_create_is_tried_elsewhere_after_growing_waits() {
    let mut world = world(1, &["a", "b"]);
    world.settle(0);
    world.seen = vec![reported(RunState::Error)];
    let plan = world.settle(1);
    assert_eq!((plan.wake_at, world.slots[0].why.as_str(), plan.store), (Some(at(11)), "E", true));
    assert!(plan.finished, "an error settles the operation");
    assert!(!world.settle(10).store);
    world.settle(11);
    assert_eq!((world.places(), world.slots[0].drift), (vec![Some("b")], 1));
    world.seen = vec![reported(RunState::Error)];
    assert_eq!(world.settle(12).wake_at, Some(at(32)));
    world.settle(32);
    assert_eq!((world.places(), world.slots[0].drift, world.slots[0].failures), (vec![Some("a")], 2, 2));
    world.seen = vec![reported(RunState::Success)];
    world.settle(33);
    assert_eq!((world.slots[0].failures, world.slots[0].why.as_str()), (0, ""));
}

#[test]
fn waits_double_up_to_five_minutes() {
    let waits: Vec<u64> = (1..8).map(|failures| wait_after(failures).as_secs()).collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(wait_after(u32::MAX), LONGEST_WAIT);
}

#[test]
fn a_missing_container_is_made_anew_at_once_and_again_after_a_wait() {
    let mut world = world(1, &["a"]).all_running();
    world.seen = vec![reported(RunState::Missing)];
    let plan = world.settle(10);
    assert_eq!((world.slots[0].drift, plan.incidents), (1, vec![(1, Incident::Missing)]));
    world.seen = vec![reported(RunState::Missing)];
    let plan = world.settle(11);
    assert_eq!((world.slots[0].drift, plan.wake_at, plan.incidents), (1, Some(at(20)), vec![]));
    world.settle(20);
    assert_eq!((world.slots[0].drift, world.slots[0].failures), (2, 2));
    world.seen = vec![reported(RunState::Success)];
    assert_eq!(world.settle(21).wake_at, Some(at(40)));
    world.settle(40);
    assert_eq!(world.slots[0].failures, 0);
}

#[test]
fn while_the_guard_sleeps_a_missing_instance_is_left_and_says_why() {
    let mut world = world(2, &["a", "b"]).all_running();
    world.guarding = false;
    world.seen[0] = reported(RunState::Missing);
    let plan = world.settle(10);
    assert_eq!((plan.buckets.as_slice(), plan.wake_at), (&[Bucket::Held, Bucket::Running][..], None));
    assert_eq!((world.slots[0].drift, plan.incidents, plan.store), (0, vec![], false));
    assert_eq!(world.slots[0].why, "its container on node a is missing and the guard sleeps");
    // A lost node is not the guard's business.
    world.host("b").liveness = Liveness::Lost;
    world.settle(11);
    assert_eq!(world.places(), [Some("a"), Some("a")]);
    world.guarding = true;
    let plan = world.settle(12);
    assert_eq!((world.slots[0].drift, world.slots[0].why.as_str()), (1, ""));
    assert_eq!(plan.incidents, [(1, Incident::Missing)]);
}

#[test]
fn a_constraint_of_the_cluster_counts_like_a_filter_of_the_pod() {
    let placed = |constraint: &str, count: i64| {
        let mut world = world(count, &["a", "b"]);
        world.constraints = vec![constraint.to_owned()];
        world.settle(0);
        world.slots.iter().map(|slot| slot.node.as_ref().map(NodeName::to_string)).collect::<Vec<_>>()
    };
    let all = |node: Option<&str>, count: usize| vec![node.map(str::to_owned); count];
    assert_eq!(placed("constraint:node!=~a", 3), all(Some("b"), 3), "kept off if possible");
    assert_eq!(placed("constraint:node!=a", 3), all(Some("b"), 3));
    assert_eq!(placed("constraint:node!=~/[ab]/", 1), all(Some("a"), 1), "a wish nobody can meet is dropped");
    assert_eq!(placed("constraint:node!=/[ab]/", 1), all(None, 1), "a condition is not");
    assert_eq!(placed("constraint:node==b", 2), all(Some("b"), 2));
    // What runs stays where it is.
    let mut world = world(2, &["a", "b"]).all_running();
    world.constraints = vec!["constraint:node!=a".to_owned()];
    world.settle(5);
    assert_eq!(world.places(), [Some("a"), Some("b")]);
}

#[test]
fn a_stateful_instance_is_made_anew_on_its_node_and_a_hard_one_not_at_all() {
    let mut soft = world(1, &["a", "b"]);
    soft.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    let mut soft = soft.all_running();
    soft.seen = vec![reported(RunState::Missing)];
    soft.settle(10);
    assert_eq!((soft.places(), soft.slots[0].drift), (vec![Some("a")], 1));
    let mut hard = world(1, &["a", "b"]);
    hard.spec.pod.stateful = true;
    let mut hard = hard.all_running();
    hard.seen = vec![reported(RunState::Missing)];
    let plan = hard.settle(10);
    assert_eq!((plan.buckets, hard.slots[0].drift, plan.store), (vec![Bucket::Held], 0, false));
}

#[test]
fn a_lost_node_loses_its_instances_to_others_unless_they_are_stateful() {
    let mut stateless = world(2, &["a", "b", "c"]).all_running();
    stateless.host("a").liveness = Liveness::Lost;
    stateless.settle(10);
    assert_eq!((stateless.places(), stateless.slots[0].drift), (vec![Some("c"), Some("b")], 1));
    let mut stateful = world(2, &["a", "b", "c"]);
    stateful.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    let mut stateful = stateful.all_running();
    stateful.host("a").liveness = Liveness::Lost;
    let plan = stateful.settle(10);
    assert_eq!((stateful.places(), plan.buckets[0]), (vec![Some("a"), Some("b")], Bucket::Held));
    assert_eq!(stateful.slots[0].why, "node a is lost; the instance is stateful and waits for it");
}

#[test]
fn an_instance_of_a_lost_node_that_fits_nowhere_keeps_its_node() {
    let mut world = world(1, &["a"]).all_running();
    world.host("a").liveness = Liveness::Lost;
    let plan = world.settle(10);
    assert_eq!((world.places(), plan.store, plan.waiting), (vec![Some("a")], false, true));
    assert_eq!(world.slots[0].why, "node a is lost; no node fits: a: lost");
    world.host("a").liveness = Liveness::Alive;
    world.settle(11);
    assert_eq!((world.slots[0].drift, world.slots[0].why.as_str()), (0, ""));
}

#[test]
fn silence_moves_nothing() {
    for change in [
        |host: &mut Host| host.liveness = Liveness::Suspect,
        |host: &mut Host| host.liveness = Liveness::Unknown,
        |host: &mut Host| host.engine = EngineState::Hung,
    ] {
        let mut world = world(2, &["a", "b"]).all_running();
        change(world.host("a"));
        world.seen[0] = reported(RunState::Missing);
        let plan = world.plan(10);
        assert_eq!((plan.store, plan.buckets), (false, vec![Bucket::Unheard, Bucket::Running]));
    }
}

#[test]
fn a_removal_ends_when_nobody_has_anything_left() {
    let mut world = world(2, &["a"]).all_running();
    world.operation = Some(OperationRecord { kind: Operation::Removing, since: at(5) });
    world.lingers = true;
    let plan = world.plan(5);
    assert_eq!((plan.slots.len(), plan.store, plan.finished, plan.wake_at), (0, true, false, Some(at(605))));
    world.lingers = false;
    assert!(world.plan(6).finished);
}

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
        seen in proptest::collection::vec(any_state(), 12),
        livenesses in proptest::collection::vec(any_liveness(), 1..5),
        stateful in any::<bool>(),
        room in 0_u64..8,
    ) -> World {
        let names: Vec<String> = (0..livenesses.len()).map(|index| format!("n{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = world(instances, &names);
        for host in world.hosts.values_mut() {
            host.facts.memory = room * (64 << 20);
        }
        if stateful {
            world.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
        }
        world.settle(0);
        world.seen = seen[..world.slots.len()].to_vec();
        for (host, liveness) in world.hosts.values_mut().zip(livenesses) {
            host.liveness = liveness;
        }
        world.spec.num_instances = later;
        world
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_instance_is_in_one_bucket_and_has_a_place_or_a_reason(mut world in any_world()) {
        let plan = world.settle(100);
        let wanted = usize::try_from(world.spec.num_instances).expect("not negative");
        prop_assert_eq!((plan.slots.len(), plan.buckets.len()), (wanted, wanted));
        for slot in &plan.slots {
            prop_assert!(slot.node.is_some() || !slot.why.is_empty());
        }
        for host in world.hosts.values() {
            prop_assert!(host.used.memory <= host.facts.memory);
        }
    }

    #[test]
    fn planning_what_was_just_planned_changes_nothing(mut world in any_world()) {
        world.settle(100);
        let again = world.settle(100);
        prop_assert!(!again.store, "{again:?}");
        prop_assert_eq!(world.plan(100), world.plan(100));
    }

    #[test]
    fn instances_that_run_on_a_node_that_is_heard_are_never_touched(mut world in any_world()) {
        let before = world.slots.clone();
        let seen = world.seen.clone();
        let plan = world.settle(100);
        for (index, slot) in plan.slots.iter().enumerate().take(before.len()) {
            let runs = seen[index].as_ref().is_some_and(|facts| facts.state == RunState::Success);
            let lost = before[index].node.as_ref().is_some_and(|node| world.hosts[node].liveness == Liveness::Lost);
            if runs && !lost {
                prop_assert_eq!((&slot.node, slot.drift), (&before[index].node, before[index].drift));
            }
        }
    }
}

#[test]
fn a_group_whose_ports_are_taken_runs_nothing_and_holds_no_lock() {
    let mut world = world(2, &["a"]);
    world.blocked = true;
    let plan = world.settle(0);
    assert_eq!((plan.slots.len(), plan.store, plan.finished, plan.wake_at), (0, false, true, None));
    let again = world.settle(1);
    assert_eq!((again.store, again.finished), (false, false), "nothing more to do");
    world.blocked = false;
    assert_eq!(world.settle(2).slots.len(), 2);
}
