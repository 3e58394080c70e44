//! The list of all properties of rollouts, and the number of cases of each.
//!
//! Each run has the same cases, so only a change of the code can make one fail. `PROPTEST_RNG_SEED` tries others,
//! `PROPTEST_CASES` changes their number. A case of the controller is a whole history, hence fewer of them.

use proptest::test_runner::{Config, RngSeed};

/// Cases of a pure function.
const MANY: u32 = 4_000;
/// Cases of a history.
const SOME: u32 = 2_000;

pub(crate) const PROPERTIES: &[(&str, u32)] = &[
    // Numbers and limits.
    ("both_roundings_are_within_one_of_the_exact_value", MANY),
    ("something_may_always_move_and_the_bounds_enclose_the_replicas", MANY),
    ("the_budgets_are_never_both_zero", MANY),
    ("no_percentage_overflows", MANY),
    // Sets.
    ("a_step_keeps_the_limits", MANY),
    ("a_healthy_version_reaches_every_pod_and_a_broken_one_leaves_enough", MANY),
    ("a_rollout_with_failing_pods_converges_once_they_recover", MANY),
    ("no_rolling_step_overflows", MANY),
    ("with_numbers_of_the_last_scaling_the_sizes_sum_up_to_what_is_allowed", MANY),
    ("every_set_keeps_its_part_and_the_largest_takes_the_rest", MANY),
    ("no_scaling_overflows", MANY),
    ("no_new_pod_starts_before_all_old_pods_are_gone", MANY),
    // Time.
    ("the_next_check_is_when_a_pod_becomes_available", MANY),
    ("counts_below_the_highest_do_not_postpone_the_deadline", MANY),
    // Revisions.
    ("forgetting_spares_the_last_completed_revision_and_all_in_use", MANY),
    // Ranking.
    ("batches_sum_up_and_failing_calls_are_fewer_than_good_ones_and_one", MANY),
    ("no_replica_change_overflows", MANY),
    ("the_order_does_not_depend_on_the_input_order", MANY),
    ("the_order_is_total_and_available_pods_come_last", MANY),
    // Units.
    ("the_parts_sum_up_and_each_is_its_share_rounded", MANY),
    ("no_apportionment_overflows", MANY),
    ("the_parts_sum_up_to_the_replicas", MANY),
    ("dividing_again_gives_the_same_division", MANY),
    ("no_allocation_overflows", MANY),
    ("batches_reach_the_target_within_the_batch_size_and_the_share", MANY),
    ("the_batches_from_any_point_are_the_rest_of_the_plan", MANY),
    ("no_batch_overflows", MANY),
    ("shares_are_as_if_taken_one_by_one", MANY),
    ("a_split_conserves_the_total_and_the_ratio", MANY),
    ("no_split_overflows", MANY),
    ("a_step_keeps_as_many_available_as_are_wanted", MANY),
    ("once_everything_is_available_the_targets_are_reached", MANY),
    ("no_rebalance_overflows", MANY),
    ("quota_is_neither_made_nor_lost", MANY),
    ("a_batch_starts_only_when_the_one_before_is_done_and_confirmed", MANY),
    // The controller.
    ("a_rolling_update_keeps_its_bounds_and_ends_whatever_is_killed", SOME),
    ("revisions_pushed_at_any_time_keep_the_bounds_and_the_last_one_wins", SOME),
    ("a_broken_revision_stalls_and_an_undo_leaves_healthy_old_pods_alone", SOME),
    ("batches_complete_within_their_size_and_share", SOME),
    ("each_batch_but_the_last_is_confirmed_before_the_next", SOME),
    ("scaling_at_any_time_advances_no_unit_and_the_rollout_completes", SOME),
    ("scaling_a_rolling_update_keeps_both_bounds", SOME),
    ("moves_between_units_keep_the_desired_number_available", SOME),
    ("unschedulable_pods_move_to_units_with_room_and_the_rollout_completes", SOME),
    ("a_new_order_of_units_moves_no_instance", SOME),
    ("a_rollout_completes_after_a_change_of_strategy", SOME),
    ("a_freeze_stops_everything_and_a_pause_everything_but_scaling", SOME),
    ("a_rollout_executes_its_plan", SOME),
    ("after_a_planned_rollout_the_next_plan_is_empty", SOME),
    ("a_leader_change_at_any_point_changes_nothing", SOME),
    ("after_any_faults_the_group_converges", SOME),
    ("from_any_state_a_second_decision_changes_nothing_and_the_plan_ends", SOME),
];

/// The configuration of a property.
pub(crate) fn config(name: &str) -> Config {
    let listed = PROPERTIES.iter().find(|(known, _)| *known == name).map(|(_, cases)| *cases);
    let cases = listed.unwrap_or_else(|| panic!("{name} is not in the list of properties"));
    let usual = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { cases };
    let rng_seed = match usual.rng_seed {
        RngSeed::Random => RngSeed::Fixed(20),
        RngSeed::Fixed(seed) => RngSeed::Fixed(seed),
    };
    Config { cases, rng_seed, failure_persistence: None, ..usual }
}

/// Defines properties that are in the list.
macro_rules! property {
    ($(fn $name:ident($($arguments:tt)*) $body:block)+) => {
        $(proptest::proptest! {
            #![proptest_config($crate::rollout::properties::config(stringify!($name)))]
            #[test]
            fn $name($($arguments)*) $body
        })+
    };
}
pub(crate) use property;

/// All Rust code below a folder.
fn sources(folder: &std::path::Path) -> String {
    let entries = std::fs::read_dir(folder).expect("the sources are there");
    let mut text = String::new();
    for path in entries.map(|entry| entry.expect("it can be read").path()) {
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|it| it == "rs") {
            text += &std::fs::read_to_string(&path).expect("it can be read");
        }
    }
    text
}

#[test]
fn the_list_of_properties_is_long_enough_and_true() {
    let text = sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rollout"));
    for (name, cases) in PROPERTIES {
        println!("{cases:>7}  {name}");
        assert_eq!(text.matches(&format!("fn {name}(")).count(), 1, "there is one property called {name}");
    }
    let cases: u32 = PROPERTIES.iter().map(|(_, cases)| cases).sum();
    println!("{cases:>7}  cases of {} properties", PROPERTIES.len());
    assert!(PROPERTIES.len() >= 20 && cases >= 100_000);
}
