//! Converts the group's spec into the settings of the rollout controller, with defaults.

use std::time::Duration;

use contract::rollout::{Amount, Strategy, StrategyType};
use contract::spec::PodGroupSpec;

use crate::rollout::controller::{AutoReschedule, BatchStrategy, RolloutSettings, RolloutStrategy};
use crate::rollout::failure::FAIL_FAST_RESTARTS;
use crate::rollout::limits::USUAL_BUDGET;
use crate::rollout::progress;

/// Seconds for an outside system to answer `drained` or to open a gate.
const ANSWER_TIMEOUT: i64 = 300;
/// Seconds that a new pod may be unschedulable: a restarting node returns earlier, and users want to know soon that resources
/// are missing.
const PLACEMENT_PATIENCE: i64 = 60;

/// Whether an instance may have two pods at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SurgeRule {
    Allowed,
    /// The change is made in place: both pods would have the same address.
    InPlace,
    Stateful,
}

pub(super) fn settings(spec: &PodGroupSpec, surge_rule: SurgeRule, is_first_deployment: bool) -> RolloutSettings {
    let topology = spec.topology.as_ref();
    let auto = topology.and_then(|topology| topology.auto_reschedule.as_ref()).filter(|auto| auto.enable);
    RolloutSettings {
        strategy: style(spec, surge_rule, is_first_deployment),
        min_ready: spec.min_ready(),
        deadline: progress::deadline(Some(spec.progress_deadline())),
        replacement: spec.pod_replacement,
        keeps_addresses: surge_rule == SurgeRule::InPlace,
        failure_action: spec.on_failure(),
        fail_fast_restarts: spec.fail_fast_restarts.unwrap_or(FAIL_FAST_RESTARTS),
        failure_threshold: spec.failure_threshold.unwrap_or(Amount::Count(0)),
        // With automatic rescheduling, an unschedulable pod stays pending and is missing at the deadline.
        placement_patience: auto.is_none().then(|| before_the_deadline(spec, PLACEMENT_PATIENCE)),
        auto_reschedule: auto
            .map(|auto| AutoReschedule { delay: seconds(auto.initial_delay_seconds), fail_back: auto.fail_back }),
    }
}

fn style(spec: &PodGroupSpec, surge_rule: SurgeRule, is_first_deployment: bool) -> RolloutStrategy {
    let strategy = spec.strategy.clone().unwrap_or_default();
    match strategy.kind {
        // Serial groups do not use the controller; this is the nearest equivalent.
        StrategyType::Serial => {
            RolloutStrategy::Rolling { surge: Some(Amount::Count(0)), unavailable: Some(Amount::Count(1)) }
        }
        StrategyType::RollingUpdate => RolloutStrategy::Rolling {
            surge: Some(match surge_rule {
                SurgeRule::Allowed => strategy.max_surge.unwrap_or(USUAL_BUDGET),
                SurgeRule::InPlace | SurgeRule::Stateful => Amount::Count(0),
            }),
            unavailable: Some(strategy.max_unavailable.unwrap_or(USUAL_BUDGET)),
        },
        StrategyType::Recreate => RolloutStrategy::Recreate,
        StrategyType::Batch => RolloutStrategy::Batches(grouped(spec, &strategy, is_first_deployment)),
        StrategyType::Beta => RolloutStrategy::Batches(grouped(spec, &strategy, is_first_deployment)),
    }
}

fn grouped(spec: &PodGroupSpec, strategy: &Strategy, is_first_deployment: bool) -> BatchStrategy {
    BatchStrategy {
        batch_size: strategy.batch_size.unwrap_or(Amount::Count(1)),
        beta: strategy.kind == StrategyType::Beta,
        spread: spec.topology.as_ref().map(|topology| topology.spread).unwrap_or_default(),
        needs_confirm: strategy.need_waiting_for_confirm && (strategy.confirm_first_deployment || !is_first_deployment),
        window: strategy.window,
    }
}

/// The usual time, but at most half of the progress deadline, whose message says less.
fn before_the_deadline(spec: &PodGroupSpec, usual: i64) -> Duration {
    seconds(usual.min(spec.progress_deadline() / 2).max(1))
}

/// How instances are drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DrainPolicy {
    /// How long an instance is shown as not ready before it stops.
    pub(super) grace: Duration,
    /// An outside system answers `drained`.
    pub(super) needs_answer: bool,
    /// Timeout for the answer, and for the gates of a new pod.
    pub(super) timeout: Duration,
}

/// None if instances need not be drained.
pub(super) fn drain_policy(spec: &PodGroupSpec) -> Option<DrainPolicy> {
    let usual = before_the_deadline(spec, ANSWER_TIMEOUT);
    match &spec.drain {
        Some(drain) => Some(DrainPolicy {
            grace: seconds(drain.grace_seconds),
            needs_answer: drain.needs_answer,
            // No answer arrives before the grace period is over.
            timeout: drain.timeout_seconds.map_or_else(|| usual.max(seconds(drain.grace_seconds) * 2), seconds),
        }),
        None if spec.readiness_gates.is_empty() => None,
        None => Some(DrainPolicy { grace: Duration::ZERO, needs_answer: false, timeout: usual }),
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}
