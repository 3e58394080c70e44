//! Decides whether an upgrade is taken back.
//!
//! The first instance that shall run tries the new version out. When it does not become well in time the group gets one more
//! version, whose content is that of the last version all instances reached. Instances that still run that one are left
//! alone: its number counts as the present one. A rollback is never rolled back, and without a version to go back to the
//! upgrade just holds.

use contract::command::Operation;
use contract::notice::Incident;
use contract::record::OperationRecord;
use contract::state::TargetState;

use super::readiness::Condition;
use super::{Planning, Revision, number};

/// What users are told; the original's words.
const TERRIBLE: &str = "Your Last upgrade is terrrible, so we won't upgrade it, please check your code carefully!!";

impl Planning<'_> {
    pub(super) fn roll_back_if_bad(&mut self) {
        let Some(proven) = self.way_back() else { return };
        let Some(first) = self.on_trial() else { return };
        if self.is_bad(first) {
            self.roll_back(first, proven);
        }
    }

    /// The version to go back to.
    pub(super) fn way_back(&self) -> Option<u32> {
        let known = |proven: &u32| *proven != self.record.spec.version && self.record.former.contains_key(proven);
        self.record.proven.filter(|proven| self.record.equals.is_empty() && known(proven))
    }

    /// The first instance, when it was given the new version and no other that shall run followed it yet.
    fn on_trial(&self) -> Option<usize> {
        let first = self.first()?;
        let next = self.outdated().find(|index| *index > first).unwrap_or(self.plan.slots.len());
        let mut followers = self.plan.slots.get(first + 1..next)?.iter();
        let alone = followers.all(|slot| slot.target == TargetState::Stop);
        let slot = &self.plan.slots[first];
        let upgraded = slot.version == self.record.spec.version && slot.since.happened();
        (alone && upgraded).then_some(first)
    }

    fn is_bad(&mut self, first: usize) -> bool {
        let slot = &self.plan.slots[first];
        let limit = match self.condition(first) {
            Condition::Ready | Condition::Idle | Condition::Silent { .. } => return false,
            Condition::Unready { limit, .. } | Condition::Down { limit } => limit,
            Condition::Busy if slot.leaves.is_some() => return false,
            // Its agent is at it: pulling an image may take long.
            Condition::Busy => {
                let turned = self.turned_at(first);
                let begun = self.record.operation.as_ref().map_or(turned, |operation| operation.since);
                begun.max(turned) + self.facts.patience.operation
            }
        };
        if self.now < limit {
            self.wake(limit);
        }
        self.now >= limit
    }

    fn roll_back(&mut self, first: usize, proven: u32) {
        self.take_back(proven, TERRIBLE.to_owned(), number(first));
        let now = self.now;
        self.record.to_mut().operation = Some(OperationRecord::new(Operation::Upgrading, now));
    }

    /// The group gets one more version, with the content of the proven one.
    pub(super) fn take_back(&mut self, proven: u32, why: String, instance: u32) {
        let need = self.revision(proven).need;
        let now = self.now;
        let record = self.record.to_mut();
        let Some(back) = record.former.get(&proven).cloned() else { return };
        let failed = record.spec.version;
        let version = failed.saturating_add(1);
        let same = record.former.iter().filter(|(earlier, pod)| **earlier < proven && pod.asks_the_same(&back));
        record.equals = same.map(|(earlier, _)| *earlier).chain([proven]).collect();
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
