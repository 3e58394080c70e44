//! 1,000 histories keep every invariant and are identical when repeated; each mutant breaks an invariant in some history.

mod plans;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sim::checks::invariants::Invariant;
use sim::mutant::Mutant;
use sim::run::{once, run};

/// Histories of the tests, in four parts with a timeout each; `cargo run -p sim -- --seeds N` runs more.
const SEEDS: u64 = 1_000;
/// Each mutant is found within this many histories.
const MOST_SEEDS: u64 = 1_000;

/// Calls `look` with seeds on all processors until it returns false.
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

/// Every history of one part keeps every invariant and is identical when repeated.
fn hold(part: u64) {
    let breaches = Mutex::new(Vec::new());
    for_each_seed(SEEDS / 4, |number| {
        let seed = part * SEEDS / 4 + number;
        if let Some(violation) = run(seed, None, false).violation {
            breaches
                .lock()
                .expect("no thread panics while it holds the lock")
                .push(format!("seed {seed}: {:?}: {}", violation.invariant, violation.detail));
        }
        true
    });
    let breaches = breaches.into_inner().expect("no thread panics while it holds the lock");
    assert!(breaches.is_empty(), "repeat with `cargo run -p sim -- --seed N --trace`\n{}", breaches.join("\n"));
}

#[test]
fn the_first_quarter_of_the_histories_keeps_every_invariant_and_is_repeatable() {
    hold(0);
}

#[test]
fn the_second_quarter_of_the_histories_keeps_every_invariant_and_is_repeatable() {
    hold(1);
}

#[test]
fn the_third_quarter_of_the_histories_keeps_every_invariant_and_is_repeatable() {
    hold(2);
}

#[test]
fn the_fourth_quarter_of_the_histories_keeps_every_invariant_and_is_repeatable() {
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
fn agents_that_do_not_keep_acknowledged_orders_are_found() {
    assert!(finds(Mutant::NoLedger, Invariant::AcknowledgedIsKept));
}

#[test]
fn agents_that_acknowledge_before_writing_to_disk_are_found() {
    assert!(finds(Mutant::AcknowledgesBeforeStoring, Invariant::AcknowledgedIsKept));
}

#[test]
fn agents_that_apply_a_delta_to_another_order_are_found() {
    assert!(finds(Mutant::IgnoresDeltaBase, Invariant::AcknowledgedIsKept));
}

#[test]
fn agents_that_do_not_list_containers_after_an_engine_outage_are_found() {
    assert!(finds(Mutant::ListsOnce, Invariant::Converges));
}

#[test]
fn agents_that_start_a_container_twice_are_found() {
    assert!(finds(Mutant::ActsTwice, Invariant::OneActionPerInstance));
}

#[test]
fn a_leader_that_takes_one_pod_of_an_instance_for_another_is_found() {
    assert!(finds(Mutant::MixesUpPods, Invariant::OneAtATime));
}

#[test]
fn a_leader_that_acts_before_its_decision_is_stored_is_found() {
    assert!(finds(Mutant::EffectsBeforeCommit, Invariant::EffectsFollowCommits));
}

#[test]
fn a_command_that_takes_effect_twice_is_found() {
    assert!(finds(Mutant::NoDeduplication, Invariant::CommandsTakeEffectOnce));
}

#[test]
fn a_fresh_leader_that_calls_silent_nodes_lost_is_found() {
    assert!(finds(Mutant::NoFailoverGrace, Invariant::NothingMovesByFailover));
}

#[test]
fn a_leader_that_ignores_scheduling_off_or_read_only_is_found() {
    assert!(finds(Mutant::IgnoresSwitches, Invariant::SchedulingOffPlacesNothing));
    assert!(finds(Mutant::IgnoresSwitches, Invariant::CommandsTakeEffectOnce));
}

#[test]
fn a_store_that_takes_a_deposed_leaders_writes_is_found() {
    assert!(finds(Mutant::IgnoresTerms, Invariant::NoStaleWrite));
}

#[test]
fn a_store_that_takes_late_copies_of_earlier_commits_is_found() {
    assert!(finds(Mutant::StoresLateCommits, Invariant::CursorMovesForward));
}

#[test]
fn a_leader_that_gives_a_port_to_two_groups_is_found() {
    assert!(finds(Mutant::NoPortClaims, Invariant::PortsHaveOneOwner));
}

#[test]
fn an_instance_that_starts_before_its_former_node_removed_it_is_found() {
    assert!(finds(Mutant::MovesBeforeRemoval, Invariant::MovesAfterRemoval));
    assert!(finds(Mutant::MovesBeforeRemoval, Invariant::StatefulRunsOnce));
}

#[test]
fn an_upgrade_that_starts_what_was_stopped_is_found() {
    assert!(finds(Mutant::ForgetsStops, Invariant::RequestsTakeEffectOnce));
}

#[test]
fn a_move_that_does_not_wait_for_the_lock_is_found() {
    // The operation that lost the lock forgets its remaining instances.
    assert!(finds(Mutant::NoLock, Invariant::RequestsTakeEffectOnce));
}

#[test]
fn a_version_that_is_not_counted_by_the_leader_is_found() {
    assert!(finds(Mutant::TakesClientVersion, Invariant::CommandsTakeEffectOnce));
    assert!(finds(Mutant::VersionGoesBack, Invariant::CommandsTakeEffectOnce));
}

#[test]
fn dependency_pods_that_are_forgotten_at_a_takeover_are_found() {
    assert!(finds(Mutant::ForgetsDependencies, Invariant::Converges));
}

#[test]
fn dependency_pods_that_are_missing_beside_stopped_instances_are_found() {
    assert!(finds(Mutant::IgnoresNeedsOfStopped, Invariant::DependenciesArePlaced));
}

#[test]
fn a_leader_that_forgets_cordons_is_found() {
    assert!(finds(Mutant::ForgetsCordons, Invariant::CordonsHold));
}

#[test]
fn an_agent_that_restarts_twice_per_request_is_found() {
    assert!(finds(Mutant::ForgetsRestarts, Invariant::OneRestartPerRequest));
}

#[test]
fn a_rollout_that_does_not_wait_for_confirmation_is_found() {
    assert!(finds(Mutant::SkipsConfirmations, Invariant::OnlyStartedBatchesUpdate));
}

#[test]
fn a_rollout_whose_state_is_not_stored_is_found() {
    assert!(finds(Mutant::ForgetsRollouts, Invariant::OnlyStartedBatchesUpdate));
}

#[test]
fn a_rollout_that_exceeds_max_surge_is_found() {
    assert!(finds(Mutant::ExceedsMaxSurge, Invariant::TotalIsKept));
}

#[test]
fn a_rollout_that_exceeds_max_unavailable_is_found() {
    assert!(finds(Mutant::ExceedsMaxUnavailable, Invariant::MinimumStaysAvailable));
}

#[test]
fn a_rollout_that_skips_drains_is_found() {
    assert!(finds(Mutant::SkipsDrains, Invariant::DrainedBeforeTouched));
}

#[test]
fn a_rollback_that_updates_every_instance_is_found() {
    assert!(finds(Mutant::SparesNothing, Invariant::RollbackSpares));
}

#[test]
fn an_agent_that_removes_orphaned_containers_is_found() {
    assert!(finds(Mutant::RemovesOrphans, Invariant::OrphansAreSpared));
}
