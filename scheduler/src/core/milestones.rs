//! Tells where a release came to: one event for each step between two stored states of it.
//!
//! Both states are stored ones, so each step is told once, whoever leads.

use contract::event::{Event, Kind};
use contract::name::GroupName;
use contract::record::Slot;
use contract::time::Timestamp;
use planner::rollout::batches;
use planner::rollout::controller::{Excuse, RolloutState, instances};
use planner::rollout::transition::RolloutPhase;

use super::events::of_group;
use super::io::Effect;

/// What lies between two states of a group's release.
pub(super) fn told(
    name: &GroupName,
    before: Option<&RolloutState>,
    after: &RolloutState,
    now: Timestamp,
) -> Vec<Effect> {
    let fresh = RolloutState::toward(after.target);
    let same = before.filter(|before| before.target == after.target);
    let opened = same.is_none().then(|| format!("release {} opened", after.target));
    let said = opened.into_iter().chain(steps(same.unwrap_or(&fresh), after));
    let said = said.chain(switches(before.unwrap_or(&fresh), after));
    said.map(|message| Effect::Record(of_group(Kind::Release, name, message, now))).collect()
}

/// A pause and a freeze are the group's: they outlive its releases.
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
    let mut said = Vec::new();
    let was_running = before.batch > 0 && before.phase == RolloutPhase::Running;
    let moved_on = after.batch > before.batch || (after.phase != before.phase && after.phase != RolloutPhase::Aborted);
    if was_running && moved_on {
        let how = if after.skipped == before.batch { "skipped" } else { "done" };
        said.push(format!("group {} of release {target} is {how}", before.batch));
    }
    if after.batch > before.batch {
        let kind = after.kind.map(|kind| format!(", a {}", kind_word(kind))).unwrap_or_default();
        let pods: i64 = after.committed.iter().sum();
        said.push(format!("group {} of release {target} started{kind}: {pods} instances are to be at it", after.batch));
    }
    match (&before.failure, &after.failure) {
        (before, Some(failure)) if before.as_ref() != Some(failure) => {
            said.push(format!("release {target} is held: {}", failure.message()));
        }
        (Some(_), None) if after.is_open() => said.push(format!("release {target} goes on after its failure")),
        (Some(_), None) | (_, Some(_)) | (None, None) => {}
    }
    let is_left = |(number, excuse): (&u32, &Excuse)| {
        (*excuse == Excuse::Skipped && before.excused.get(number) != Some(excuse)).then_some(*number)
    };
    let left: Vec<u32> = after.excused.iter().filter_map(is_left).collect();
    if !left.is_empty() {
        said.push(format!("release {target} goes on without {}", instances(&left)));
    }
    if after.phase != before.phase {
        said.extend(match after.phase {
            RolloutPhase::WaitingForConfirm => {
                Some(format!("release {target} waits for group {} to be confirmed", after.batch))
            }
            RolloutPhase::Completed => Some(format!("release {target} completed")),
            RolloutPhase::Aborted => Some(format!("release {target} was aborted; its mix of revisions stays")),
            RolloutPhase::Idle | RolloutPhase::Running => None,
        });
    }
    said
}

/// What a group of a release is called.
pub(super) fn kind_word(kind: batches::BatchKind) -> &'static str {
    match kind {
        batches::BatchKind::Beta => "Beta",
        batches::BatchKind::Batch => "Batch",
    }
}

/// Instances that are taken out of service, or were said to be drained.
pub(super) fn drained(name: &GroupName, before: &[Slot], after: &[Slot], now: Timestamp) -> Vec<Effect> {
    let nothing = Slot::default();
    let told = (1..).zip(after).filter_map(|(instance, slot)| {
        let index = usize::try_from(instance).unwrap_or(0).saturating_sub(1);
        let (was, is) = (before.get(index).unwrap_or(&nothing).draining.as_ref(), slot.draining.as_ref()?);
        let message = match was {
            None => "is being taken out of service",
            Some(was) if is.is_answered && !was.is_answered => "is drained",
            Some(_) => return None,
        };
        Some(Effect::Record(Event { instance, ..of_group(Kind::Release, name, message, now) }))
    });
    told.collect()
}

/// Instances that go although nobody said that they are drained.
pub(super) fn undrained(name: &GroupName, instances: &[u32], now: Timestamp) -> Vec<Effect> {
    let message = "goes although nobody said that it is drained: its time to be, Drain.TimeoutSeconds, is over";
    let told =
        |instance: &u32| Effect::Record(Event { instance: *instance, ..of_group(Kind::Release, name, message, now) });
    instances.iter().map(told).collect()
}
