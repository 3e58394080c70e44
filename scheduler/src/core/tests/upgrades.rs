//! Upgrades without a strategy: a patch replaces the instances one after another, also across takeovers.

use super::*;
use contract::command::Operation;
use contract::record::{GroupRecord, OperationRecord};

pub(super) fn image(name: &str, image: &str) -> PodSpec {
    let mut pod = spec(name, 1).pod;
    pod.containers[0].image = image.to_owned();
    pod
}
pub(super) fn patch(name: &str, pod: PodSpec) -> Verb {
    Verb::PatchSpec { name: group(name), pod: Box::new(pod), cause: String::new() }
}
fn versions(rig: &Rig, name: &str) -> Vec<u32> {
    rig.instances(name).iter().map(|instance| instance.version).collect()
}
/// The images in the orders of all nodes.
fn images(rig: &Rig) -> BTreeSet<String> {
    let orders = rig.agents.values().map(|agent| &agent.order);
    let specs = orders.flat_map(|order| order.pods.keys().filter_map(|pod| order.specs.get(&pod.spec_key())));
    specs.map(|spec| spec.containers[0].image.clone()).collect()
}
fn web(instances: i64) -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", instances));
    rig.advance(60);
    rig.clear();
    rig
}
/// Whether the operation ends within `seconds`.
fn finishes(rig: &mut Rig, seconds: i64) -> bool {
    (0..seconds).any(|_| {
        rig.advance(1);
        rig.record("web").operation.is_none()
    })
}

#[test]
fn a_patch_is_accepted_for_a_group_that_is_not_locked_or_is_being_upgraded() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c1", patch("web", image("web", "v1"))), "Refused(GroupUnknown)");
    rig.command("c2", create("web", 1));
    let refused = "Refused(Locked { operation: Deploying })";
    assert_eq!(rig.command("c3", patch("web", image("web", "v1"))), refused);
    rig.advance(2);
    let mut flawed = image("web", "");
    flawed.annotation = "[]".to_owned();
    let decision = rig.command("c4", patch("web", flawed));
    assert!(decision.contains("Pod.Containers[0].Image") && decision.contains("Pod.Annotation"), "{decision}");
    assert_eq!(rig.command("c5", patch("web", image("web", "v1"))), "Accepted");
    assert_eq!(rig.command("c6", replica("web", 2)), "Refused(Locked { operation: Upgrading })");
    assert_eq!(rig.command("c7", remove("web")), "Refused(Locked { operation: Upgrading })");
    assert_eq!(rig.command("c8", patch("web", image("web", "v2"))), "Accepted");
}

#[test]
fn an_accepted_patch_increments_the_version_and_keeps_the_old_spec() {
    let mut rig = web(2);
    let before = rig.record("web");
    rig.command("c2", Verb::RunEngine { running: false });
    rig.now += 5_000;
    // The name in the patch is ignored; a memory limit of 0 keeps the old limit.
    let mut pod = image("other", "v1");
    pod.containers[0].memory_limit = 0;
    assert_eq!(rig.command("c3", patch("web", pod)), "Accepted");
    let mut expected = before.clone();
    expected.former = BTreeMap::from([(0, before.spec.pod.clone())]);
    expected.operation = Some(OperationRecord::new(Operation::Upgrading, rig.time()));
    expected.updated_at = rig.time();
    expected.spec.version = 1;
    expected.spec.updated_at = rig.time();
    expected.spec.pod = PodSpec { version: 1, updated_at: rig.time(), ..image("web", "v1") };
    expected.spec.pod.created_at = before.spec.pod.created_at;
    expected.spec.pod.annotation = "{}".to_owned();
    assert_eq!(rig.record("web"), expected);
    assert_eq!(images(&rig), BTreeSet::from(["demo".to_owned()]), "the engine is stopped");
    rig.take_over();
    rig.command("c4", Verb::RunEngine { running: true });
    assert!(finishes(&mut rig, 300), "{:?}", rig.record("web"));
    assert_eq!((versions(&rig, "web"), images(&rig)), (vec![1, 1], BTreeSet::from(["v1".to_owned()])));
}

#[test]
fn the_last_of_several_patches_wins_and_the_other_specs_are_deleted() {
    let mut rig = web(3);
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(15);
    assert_eq!(rig.command("c3", patch("web", image("web", "v2"))), "Accepted");
    assert_eq!(rig.command("c4", patch("web", image("web", "v3"))), "Accepted");
    assert_eq!(rig.record("web").spec.version, 3);
    assert!(finishes(&mut rig, 300), "{:?}", rig.record("web"));
    assert_eq!((versions(&rig, "web"), images(&rig)), (vec![3; 3], BTreeSet::from(["v3".to_owned()])));
    rig.advance(15);
    let record = rig.record("web");
    assert_eq!((record.former, record.proven, record.last_error), (BTreeMap::new(), Some(3), String::new()));
}

#[test]
fn an_upgrade_continues_across_takeovers_and_never_runs_an_instance_twice() {
    let mut rig = web(3);
    rig.command("c2", patch("web", image("web", "v1")));
    for _ in 0..60 {
        rig.take_over();
        rig.advance(4);
        assert!(rig.copies("web").values().all(|copies| *copies <= 1), "{:?}", rig.copies("web"));
    }
    let record = rig.record("web");
    assert_eq!((record.operation, record.spec.version, versions(&rig, "web")), (None, 1, vec![1; 3]));
    assert_eq!(images(&rig), BTreeSet::from(["v1".to_owned()]));
    assert_eq!(rig.core.disagreements(), 0);
}

#[test]
fn a_patch_with_the_same_spec_replaces_every_instance() {
    let mut rig = web(2);
    assert_eq!(rig.command("c2", patch("web", spec("web", 2).pod)), "Accepted");
    assert!(finishes(&mut rig, 300), "{:?}", rig.record("web"));
    assert_eq!(versions(&rig, "web"), [1, 1]);
}

#[test]
fn an_unschedulable_patch_is_accepted_and_its_reason_is_shown_until_the_next_operation() {
    let mut rig = web(2);
    let before = rig.record("web");
    rig.now += 5_000;
    let mut large = image("web", "v1");
    large.containers[0].memory_limit = 1 << 40;
    assert_eq!(rig.command("c2", patch("web", large)), "Accepted");
    let error = "No resources available to scheduler container";
    let expected = GroupRecord { last_error: error.to_owned(), updated_at: rig.time(), ..before };
    assert_eq!(rig.record("web"), expected);
    rig.advance(60);
    rig.take_over();
    let view = rig.group("web").expect("a group");
    assert_eq!((view.last_error.as_str(), view.state, view.operation), (error, RunState::Success, None));
    rig.command("c3", replica("web", 1));
    rig.advance(2);
    assert_eq!(rig.group("web").expect("a group").last_error, "");
}

#[test]
fn the_bytes_of_specs_in_use_at_the_same_time_are_bounded() {
    let mut rig = web(3);
    let mut decisions = Vec::new();
    for number in 0..14 {
        let mut pod = image("web", &format!("v{number}"));
        pod.containers[0].env = (0..200).map(|entry| format!("K{entry}={}", "x".repeat(1_000))).collect();
        decisions.push(rig.command(&format!("p{number}"), patch("web", pod)));
    }
    assert_eq!(decisions[..2], ["Accepted", "Accepted"]);
    assert!(decisions[13].starts_with("Refused(Limit"), "{decisions:?}");
}

/// A leader whose commit of the second of three updates is in flight for 150 s, and a patch that waits behind it.
fn unstored_upgrade() -> (Rig, Commit) {
    let mut rig = web(3);
    rig.command("c2", patch("web", image("web", "v1")));
    rig.advance(9);
    // The first new instance has run for ten seconds.
    rig.now += 2_000;
    let commit = rig.first_commit().expect("the second instance is upgraded");
    assert_eq!(versions(&rig, "web"), [1, 0, 0]);
    let delivery = rig.delivery("c3", patch("web", image("web", "v2")));
    assert_eq!(rig.input(Input::Command(delivery)), [], "the patch waits for the commit in flight");
    // Longer than an upgrade waits for an instance (100 s).
    for _ in 0..150 {
        rig.now += 1_000;
        assert_eq!(rig.first_commit(), None);
    }
    (rig, commit)
}

impl Rig {
    /// Every node reports. Returns the first commit of the core without performing it.
    fn first_commit(&mut self) -> Option<Commit> {
        let names: Vec<NodeName> = self.agents.keys().cloned().collect();
        let reports = names.iter().map(|name| {
            let agent = self.agents.get_mut(name).expect("an agent");
            agent.sequence += 1;
            Input::Report(ReportMessage::Whole(agent.whole(name)))
        });
        let inputs: Vec<Input> = reports.chain([Input::Tick]).collect();
        first_commit(inputs.into_iter().flat_map(|input| self.input(input)).collect())
    }
}

#[test]
fn one_commit_never_takes_down_two_instances_although_the_store_was_slow() {
    let (mut rig, commit) = unstored_upgrade();
    let stored = rig.store(commit);
    rig.run(stored);
    assert_eq!(versions(&rig, "web"), [1, 1, 0], "the others wait for the second one");
    assert!(finishes(&mut rig, 300), "{:?}", rig.record("web"));
    assert_eq!(versions(&rig, "web"), [2, 2, 2]);
}

#[test]
fn a_new_leader_restarts_the_time_limit_of_an_instance() {
    let (mut rig, commit) = unstored_upgrade();
    rig.store(commit);
    for agent in rig.agents.values_mut() {
        agent.states.insert("web.v1-i2-d0".to_owned(), RunState::Pending);
    }
    rig.take_over();
    rig.command("c4", patch("web", image("web", "v2")));
    rig.advance(90);
    assert_eq!(versions(&rig, "web"), [1, 1, 0], "the others wait for the second one");
    rig.advance(60);
    assert_eq!(versions(&rig, "web"), [2, 2, 2], "the time limit has passed");
}

#[test]
fn a_group_can_be_removed_as_soon_as_the_last_instance_of_an_upgrade_is_deployed() {
    let mut rig = web(1);
    let slow = PodSpec { setup_time: 300, ..image("web", "v1") };
    rig.command("c2", patch("web", slow));
    rig.advance(5);
    assert_eq!(
        (versions(&rig, "web"), rig.record("web").proven),
        (vec![1], Some(0)),
        "the upgrade has not completed yet"
    );
    assert_eq!(rig.command("c3", remove("web")), "Accepted");
}

#[test]
fn a_version_that_exits_immediately_is_rolled_back_and_the_revision_records_the_cause() {
    let mut rig = web(2);
    let now = rig.time();
    let exited = ContainerFacts { exit_code: 3, started_at: now, finished_at: now, ..ContainerFacts::default() };
    let facts = PodFacts { state: RunState::Exit, containers: vec![exited], ..PodFacts::default() };
    for agent in rig.agents.values_mut() {
        agent.facts.insert("web.v1-i1-d0".to_owned(), facts.clone());
    }
    rig.command("c2", patch("web", image("web", "v1")));
    assert!(finishes(&mut rig, 20), "{:?}", rig.record("web"));
    assert_eq!(versions(&rig, "web"), [2, 0]);
    let revisions = rig.revisions("web");
    let outcomes: Vec<_> = revisions.iter().map(|it| (it.number, it.outcome, it.copies)).collect();
    use contract::record::RevisionOutcome::{Completed, Open, RolledBack};
    assert_eq!(outcomes, [(0, Completed, None), (1, RolledBack, None), (2, Open, Some(0))]);
    assert!(revisions[2].cause.contains("instance 1: it exited with code 3"), "{}", revisions[2].cause);
    rig.advance(15);
    assert_eq!(rig.record("web").proven, Some(2));
}

#[test]
fn an_image_that_no_node_can_pull_changes_no_order_of_a_group_without_a_strategy() {
    let mut rig = web(2);
    rig.agents.values_mut().for_each(|agent| agent.fetch_state = Some(FetchState::Hopeless));
    rig.advance(2);
    rig.command("c2", patch("web", image("web", "v1")));
    assert!(finishes(&mut rig, 30), "{:?}", rig.record("web"));
    assert_eq!((versions(&rig, "web"), images(&rig)), (vec![0, 0], BTreeSet::from(["demo".to_owned()])));
    let record = rig.record("web");
    assert_eq!((record.spec.version, record.spec.pod.containers[0].image.as_str()), (2, "demo"));
    assert!(record.last_error.contains("its image cannot be pulled"), "{}", record.last_error);
}
