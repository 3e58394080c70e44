//! Decides whether an upgrade without a strategy is rolled back.
//!
//! The first instance that shall run tries the new version. When it proves that the version does not work, or does not become
//! well in time, the group gets one more version with the content of an earlier one. Instances that still run that content
//! are left alone: their version counts as the present one. A rollback is never rolled back, and without a version to return
//! to the upgrade pauses.

use contract::command::Operation;
use contract::notice::Incident;
use contract::record::OperationRecord;
use contract::report::{ContainerFacts, FetchState};
use contract::state::TargetState;
use contract::time::Timestamp;

use super::readiness::Condition;
use super::{Bucket, Planning, Revision, number};
use crate::restart;

/// The original's words.
const TERRIBLE: &str = "Your Last upgrade is terrrible, so we won't upgrade it, please check your code carefully!!";

impl Planning<'_> {
    pub(super) fn roll_back_if_bad(&mut self) {
        let Some(first) = self.on_trial() else { return };
        // A single instance that runs and is only unhealthy stays, unless an earlier version completed.
        let may_be_unproven = self.bucket(first) != Bucket::Running;
        let earlier = self.earlier_version().or_else(|| self.newest_former().filter(|_| may_be_unproven));
        let Some(earlier) = earlier else { return };
        if let Some(why) = self.failure(first) {
            self.roll_back(first, earlier, format!("{TERRIBLE} (instance {}: {why})", number(first)));
        } else if self.is_overdue_on_trial(first) {
            self.roll_back(first, earlier, TERRIBLE.to_owned());
        }
    }

    /// The completed version that a release returns to.
    pub(super) fn way_back(&self) -> Option<u32> {
        self.record.proven.filter(|proven| self.may_return() && self.record.former.contains_key(proven))
    }

    /// The version that an upgrade without a strategy returns to: the one of the instances that it did not replace, or the
    /// last completed one. Instances at versions 3, 2, 2 return to 2, completed or not, as in the original. A single instance
    /// at version 3 returns to version 1 if that one completed and 2 did not.
    fn earlier_version(&self) -> Option<u32> {
        let untouched = self.outdated().last().map(|index| self.plan.slots[index].version);
        let known = |version: &u32| self.may_return() && self.record.former.contains_key(version);
        untouched.filter(known).or_else(|| self.way_back())
    }

    /// The version before the present one, completed or not.
    fn newest_former(&self) -> Option<u32> {
        self.record.former.keys().next_back().copied().filter(|_| self.may_return())
    }

    /// The present version neither completed nor is it a rollback.
    fn may_return(&self) -> bool {
        self.record.equals.is_empty() && self.record.proven != Some(self.record.spec.version)
    }

    /// The first instance that shall run, while its node fetches the images of the new version for it, or while it has the new
    /// version and no other that shall run has it.
    pub(super) fn on_trial(&self) -> Option<usize> {
        let first = self.first()?;
        let slot = &self.plan.slots[first];
        if self.is_outdated(slot) {
            return self.asked_for(slot).map(|_| first);
        }
        let next = self.outdated().find(|index| *index > first).unwrap_or(self.plan.slots.len());
        let mut followers = self.plan.slots.get(first + 1..next)?.iter();
        let alone = followers.all(|slot| slot.target == TargetState::Stop);
        let upgraded = slot.version == self.record.spec.version && slot.since.happened();
        (alone && upgraded).then_some(first)
    }

    /// Whether the first instance had its time; wakes for when it has.
    fn is_overdue_on_trial(&mut self, first: usize) -> bool {
        let Some(limit) = self.limit_of_trial(first) else { return false };
        if self.now < limit {
            self.wake(limit);
        }
        self.now >= limit
    }

    fn limit_of_trial(&self, first: usize) -> Option<Timestamp> {
        let slot = &self.plan.slots[first];
        // Pulling an image may take long: only the limit of the operation ends it.
        let operation = |from: Timestamp| {
            let begun = self.record.operation.as_ref().map_or(from, |operation| operation.since);
            begun.max(from) + self.facts.patience.operation
        };
        if let Some(fetching) = self.asked_for(slot).filter(|_| self.is_outdated(slot)) {
            // With the image on its node it only lacks room, which says nothing about the version.
            let is_here = self.said(self.seen(first)).is_some_and(|said| said.state == FetchState::Here);
            return (!is_here).then(|| operation(fetching.since));
        }
        match self.condition(first) {
            Condition::Ready | Condition::Idle | Condition::Silent { .. } => None,
            // A program that ended as its policy wants it has done its work.
            Condition::Down { .. } if self.has_succeeded(first) => None,
            Condition::Unready { limit, .. } | Condition::Down { limit } => Some(limit),
            Condition::Busy if slot.leaves.is_some() => None,
            Condition::Busy => Some(operation(self.turned_at(first))),
        }
    }

    /// Every container of it that ended did so without an error, and nothing restarts it.
    fn has_succeeded(&self, index: usize) -> bool {
        let policy = self.record.spec.restart_policy;
        let Some(seen) = self.seen(index) else { return false };
        let mut ended = seen.containers.iter().filter(|it| !it.running && it.finished_at.happened()).peekable();
        let is_success = |it: &ContainerFacts| {
            it.exit_code == 0 && it.error.is_empty() && !restart::is_wanted(policy, it.exit_code, false)
        };
        ended.peek().is_some() && ended.all(is_success)
    }

    fn roll_back(&mut self, first: usize, earlier: u32, why: String) {
        self.take_back(earlier, why, number(first));
        let now = self.now;
        self.record.to_mut().operation = Some(OperationRecord::new(Operation::Upgrading, now));
        self.plan.slots.iter_mut().for_each(|slot| slot.fetching = None);
    }

    /// The group gets one more version, with the content of an earlier one.
    pub(super) fn take_back(&mut self, earlier: u32, why: String, instance: u32) {
        let need = self.revision(earlier).need;
        let now = self.now;
        let record = self.record.to_mut();
        let Some(back) = record.former.get(&earlier).cloned() else { return };
        let failed = record.spec.version;
        let version = failed.saturating_add(1);
        let same = record.former.iter().filter(|(older, pod)| **older < earlier && pod.asks_the_same(&back));
        record.equals = same.map(|(older, _)| *older).chain([earlier]).collect();
        record.former.insert(failed, record.spec.pod.clone());
        record.spec.version = version;
        record.spec.updated_at = now;
        record.spec.pod = back;
        record.spec.pod.version = version;
        record.spec.pod.updated_at = now;
        record.updated_at = now;
        record.last_error = why;
        self.present = Revision::new(record.spec.pod.clone().into(), need);
        self.plan.incidents.push((instance, Incident::BadUpgrade { version: failed }));
    }
}
