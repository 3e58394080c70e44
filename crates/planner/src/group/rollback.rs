//! Decides whether an upgrade without a strategy is rolled back.
//!
//! The first instance that shall run tries the new version. When it proves that the version does not work, or does not become
//! well in time, the group gets one more version with the content of an earlier one. Instances that still run that content
//! are left alone: their version counts as the present one. A rollback is never rolled back, and without a version to return
//! to the upgrade pauses.

use contract::command::Operation;
use contract::notice::Incident;
use contract::record::OperationRecord;
use contract::report::{ContainerFacts, FetchState, PodFacts};
use contract::state::TargetState;
use contract::time::Timestamp;

use super::last_error::{failing_prefix, is_about_failing, is_planner_text};
use super::readiness::InstanceReadiness;
use super::{InstanceStatus, Planning, Revision, number};
use crate::restart;
use crate::rollout::controller::instances;

/// The original's words.
const TERRIBLE: &str = "Your Last upgrade is terrrible, so we won't upgrade it, please check your code carefully!!";

/// Attempts that prove that an instance does not work.
const ATTEMPTS: u32 = 2;

impl Planning<'_> {
    pub(super) fn roll_back_if_bad(&mut self) {
        let Some(first) = self.on_trial() else { return };
        // A single instance that runs and is only unhealthy stays, unless an earlier version completed.
        let may_be_unproven = self.status(first) != InstanceStatus::Running;
        let earlier = self.earlier_version().or_else(|| self.newest_former().filter(|_| may_be_unproven));
        let Some(earlier) = earlier else { return };
        if let Some(why) = self.failure(first) {
            self.roll_back(first, earlier, format!("{TERRIBLE} (instance {}: {why})", number(first)));
        } else if self.is_overdue_on_trial(first) {
            self.roll_back(first, earlier, TERRIBLE.to_owned());
        }
    }

    /// The completed version that a release returns to.
    pub(super) fn completed_version(&self) -> Option<u32> {
        self.record.proven.filter(|proven| self.may_return() && self.record.former.contains_key(proven))
    }

    /// The version that an upgrade without a strategy returns to: the one of the instances that it did not replace, or the
    /// last completed one. Instances at versions 3, 2, 2 return to 2, completed or not, as in the original. A single instance
    /// at version 3 returns to version 1 if that one completed and 2 did not.
    fn earlier_version(&self) -> Option<u32> {
        let untouched = self.outdated().last().map(|index| self.plan.slots[index].version);
        let failure_detail = |version: &u32| self.may_return() && self.record.former.contains_key(version);
        untouched.filter(failure_detail).or_else(|| self.completed_version())
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
            return self.fetch_request(slot).map(|_| first);
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
            begun.max(from) + self.facts.timeouts.operation
        };
        if let Some(fetching) = self.fetch_request(slot).filter(|_| self.is_outdated(slot)) {
            // With the image on its node it only lacks room, which says nothing about the version.
            let is_here = self.fetch_report(self.observed(first)).is_some_and(|said| said.state == FetchState::Here);
            return (!is_here).then(|| operation(fetching.since));
        }
        match self.readiness_of(first) {
            InstanceReadiness::Ready | InstanceReadiness::NotExpected | InstanceReadiness::Unreachable { .. } => None,
            // A program that ended as its policy wants it has done its work.
            InstanceReadiness::Down { .. } if self.has_succeeded(first) => None,
            InstanceReadiness::Unready { limit, .. } | InstanceReadiness::Down { limit } => Some(limit),
            InstanceReadiness::InProgress if slot.leaves.is_some() => None,
            InstanceReadiness::InProgress => Some(operation(self.waited_since(first))),
        }
    }

    /// Every container of it that ended did so without an error, and nothing restarts it.
    fn has_succeeded(&self, index: usize) -> bool {
        let policy = self.record.spec.restart_policy;
        let Some(observed) = self.observed(index) else { return false };
        let mut ended = observed.containers.iter().filter(|it| !it.running && it.finished_at.happened()).peekable();
        let is_success = |it: &ContainerFacts| {
            it.exit_code == 0 && it.error.is_empty() && !restart::is_wanted(policy, it.exit_code, false)
        };
        ended.peek().is_some() && ended.all(is_success)
    }

    fn roll_back(&mut self, first: usize, earlier: u32, why: String) {
        self.restore_version(earlier, why, number(first));
        let now = self.now;
        self.record.to_mut().operation = Some(OperationRecord::new(Operation::Upgrading, now));
        self.plan.slots.iter_mut().for_each(|slot| slot.fetching = None);
    }

    /// The group gets one more version, with the content of an earlier one.
    pub(super) fn restore_version(&mut self, earlier: u32, why: String, instance: u32) {
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

    /// Why the present version does not work on an instance that the upgrade replaced, or is about to replace.
    pub(super) fn failure(&self, index: usize) -> Option<String> {
        let slot = &self.plan.slots[index];
        if slot.target == TargetState::Stop {
            return None;
        }
        if self.is_outdated(slot) {
            return self.pull_error(index).map(|error| format!("its image cannot be pulled: {error}"));
        }
        let observed = self.observed(index).filter(|_| slot.since.happened())?;
        match self.status(index) {
            InstanceStatus::CreateFailed if observed.image_is_hopeless => Some(observed.last_error.clone()),
            InstanceStatus::CreateFailed => refused("created", self.attempts_to_create(index, observed), observed),
            InstanceStatus::Exited => {
                refused("started", observed.refusals, observed).or_else(|| self.early_exit(observed))
            }
            InstanceStatus::Unplaced
            | InstanceStatus::Moving
            | InstanceStatus::Starting
            | InstanceStatus::Running
            | InstanceStatus::Missing
            | InstanceStatus::NodeLost
            | InstanceStatus::LeftAlone
            | InstanceStatus::Unreachable => None,
        }
    }

    /// Each attempt that counts was on another node, if there is one: a single node may be at fault. While the old container
    /// stands the instance stays on its node, and the attempts of its agent count.
    fn attempts_to_create(&self, index: usize, observed: &PodFacts) -> u32 {
        let slot = &self.plan.slots[index];
        let is_new = !slot.retry_at.happened();
        if self.has_predecessor(index) { observed.refusals } else { slot.failures.saturating_add(u32::from(is_new)) }
    }

    /// A container that exited with an error soon after its start, for the second time or with nothing that restarts it. The
    /// length of earlier runs is not reported: they count as equally short.
    fn early_exit(&self, observed: &PodFacts) -> Option<String> {
        let limit = self.facts.timeouts.early_exit;
        let is_early = |it: &&ContainerFacts| {
            let has_failed = !it.running && it.finished_at.happened() && it.exit_code != 0;
            has_failed && it.finished_at.since(it.started_at) < limit
        };
        let exited = observed.containers.iter().find(is_early)?;
        let policy = self.record.spec.restart_policy;
        let is_final =
            observed.is_crash_looping || !restart::is_wanted(policy, exited.exit_code, !exited.error.is_empty());
        let times = observed.restarts.saturating_add(1);
        let repeated = if times > 1 { format!(", {times} times") } else { String::new() };
        let text = format!("it exited with code {} within {} s of its start", exited.exit_code, limit.as_secs());
        let last_line = exited.last_exit.as_ref().map(|exit| exit.last_line.as_str()).filter(|line| !line.is_empty());
        let last_line = last_line.map(|line| format!("; its last line: {line}")).unwrap_or_default();
        (times >= ATTEMPTS || is_final).then(|| format!("{text}{repeated}{last_line}"))
    }

    /// An instance that fails pauses the upgrade without its lock: instances that still run the old version keep it, and the
    /// group's last error says why. The upgrade continues by itself once the instance works.
    pub(super) fn pause_if_failing(&mut self) {
        // Without an earlier version there is no upgrade, and with the present one completed it is over.
        if self.record.former.is_empty() || self.record.proven == Some(self.record.spec.version) {
            return;
        }
        let failing = (0..self.plan.slots.len()).find_map(|index| Some((index, self.failure(index)?)));
        let Some((index, why)) = failing else { return self.forget_failure() };
        self.paused_at = Some(index);
        if self.is_outdated(&self.plan.slots[index]) {
            return self.note_stuck(index, &why);
        }
        let (start, said) = (failing_prefix(index), &self.record.last_error);
        // The number of attempts grows; the first text is kept.
        if said.starts_with(&start) || !is_planner_text(said) {
            return;
        }
        let kept: Vec<u32> = self.outdated().map(number).collect();
        let kept = match kept.as_slice() {
            [] => String::new(),
            [_] => format!("; the upgrade is paused and {} is not replaced", instances(&kept)),
            [_, _, ..] => format!("; the upgrade is paused and {} are not replaced", instances(&kept)),
        };
        let version = self.record.spec.version;
        self.record.to_mut().last_error = format!("{start} in version {version}: {why}{kept}");
    }

    /// The instance that failed works again.
    fn forget_failure(&mut self) {
        if is_about_failing(&self.record.last_error) && self.upgraded().into_iter().all(|index| self.is_done(index)) {
            self.record.to_mut().last_error.clear();
        }
    }

    /// The instances that shall run and have the present version.
    pub(super) fn upgraded(&self) -> Vec<usize> {
        let (present, slots) = (self.record.spec.version, self.plan.slots.iter().enumerate());
        let upgraded = slots.filter(|(_, slot)| slot.version == present && slot.target == TargetState::Run);
        upgraded.map(|(index, _)| index).collect()
    }
}

fn refused(what: &str, attempts: u32, observed: &PodFacts) -> Option<String> {
    let error = Some(observed.last_error.as_str()).filter(|error| !error.is_empty());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    (attempts >= ATTEMPTS).then(|| format!("it could not be {what}, {attempts} times{error}"))
}
