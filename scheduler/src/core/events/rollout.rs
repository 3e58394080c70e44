//! Events about a rollout: one for each step between two stored states of it.
//!
//! Both states are stored, so each step is reported once, also after a failover.

use contract::event::{Event, Kind};
use contract::name::GroupName;
use contract::record::Instance;
use contract::time::Timestamp;
use planner::rollout::batches;
use planner::rollout::controller::{Excuse, RolloutState, instances};
use planner::rollout::transition::RolloutPhase;

use crate::core::io::Effect;

use super::of_group;

/// The events between two states of a group's rollout.
pub(in crate::core) fn between(
    name: &GroupName,
    before: Option<&RolloutState>,
    after: &RolloutState,
    now: Timestamp,
) -> Vec<Effect> {
    let fresh = RolloutState::toward(after.target);
    let same = before.filter(|before| before.target == after.target);
    let opened = same.is_none().then(|| format!("rollout to revision {} started", after.target));
    let texts = opened.into_iter().chain(steps(same.unwrap_or(&fresh), after));
    let texts = texts.chain(switches(before.unwrap_or(&fresh), after));
    texts.map(|message| Effect::Record(of_group(Kind::Release, name, message, now))).collect()
}

/// A pause and a freeze belong to the group and outlive its rollouts.
fn switches(before: &RolloutState, after: &RolloutState) -> Vec<String> {
    let switches = [
        (before.is_paused, after.is_paused, ["resumed", "paused: nothing new starts"]),
        (before.is_frozen, after.is_frozen, ["unfrozen", "frozen: nothing moves"]),
    ];
    let switched = switches.into_iter().filter(|(before, after, _)| before != after);
    switched.map(|(_, after, words)| words[usize::from(after)].to_owned()).collect()
}

fn steps(before: &RolloutState, after: &RolloutState) -> Vec<String> {
    let target = after.target;
    let mut texts = Vec::new();
    let was_running = before.batch > 0 && before.phase == RolloutPhase::Running;
    let moved_on = after.batch > before.batch || (after.phase != before.phase && after.phase != RolloutPhase::Aborted);
    if was_running && moved_on {
        let how = if after.skipped == before.batch { "skipped" } else { "done" };
        texts.push(format!("batch {} of the rollout to revision {target} is {how}", before.batch));
    }
    if after.batch > before.batch {
        let kind = after.kind.map(|kind| format!(", a {}", kind_name(kind))).unwrap_or_default();
        let pods: i64 = after.committed.iter().sum();
        texts.push(format!(
            "batch {} of the rollout to revision {target} started{kind}: {pods} instances will run it",
            after.batch
        ));
    }
    match (&before.failure, &after.failure) {
        (before, Some(failure)) if before.as_ref() != Some(failure) => {
            texts.push(format!("rollout to revision {target} is paused by a failure: {}", failure.message()));
        }
        (Some(_), None) if after.is_open() => {
            texts.push(format!("rollout to revision {target} continues after its failure"));
        }
        (Some(_), None) | (_, Some(_)) | (None, None) => {}
    }
    let is_left = |(number, excuse): (&u32, &Excuse)| {
        (*excuse == Excuse::Skipped && before.excused.get(number) != Some(excuse)).then_some(*number)
    };
    let left: Vec<u32> = after.excused.iter().filter_map(is_left).collect();
    if !left.is_empty() {
        texts.push(format!("rollout to revision {target} continues without {}", instances(&left)));
    }
    if after.phase != before.phase {
        texts.extend(match after.phase {
            RolloutPhase::WaitingForConfirm => {
                Some(format!("rollout to revision {target} waits for confirmation of batch {}", after.batch))
            }
            RolloutPhase::Completed => Some(format!("rollout to revision {target} completed")),
            RolloutPhase::Aborted => {
                Some(format!("rollout to revision {target} was aborted; instances keep their current revisions"))
            }
            RolloutPhase::Idle | RolloutPhase::Running => None,
        });
    }
    texts
}

/// The name of a kind of batch.
pub(in crate::core) fn kind_name(kind: batches::BatchKind) -> &'static str {
    match kind {
        batches::BatchKind::Beta => "Beta",
        batches::BatchKind::Batch => "Batch",
    }
}

/// Instances that start draining, or that a client declared drained.
pub(in crate::core) fn drained(
    name: &GroupName,
    before: &[Instance],
    after: &[Instance],
    now: Timestamp,
) -> Vec<Effect> {
    let nothing = Instance::default();
    let events = (1..).zip(after).filter_map(|(number, instance)| {
        let index = usize::try_from(number).unwrap_or(0).saturating_sub(1);
        let (was, is) = (before.get(index).unwrap_or(&nothing).draining.as_ref(), instance.draining.as_ref()?);
        let message = match was {
            None => "is being taken out of service",
            Some(was) if is.is_answered && !was.is_answered => "is drained",
            Some(_) => return None,
        };
        Some(Effect::Record(Event { instance: number, ..of_group(Kind::Release, name, message, now) }))
    });
    events.collect()
}

/// Instances that stop although no client declared them drained.
pub(super) fn undrained(name: &GroupName, instances: &[u32], now: Timestamp) -> Vec<Effect> {
    let message = "stops although no client declared it drained: Drain.TimeoutSeconds is over";
    let events =
        |instance: &u32| Effect::Record(Event { instance: *instance, ..of_group(Kind::Release, name, message, now) });
    instances.iter().map(events).collect()
}
