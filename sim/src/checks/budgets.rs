//! Whether a release keeps to its budgets: how many pods it orders, how many it leaves to serve, and that under Recreate the old
//! ones go first.
//!
//! The budgets are computed here from the specs, without the code under test. Where a decision may have known another spec, or
//! counted on a pod that is down since, it is given the benefit of the doubt.

use std::collections::BTreeSet;

use agent::core::io::Phase;
use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::record::{GroupRecord, Slot};
use contract::rollout::{Amount, PodReplacement, StrategyType};
use contract::spec::PodGroupSpec;
use contract::state::TargetState;
use contract::time::Timestamp;

use crate::checks::commit_changes::{Change, Transition, identity};
use crate::checks::instances::{StoredGroup, is_instance};
use crate::checks::serving::{Serving, is_in_service};
use crate::world::GroundTruth;

/// What is known while a decision is looked at.
pub struct Context<'a> {
    /// What stands on the nodes.
    pub truth: &'a GroundTruth<'a>,
    /// Who serves.
    pub service: &'a Serving,
    /// The node is lost, or was tampered with.
    pub is_excused: &'a dyn Fn(&NodeName) -> bool,
    /// Whoever decided had not heard the node for so long that nothing there counted as serving.
    pub is_suspect: &'a dyn Fn(&NodeName) -> bool,
    /// The time.
    pub now: Timestamp,
}

const QUARTER: Amount = Amount::Percent(25);

/// The fewest that must serve and the most pods there may be, of so many instances that are to run.
fn limits(spec: &PodGroupSpec, running: i64) -> (i64, i64) {
    let Some(strategy) = spec.strategy.as_ref().filter(|it| it.kind == StrategyType::RollingUpdate) else {
        return (0, running);
    };
    let surge = strategy.max_surge.unwrap_or(QUARTER).rounded_up(running);
    let missing = strategy.max_unavailable.unwrap_or(QUARTER).rounded_down(running);
    // What is changed in place cannot surge, and then one may be missing.
    let missing = if missing == 0 { 1 } else { missing };
    let is_strict = surge > 0 && !spec.pod.is_stateful() && spec.update_policy == Default::default();
    let missing = if is_strict { strategy.max_unavailable.unwrap_or(QUARTER).rounded_down(running) } else { missing };
    ((running - missing).max(0), running + surge)
}

/// The limits of every spec a decision may have known, the mildest of each.
fn mildest(change: &Change) -> (i64, i64) {
    // A number that stands for nobody keeps what was last wanted of whoever had it.
    let is_stopped = |slot: &&Slot| is_instance(slot) && slot.target == TargetState::Stop;
    let stopped = |stored: &StoredGroup| stored.slots.iter().filter(is_stopped).count();
    let counts = [&change.was, &change.is].map(|stored| i64::try_from(stopped(stored)).unwrap_or(0));
    let specs = change.said.lately().iter().chain([&change.is.record.spec]);
    let all: Vec<(i64, i64)> =
        specs.flat_map(|spec| counts.map(|stopped| limits(spec, (spec.num_instances - stopped).max(0)))).collect();
    let least = all.iter().map(|(least, _)| *least).min().unwrap_or(0);
    (least, all.iter().map(|(_, most)| *most).max().unwrap_or(0))
}

/// Every spec the decision may have known says so.
pub fn all_are(change: &Change, is_so: impl Fn(&PodGroupSpec) -> bool) -> bool {
    change.said.lately().iter().chain([&change.was.record.spec, &change.is.record.spec]).all(is_so)
}

/// Only a release can have changed the instances.
pub fn is_released(change: &Change) -> bool {
    let is_free = |record: &GroupRecord| record.operation.is_none() && record.removal == Default::default();
    let (was, is) = (&change.was.record, &change.is.record);
    is.spec.has_strategy() && is_free(was) && is_free(is) && !change.drifts(false)
}

/// The readiness gates of every spec the decision may have known: one that was added a moment ago is closed.
pub fn gates(change: &Change) -> Vec<String> {
    let specs = change.said.lately().iter().chain([&change.was.record.spec, &change.is.record.spec]);
    specs.flat_map(|spec| spec.readiness_gates.iter().cloned()).collect()
}

/// The pod, where it is placed.
pub fn placed(change: &Change, instance: u32, slot: &Slot) -> Option<(NodeName, PodId)> {
    let (group, version) = (change.group.clone(), slot.named_version());
    Some((slot.node.clone()?, PodId { group, instance, version, drift: slot.drift }))
}

/// Pods that are to run, but for those that only go to another unit.
fn counted(stored: &StoredGroup) -> i64 {
    let running = stored.slots.iter().filter(|slot| slot.target == TargetState::Run);
    let pods = running.map(|slot| {
        let moves = slot.next.as_ref().is_some_and(|next| next.version == slot.version);
        slot.pods().count() - usize::from(moves)
    });
    i64::try_from(pods.sum::<usize>()).unwrap_or(i64::MAX)
}

/// More pods than the budget has.
pub fn excess(change: &Change, context: &Context<'_>) -> Option<String> {
    if !is_released(change) {
        return None;
    }
    let ((before, ordered), (_, most)) = ((counted(&change.was), counted(&change.is)), mildest(change));
    if ordered > before && ordered > most {
        return Some(format!("{} has {ordered} pods ordered of {most} at most", change.group));
    }
    let is_complete = |spec: &PodGroupSpec| spec.pod_replacement == Some(PodReplacement::Complete);
    let surged = change.transitions().find(|transition| transition.was.next.is_none() && transition.is.next.is_some());
    let is_surge = surged.is_some_and(|it| it.is.next.as_ref().is_some_and(|next| next.version != it.is.version));
    if !is_surge || !all_are(change, is_complete) || before > ordered {
        return None;
    }
    let going = i64::try_from(going(change, context).len()).unwrap_or(0);
    let detail = format!("{} has {ordered} pods ordered and {going} going, of {most} at most", change.group);
    (ordered + going > most && going > 0).then_some(detail)
}

/// Pods of the group that stand somewhere and are not ordered there, but for those whose successor comes when they are gone: in
/// the same place, or after they were let go of.
fn going(change: &Change, context: &Context<'_>) -> BTreeSet<PodId> {
    let ordered: BTreeSet<(NodeName, PodId)> =
        change.is.pods().filter_map(|(instance, slot)| placed(change, instance, slot)).collect();
    let mut going = BTreeSet::new();
    for process in context.truth.nodes.iter().filter(|process| !(context.is_excused)(&process.owner.node)) {
        for seen in context.truth.engines[process.engine].inventory(&process.owner) {
            let pod = seen.identity.pod;
            let slot =
                usize::try_from(pod.instance).ok().and_then(|number| change.is.slots.get(number.checked_sub(1)?));
            let node = Some(&process.owner.node);
            let is_before = slot.is_some_and(|slot| slot.node.as_ref() == node || slot.leaves.as_ref() == node);
            let is_ordered = ordered.contains(&(process.owner.node.clone(), pod.clone()));
            if pod.group == change.group && !is_ordered && !is_before {
                going.insert(pod);
            }
        }
    }
    going
}

/// What a release takes out of service while too few are left.
pub fn shortage(change: &Change, context: &Context<'_>) -> Option<String> {
    let is_rolling = |spec: &PodGroupSpec| spec.strategy_type() == StrategyType::RollingUpdate;
    if !is_released(change) || !all_are(change, is_rolling) {
        return None;
    }
    let taken: Vec<u32> = change
        .transitions()
        .filter(|transition| is_taken(change, transition, context))
        .map(|it| it.instance.instance)
        .collect();
    // Budgets count pods: while an instance has two that serve, another may have none.
    let running = (1..).zip(&change.is.slots).filter(|(_, slot)| slot.target == TargetState::Run);
    let pods = running.flat_map(|(instance, slot)| slot.pods().map(move |pod| (instance, pod)));
    let left = pods.filter(|(instance, pod)| serves(change, *instance, pod, context)).count();
    let (least, _) = mildest(change);
    let detail = format!("{}: {taken:?} are taken out of service, {left} of {least} serve", change.group);
    (!taken.is_empty() && i64::try_from(left).unwrap_or(0) < least).then_some(detail)
}

/// A decision may have counted on the pod.
fn serves(change: &Change, instance: u32, pod: &Slot, context: &Context<'_>) -> bool {
    pod.draining.is_none() && placed(change, instance, pod).is_some_and(|pod| context.service.was_up(&pod))
}

/// A pod of the instance served and does not any more, by this decision.
fn is_taken(change: &Change, transition: &Transition<'_>, context: &Context<'_>) -> bool {
    let instance = transition.instance.instance;
    let gates = gates(change);
    let is_known = |node: &NodeName| !(context.is_excused)(node) && !(context.is_suspect)(node);
    let is_free = |pod: &&Slot| pod.node.as_ref().is_none_or(is_known);
    let is_kept = |pod: &Slot| {
        let still = |now: &Slot| identity(now) == identity(pod) && now.draining.is_none();
        transition.is.pods().any(still)
    };
    let served = |pod: &Slot| {
        let is_up = placed(change, instance, pod).is_some_and(|pod| context.service.is_up(&pod, context.now));
        is_up && is_in_service(pod, &gates)
    };
    let is_run = [transition.was, transition.is].iter().all(|slot| slot.target == TargetState::Run);
    is_run && !transition.failed() && transition.was.pods().filter(is_free).any(|pod| served(pod) && !is_kept(pod))
}

/// Under Recreate, something new that is ordered while something old is there.
pub fn mixture(change: &Change, context: &Context<'_>) -> Option<String> {
    let is_recreate = |spec: &PodGroupSpec| spec.strategy_type() == StrategyType::Recreate;
    let is_one_life = change.was.record.spec.created_at == change.is.record.spec.created_at;
    if !is_released(change) || !is_one_life || !all_are(change, is_recreate) {
        return None;
    }
    let (record, runs) = (&change.is.record, |slot: &Slot| slot.target == TargetState::Run);
    let is_old = |version: u32| version != record.spec.version && !record.equals.contains(&version);
    let was_mixed = change.was.pods().any(|(_, pod)| !is_old(pod.version));
    let is_new = |instance: u32, pod: &Slot| {
        let before = change.was.pods().any(|(number, was)| number == instance && identity(was) == identity(pod));
        // A pod that waits for the node it leaves is not ordered yet.
        !before && runs(pod) && pod.version == record.spec.version && pod.leaves.is_none()
    };
    let new = change.is.pods().find(|(instance, pod)| is_new(*instance, pod))?.0;
    if was_mixed {
        return None;
    }
    if let Some((old, _)) = change.is.pods().find(|(_, pod)| runs(pod) && is_old(pod.version)) {
        return Some(format!("{}: {new} is ordered anew beside {old}, which is old", change.group));
    }
    // Known gap (docs/testing.md, "Found, not fixed"): a group that was scaled to 0 while the store did not answer forgets
    // which node still has to remove a pod.
    change.was.pods().next()?;
    for process in context.truth.nodes.iter().filter(|process| !(context.is_excused)(&process.owner.node)) {
        let engine = &context.truth.engines[process.engine];
        for seen in engine.inventory(&process.owner) {
            let life = engine.containers.get(&seen.id).map(|container| container.life);
            let pod = &seen.identity.pod;
            let is_ours = pod.group == change.group && life == Some(record.spec.created_at);
            if is_ours && seen.phase == Phase::Running && is_old(pod.version) {
                return Some(format!(
                    "{}: {new} is ordered anew while {pod} runs on {}",
                    change.group, process.owner.node
                ));
            }
        }
    }
    None
}
