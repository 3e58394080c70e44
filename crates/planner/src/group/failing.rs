//! Decides whether an instance proves that the version of an upgrade without a strategy does not work.
//!
//! Three things prove it: the node cannot pull the image, the engine refused two attempts to create or start the instance, or
//! the instance exited twice with a non-zero code soon after its start. An instance that is merely unhealthy or slow proves
//! nothing: it has five polls ([`super::readiness`]).

use contract::report::{ContainerFacts, PodFacts};
use contract::state::TargetState;

use super::saying::{fails_at, is_about_failing, may_be_replaced};
use super::{Bucket, Planning, number};
use crate::restart;
use crate::rollout::controller::instances;

/// Attempts that prove that an instance does not work.
const ATTEMPTS: u32 = 2;

impl Planning<'_> {
    /// Why the present version does not work on an instance that the upgrade replaced, or is about to replace.
    pub(super) fn failure(&self, index: usize) -> Option<String> {
        let slot = &self.plan.slots[index];
        if slot.target == TargetState::Stop {
            return None;
        }
        if self.is_outdated(slot) {
            return self.pull_error(index).map(|error| format!("its image cannot be pulled: {error}"));
        }
        let seen = self.seen(index).filter(|_| slot.since.happened())?;
        match self.bucket(index) {
            Bucket::Failed if seen.image_is_hopeless => Some(seen.last_error.clone()),
            Bucket::Failed => refused("created", self.attempts_to_create(index, seen), seen),
            Bucket::Ended => refused("started", seen.refusals, seen).or_else(|| self.early_exit(seen)),
            Bucket::Waiting
            | Bucket::Leaving
            | Bucket::Pending
            | Bucket::Running
            | Bucket::Missing
            | Bucket::Lost
            | Bucket::Held
            | Bucket::Unheard => None,
        }
    }

    /// Each attempt that counts was on another node, if there is one: a single node may be at fault. While the old container
    /// stands the instance stays on its node, and the attempts of its agent count.
    fn attempts_to_create(&self, index: usize, seen: &PodFacts) -> u32 {
        let slot = &self.plan.slots[index];
        let is_new = !slot.retry_at.happened();
        if self.has_predecessor(index) { seen.refusals } else { slot.failures.saturating_add(u32::from(is_new)) }
    }

    /// A container that exited with an error soon after its start, for the second time or with nothing that restarts it. The
    /// length of earlier runs is not reported: they count as equally short.
    fn early_exit(&self, seen: &PodFacts) -> Option<String> {
        let limit = self.facts.patience.early_exit;
        let is_early = |it: &&ContainerFacts| {
            let has_failed = !it.running && it.finished_at.happened() && it.exit_code != 0;
            has_failed && it.finished_at.since(it.started_at) < limit
        };
        let exited = seen.containers.iter().find(is_early)?;
        let policy = self.record.spec.restart_policy;
        let is_final = seen.is_crash_looping || !restart::is_wanted(policy, exited.exit_code, !exited.error.is_empty());
        let times = seen.restarts.saturating_add(1);
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
            return self.stuck(index, &why);
        }
        let (start, said) = (fails_at(index), &self.record.last_error);
        // The number of attempts grows; the first text is kept.
        if said.starts_with(&start) || !may_be_replaced(said) {
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

fn refused(what: &str, attempts: u32, seen: &PodFacts) -> Option<String> {
    let error = Some(seen.last_error.as_str()).filter(|error| !error.is_empty());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    (attempts >= ATTEMPTS).then(|| format!("it could not be {what}, {attempts} times{error}"))
}
