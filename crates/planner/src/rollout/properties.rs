//! The properties of releases and how many cases each is held against: the one list of them.
//!
//! The same cases in every run, so that only a change can make one fail. `PROPTEST_RNG_SEED` tries others, `PROPTEST_CASES`
//! more or fewer of each. Pure functions are cheap and get thousands; a case of the conductor is a whole history.

use proptest::test_runner::{Config, RngSeed};

/// Of a function.
const MANY: u32 = 4_000;
/// Of a history.
const SOME: u32 = 2_000;

pub(crate) const PROPERTIES: &[(&str, u32)] = &[
    // Numbers and limits.
    ("both_roundings_are_within_one_of_the_exact_value", MANY),
    ("something_may_always_move_and_the_bounds_enclose_the_replicas", MANY),
    ("the_budgets_are_never_both_zero", MANY),
    ("no_number_is_too_large", MANY),
    // Sets.
    ("a_step_keeps_the_limits", MANY),
    ("a_healthy_version_reaches_every_pod_and_a_broken_one_leaves_enough", MANY),
    ("a_rollout_with_failing_pods_converges_once_they_recover", MANY),
    ("no_set_is_too_large_to_roll", MANY),
    ("with_numbers_of_the_last_scaling_the_sizes_sum_up_to_what_is_allowed", MANY),
    ("every_set_keeps_its_part_and_the_largest_takes_the_rest", MANY),
    ("no_set_is_too_large_to_scale", MANY),
    ("nothing_new_comes_before_everything_old_is_gone", MANY),
    // Time.
    ("the_next_look_is_the_moment_a_pod_turns_available", MANY),
    ("below_the_highest_seen_nothing_moves_the_deadline", MANY),
    // Revisions.
    ("forgetting_spares_the_last_completed_revision_and_all_in_use", MANY),
    // Choosing pods.
    ("batches_sum_up_and_failing_calls_are_fewer_than_good_ones_and_one", MANY),
    ("no_set_is_too_large_to_keep", MANY),
    ("the_order_does_not_depend_on_how_the_pods_came", MANY),
    ("the_order_is_total_and_takes_who_serves_last", MANY),
    // Units.
    ("the_parts_sum_up_and_each_is_its_share_rounded", MANY),
    ("no_weight_is_too_large", MANY),
    ("the_parts_sum_up_to_the_replicas", MANY),
    ("a_division_that_was_made_is_made_again", MANY),
    ("no_wish_is_too_large", MANY),
    ("groups_reach_the_target_within_the_batch_size_and_the_share", MANY),
    ("the_groups_from_anywhere_are_the_rest_of_the_plan", MANY),
    ("no_group_is_too_large", MANY),
    ("shares_are_as_if_taken_one_by_one", MANY),
    ("a_split_conserves_the_total_and_the_ratio", MANY),
    ("no_split_is_too_large", MANY),
    ("a_step_keeps_as_many_available_as_are_wanted", MANY),
    ("once_everything_is_available_the_targets_are_reached", MANY),
    ("no_unit_is_too_large_to_rebalance", MANY),
    ("quota_is_neither_made_nor_lost", MANY),
    ("a_group_starts_only_when_the_one_before_was_done_and_confirmed", MANY),
    // The conductor.
    ("a_rolling_update_keeps_its_bounds_and_ends_whatever_is_killed", SOME),
    ("revisions_pushed_at_any_time_keep_the_bounds_and_the_last_one_wins", SOME),
    ("a_broken_revision_stalls_and_an_undo_leaves_healthy_old_pods_alone", SOME),
    ("groups_end_and_each_stays_within_its_size_and_its_share", SOME),
    ("every_group_but_the_last_is_confirmed_before_the_next", SOME),
    ("scaling_at_any_time_moves_no_unit_along_and_everything_ends", SOME),
    ("scaling_a_rolling_update_keeps_both_bounds", SOME),
    ("moving_between_units_keeps_as_many_serving_as_are_wanted", SOME),
    ("pods_without_room_go_where_there_is_some_and_the_release_ends", SOME),
    ("units_declared_in_another_order_move_nobody", SOME),
    ("another_strategy_in_the_middle_of_a_release_brings_it_to_its_end", SOME),
    ("nothing_moves_in_a_freeze_and_a_pause_lets_only_scaling_through", SOME),
    ("what_is_executed_is_what_was_planned", SOME),
    ("the_plan_of_what_a_plan_leads_to_is_empty", SOME),
    ("a_leader_change_at_any_point_changes_nothing", SOME),
    ("whatever_happened_when_it_is_quiet_the_group_becomes_what_is_wanted", SOME),
    ("from_any_state_a_second_leader_does_nothing_more_and_the_plan_ends", SOME),
];

/// How the property of this name is run.
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

/// A property of the list.
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

/// Everything below a folder that is Rust.
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
