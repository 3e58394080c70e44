//! Rolls a serial upgrade back, or pauses it, when an instance proves that the new revision does not work.
//!
//! The first running instance tries the new revision. If it fails, or is not ready in time, the group gets one more revision
//! with the content of an earlier one: revision 3 fails, revision 4 has the content of 2, and instances that still run 2 are
//! left alone. A rollback is never rolled back. Without an earlier revision, or when a later instance fails, the upgrade
//! pauses.
//!
//! An instance fails when its node cannot pull the image, the engine refused two attempts to create or start it, or it exited
//! twice with a non-zero code soon after its start. Being unhealthy or slow is no failure: it has five polls
//! ([`super::readiness`]).

use contract::command::Operation;
use contract::notice::Incident;
use contract::record::OperationRecord;
use contract::report::{ContainerFacts, FetchState, PodFacts};
use contract::state::TargetState;
use contract::time::Timestamp;

use super::last_error::{failing_prefix, is_about_failing, is_planner_text};
use super::readiness::InstanceReadiness;
use super::{Planning, PodStatus, Revision, number};
use crate::restart;
use crate::rollout::controller::instances;

/// The original's text.
const TERRIBLE: &str = "Your Last upgrade is terrrible, so we won't upgrade it, please check your code carefully!!";

/// Attempts that prove a failure.
const ATTEMPTS: u32 = 2;

impl Planning<'_> {
    pub(super) fn roll_back_if_bad(&mut self) {
        let Some(first) = self.on_trial() else { return };
        // A single instance that runs and is only unhealthy stays, unless an earlier revision completed.
        let may_be_unproven = self.status(first) != PodStatus::Running;
        let earlier = self.earlier_version().or_else(|| self.newest_former().filter(|_| may_be_unproven));
        let Some(earlier) = earlier else { return };
        if let Some(why) = self.failure(first) {
            self.roll_back(first, earlier, format!("{TERRIBLE} (instance {}: {why})", number(first)));
        } else if self.is_overdue_on_trial(first) {
            self.roll_back(first, earlier, TERRIBLE.to_owned());
        }
    }

    /// The last completed revision, if a rollback may return to it.
    pub(super) fn completed_version(&self) -> Option<u32> {
        self.record.proven.filter(|proven| self.may_return() && self.record.former.contains_key(proven))
    }

    /// The revision that a serial upgrade returns to: that of the instances that it has not replaced, or the last completed
    /// one. Instances at revisions 3, 2, 2 return to 2, completed or not, as in the original. A single instance at revision 3
    /// returns to revision 1 if that one completed and 2 did not.
    fn earlier_version(&self) -> Option<u32> {
        let untouched = self.outdated().last().map(|index| self.plan.instances[index].version);
        let can_return_to = |version: &u32| self.may_return() && self.record.former.contains_key(version);
        untouched.filter(can_return_to).or_else(|| self.completed_version())
    }

    /// The revision before the present one, completed or not.
    fn newest_former(&self) -> Option<u32> {
        self.record.former.keys().next_back().copied().filter(|_| self.may_return())
    }

    /// The present revision has not completed and is no rollback.
    fn may_return(&self) -> bool {
        self.record.equals.is_empty() && self.record.proven != Some(self.record.spec.version)
    }

    /// The first running instance, while its node pulls the images of the new revision, or while no other running instance
    /// has the new revision.
    pub(super) fn on_trial(&self) -> Option<usize> {
        let first = self.first()?;
        let instance = &self.plan.instances[first];
        if self.is_outdated(instance) {
            return self.fetch_request(instance).map(|_| first);
        }
        let next = self.outdated().find(|index| *index > first).unwrap_or(self.plan.instances.len());
        let mut followers = self.plan.instances.get(first + 1..next)?.iter();
        let alone = followers.all(|instance| instance.target == TargetState::Stop);
        let upgraded = instance.version == self.record.spec.version && instance.since.happened();
        (alone && upgraded).then_some(first)
    }

    /// Whether the first instance has timed out; otherwise plans a wake-up for that time.
    fn is_overdue_on_trial(&mut self, first: usize) -> bool {
        let Some(limit) = self.limit_of_trial(first) else { return false };
        if self.now < limit {
            self.wake(limit);
        }
        self.now >= limit
    }

    fn limit_of_trial(&self, first: usize) -> Option<Timestamp> {
        let instance = &self.plan.instances[first];
        // Pulling an image may take long: only the time limit of the operation ends it.
        let operation = |from: Timestamp| {
            let begun = self.record.operation.as_ref().map_or(from, |operation| operation.since);
            begun.max(from) + self.facts.timeouts.operation
        };
        if let Some(fetching) = self.fetch_request(instance).filter(|_| self.is_outdated(instance)) {
            // The image is present and only resources are missing, which says nothing about the revision.
            let is_here =
                self.fetch_report(self.observed(first)).is_some_and(|report| report.state == FetchState::Here);
            return (!is_here).then(|| operation(fetching.since));
        }
        match self.readiness_of(first) {
            InstanceReadiness::Ready | InstanceReadiness::NotExpected | InstanceReadiness::Unreachable { .. } => None,
            // A program that exited as its policy expects has succeeded.
            InstanceReadiness::Down { .. } if self.has_succeeded(first) => None,
            InstanceReadiness::Unready { limit, .. } | InstanceReadiness::Down { limit } => Some(limit),
            InstanceReadiness::InProgress if instance.leaves.is_some() => None,
            InstanceReadiness::InProgress => Some(operation(self.waited_since(first))),
        }
    }

    /// All its exited containers exited without an error, and the policy does not restart them.
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
        self.plan.instances.iter_mut().for_each(|instance| instance.fetching = None);
    }

    /// Creates one more revision with the content of an earlier one.
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

    /// Why the present revision fails on an instance that the upgrade replaced or is about to replace.
    pub(super) fn failure(&self, index: usize) -> Option<String> {
        let instance = &self.plan.instances[index];
        if instance.target == TargetState::Stop {
            return None;
        }
        if self.is_outdated(instance) {
            return self.pull_error(index).map(|error| format!("its image cannot be pulled: {error}"));
        }
        let observed = self.observed(index).filter(|_| instance.since.happened())?;
        match self.status(index) {
            PodStatus::CreateFailed if observed.image_is_hopeless => Some(observed.last_error.clone()),
            PodStatus::CreateFailed => refused("created", self.attempts_to_create(index, observed), observed),
            PodStatus::Exited => refused("started", observed.refusals, observed).or_else(|| self.early_exit(observed)),
            PodStatus::Unplaced
            | PodStatus::Moving
            | PodStatus::Starting
            | PodStatus::Running
            | PodStatus::Missing
            | PodStatus::NodeLost
            | PodStatus::LeftAlone
            | PodStatus::Unreachable => None,
        }
    }

    /// Each counted attempt was on another node if there is one, because a single node may be at fault. While the old
    /// container exists the instance stays on its node, and the attempts of its agent count.
    fn attempts_to_create(&self, index: usize, observed: &PodFacts) -> u32 {
        let instance = &self.plan.instances[index];
        let is_new = !instance.retry_at.happened();
        if self.has_predecessor(index) {
            observed.refusals
        } else {
            instance.failures.saturating_add(u32::from(is_new))
        }
    }

    /// A container that exited with an error soon after its start, for the second time or without being restarted. Reports do
    /// not contain the length of earlier runs: they count as equally short.
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

    /// A failing instance pauses the upgrade and releases its lock: the remaining instances keep the old revision, and the
    /// group's last error says why. The upgrade continues by itself once the instance works.
    pub(super) fn pause_if_failing(&mut self) {
        // Without an earlier revision there is no upgrade, and with the present one completed it is over.
        if self.record.former.is_empty() || self.record.proven == Some(self.record.spec.version) {
            return;
        }
        let failing = (0..self.plan.instances.len()).find_map(|index| Some((index, self.failure(index)?)));
        let Some((index, why)) = failing else { return self.forget_failure() };
        self.paused_at = Some(index);
        if self.is_outdated(&self.plan.instances[index]) {
            return self.note_stuck(index, &why);
        }
        let (start, last_error) = (failing_prefix(index), &self.record.last_error);
        // The number of attempts grows; the first text is kept.
        if last_error.starts_with(&start) || !is_planner_text(last_error) {
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

    /// The failed instance works again.
    fn forget_failure(&mut self) {
        if is_about_failing(&self.record.last_error) && self.upgraded().into_iter().all(|index| self.is_done(index)) {
            self.record.to_mut().last_error.clear();
        }
    }

    /// The running instances with the present revision.
    pub(super) fn upgraded(&self) -> Vec<usize> {
        let (present, instances) = (self.record.spec.version, self.plan.instances.iter().enumerate());
        let upgraded =
            instances.filter(|(_, instance)| instance.version == present && instance.target == TargetState::Run);
        upgraded.map(|(index, _)| index).collect()
    }
}

fn refused(what: &str, attempts: u32, observed: &PodFacts) -> Option<String> {
    let error = Some(observed.last_error.as_str()).filter(|error| !error.is_empty());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    (attempts >= ATTEMPTS).then(|| format!("it could not be {what}, {attempts} times{error}"))
}
