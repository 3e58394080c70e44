//! Events about a rollout: one for each step between two stored states of it.
//!
//! Both states are stored, so each step is reported once, also after a failover.

use contract::event::{Event, Kind};
use contract::name::GroupName;
use contract::record::Slot;
use contract::time::Timestamp;
use planner::rollout::controller::{Excuse, Release, instances};
use planner::rollout::groups;
use planner::rollout::release::Phase;

use crate::core::io::Effect;

use super::of_group;

/// The events between two states of a group's rollout.
pub(in crate::core) fn between(
    name: &GroupName,
    before: Option<&Release>,
    after: &Release,
    now: Timestamp,
) -> Vec<Effect> {
    let fresh = Release::toward(after.target);
    let same = before.filter(|before| before.target == after.target);
    let opened = same.is_none().then(|| format!("release {} opened", after.target));
    let texts = opened.into_iter().chain(steps(same.unwrap_or(&fresh), after));
    let texts = texts.chain(switches(before.unwrap_or(&fresh), after));
    texts.map(|message| Effect::Record(of_group(Kind::Release, name, message, now))).collect()
}

/// A pause and a freeze belong to the group and outlive its rollouts.
fn switches(before: &Release, after: &Release) -> Vec<String> {
    let switches = [
        (before.is_paused, after.is_paused, ["resumed", "paused: nothing new starts"]),
        (before.is_frozen, after.is_frozen, ["unfrozen", "frozen: nothing moves"]),
    ];
    let switched = switches.into_iter().filter(|(before, after, _)| before != after);
    switched.map(|(_, after, words)| words[usize::from(after)].to_owned()).collect()
}

fn steps(before: &Release, after: &Release) -> Vec<String> {
    let target = after.target;
    let mut texts = Vec::new();
    let was_running = before.group > 0 && before.phase == Phase::Running;
    let moved_on = after.group > before.group || (after.phase != before.phase && after.phase != Phase::Aborted);
    if was_running && moved_on {
        let how = if after.skipped == before.group { "skipped" } else { "done" };
        texts.push(format!("group {} of release {target} is {how}", before.group));
    }
    if after.group > before.group {
        let kind = after.kind.map(|kind| format!(", a {}", kind_name(kind))).unwrap_or_default();
        let pods: i64 = after.committed.iter().sum();
        texts
            .push(format!("group {} of release {target} started{kind}: {pods} instances are to be at it", after.group));
    }
    match (&before.failure, &after.failure) {
        (before, Some(failure)) if before.as_ref() != Some(failure) => {
            texts.push(format!("release {target} is held: {}", failure.words()));
        }
        (Some(_), None) if after.is_open() => texts.push(format!("release {target} continues after its failure")),
        (Some(_), None) | (_, Some(_)) | (None, None) => {}
    }
    let is_left = |(number, excuse): (&u32, &Excuse)| {
        (*excuse == Excuse::Skipped && before.excused.get(number) != Some(excuse)).then_some(*number)
    };
    let left: Vec<u32> = after.excused.iter().filter_map(is_left).collect();
    if !left.is_empty() {
        texts.push(format!("release {target} continues without {}", instances(&left)));
    }
    if after.phase != before.phase {
        texts.extend(match after.phase {
            Phase::WaitingForConfirm => {
                Some(format!("release {target} waits for group {} to be confirmed", after.group))
            }
            Phase::Completed => Some(format!("release {target} completed")),
            Phase::Aborted => Some(format!("release {target} was aborted; its mix of revisions stays")),
            Phase::Idle | Phase::Running => None,
        });
    }
    texts
}

/// The name of a kind of batch.
pub(in crate::core) fn kind_name(kind: groups::Kind) -> &'static str {
    match kind {
        groups::Kind::Beta => "Beta",
        groups::Kind::Batch => "Batch",
    }
}

/// Instances that start draining, or that a client declared drained.
pub(in crate::core) fn drained(name: &GroupName, before: &[Slot], after: &[Slot], now: Timestamp) -> Vec<Effect> {
    let nothing = Slot::default();
    let events = (1..).zip(after).filter_map(|(instance, slot)| {
        let index = usize::try_from(instance).unwrap_or(0).saturating_sub(1);
        let (was, is) = (before.get(index).unwrap_or(&nothing).draining.as_ref(), slot.draining.as_ref()?);
        let message = match was {
            None => "is being taken out of service",
            Some(was) if is.is_answered && !was.is_answered => "is drained",
            Some(_) => return None,
        };
        Some(Effect::Record(Event { instance, ..of_group(Kind::Release, name, message, now) }))
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
