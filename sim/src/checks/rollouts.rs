//! Checks what a rollout changed: pods, units, batches, frozen rollouts, rollbacks, drains and stored revisions.

use std::time::Duration;

use contract::record::{Instance, Presence, RevisionOutcome};
use contract::rollout::StrategyType;
use contract::spec::PodGroupSpec;
use contract::state::TargetState;

use crate::checks::budgets::{self, Context, all_are, gates, is_released, placed};
use crate::checks::checker::index_of;
use crate::checks::commit_changes::{Change, Transition, identity};
use crate::checks::instances::{StoredGroup, is_instance};
use crate::checks::invariants::{Invariant, Violation};
use crate::workload::rollout_specs::unit_of;

pub fn check(change: &Change, context: &Context<'_>) -> Option<Violation> {
    let found = [
        (Invariant::TwoPodsAtMost, duplicate_pod_name(change)),
        (Invariant::UnitsAreKept, outside_unit(change)),
        (Invariant::GatesOpenByCommandOnly, uncommanded(change)),
        (Invariant::RevisionsMatchTheGroup, wrong_revisions(change)),
        (Invariant::RollbackSpares, needless_rollback(change)),
        (Invariant::FrozenIsFrozen, changed_while_frozen(change)),
        (Invariant::OnlyStartedBatchesUpdate, early_batch(change)),
        (Invariant::DrainedBeforeTouched, not_drained(change, context)),
        (Invariant::RecreateStopsOldFirst, budgets::old_beside_new(change, context)),
        (Invariant::TotalIsKept, budgets::too_many_pods(change, context)),
        (Invariant::MinimumStaysAvailable, budgets::too_few_available(change, context)),
    ];
    found.into_iter().find_map(|(invariant, detail)| Some(Violation { invariant, detail: detail? }))
}

/// Pods of one instance with the same name.
fn duplicate_pod_name(change: &Change) -> Option<String> {
    let name = |instance: &Instance| (instance.named_version(), instance.drift);
    let is_wrong = |instance: &Instance| {
        instance.next.as_deref().is_some_and(|next| {
            let is_pod = next.presence == Presence::Pod && instance.presence == Presence::Pod;
            !is_pod || next.next.is_some() || name(next) == name(instance)
        })
    };
    let wrong = (1..).zip(&change.is.instances).find(|(_, instance)| is_wrong(instance));
    wrong.map(|(number, instance): (u32, &Instance)| format!("{} instance {number}: {instance:?}", change.group))
}

/// A pod outside its unit.
fn outside_unit(change: &Change) -> Option<String> {
    let is_outside = |pod: &Instance| {
        let unit = pod.node.as_ref().and_then(index_of).map(unit_of);
        !pod.unit.is_empty() && unit.is_some_and(|unit| unit != pod.unit)
    };
    let (instance, pod) = change.is.pods().find(|(_, pod)| is_outside(pod))?;
    Some(format!("{} instance {instance} of unit {} is on {:?}", change.group, pod.unit, pod.node))
}

/// A gate opened, or a drain was answered, without a command.
fn uncommanded(change: &Change) -> Option<String> {
    for (instance, pod) in change.is.pods() {
        let before = change.was.pods().find(|(number, was)| *number == instance && identity(was) == identity(pod));
        let is_new = |gate: &str| !before.is_some_and(|(_, was)| was.gates.contains_key(gate));
        // A new gate is open, without a time, for pods that were decided before it; both may be in one commit.
        let is_passed =
            |gate: &str| change.is_added(gate) && pod.gates.get(gate).is_some_and(|since| !since.happened());
        let is_commanded = |gate: &str| change.commands.is_opened(instance, gate) || is_passed(gate);
        if let Some(gate) = pod.gates.keys().find(|gate| is_new(gate) && !is_commanded(gate)) {
            return Some(format!("{} instance {instance}: no command opened {gate}", change.group));
        }
        let is_answered = |pod: &Instance| pod.draining.as_ref().is_some_and(|draining| draining.is_answered);
        let is_news = is_answered(pod) && !before.is_some_and(|(_, was)| is_answered(was));
        if is_news && !change.commands.is_drained(instance) {
            return Some(format!("{} instance {instance}: no command answered the drain", change.group));
        }
    }
    None
}

/// Stored revisions that contradict the group.
fn wrong_revisions(change: &Change) -> Option<String> {
    let (was, is) = (&change.was.revisions.revisions, &change.is.revisions.revisions);
    let record = &change.is.record;
    let last = is.last()?;
    let wrong = |detail: String| Some(format!("{}: {detail}", change.group));
    if is.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return wrong(format!("revisions out of order: {:?}", is.iter().map(|it| it.number).collect::<Vec<_>>()));
    }
    if last.number != record.spec.version || !last.pod.asks_the_same(&record.spec.pod) {
        return wrong(format!("revision {} is the last, the spec is {}", last.number, record.spec.version));
    }
    if let Some(open) = is[..is.len() - 1].iter().find(|it| it.outcome == RevisionOutcome::Open) {
        return wrong(format!("revision {} is open beside {}", open.number, last.number));
    }
    let changed = |now: &&contract::record::RevisionRecord| {
        let before = was.iter().find(|before| before.number == now.number);
        before.is_some_and(|before| before.outcome != RevisionOutcome::Open && before.outcome != now.outcome)
    };
    if let Some(now) = is.iter().find(changed) {
        return wrong(format!("revision {} became {:?} after all: {was:?}", now.number, now.outcome));
    }
    let is_proven = record.proven == Some(last.number) && record.spec.has_strategy();
    if is_proven != (last.outcome == RevisionOutcome::Completed) && record.spec.has_strategy() {
        return wrong(format!("revision {} is {:?}, proven is {:?}", last.number, last.outcome, record.proven));
    }
    None
}

/// A rollback changed an instance that already ran its target.
fn needless_rollback(change: &Change) -> Option<String> {
    let record = &change.is.record;
    if change.was.record.spec.version != record.spec.version {
        // The commit may contain decisions of the previous version.
        return None;
    }
    let is_touched = |transition: &Transition<'_>| {
        let (was, is) = (transition.was.version, transition.is.version);
        record.equals.contains(&was)
            && is == record.spec.version
            && was != is
            && transition.was.presence == Presence::Pod
    };
    // A reused number never ran the version of its former instance.
    let transition =
        change.transitions().find(|transition| is_touched(transition) && !change.is_another(transition))?;
    Some(format!("{} ran {} and goes to {}", transition.instance, transition.was.version, transition.is.version))
}

/// An instance changed although the rollout is frozen.
fn changed_while_frozen(change: &Change) -> Option<String> {
    if !change.commands.is_frozen_throughout() || !is_released(change) {
        return None;
    }
    let gist = |instance: &Instance| {
        let next = instance.next.as_ref().map(|next| next.version);
        (instance.presence, instance.version, next)
    };
    let all = |stored: &StoredGroup| {
        let numbered = stored.instances.iter().enumerate().filter(|(_, instance)| is_instance(instance));
        numbered.map(|(index, instance)| (index + 1, gist(instance))).collect::<Vec<_>>()
    };
    let (was, is) = (all(&change.was), all(&change.is));
    // A frozen rollout drains no further instance.
    let is_taken = |transition: Transition<'_>| transition.is.draining.is_some() && transition.was.draining.is_none();
    (was != is || change.transitions().any(is_taken))
        .then(|| format!("{} is frozen; {was:?} became {is:?}", change.group))
}

/// More instances have the target revision than the started batches allow.
fn early_batch(change: &Change) -> Option<String> {
    let by_groups = |spec: &PodGroupSpec| matches!(spec.strategy_type(), StrategyType::Batch | StrategyType::Beta);
    let release = change.is.release.as_ref()?;
    let record = &change.is.record;
    if !is_released(change) || !all_are(change, by_groups) || release.target != record.spec.version {
        return None;
    }
    let before = change.was.release.as_ref().filter(|before| before.target == release.target);
    let needs_confirm = |spec: &PodGroupSpec| spec.strategy.as_ref().is_some_and(|it| it.need_waiting_for_confirm);
    // The first deployment waits for confirmations only if the spec requests that.
    let asks_first = |spec: &PodGroupSpec| spec.strategy.as_ref().is_some_and(|it| it.confirm_first_deployment);
    let mut pods = change.was.instances.iter().flat_map(Instance::pods);
    let is_first = change.was.record.proven.is_none() && pods.all(|pod| pod.version == release.target);
    let is_exempt = is_first && !all_are(change, asks_first);
    if all_are(change, needs_confirm) && record.equals.is_empty() && !is_exempt {
        let first = before.map_or(1, |before| before.batch.max(1));
        if let Some(group) = (first..release.batch).find(|group| !change.commands.is_confirmed(release.target, *group))
        {
            return Some(format!("{}: group {} is started, no command confirmed {group}", change.group, release.batch));
        }
    }
    let is_updated = |instance: &Instance| {
        let is_target = |pod: &Instance| pod.version == release.target || record.equals.contains(&pod.version);
        instance.target == TargetState::Run && instance.pods().any(is_target)
    };
    let updated = |stored: &StoredGroup| stored.instances.iter().filter(|instance| is_updated(instance)).count();
    let (was, is) = (updated(&change.was), updated(&change.is));
    let committed: i64 = release.committed.iter().sum();
    let detail = format!("{}: {is} instances are at {}, {committed} are committed", change.group, release.target);
    (is > was && i64::try_from(is).unwrap_or(0) > committed).then_some(detail)
}

/// An available pod was removed without a drain.
fn not_drained(change: &Change, context: &Context<'_>) -> Option<String> {
    let specs = || change.commands.recent_specs().iter().chain([&change.was.record.spec, &change.is.record.spec]);
    if !is_released(change) || !all_are(change, |spec| spec.drain.is_some()) {
        return None;
    }
    let drains = || specs().filter_map(|spec| spec.drain.as_ref());
    let grace = drains().map(|drain| drain.grace_seconds).min().unwrap_or(0);
    let grace = Duration::from_secs(grace.unsigned_abs());
    let is_answer_needed = drains().all(|drain| drain.needs_answer);
    // Scale-down does not wait longer than the timeout.
    let timeout = drains().filter_map(|drain| drain.timeout_seconds).min().unwrap_or(300);
    let timeout = Duration::from_secs(timeout.unsigned_abs());
    let gates = gates(change);
    for transition in change.transitions().filter(|transition| !transition.failed()) {
        let (instance, was) = (transition.instance.instance, transition.was);
        let Some(pod) = placed(change, instance, was).filter(|(node, _)| !(context.is_excused)(node)) else { continue };
        let is_kept = transition.is.pods().any(|now| placed(change, instance, now).as_ref() == Some(&pod));
        let served = was.target == TargetState::Run && context.serving.is_up(&pod, context.now);
        let is_answered = change.commands.is_drained_since_commit(instance)
            || was.draining.as_ref().is_some_and(|draining| draining.is_answered);
        let is_due = match &was.draining {
            None => false,
            Some(draining) => {
                let rested =
                    change.drains_stored.get(&draining.since).is_some_and(|at| context.now.since(*at) >= grace);
                rested && (is_answered || !is_answer_needed || context.now.since(draining.since) >= timeout)
            }
        };
        let was_in = gates.iter().all(|gate| was.gates.contains_key(gate));
        if !is_kept && served && was_in && !is_due {
            return Some(format!("{} was not drained: {:?}", pod.1, was.draining));
        }
    }
    None
}
