//! Which adapter answers for which function.

use serde_json::Value;

use crate::input::{Answer, Input};
use crate::{keeping, release, rolling, serial, sets, units};

pub(crate) type Adapter = fn(&Input) -> Answer<Value>;

const TABLE: &[(&str, Adapter)] = &[
    ("resolve_fenceposts", rolling::resolve_fenceposts),
    ("effective_limits", rolling::effective_limits),
    ("validate_rolling", rolling::validate_rolling),
    ("new_set_target", rolling::new_set_target),
    ("rolling_step", rolling::rolling_step),
    ("cleanup_unhealthy", rolling::cleanup_unhealthy),
    ("rolling_trace", rolling::rolling_trace),
    ("scale_sets", sets::scale_sets),
    ("set_fraction", sets::set_fraction),
    ("recreate_step", sets::recreate_step),
    ("deployment_complete", sets::deployment_complete),
    ("deployment_progressing", sets::deployment_progressing),
    ("deployment_timed_out", sets::deployment_timed_out),
    ("progress_condition", sets::progress_condition),
    ("next_revision", sets::next_revision),
    ("rollback_target", sets::rollback_target),
    ("revision_history_append", sets::revision_history_append),
    ("history_cleanup", sets::history_cleanup),
    ("pod_available", keeping::pod_available),
    ("next_availability_check", keeping::next_availability_check),
    ("slow_start_batches", keeping::slow_start_batches),
    ("slow_start_run", keeping::slow_start_run),
    ("manage_replicas", keeping::manage_replicas),
    ("parse_deletion_cost", keeping::parse_deletion_cost),
    ("age_bucket", keeping::age_bucket),
    ("deletion_order", keeping::deletion_order),
    ("pick_beta_pod", keeping::pick_beta_pod),
    ("allocate_units", units::allocate_units),
    ("batch_plan", units::batch_plan),
    ("resolve_batch_size", units::resolve_batch_size),
    ("unit_scale_split", units::unit_scale_split),
    ("auto_reschedule", units::auto_reschedule),
    ("rebalance_step", units::rebalance_step),
    ("cafe_release_step", release::cafe_release_step),
    ("inplace_verdict", release::inplace_verdict),
    ("inplace_next", release::inplace_next),
    ("deployd_scale", serial::deployd_scale),
    ("deployd_upgrade", serial::deployd_upgrade),
    ("deployd_depend_gc", serial::deployd_depend_gc),
    ("deployd_should_drift", serial::deployd_should_drift),
];

/// The adapter of a function, if it is known here.
pub(crate) fn adapter(function: &str) -> Option<Adapter> {
    TABLE.iter().find(|(name, _)| *name == function).map(|(_, adapter)| *adapter)
}
