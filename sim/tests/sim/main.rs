//! A thousand histories hold every invariant, each the same twice; without any one guard some history does not.

mod plans;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sim::checks::invariants::Invariant;
use sim::mutant::Mutant;
use sim::run::{once, run};

/// Histories of the test run, in four parts so that each has a time of its own; `cargo run -p sim -- --seeds N` runs more.
const SEEDS: u64 = 1_000;
/// A missing guard is found in so many histories at most.
const MOST_SEEDS: u64 = 1_000;

/// Calls `look` for the first seeds on all processors until it is told to stop.
fn for_each_seed(seeds: u64, look: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    if !look(seed) {
                        next.store(seeds, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

/// Every history of one part holds every invariant and is the same twice.
fn hold(part: u64) {
    let breaches = Mutex::new(Vec::new());
    for_each_seed(SEEDS / 4, |number| {
        let seed = part * SEEDS / 4 + number;
        if let Some(violation) = run(seed, None, false).violation {
            breaches
                .lock()
                .expect("nobody panics with it")
                .push(format!("seed {seed}: {:?}: {}", violation.invariant, violation.detail));
        }
        true
    });
    let breaches = breaches.into_inner().expect("nobody panics with it");
    assert!(breaches.is_empty(), "replay with `cargo run -p sim -- --seed N --trace`\n{}", breaches.join("\n"));
}

#[test]
fn every_history_of_the_first_part_holds_every_invariant_and_is_the_same_twice() {
    hold(0);
}

#[test]
fn every_history_of_the_second_part_holds_every_invariant_and_is_the_same_twice() {
    hold(1);
}

#[test]
fn every_history_of_the_third_part_holds_every_invariant_and_is_the_same_twice() {
    hold(2);
}

#[test]
fn every_history_of_the_fourth_part_holds_every_invariant_and_is_the_same_twice() {
    hold(3);
}

/// Whether some history breaks `invariant` when a guard is off.
fn finds(mutant: Mutant, invariant: Invariant) -> bool {
    let found = AtomicBool::new(false);
    for_each_seed(MOST_SEEDS, |seed| {
        let breach = once(seed, Some(mutant), false).violation.map(|violation| violation.invariant);
        found.fetch_or(breach == Some(invariant), Ordering::Relaxed);
        !found.load(Ordering::Relaxed)
    });
    found.into_inner()
}

#[test]
fn agents_that_obey_deposed_leaders_are_found() {
    assert!(finds(Mutant::NoFence, Invariant::NoStaleOrder));
}

#[test]
fn agents_that_acknowledge_what_they_forget_are_found() {
    assert!(finds(Mutant::NoLedger, Invariant::AcknowledgedIsKept));
}

#[test]
fn agents_that_acknowledge_before_they_keep_are_found() {
    assert!(finds(Mutant::AcknowledgesFirst, Invariant::AcknowledgedIsKept));
}

#[test]
fn agents_that_change_another_order_than_was_meant_are_found() {
    assert!(finds(Mutant::AnyBase, Invariant::AcknowledgedIsKept));
}

#[test]
fn agents_that_trust_their_memory_after_the_engine_was_away_are_found() {
    assert!(finds(Mutant::ListsOnce, Invariant::Converges));
}

#[test]
fn agents_that_start_a_container_twice_are_found() {
    assert!(finds(Mutant::WorksTwice, Invariant::OneStepAtATime));
}

#[test]
fn a_leader_that_takes_one_pod_of_an_instance_for_another_is_found() {
    assert!(finds(Mutant::CountsByName, Invariant::OneAtATime));
}

#[test]
fn a_leader_that_acts_before_its_decision_is_stored_is_found() {
    assert!(finds(Mutant::EffectsBeforeCommit, Invariant::EffectsFollowCommits));
}

#[test]
fn a_command_that_takes_effect_twice_is_found() {
    assert!(finds(Mutant::NoDeduplication, Invariant::CommandsHoldOnce));
}

#[test]
fn a_fresh_leader_that_calls_silent_nodes_lost_is_found() {
    assert!(finds(Mutant::NoFailoverGrace, Invariant::NothingMovesByFailover));
}

#[test]
fn a_leader_that_plans_while_stopped_or_changes_what_is_read_only_is_found() {
    assert!(finds(Mutant::NoBrakes, Invariant::StoppedMeansStopped));
    assert!(finds(Mutant::NoBrakes, Invariant::CommandsHoldOnce));
}

#[test]
fn a_store_that_takes_a_deposed_leaders_writes_is_found() {
    assert!(finds(Mutant::NoGuard, Invariant::NoStaleWrite));
}

#[test]
fn a_store_that_takes_late_copies_of_earlier_commits_is_found() {
    assert!(finds(Mutant::NoOrder, Invariant::CursorMovesForward));
}

#[test]
fn a_leader_that_gives_a_port_to_two_groups_is_found() {
    assert!(finds(Mutant::NoPortClaims, Invariant::PortsHaveOneOwner));
}

#[test]
fn an_instance_that_is_ordered_elsewhere_before_it_is_let_go_of_is_found() {
    assert!(finds(Mutant::NoLettingGo, Invariant::NotBeforeLetGo));
    assert!(finds(Mutant::NoLettingGo, Invariant::StatefulRunsOnce));
}

#[test]
fn an_upgrade_that_starts_what_was_stopped_is_found() {
    assert!(finds(Mutant::ForgetsStops, Invariant::AsksHoldOnce));
}

#[test]
fn a_drift_that_does_not_wait_for_the_lock_is_found() {
    // Instances wait for each other all the same; what the operation had still to ask for is forgotten.
    assert!(finds(Mutant::NoLock, Invariant::AsksHoldOnce));
}

#[test]
fn a_version_that_is_not_counted_by_the_leader_is_found() {
    assert!(finds(Mutant::ClientsVersion, Invariant::CommandsHoldOnce));
    assert!(finds(Mutant::VersionGoesBack, Invariant::CommandsHoldOnce));
}

#[test]
fn dependency_pods_that_are_forgotten_at_a_takeover_are_found() {
    assert!(finds(Mutant::ForgetsPairs, Invariant::Converges));
}

#[test]
fn dependency_pods_that_only_stand_beside_what_runs_are_found() {
    assert!(finds(Mutant::NeedsOfRunning, Invariant::NeedsAreMet));
}

#[test]
fn a_leader_that_forgets_who_is_cordoned_is_found() {
    assert!(finds(Mutant::ForgetsCordons, Invariant::CordonsHold));
}

#[test]
fn an_agent_that_restarts_twice_what_was_asked_for_once_is_found() {
    assert!(finds(Mutant::ForgetsRestarts, Invariant::RestartedOncePerAsk));
}

#[test]
fn a_release_that_does_not_wait_to_be_confirmed_is_found() {
    assert!(finds(Mutant::ConfirmsItself, Invariant::GroupsAreStarted));
}

#[test]
fn a_release_that_is_not_stored_with_what_it_changed_is_found() {
    assert!(finds(Mutant::ForgetsReleases, Invariant::GroupsAreStarted));
}

#[test]
fn a_release_that_surges_more_than_it_may_is_found() {
    assert!(finds(Mutant::SurgesMore, Invariant::TotalIsKept));
}

#[test]
fn a_release_that_takes_more_out_of_service_than_it_may_is_found() {
    assert!(finds(Mutant::TakesMore, Invariant::MinimumServes));
}

#[test]
fn a_pod_that_is_touched_while_it_serves_is_found() {
    assert!(finds(Mutant::SkipsDrains, Invariant::DrainedBeforeTouched));
}

#[test]
fn a_way_back_that_touches_everybody_is_found() {
    assert!(finds(Mutant::SparesNobody, Invariant::RollbackSpares));
}

#[test]
fn an_orphan_whose_containers_are_removed_is_found() {
    assert!(finds(Mutant::SweepsOrphans, Invariant::OrphansAreSpared));
}
