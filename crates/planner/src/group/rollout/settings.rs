//! Says how a group wants to be changed, in the conductor's words: what the spec says, and the defaults for what it does not.

use std::time::Duration;

use contract::rollout::{Amount, Strategy, StrategyType};
use contract::spec::PodGroupSpec;

use crate::rollout::controller::{AutoReschedule, BatchStrategy, RolloutSettings, RolloutStrategy};
use crate::rollout::failure::FAIL_FAST_RESTARTS;
use crate::rollout::limits::USUAL_BUDGET;
use crate::rollout::progress;

/// Seconds somebody outside has to answer: that an instance is drained, or that a gate is true (D-24).
const ANSWER_TIMEOUT: i64 = 300;
/// Seconds a new pod may be without a place: a node that restarts comes back in less, and nobody wants to wait for longer to
/// hear that there is no room.
const PLACEMENT_PATIENCE: i64 = 60;

/// Whether an instance may have two pods at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubling {
    /// It may.
    Allowed,
    /// Not with this change, which is made in place: both would have one address.
    InPlace,
    /// Not with its data.
    Stateful,
}

/// The settings of a group.
pub(super) fn settings(spec: &PodGroupSpec, doubling: Doubling, is_first_deployment: bool) -> RolloutSettings {
    let topology = spec.topology.as_ref();
    let auto = topology.and_then(|topology| topology.auto_reschedule.as_ref()).filter(|auto| auto.enable);
    RolloutSettings {
        strategy: style(spec, doubling, is_first_deployment),
        min_ready: spec.min_ready(),
        deadline: progress::deadline(Some(spec.progress_deadline())),
        replacement: spec.pod_replacement,
        keeps_addresses: doubling == Doubling::InPlace,
        failure_action: spec.on_failure(),
        fail_fast_restarts: spec.fail_fast_restarts.unwrap_or(FAIL_FAST_RESTARTS),
        failure_threshold: spec.failure_threshold.unwrap_or(Amount::Count(0)),
        // Where quota moves to units with room, who finds no place stays pending (4.7) and is missing at the deadline.
        placement_patience: auto.is_none().then(|| before_the_deadline(spec, PLACEMENT_PATIENCE)),
        auto_reschedule: auto
            .map(|auto| AutoReschedule { delay: seconds(auto.initial_delay_seconds), fail_back: auto.fail_back }),
    }
}

fn style(spec: &PodGroupSpec, doubling: Doubling, is_first_deployment: bool) -> RolloutStrategy {
    let strategy = spec.strategy.clone().unwrap_or_default();
    match strategy.kind {
        // Not conducted: whoever asks all the same gets what comes closest.
        StrategyType::Serial => {
            RolloutStrategy::Rolling { surge: Some(Amount::Count(0)), unavailable: Some(Amount::Count(1)) }
        }
        StrategyType::RollingUpdate => RolloutStrategy::Rolling {
            surge: Some(match doubling {
                Doubling::Allowed => strategy.max_surge.unwrap_or(USUAL_BUDGET),
                Doubling::InPlace | Doubling::Stateful => Amount::Count(0),
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

/// As long as usual, but not so long that the deadline would pass first: it says less.
fn before_the_deadline(spec: &PodGroupSpec, usual: i64) -> Duration {
    seconds(usual.min(spec.progress_deadline() / 2).max(1))
}

/// How an instance is taken out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Farewell {
    /// It is shown as not ready for so long before it is touched.
    pub(super) grace: Duration,
    /// Somebody outside says when it is drained.
    pub(super) needs_answer: bool,
    /// How long that is waited for, and for a gate of a new one to become true.
    pub(super) timeout: Duration,
}

/// How instances are taken out of service; none when nobody has to be told.
pub(super) fn farewell(spec: &PodGroupSpec) -> Option<Farewell> {
    let usual = before_the_deadline(spec, ANSWER_TIMEOUT);
    match &spec.drain {
        Some(drain) => Some(Farewell {
            grace: seconds(drain.grace_seconds),
            needs_answer: drain.needs_answer,
            // Nobody answers before the grace is over.
            timeout: drain.timeout_seconds.map_or_else(|| usual.max(seconds(drain.grace_seconds) * 2), seconds),
        }),
        None if spec.readiness_gates.is_empty() => None,
        None => Some(Farewell { grace: Duration::ZERO, needs_answer: false, timeout: usual }),
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}
