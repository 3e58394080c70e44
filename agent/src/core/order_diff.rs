//! What a new order changes of what is remembered: which pods it is about, and what becomes of the memory of each.
//!
//! A change is worked on as a change, so that one more pod costs what one pod costs; only a whole order is compared with the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use contract::delta::Changes;
use contract::name::GroupName;
use contract::order::{Order, OrderDelta};
use contract::pod_id::PodId;
use contract::state::TargetState;
use contract::time::Timestamp;
use planner::lane::{can_be_updated, makes_other_containers};

use super::io::{Ledger, LiveMemory, PodMemory};

/// The pods a change of the order is about; none when it may be about any.
pub(super) type Touched = Option<BTreeSet<PodId>>;

/// The pods a change may be about: those it names, and those whose spec it names.
pub(super) fn touched_by(delta: &OrderDelta, order: &Order) -> BTreeSet<PodId> {
    let specs = delta.specs.put.keys().chain(&delta.specs.gone);
    let respecified = specs.flat_map(|key| {
        let pods = order.pods.range(group_range(&key.group));
        pods.filter(move |(pod, assignment)| assignment.spec_key(pod) == *key).map(|(pod, _)| pod)
    });
    respecified.chain(delta.pods.put.keys()).chain(&delta.pods.gone).cloned().collect()
}

/// The pods that are not the same in both orders, or not of the same spec.
pub(super) fn touched_between(before: &Order, after: &Order) -> BTreeSet<PodId> {
    let pods = Changes::between(&before.pods, &after.pods);
    let specs = Changes::between(&before.specs, &after.specs);
    let respecified = after.pods.iter().filter(|(pod, a)| specs.put.contains_key(&a.spec_key(pod)));
    respecified.map(|(pod, _)| pod).chain(pods.put.keys()).chain(&pods.gone).cloned().collect()
}

/// All pods of one group, in the order of pod ids.
fn group_range(group: &GroupName) -> RangeInclusive<PodId> {
    let pod = |number| PodId { group: group.clone(), instance: number, version: number, drift: number };
    pod(0)..=pod(u32::MAX)
}

/// Puts the order in the ledger and fits what is remembered to it; `asked` are the pods it asks to start or restart once more.
pub(super) fn adopt(
    ledger: &mut Ledger,
    order: &Arc<Order>,
    asked: &BTreeMap<PodId, Timestamp>,
    touched: Option<&BTreeSet<PodId>>,
) {
    let before = std::mem::replace(&mut ledger.order, Arc::clone(order));
    match touched {
        None => {
            let memory = Arc::make_mut(&mut ledger.memory);
            memory.retain(|pod, memory| order.pods.contains_key(pod) || is_worth_keeping(memory));
            memory.iter_mut().for_each(|(pod, memory)| respecify(pod, memory, &before, order));
        }
        Some(touched) => {
            for pod in touched {
                // Looked at before it is changed: most changes are about pods nothing is remembered of.
                if !ledger.memory.contains_key(pod) {
                    continue;
                }
                let all = Arc::make_mut(&mut ledger.memory);
                let Some(memory) = all.get_mut(pod) else { continue };
                if order.pods.contains_key(pod) {
                    respecify(pod, memory, &before, order);
                } else if !is_worth_keeping(memory) {
                    all.remove(pod);
                }
            }
        }
    }
    for (pod, assignment) in &order.pods {
        if assignment.target == TargetState::Stop {
            let memory = Arc::make_mut(&mut ledger.memory).entry(pod.clone()).or_default();
            let count = order.spec_of(pod).map_or(0, |spec| spec.containers.len());
            memory.stopped_by_order = (0..count).collect();
            memory.is_crash_looping = false;
        }
    }
    for (pod, asked_at) in asked {
        let before = before.pods.get(pod).map_or(0, |assignment| assignment.starts_requested);
        let starts = order.pods.get(pod).is_some_and(|assignment| assignment.starts_requested > before);
        let count = order.spec_of(pod).map_or(0, |spec| spec.containers.len());
        let memory = Arc::make_mut(&mut ledger.memory).entry(pod.clone()).or_default();
        note_asked(memory, *asked_at, starts.then_some(count));
    }
}

/// A pod that stays may have another spec from now on.
fn respecify(pod: &PodId, memory: &mut PodMemory, before: &Order, after: &Order) {
    let (Some(was), Some(is)) = (before.spec_of(pod), after.spec_of(pod)) else { return };
    if was == is {
        return;
    }
    // A new spec is worth a try of its own.
    memory.live = LiveMemory { updated: std::mem::take(&mut memory.live.updated), ..LiveMemory::default() };
    let version = |order: &Order| order.pods.get(pod).and_then(|assignment| assignment.updated_to);
    let is_live = version(before).or_else(|| version(after)).is_some();
    if makes_other_containers(was, is) {
        // A pod that crash-looped gets its immediate restarts again.
        memory.is_crash_looping = false;
        memory.restarts = 0;
        memory.outdated |= !(is_live && can_be_updated(was, is));
    }
}

/// What is left to remember of a pod that is not ordered any more: as long as its containers stand, that they are not what
/// they were made as.
fn is_worth_keeping(memory: &mut PodMemory) -> bool {
    *memory = PodMemory { live: std::mem::take(&mut memory.live), ..PodMemory::default() };
    !memory.live.updated.is_empty()
}

/// Somebody asks for a restart of a pod, or for a start of its containers, however many those are: what it did before
/// is forgiven. A restart counts on, unless the pod was let go.
fn note_asked(memory: &mut PodMemory, asked_at: Timestamp, starts: Option<usize>) {
    if starts.is_some() || memory.is_crash_looping {
        memory.restarts = 0;
        memory.restarted_at = Timestamp::NEVER;
    }
    if let Some(count) = starts {
        memory.stopped_by_order = (0..count).collect();
    }
    memory.is_crash_looping = false;
    memory.failures = 0;
    memory.retry_at = Timestamp::NEVER;
    memory.last_error.clear();
    memory.asked_at = asked_at;
    memory.renewed.clear();
}

#[cfg(test)]
mod tests {
    use contract::order::Assignment;
    use contract::spec::PodSpec;

    use super::*;

    fn order(pods: &[(&str, u32)], specs: &[(&str, i64)]) -> Order {
        let pod = |(pod, starts): &(&str, u32)| {
            (pod.parse().expect("a pod"), Assignment { starts_requested: *starts, ..Assignment::default() })
        };
        let spec = |(key, setup_time): &(&str, i64)| {
            let spec = PodSpec { setup_time: *setup_time, ..PodSpec::default() };
            (key.parse().expect("a key"), Arc::new(spec))
        };
        Order { pods: pods.iter().map(pod).collect(), specs: specs.iter().map(spec).collect(), ..Order::default() }
    }

    #[test]
    fn a_change_touches_what_the_whole_would() {
        let before = order(&[("a.v1-i1-d0", 0), ("a.v1-i2-d0", 0), ("b.v1-i1-d0", 0)], &[("a.v1", 1), ("b.v1", 1)]);
        let afters = [
            order(&[("a.v1-i1-d0", 1), ("a.v1-i2-d0", 0), ("b.v1-i1-d0", 0)], &[("a.v1", 1), ("b.v1", 1)]),
            order(&[("a.v1-i1-d0", 0), ("a.v1-i2-d0", 0), ("b.v1-i1-d0", 0)], &[("a.v1", 2), ("b.v1", 1)]),
            order(&[("a.v1-i2-d0", 0), ("b.v1-i1-d0", 0)], &[("a.v1", 1), ("b.v1", 1)]),
            order(&[("a.v1-i1-d0", 0), ("a.v2-i2-d0", 0)], &[("a.v1", 1), ("a.v2", 1)]),
            before.clone(),
        ];
        for after in &afters {
            let touched = touched_by(&after.since(&before), after);
            assert_eq!(touched, touched_between(&before, after), "{after:?}");
        }
    }

    #[test]
    fn a_pod_that_loses_its_spec_is_touched_though_nobody_names_it() {
        let before = order(&[("a.v1-i1-d0", 0)], &[("a.v1", 1)]);
        let after = order(&[("a.v1-i1-d0", 0)], &[]);
        assert_eq!(touched_by(&after.since(&before), &after).len(), 1);
    }
}
