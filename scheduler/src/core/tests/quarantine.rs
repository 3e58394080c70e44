//! One object whose reconcile panics, or whose records the store refuses, is quarantined; everything else is reconciled.

use contract::event::Kind;
use contract::report::PodFacts;
use contract::state::HealthState;

use super::*;
use crate::core::io::{Faults, Mutant};

const FIRST: &str = "sound.v0-i1-d0";

/// A leader that panics when it reconciles a group with the image `panic`.
fn panicking() -> Rig {
    rig_with(Settings { faults: Faults::of(Mutant::PanicsOnPurpose), ..Settings::default() }, &["a", "b"])
}

impl Rig {
    fn quarantine_events(&self) -> Vec<String> {
        let events = self.events.iter().filter(|event| event.kind == Kind::Quarantined);
        events.map(|event| event.message.clone()).collect()
    }
}

#[test]
fn a_setup_time_out_of_range_is_clamped_and_the_leader_continues() {
    let mut rig = rig(&["a"]);
    let mut large = spec("sound", 1);
    large.pod.setup_time = i64::MAX;
    assert_eq!(rig.command("large", Verb::CreateGroup { spec: Box::new(large) }), "Accepted");
    let clamp = "accepted, but Pod.SetupTime 9223372036854775807 is outside 0..300 and is used as 300";
    assert!(rig.events.iter().any(|event| event.message.contains(clamp)), "{:?}", rig.events);
    let container = ContainerFacts { running: true, ip: "10.0.0.2".to_owned(), ..Default::default() };
    let facts = PodFacts {
        state: RunState::Success,
        health: HealthState::Unhealthy,
        containers: vec![container],
        ..Default::default()
    };
    rig.agent("a").facts.insert(FIRST.to_owned(), facts);
    rig.report("a");
    assert_eq!(rig.command("other", create("other", 1)), "Accepted");
    assert_eq!(rig.pods("a").len(), 2);
}

/// A group whose reconcile panics under [`panicking`].
fn bad(name: &str) -> PodGroupSpec {
    let mut spec = spec(name, 2);
    "panic".clone_into(&mut spec.pod.containers[0].image);
    spec
}
fn create_bad(name: &str) -> Verb {
    Verb::CreateGroup { spec: Box::new(bad(name)) }
}
fn patch(name: &str, image: &str) -> Verb {
    let mut pod = spec(name, 2).pod;
    image.clone_into(&mut pod.containers[0].image);
    Verb::PatchSpec { name: group(name), pod: Box::new(pod), cause: String::new() }
}

impl Rig {
    fn quarantined(&mut self) -> Vec<String> {
        let quarantined = self.cluster_view().quarantined;
        quarantined.iter().map(|it| format!("{} {}: {}", it.kind.word(), it.name, it.reason)).collect()
    }
    fn all_pods(&self, name: &str) -> Vec<String> {
        let pods = self.agents.values().flat_map(|agent| agent.order.pods.keys());
        pods.filter(|pod| pod.group == group(name)).map(ToString::to_string).collect()
    }
}

#[test]
fn a_group_whose_reconcile_panics_is_quarantined_and_the_others_are_reconciled() {
    let mut rig = panicking();
    assert_eq!(rig.command("bad", create_bad("bad")), "Accepted");
    assert_eq!(rig.command("sound", create("sound", 2)), "Accepted");
    assert_eq!((rig.all_pods("bad").len(), rig.all_pods("sound").len()), (0, 2));
    let reason = "reconciling it panicked: on purpose, by a mutant of the scheduler";
    assert_eq!(rig.quarantined(), [format!("group bad: {reason}")]);
    assert_eq!(rig.quarantine_events(), [format!("quarantined: {reason}")]);
    assert_eq!(rig.group("bad").expect("a group").last_error, format!("quarantined: {reason}"));
    rig.advance(30);
    assert_eq!(rig.quarantine_events().len(), 1, "a quarantine that persists is reported once");
}

#[test]
fn a_quarantined_group_keeps_its_containers_and_its_capacity() {
    let mut rig = rig(&["a", "b"]);
    rig.command("web", create("web", 2));
    rig.advance(60);
    let placed = rig.places("web");
    rig.core = Core::new(Settings { faults: Faults::of(Mutant::PanicsOnPurpose), ..Settings::default() });
    rig.elect();
    rig.report_all();
    assert_eq!(rig.command("patch", patch("web", "panic")), "Accepted");
    rig.advance(10);
    assert_eq!(rig.quarantined().len(), 1);
    assert_eq!(rig.places("web"), placed);
    assert_eq!(rig.all_pods("web").len(), 2, "its nodes keep their orders");
    assert_eq!(rig.nodes().iter().map(|node| node.used_memory).sum::<u64>(), 2 * (64 << 20));
}

#[test]
fn a_new_spec_ends_a_quarantine_although_an_operation_holds_the_lock() {
    let mut rig = panicking();
    rig.command("bad", create_bad("bad"));
    assert!(rig.record("bad").operation.is_some(), "its deployment never ends");
    assert_eq!(rig.command("good", patch("bad", "demo")), "Accepted");
    rig.advance(5);
    assert_eq!(rig.quarantined(), [""; 0]);
    assert_eq!(rig.all_pods("bad").len(), 2);
    let end = "no longer quarantined: a command changed it".to_owned();
    assert_eq!(rig.quarantine_events().last(), Some(&end));
}

#[test]
fn a_quarantined_group_can_be_removed_also_by_the_next_leader() {
    let mut rig = panicking();
    rig.command("first", create_bad("first"));
    rig.command("second", create_bad("second"));
    assert_eq!(rig.command("remove", remove("first")), "Accepted");
    rig.advance(5);
    assert_eq!(rig.group("first"), None);
    rig.core = Core::new(Settings { faults: Faults::of(Mutant::PanicsOnPurpose), ..Settings::default() });
    rig.elect();
    rig.report_all();
    assert_eq!(rig.quarantined().len(), 1, "the next leader quarantines it again");
    assert_eq!(rig.command("remove-too", remove("second")), "Accepted");
    rig.advance(5);
    assert_eq!((rig.group("second"), rig.quarantined().len()), (None, 0));
    let left: Vec<&String> =
        rig.store.keys().filter(|key| key.starts_with(keys::STATE) && key.contains("second")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_quarantined_group_is_retried_after_a_while() {
    let mut rig = panicking();
    rig.command("bad", create_bad("bad"));
    rig.core.settings.faults = Faults::default();
    rig.advance(200);
    assert_eq!(rig.all_pods("bad").len(), 0);
    rig.advance(120);
    assert_eq!((rig.all_pods("bad").len(), rig.quarantined().len()), (2, 0));
}

#[test]
fn a_dependency_pod_whose_reconcile_panics_is_quarantined_alone() {
    let mut rig = panicking();
    let pod = bad("side").pod;
    assert_eq!(rig.command("side", Verb::CreateDependency { pod: Box::new(pod) }), "Accepted");
    assert_eq!(rig.command("sound", create("sound", 2)), "Accepted");
    assert_eq!(rig.all_pods("sound").len(), 2);
    assert_eq!(
        rig.quarantined(),
        ["dependency side: reconciling it panicked: on purpose, by a mutant of the scheduler"]
    );
    let removal = Verb::RemoveDependency { name: group("side"), force: true };
    assert_eq!(rig.command("remove", removal), "Accepted");
    rig.advance(5);
    assert_eq!(rig.quarantined(), [""; 0]);
}

#[test]
fn a_command_whose_application_panics_is_refused_once_and_changes_nothing() {
    let mut rig = panicking();
    rig.command("web", create("web", 2));
    rig.advance(60);
    let record = rig.record("web");
    let decision = rig.command("worse", patch("web", "panic-in-command"));
    assert!(decision.contains("panicked while it applied the command: on purpose"), "{decision}");
    assert_eq!(rig.record("web"), record);
    let sequence = rig.sequence;
    assert_eq!(rig.core.cursor().sequence, sequence, "the command is not read again");
    assert_eq!(rig.command("next", replica("web", 3)), "Accepted");
}

#[test]
fn a_report_that_cannot_be_processed_quarantines_its_node_and_moves_nothing() {
    let mut rig = panicking();
    rig.command("web", create("web", 2));
    rig.advance(60);
    let placed = rig.places("web");
    "panic-in-report".clone_into(&mut rig.agent("a").zone);
    rig.advance(600);
    assert_eq!(rig.quarantined(), ["node a: reconciling it panicked: on purpose, by a mutant of the scheduler"]);
    assert_eq!(rig.places("web"), placed);
    assert_eq!(rig.command("more", create("more", 2)), "Accepted");
    assert!(rig.places("more").iter().all(|(node, _)| node == "b"), "nothing is placed there");
    rig.agent("a").zone.clear();
    rig.advance(5);
    assert_eq!((rig.quarantined().len(), rig.places("web")), (0, placed));
}

impl Rig {
    /// Passes one input to the core; the store refuses every commit that contains a write matching `refuse`.
    fn run_refusing(&mut self, input: Input, refuse: &dyn Fn(&Write) -> bool) {
        let mut queue: VecDeque<Effect> = self.input(input).into();
        while let Some(effect) = queue.pop_front() {
            let result = match effect {
                Effect::Commit(commit) if commit.writes.iter().any(refuse) => {
                    let reason = "etcdserver: request is too large".to_owned();
                    Some(Input::Committed { id: commit.id, result: CommitResult::Invalid { reason } })
                }
                effect => self.perform_one(effect),
            };
            if let Some(input) = result {
                queue.extend(self.input(input));
            }
        }
    }
}

fn placement_of(name: &str) -> impl Fn(&Write) -> bool {
    let large = keys::placement(&group(name), 0);
    move |write| matches!(write, Write::Put { key, .. } if *key == large)
}

#[test]
fn a_placement_that_the_store_refuses_quarantines_its_group_and_the_others_are_stored() {
    let mut rig = rig(&["a", "b"]);
    let refuse = placement_of("large");
    let large = rig.delivery("large", create("large", 2));
    let small = rig.delivery("small", create("small", 2));
    let now = rig.time();
    let effects = rig.core.on_one_of_many(Input::Command(large), now);
    assert_eq!(effects, []);
    rig.run_refusing(Input::Command(small), &refuse);
    assert_eq!((rig.all_pods("large").len(), rig.all_pods("small").len()), (0, 2));
    let decisions: Vec<String> = ["large", "small"].map(|id| format!("{:?}", rig.outcomes[id].decision)).into();
    assert_eq!(decisions, ["Accepted", "Accepted"], "the records of both groups are stored");
    let reason = "the store refused to store it: etcdserver: request is too large";
    assert_eq!(rig.quarantined(), [format!("group large: {reason}")]);
    rig.advance(5);
    let removal = rig.delivery("remove", remove("large"));
    rig.run_refusing(Input::Command(removal), &refuse);
    rig.advance(5);
    assert_eq!((rig.group("large"), rig.quarantined().len()), (None, 0));
}

#[test]
fn a_command_whose_record_the_store_refuses_is_refused_and_so_are_commands_that_depend_on_it() {
    let mut rig = rig(&["a"]);
    let refuse = |write: &Write| matches!(write, Write::Put { key, .. } if *key == keys::group(&group("large")));
    let large = rig.delivery("large", create("large", 1));
    let effects = rig.input(Input::Command(large));
    let id = first_commit(effects).expect("a commit").id;
    // Both arrive while the first commit is in flight.
    let operate = rig.delivery("stop", Verb::Replica { name: group("large"), num_instances: 2, restart_policy: None });
    assert_eq!(without_events(rig.input(Input::Command(operate))), []);
    let other = rig.delivery("other", create("other", 1));
    assert_eq!(without_events(rig.input(Input::Command(other))), []);
    let reason = "etcdserver: request is too large".to_owned();
    rig.run_refusing(Input::Committed { id, result: CommitResult::Invalid { reason } }, &refuse);
    let decision = |rig: &Rig, id: &str| format!("{:?}", rig.outcomes[id].decision);
    assert!(decision(&rig, "large").contains("the store refused to store it"), "{}", decision(&rig, "large"));
    assert!(decision(&rig, "stop").starts_with("Refused"), "{}", decision(&rig, "stop"));
    assert_eq!(decision(&rig, "other"), "Accepted");
    assert_eq!(rig.core.cursor().sequence, rig.sequence);
    assert_eq!((rig.group("large"), rig.all_pods("other").len()), (None, 1));
    assert_eq!(rig.command("again", create("large", 1)), "Accepted", "the name is free");
}

#[test]
fn a_group_with_an_unreadable_record_is_quarantined_and_can_be_removed() {
    let (record, former) = (keys::group(&group("web")), keys::former_placement(&group("web")));
    for (unreadable, is_out_of_range) in [(record.clone(), false), (former, false), (record, true)] {
        let mut rig = rig(&["a", "b"]);
        rig.command("web", create("web", 2));
        rig.command("sound", create("sound", 1));
        rig.advance(10);
        let text = String::from_utf8_lossy(rig.store.get(&unreadable).map_or(&[], Vec::as_slice)).into_owned();
        let numbered = text.replace("\"NumInstances\":2", "\"NumInstances\":9223372036854775807");
        let garbage = if is_out_of_range { numbered } else { "{".to_owned() };
        rig.store.insert(unreadable.clone(), garbage.into_bytes());
        rig.take_over();
        rig.advance(400);
        let quarantined = rig.quarantined();
        assert_eq!(quarantined.len(), 1, "{quarantined:?}");
        assert!(quarantined[0].starts_with(&format!("group web: {unreadable} cannot be read")), "{quarantined:?}");
        assert_eq!(
            rig.agents.values().flat_map(|agent| &agent.order.spared).count(),
            2,
            "both nodes spare its containers"
        );
        assert_eq!(rig.command("create", create("web", 1)), "Refused(GroupExists)");
        let removed = Verb::RemoveGroup { name: group("web"), removal: contract::command::Removal::Foreground };
        assert_eq!(rig.command("remove", removed), "Accepted");
        assert_eq!((rig.quarantined(), rig.all_pods("sound").len()), (Vec::new(), 1));
        assert!(
            rig.agents.values().all(|agent| agent.order.spared.is_empty()),
            "its containers are not spared any more"
        );
        assert!(!rig.store.keys().any(|key| key.contains("state/") && key.contains("web")), "{:?}", rig.store.keys());
        assert_eq!(rig.command("again", create("web", 1)), "Accepted");
    }
}

#[test]
fn the_last_event_of_an_object_that_fails_repeatedly_is_its_quarantine() {
    let mut rig = panicking();
    rig.command("bad", create_bad("bad"));
    for number in 0..10 {
        let mut pod = bad("bad").pod;
        pod.labels.insert("attempt".to_owned(), number.to_string());
        let patch = Verb::PatchSpec { name: group("bad"), pod: Box::new(pod), cause: String::new() };
        assert_eq!(rig.command(&format!("p{number}"), patch), "Accepted");
        rig.advance(5);
    }
    let events = rig.quarantine_events();
    assert!(events.last().is_some_and(|last| last.starts_with("quarantined: ")), "{events:?}");
    assert!(events.len() <= 3, "{events:?}");
}

#[test]
fn an_earlier_wake_up_does_not_change_the_retry_time_of_a_quarantined_group() {
    let mut rig = panicking();
    rig.command("bad", create_bad("bad"));
    rig.advance(5);
    rig.run(Input::Query { query: Query::Group { name: group("bad"), refresh: true }, reply: "q".to_owned() });
    rig.core.settings.faults = Faults::default();
    rig.advance(290);
    assert_eq!(rig.all_pods("bad").len(), 0, "not before the retry time");
    rig.advance(20);
    assert_eq!((rig.quarantined(), rig.all_pods("bad").len()), (Vec::new(), 2));
}

#[test]
fn a_history_page_that_the_store_refuses_is_dropped_and_the_leader_continues() {
    let mut rig = rig(&["a"]);
    rig.command("web", create("web", 1));
    rig.advance(10);
    let page = Write::Put { key: keys::history(&group("web"), 0), value: b"{}".to_vec(), expires: false };
    let bundle = crate::core::commit::Bundle { writes: vec![page], ..Default::default() };
    let effects = rig.core.lead(|leading| leading.decide(bundle));
    let [Effect::Commit(commit)] = effects.as_slice() else { panic!("{effects:?}") };
    let result = CommitResult::Invalid { reason: "etcdserver: request is too large".to_owned() };
    rig.run(Input::Committed { id: commit.id, result });
    assert_eq!((rig.stepped_down.clone(), rig.quarantined()), (None, Vec::new()));
    assert_eq!(rig.command("more", replica("web", 2)), "Accepted");
}
