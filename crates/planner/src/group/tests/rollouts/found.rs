//! What the simulator found, as small as it gets.

use contract::report::ContainerFacts;
use contract::rollout::{Drain, FailureAction, PodReplacement};
use contract::state::RestartPolicy;

use super::*;

#[test]
fn a_start_asked_for_meanwhile_is_not_forgotten_when_the_second_pod_takes_over() {
    let mut cluster = cluster(2, &["a", "b"], rolling(1, 0));
    cluster.patch(|_| ()).run(1);
    assert!(cluster.world.slots[0].next.is_some());
    cluster.slot(1).starts_requested = 1;
    cluster.told().run(60);
    assert_eq!((cluster.versions(), cluster.world.slots[0].starts_requested), (all(1, 2), 1));
}

#[test]
fn who_is_not_heard_makes_no_place_for_a_pod_that_is_not_ready() {
    let mut cluster = cluster(4, &["a", "b"], rolling(2, 2));
    cluster.manners.insert(1, Manner::Unwell);
    cluster.patch(|_| ()).run(4);
    cluster.world.candidate("a").liveness = Liveness::Suspect;
    let silent = |cluster: &Cluster| -> Vec<usize> {
        let is_silent = |slot: &Slot| slot.version == 0 && slot.node == Some(name("a")) && slot.draining.is_none();
        (1..).zip(&cluster.world.slots).filter(|(_, slot)| is_silent(slot)).map(|(number, _)| number).collect()
    };
    let before = silent(&cluster);
    assert!(before.iter().any(|number| cluster.world.slots[number - 1].next.is_some()), "{:?}", cluster.world.slots);
    cluster.patch(|_| ()).run(4);
    assert_eq!(silent(&cluster), before);
}

#[test]
fn a_clock_that_is_far_ahead_keeps_nobody_from_counting() {
    let mut cluster = cluster(1, &["a"], rolling(1, 0));
    cluster.world.record.spec.min_ready_seconds = Some(10);
    let observed = cluster.world.observed[0].as_mut().expect("it runs");
    observed.healthy_since = at(cluster.now + 600);
    let available = |cluster: &Cluster| {
        let plan = cluster.world.plan(cluster.now);
        plan.report.expect("a report").units.iter().map(|unit| unit.available).sum::<i64>()
    };
    assert_eq!(available(&cluster), 1);
    let observed = cluster.world.observed[0].as_mut().expect("it runs");
    observed.healthy_since = at(cluster.now + 1);
    assert_eq!(available(&cluster), 0, "one that is a little ahead is believed");
}

#[test]
fn a_drain_that_is_not_stored_yet_has_no_grace_behind_it() {
    let mut cluster = cluster(3, &["a", "b"], rolling(0, 1));
    cluster.world.record.spec.drain = Some(Drain { grace_seconds: 5, needs_answer: false, timeout_seconds: None });
    cluster.patch(|_| ()).tick();
    let is_drained = |cluster: &Cluster| cluster.world.slots.iter().any(|slot| slot.draining.is_some());
    assert!(is_drained(&cluster));
    cluster.world.is_unstored = true;
    cluster.run(20);
    assert_eq!((cluster.versions(), is_drained(&cluster)), (all(0, 3), true), "nobody outside could have seen it");
    cluster.world.is_unstored = false;
    cluster.told().run(60);
    assert_eq!(cluster.versions(), all(1, 3));
}

#[test]
fn an_adopted_pod_whose_node_does_not_know_it_is_wanted_is_not_taken_for_one_that_is_down() {
    let mut cluster = cluster(3, &["a", "b"], rolling(0, 1));
    let observed = cluster.world.observed[2].as_mut().expect("it runs");
    observed.leaving = true;
    cluster.world.patch(cluster.now, |_| ());
    cluster.world.record.operation = None;
    let plan = cluster.world.plan(cluster.now);
    assert_eq!(plan.statuses[2], InstanceStatus::Unreachable);
    assert_eq!(plan.slots[2].version, 0, "it may well serve");
}

#[test]
fn who_is_left_behind_for_its_image_is_still_drained_before_it_is_touched() {
    let mut cluster = cluster(2, &["a", "b"], batches(StrategyType::Batch, 1));
    cluster.world.record.spec.failure_action = Some(FailureAction::Continue);
    cluster.world.record.spec.drain = Some(Drain { grace_seconds: 5, needs_answer: true, timeout_seconds: Some(100) });
    cluster.manners.insert(1, Manner::NoImage);
    cluster.patch(|pod| pod.containers[0].image = "bad".to_owned()).run(16);
    let drained = cluster.world.slots.iter().filter(|slot| slot.draining.is_some()).count();
    assert_eq!((cluster.versions(), drained > 0), (all(0, 2), true), "somebody may still answer");
    cluster.run(10);
    assert!(cluster.world.slots.iter().any(|slot| slot.version == 1), "nobody did: {:?}", cluster.world.slots);
}

#[test]
fn who_takes_over_without_a_place_comes_when_the_one_before_is_gone() {
    let mut cluster = cluster(4, &["a", "b", "c", "d", "e", "f"], rolling(2, 1));
    cluster.world.record.spec.pod_replacement = Some(PodReplacement::Complete);
    cluster.patch(|pod| pod.containers[0].memory_limit = 1 << 50).run(8);
    let waits = |slot: &Slot| slot.next.as_ref().is_some_and(|next| next.node.is_none());
    let index = cluster.world.slots.iter().position(waits).expect("one that waits for a place");
    let old = cluster.world.slots[index].node.clone();
    cluster.world.observed[index].as_mut().expect("it runs").health = HealthState::Unhealthy;
    cluster.world.constraints.extend(old.as_ref().map(|old| format!("constraint:node!={old}")));
    cluster.patch(|pod| pod.containers[0].memory_limit = 1 << 20);
    let plan = cluster.world.plan(cluster.now);
    let slot = &plan.slots[index];
    assert_eq!((slot.version, slot.next.is_none()), (2, true), "{:?}", plan.slots);
    assert_eq!(slot.leaves, old, "one more than there may be: {slot:?}");
}

#[test]
fn a_release_that_counts_what_goes_waits_for_nodes_that_have_not_told_what_they_have() {
    let kinds = [
        (rolling(1, 0), PodReplacement::Complete, true),
        (strategy(StrategyType::Recreate), PodReplacement::Complete, true),
        (rolling(1, 0), PodReplacement::Started, false),
    ];
    for (strategy, replacement, waits) in kinds {
        let mut cluster = cluster(2, &["a", "b", "c"], strategy);
        cluster.world.record.spec.pod_replacement = Some(replacement);
        let is_free = |node: &NodeName| !cluster.world.slots.iter().any(|slot| slot.node.as_ref() == Some(node));
        let free = cluster.world.nodes.keys().find(|node| is_free(node)).expect("a free node").clone();
        cluster.world.candidate(free.as_str()).liveness = Liveness::Unknown;
        cluster.patch(|_| ()).run(20);
        let versions = if waits { all(0, 2) } else { all(1, 2) };
        assert_eq!((cluster.versions(), cluster.serving()), (versions, 2), "{replacement:?}");
        cluster.world.candidate(free.as_str()).liveness = Liveness::Alive;
        cluster.told().run(20);
        assert_eq!(cluster.versions(), all(1, 2));
    }
}

#[test]
fn who_ended_and_is_not_started_again_by_its_policy_is_known_to_be_down_for_good() {
    let ended = |exit_code, is_crash_looping| {
        let containers = vec![ContainerFacts { exit_code, finished_at: at(1), ..Default::default() }];
        PodFacts { state: RunState::Exit, containers, is_crash_looping, ..Default::default() }
    };
    let cases = [
        (RestartPolicy::Never, ended(1, false), true),
        (RestartPolicy::OnFail, ended(0, false), true),
        (RestartPolicy::OnFail, ended(1, false), false),
        (RestartPolicy::OnFail, ended(1, true), true),
        (RestartPolicy::Always, ended(0, false), false),
        (RestartPolicy::Always, ended(0, true), true),
    ];
    for (policy, observed, is_finished) in cases {
        let mut cluster = cluster(2, &["a"], rolling(0, 1));
        cluster.world.record.spec.restart_policy = policy;
        cluster.world.observed[0] = Some(observed);
        let phase = cluster.world.look(|facts| {
            let mut planning = Planning::new(facts, at(cluster.now));
            planning.load_slots();
            planning.controller_facts().0.slots[0].main.as_ref().map(|main| main.phase)
        });
        assert_eq!(phase.map(|phase| phase.is_finished()), Some(is_finished), "{policy:?}");
    }
}

#[test]
fn what_was_answered_to_a_patch_that_cannot_be_is_not_lost_to_who_is_stuck_for_a_moment() {
    let mut cluster = cluster(2, &["a"], rolling(0, 1));
    cluster.world.candidate("a").facts.memory = 160 * MIB;
    cluster.patch(|pod| pod.containers[0].memory_limit = 128 << 20).run(3);
    assert!(cluster.world.record.last_error.contains("is not upgraded to version 1"));
    let said = "port 9001 is taken by another group";
    said.clone_into(&mut cluster.world.record.last_error);
    cluster.told().tick();
    assert_eq!(cluster.world.record.last_error, said);
    cluster.world.candidate("a").facts.memory = 1024 * MIB;
    cluster.told().run(60);
    assert_eq!((cluster.versions(), cluster.world.record.last_error.as_str()), (all(1, 2), said));
}
