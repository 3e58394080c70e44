//! Validates the rollout fields: rejects fields that would be ignored and rollouts that could never complete.
//!
//! A valid field is a flaw if the strategy ignores it, because its author relies on it.

use super::topology::check_topology;
use super::{Flaws, MOST_INSTANCES};
use crate::ranges::{self, Range};
use crate::rollout::{Amount, Drain, FailureAction, PodReplacement, Strategy, StrategyType, UpdatePolicy};
use crate::spec::PodGroupSpec;

/// Limit of instances with a strategy, because the cost of one decision grows with their square.
pub const MOST_CONDUCTED: i64 = 1_000;
/// Limit of readiness gates per group; each is stored with each instance.
pub const MOST_GATES: usize = 16;
/// Limit of revisions to keep; each contains a whole pod spec.
pub const MOST_REVISIONS: i64 = 100;
/// Limit of every waiting time, in seconds: one week.
pub const LONGEST_WAIT: i64 = 7 * 24 * 60 * 60;

/// The strategies with batches.
const BY_GROUPS: &[StrategyType] = &[StrategyType::Batch, StrategyType::Beta];

/// Allowed counts and percentages of an amount.
pub(super) struct Bounds {
    counts: (i64, i64),
    percents: (i64, i64),
}

/// A larger surge would not differ from replacing all instances of the largest group.
const SURGE: Bounds = Bounds { counts: (0, MOST_INSTANCES), percents: (0, MOST_INSTANCES) };
/// A part of the group, possibly 0.
pub(super) const SHARE: Bounds = Bounds { counts: (0, MOST_INSTANCES), percents: (0, 100) };
/// A part of the group, at least 1.
const BATCH: Bounds = Bounds { counts: (1, MOST_INSTANCES), percents: (1, 100) };

impl Flaws {
    pub(super) fn amount(&mut self, field: impl Into<String>, amount: Amount, bounds: &Bounds) {
        let (number, (least, most)) = match amount {
            Amount::Count(count) => (count, bounds.counts),
            Amount::Percent(percent) => (percent, bounds.percents),
        };
        if !(least..=most).contains(&number) {
            let (counts, percents) = (bounds.counts, bounds.percents);
            let allowed = format!("{}..{} or {}%..{}%", counts.0, counts.1, percents.0, percents.1);
            self.add(field, format!("must be {allowed}, is {amount}"));
        }
    }
    pub(super) fn within(&mut self, number: i64, range: Range) {
        self.range(range.field, number, range);
    }
    /// Adds a flaw if the strategy ignores the field.
    pub(super) fn only_with(&mut self, field: &str, strategies: &[StrategyType], kind: StrategyType) {
        if !strategies.contains(&kind) {
            let allowed = strategies.iter().map(|kind| format!("{kind:?}")).collect::<Vec<_>>().join(" or ");
            self.add(
                field,
                format!("only has a meaning with Strategy.Type {allowed}, which is {kind:?}; leave it out"),
            );
        }
    }
    /// Checks a label key or a gate name: the same rule as for keys of placement constraints.
    pub(super) fn label(&mut self, field: impl Into<String>, text: &str) {
        let mut characters = text.chars();
        let starts = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        let continues = characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
        if !starts || !continues || text.len() > crate::name::LONGEST_NAME {
            let rule = "must start with a letter or '_' and hold only letters, digits, '-', '_', '.' and '/'";
            self.add(field, format!("{rule}, at most {} of them, is {text:?}", crate::name::LONGEST_NAME));
        }
    }
}

pub(super) fn check_rollout(spec: &PodGroupSpec, flaws: &mut Flaws) {
    let kind = spec.strategy_type();
    if let Some(strategy) = &spec.strategy {
        check_strategy(strategy, spec.pod.is_stateful(), flaws);
    }
    if !spec.has_strategy() {
        for field in fields_that_need_a_strategy(spec) {
            flaws.add(
                field,
                "needs a Strategy.Type other than Serial, for example RollingUpdate; the serial upgrade ignores it",
            );
        }
    } else {
        check_replacing(spec, flaws);
    }
    if let Some(topology) = &spec.topology {
        check_topology(topology, kind, flaws);
    }
    check_numbers(spec, flaws);
    check_gates(&spec.readiness_gates, flaws);
    if let Some(drain) = &spec.drain {
        check_drain(drain, &spec.readiness_gates, flaws);
    }
}

/// `PodReplacement: Started` needs budgets, and `Recreate` stops all pods first, so it updates nothing in place.
fn check_replacing(spec: &PodGroupSpec, flaws: &mut Flaws) {
    let kind = spec.strategy_type();
    match spec.pod_replacement {
        None | Some(PodReplacement::Complete) => {}
        Some(PodReplacement::Started) => flaws.only_with("PodReplacement", &[StrategyType::RollingUpdate], kind),
    }
    match spec.update_policy {
        UpdatePolicy::ReCreate => {}
        UpdatePolicy::InPlaceIfPossible | UpdatePolicy::InPlaceOnly => {
            flaws.only_with(
                "UpdatePolicy",
                &[StrategyType::RollingUpdate, StrategyType::Batch, StrategyType::Beta],
                kind,
            );
        }
    }
}

/// Fields of the spec that only groups with a strategy use.
fn fields_that_need_a_strategy(spec: &PodGroupSpec) -> impl Iterator<Item = &'static str> {
    [
        ("Topology", spec.topology.is_some()),
        ("MinReadySeconds", spec.min_ready_seconds.is_some()),
        ("ProgressDeadlineSeconds", spec.progress_deadline_seconds.is_some()),
        ("Paused", spec.paused),
        ("PodReplacement", spec.pod_replacement.is_some()),
        ("UpdatePolicy", spec.update_policy != UpdatePolicy::default()),
        // Groups without a strategy always hold after a failure, so `Hold` is allowed.
        ("FailureAction", spec.failure_action.is_some_and(|action| action != FailureAction::Hold)),
        ("FailureThreshold", spec.failure_threshold.is_some()),
        ("FailFastRestarts", spec.fail_fast_restarts.is_some()),
        ("ReadinessGates", !spec.readiness_gates.is_empty()),
        ("Drain", spec.drain.is_some()),
    ]
    .into_iter()
    .filter_map(|(field, is_set)| is_set.then_some(field))
}

fn check_strategy(strategy: &Strategy, is_stateful: bool, flaws: &mut Flaws) {
    let kind = strategy.kind;
    for (field, amount, bounds) in [
        ("Strategy.MaxSurge", strategy.max_surge, &SURGE),
        ("Strategy.MaxUnavailable", strategy.max_unavailable, &SHARE),
    ] {
        if let Some(amount) = amount {
            flaws.only_with(field, &[StrategyType::RollingUpdate], kind);
            flaws.amount(field, amount, bounds);
        }
    }
    if kind == StrategyType::RollingUpdate {
        check_budgets(strategy, is_stateful, flaws);
    }
    if let Some(size) = strategy.batch_size {
        flaws.only_with("Strategy.BatchSize", BY_GROUPS, kind);
        flaws.amount("Strategy.BatchSize", size, &BATCH);
    }
    if strategy.confirm_first_deployment && !strategy.need_waiting_for_confirm {
        flaws
            .add("Strategy.ConfirmFirstDeployment", "only has a meaning with NeedWaitingForConfirm true; leave it out");
    }
    if strategy.need_waiting_for_confirm {
        flaws.only_with("Strategy.NeedWaitingForConfirm", BY_GROUPS, kind);
    }
    if let Some(window) = strategy.window {
        flaws.only_with("Strategy.Window", BY_GROUPS, kind);
        flaws.within(window, ranges::WINDOW);
    }
    if strategy.upgrade_pause != 0 {
        flaws.only_with("Strategy.UpgradePause", &[StrategyType::Serial], kind);
        flaws.within(strategy.upgrade_pause, ranges::UPGRADE_PAUSE);
    }
}

/// Rejects two budgets of 0, and surge for pods with data on their node, which two pods cannot share.
fn check_budgets(strategy: &Strategy, is_stateful: bool, flaws: &mut Flaws) {
    let surges = strategy.max_surge.is_some_and(|surge| !surge.is_zero());
    if is_stateful && surges {
        flaws.add(
            "Strategy.MaxSurge",
            "must be 0 or left out: the pod keeps data on its node, which two pods of an instance cannot share",
        );
    }
    let has_no_surge = strategy.max_surge.is_some_and(Amount::is_zero) || (is_stateful && !surges);
    if has_no_surge && strategy.max_unavailable.is_some_and(Amount::is_zero) {
        let why = match strategy.max_surge {
            Some(_) => "MaxSurge is 0",
            None => "a pod that keeps data on its node has no surge",
        };
        flaws.add(
            "Strategy.MaxUnavailable",
            format!("must not be 0 where {why}: no instance could ever be replaced; allow at least 1"),
        );
    }
}

fn check_numbers(spec: &PodGroupSpec, flaws: &mut Flaws) {
    if let Some(limit) = spec.revision_history_limit {
        flaws.within(limit, ranges::REVISION_HISTORY_LIMIT);
    }
    if let Some(restarts) = spec.fail_fast_restarts {
        flaws.within(restarts, ranges::FAIL_FAST_RESTARTS);
    }
    if let Some(threshold) = spec.failure_threshold {
        flaws.amount("FailureThreshold", threshold, &SHARE);
    }
    // The default adapts to a short deadline, so only an explicit value can conflict with it.
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    flaws.within(min_ready, ranges::MIN_READY_SECONDS);
    let deadline = spec.progress_deadline();
    flaws.within(deadline, ranges::PROGRESS_DEADLINE_SECONDS);
    if deadline <= min_ready {
        let default = if spec.progress_deadline_seconds.is_none() { " by default" } else { "" };
        flaws.add(
            "ProgressDeadlineSeconds",
            format!("must be more than MinReadySeconds, which is {min_ready}, is {deadline}{default}"),
        );
    }
}

fn check_gates(gates: &[String], flaws: &mut Flaws) {
    if gates.len() > MOST_GATES {
        flaws.add("ReadinessGates", format!("{} are too many, at most {MOST_GATES}", gates.len()));
    }
    for (index, gate) in gates.iter().enumerate() {
        let field = format!("ReadinessGates[{index}]");
        if gates[..index].contains(gate) {
            flaws.add(field, format!("names {gate:?} a second time"));
        } else {
            flaws.label(field, gate);
        }
    }
}

fn check_drain(drain: &Drain, gates: &[String], flaws: &mut Flaws) {
    flaws.within(drain.grace_seconds, ranges::DRAIN_GRACE_SECONDS);
    if let Some(timeout) = drain.timeout_seconds {
        flaws.within(timeout, ranges::DRAIN_TIMEOUT_SECONDS);
        if !drain.needs_answer && gates.is_empty() {
            flaws.add(
                "Drain.TimeoutSeconds",
                "only has a meaning with NeedsAnswer true or ReadinessGates: there is no answer to wait for",
            );
        }
    }
}
