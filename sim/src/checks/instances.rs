//! What may change in the stored slots and the lock of one group, from one commit to the next.
//!
//! Targets and counts follow from the accepted starts, stops and restarts, each exactly once. Revisions and drift counts only
//! grow. Drifts are queued when somebody asks, and gone when nothing they mean is left behind.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::{Act, Drift, Operation};
use contract::record::{Filling, GroupRecord, OperationRecord, RevisionsRecord, Slot};
use contract::state::TargetState;
use contract::time::Timestamp;
use planner::rollout::controller::RolloutState;

use crate::checks::invariants::{Invariant, Violation};

/// What was asked of the instances of one group and not seen in its slots yet.
#[derive(Debug, Clone, Default)]
pub struct PendingRequests {
    /// By instance, in the order they were accepted.
    acts: BTreeMap<u32, Vec<(Act, Timestamp)>>,
    drifts: Vec<Drift>,
    /// Drifts accepted since the last commit.
    recent: Vec<Drift>,
    /// Commands accepted since the last commit.
    fresh: usize,
    /// Something began since the last commit that clears what was run into before.
    begun: bool,
    /// The drift under way began with these slots.
    drifting: Option<(Timestamp, Vec<Slot>)>,
}

/// One group as it is stored.
#[derive(Debug, Clone, Default)]
pub struct StoredGroup {
    /// What is wanted.
    pub record: GroupRecord,
    /// Where its instances are.
    pub slots: Vec<Slot>,
    /// How far its release is.
    pub release: Option<RolloutState>,
    /// Its revisions.
    pub revisions: RevisionsRecord,
}

impl StoredGroup {
    /// Its pods, each with its instance.
    pub fn pods(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (1..).zip(&self.slots).flat_map(|(instance, slot)| slot.pods().map(move |pod| (instance, pod)))
    }
}

impl PendingRequests {
    /// Any command about the group was accepted.
    pub fn accepted(&mut self) {
        self.fresh += 1;
    }

    /// A command was accepted that begins something: with the lock, or without it where releases have no need of one.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// No more than one command was accepted since the last commit.
    pub fn is_one_command(&self) -> bool {
        self.fresh <= 1
    }

    /// A start, stop or restart was accepted.
    pub fn operate(&mut self, act: Act, instance: u32, instances: u32, at: Timestamp) {
        let all = if instance == 0 { 1..=instances } else { instance..=instance.min(instances) };
        for number in all.filter(|_| act != Act::Nothing) {
            self.acts.entry(number).or_default().push((act, at));
        }
    }

    /// A drift was accepted that may concern the group.
    pub fn drift(&mut self, drift: &Drift) {
        self.drifts.push(drift.clone());
        self.recent.push(drift.clone());
        self.begin();
    }

    /// Drifts that may explain what the last commit changed.
    pub fn take_recent(&mut self) -> Vec<Drift> {
        std::mem::take(&mut self.recent)
    }

    /// A commit that may concern the group is stored.
    pub fn check(
        &mut self,
        was: &StoredGroup,
        is: &StoredGroup,
        limit: Duration,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let broken = |invariant, detail| Err(Violation { invariant, detail });
        let unknown =
            |pod: &Slot| pod.version != is.record.spec.version && !is.record.former.contains_key(&pod.version);
        if let Some((instance, pod)) = is.pods().find(|(_, pod)| unknown(pod)) {
            return broken(Invariant::VersionsHaveSpecs, format!("instance {instance}: nobody knows {}", pod.version));
        }
        if was.record.spec.version > is.record.spec.version {
            return broken(Invariant::CountsGrow, format!("{} became {:?}", was.record.spec.version, is.record.spec));
        }
        self.check_acts(was, is, limit, now)?;
        self.check_drifts(was, is)?;
        // Texts about an upgrade that is paused or has no lock any more end with the upgrade.
        let said = was.record.last_error.as_str();
        let is_about = |words: &str| said.starts_with("instance ") && said.contains(words);
        let upgrade = is_about("is not upgraded")
            || is_about(" fails in version ")
            || said.starts_with("the upgrade to version ");
        let cleared = !was.record.last_error.is_empty() && is.record.last_error.is_empty();
        // What a release ran into is over when the release goes on.
        let cleared = cleared && !is.record.spec.has_strategy();
        if cleared && std::mem::take(&mut self.fresh) == 0 && !upgrade {
            return broken(Invariant::ErrorsStick, format!("{:?} was forgotten", was.record.last_error));
        }
        (self.fresh, self.begun) = (0, false);
        Ok(())
    }

    /// Instances of a group that was there before the commit were orphaned and adopted with it: what was asked in between is
    /// in effect, or still to be turned to, and what they were then is not known.
    pub fn adopt(&mut self, is: &StoredGroup) {
        (self.fresh, self.begun) = (0, false);
        self.acts.retain(|number, acts| {
            acts.drain(..acts.len().saturating_sub(1));
            is_still_to_be_turned_to(&is.record, *number)
        });
    }

    fn check_acts(
        &mut self,
        was: &StoredGroup,
        is: &StoredGroup,
        limit: Duration,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let nothing = Slot::default();
        // Nothing of a group without instances can be started, stopped or restarted: what waits for ports is deployed. It may
        // have been deployed since the commit before, and asked then.
        let is_deployed = was.slots.is_empty() && !is.record.spec.has_strategy();
        for (number, slot) in (1..).zip(&is.slots).filter(|(_, slot)| is_instance(slot)) {
            let index = usize::try_from(number - 1).unwrap_or(0);
            let before = was.slots.get(index).filter(|before| is_instance(before)).unwrap_or(&nothing);
            let mut acts = self.acts.remove(&number).unwrap_or_default();
            let waiting: Vec<(Act, Timestamp)> = if is_still_to_be_turned_to(&is.record, number) {
                acts.pop().into_iter().collect()
            } else {
                Vec::new()
            };
            let mut possible = vec![requested(before)];
            for (act, at) in &acts {
                // A restart that its operation did not come to before its limit is not made up for.
                let is_late = *act == Act::Restart && now >= *at + limit;
                // Where instances come one after the other, one may have come after it was asked of all.
                let is_new = is.record.spec.has_strategy() && !was.slots.get(index).is_some_and(is_instance);
                let skipped = if is_late || is_new || is_deployed { possible.clone() } else { Vec::new() };
                possible = possible.into_iter().map(|before| after(before, *act)).chain(skipped).collect();
            }
            if !possible.contains(&requested(slot)) {
                let detail = format!("instance {number}: {before:?} became {slot:?}, asked was {acts:?}");
                return Err(Violation { invariant: Invariant::AsksHoldOnce, detail });
            }
            self.acts.insert(number, waiting);
        }
        let count = u32::try_from(is.slots.len()).unwrap_or(u32::MAX);
        self.acts.retain(|number, acts| *number <= count && !acts.is_empty());
        Ok(())
    }

    fn check_drifts(&mut self, was: &StoredGroup, is: &StoredGroup) -> Result<(), Violation> {
        let broken = |detail: String| Err(Violation { invariant: Invariant::DriftsMove, detail });
        let (before, after) = (&was.record.drifts, &is.record.drifts);
        let kept = after.iter().take_while(|drift| before.contains(drift)).count();
        if !before.ends_with(&after[..kept]) {
            return broken(format!("{before:?} became {after:?}"));
        }
        for drift in &after[kept..] {
            let Some(asked) = self.drifts.iter().position(|asked| asked == drift) else {
                return broken(format!("nobody asked for {drift:?}"));
            };
            self.drifts.remove(asked);
        }
        let under_way = |record: &GroupRecord| drifting(record).map(|operation| operation.since);
        let ended = under_way(&was.record).filter(|_| under_way(&was.record) != under_way(&is.record));
        if let Some((drift, (since, slots))) = before.first().zip(self.drifting.take_if(|(at, _)| Some(*at) == ended)) {
            let mut left = left_behind(drift, &slots, is);
            // An instance that found no place says so.
            let says_why =
                |number: &u32| usize::try_from(*number).is_ok_and(|it| !is.slots[it - 1].not_moved.is_empty());
            left.retain(|number| !says_why(number));
            // That the drift ended at its time limit is shown until another operation begins, which may be stored with the same
            // commit; a release begins without a lock.
            let is_told = !is.record.last_error.is_empty() || is.record.operation.is_some() || self.begun;
            if !left.is_empty() && !is_told {
                return broken(format!("{drift:?} since {since} is over and left {left:?} behind"));
            }
        }
        if let Some(since) = under_way(&is.record).filter(|_| self.drifting.is_none()) {
            self.drifting = Some((since, was.slots.clone()));
        }
        Ok(())
    }
}

fn drifting(record: &GroupRecord) -> Option<&OperationRecord> {
    record.operation.as_ref().filter(|operation| operation.kind == Operation::Drifting)
}

/// Instances a drift means that stand where they stood when it began.
fn left_behind(drift: &Drift, before: &[Slot], is: &StoredGroup) -> Vec<u32> {
    let numbered = (1..).zip(before.iter().zip(&is.slots));
    let stayed = numbered.filter(|(number, (was, is_now))| {
        let spec = is.record.former.get(&is_now.version).unwrap_or(&is.record.spec.pod);
        let place = |slot: &Slot| (slot.node.clone(), slot.leaves.clone(), slot.drift);
        let meant = drift.instance.is_none_or(|instance| instance == *number);
        let free = drift.force || !spec.is_stateful();
        meant && free && place(was) == place(is_now) && is_now.node.as_ref() == Some(&drift.from)
    });
    stayed.map(|(number, _)| number).collect()
}

/// Whether a start, stop or restart under way has not come to this instance yet.
fn is_still_to_be_turned_to(record: &GroupRecord, number: u32) -> bool {
    record.operation.as_ref().is_some_and(|operation| match operation.kind {
        Operation::Starting | Operation::Stopping | Operation::Restarting => {
            (operation.next.max(1)..=operation.last).contains(&number)
        }
        Operation::Deploying
        | Operation::Scheduling
        | Operation::Upgrading
        | Operation::Drifting
        | Operation::Removing => false,
    })
}

/// The number stands for an instance at all.
pub fn is_instance(slot: &Slot) -> bool {
    slot.filling != Filling::Nothing
}

type Requested = (TargetState, u32, u32);

fn requested(slot: &Slot) -> Requested {
    (slot.target, slot.starts_requested, slot.restarts_requested)
}

fn after((target, starts, restarts): Requested, act: Act) -> Requested {
    match act {
        Act::Start => (TargetState::Run, starts + 1, restarts),
        Act::Stop => (TargetState::Stop, starts, restarts),
        Act::Restart => (TargetState::Run, starts, restarts + 1),
        Act::Nothing => (target, starts, restarts),
    }
}
