//! The adapter of each function that a vector may name.

use serde_json::Value;

use super::input::{InputError, VectorInput};
use super::{pods, rolling, sets, transitions, units};

pub(crate) type Adapter = fn(&VectorInput) -> Result<Value, InputError>;

const TABLE: &[(&str, Adapter)] = &[
    ("resolve_fenceposts", rolling::resolve_fenceposts),
    ("effective_limits", rolling::effective_limits),
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
    ("history_cleanup", sets::history_cleanup),
    ("pod_available", pods::pod_available),
    ("next_availability_check", pods::next_availability_check),
    ("slow_start_batches", pods::slow_start_batches),
    ("slow_start_run", pods::slow_start_run),
    ("manage_replicas", pods::manage_replicas),
    ("parse_deletion_cost", pods::parse_deletion_cost),
    ("age_bucket", pods::age_bucket),
    ("deletion_order", pods::deletion_order),
    ("pick_beta_pod", pods::pick_beta_pod),
    ("allocate_units", units::allocate_units),
    ("batch_plan", units::batch_plan),
    ("resolve_batch_size", units::resolve_batch_size),
    ("unit_scale_split", units::unit_scale_split),
    ("auto_reschedule", units::auto_reschedule),
    ("rebalance_step", units::rebalance_step),
    ("cafe_release_step", transitions::cafe_release_step),
    ("inplace_verdict", transitions::inplace_verdict),
];

pub(crate) fn adapter(function: &str) -> Option<Adapter> {
    TABLE.iter().find(|(name, _)| *name == function).map(|(_, adapter)| *adapter)
}
