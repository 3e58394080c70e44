//! Pulls the images of the new revision before anything happens to the old pod.
//!
//! A serving pod keeps serving while its node pulls the images; only then is it drained and replaced. An image that cannot be
//! pulled fails the rollout, and no pod was touched. A node that does not report on the pull is not waited for beyond 60 s:
//! the replacement continues, and its agent still pulls before it stops the old pod.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::record::{Fetching, Instance};
use contract::report::{FetchState, Fetched, PodFacts};
use contract::rollout::StrategyType;
use contract::state::TargetState;

use super::super::update_method::UpdateMethod;
use super::super::{Planning, PodStatus, index_of, number};
use super::drain::drained_pods;
use crate::rollout::controller::{Excuse, Fetch, RolloutAction, RolloutState};

/// A node confirms a pull with its next report. Reports may be lost, and the agent may be restarting.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

impl Planning<'_> {
    /// The instances among these actions whose nodes lack images; starts the pulls.
    pub(super) fn instances_to_prefetch(&mut self, actions: &[RolloutAction], release: &RolloutState) -> BTreeSet<u32> {
        let replaced: Vec<u32> = actions.iter().filter_map(|action| replaced(*action)).collect();
        let is_skipped = |instance: &u32| release.excused.get(instance) == Some(&Excuse::Skipped);
        let asked = replaced.iter().copied().filter(|instance| !is_skipped(instance));
        let fetching: BTreeSet<u32> = asked.filter(|instance| self.must_prefetch(*instance)).collect();
        if fetching.is_empty() || self.record.spec.strategy_type() != StrategyType::Recreate {
            return fetching;
        }
        // Recreate replaces all instances together, so that none is down while others wait for an image.
        replaced.into_iter().collect()
    }

    /// Whether an instance waits for its images; starts the pull.
    fn must_prefetch(&mut self, instance: u32) -> bool {
        let Some(index) = index_of(instance) else { return false };
        index < self.plan.instances.len() && self.needs_images(index) && self.waits_for_images(index)
    }

    /// Whether a serial upgrade waits before it replaces an instance: the old container, healthy or not, keeps running until
    /// the node has the images.
    pub(in super::super) fn pulls_first(&mut self, index: usize) -> bool {
        let is_running = self.status(index) == PodStatus::Running;
        is_running && self.can_fetch(index) && self.waits_for_images(index)
    }

    /// The error of a node that cannot pull the images of the present revision.
    pub(in super::super) fn pull_error(&self, index: usize) -> Option<String> {
        self.fetch_request(&self.plan.instances[index])?;
        let report = self.fetch_report(self.observed(index)).filter(|report| report.state == FetchState::Hopeless)?;
        Some(report.error.clone())
    }

    /// Whether the node lacks images of the present revision. Starts the pull.
    fn waits_for_images(&mut self, index: usize) -> bool {
        let asked = self.fetch_request(&self.plan.instances[index]);
        let report = asked.and_then(|_| self.fetch_report(self.observed(index))).map(|it| it.state);
        match (report, asked) {
            (Some(FetchState::Here), _) => false,
            // The deadline of the rollout limits the wait.
            (Some(FetchState::Coming | FetchState::Hopeless), _) => true,
            (None, Some(Fetching { since, .. })) => {
                let until = since + ANSWERS_WITHIN;
                if self.now < until {
                    self.wake(until);
                }
                self.now < until
            }
            (None, None) => {
                let (version, since) = (self.record.spec.version, self.now);
                self.plan.instances[index].fetching = Some(Fetching { version, since });
                self.wake(since + ANSWERS_WITHIN);
                true
            }
        }
    }

    /// Whether an instance serves and its successor has images that the node may lack.
    fn needs_images(&self, index: usize) -> bool {
        let (instance, observed) = (&self.plan.instances[index], self.observed(index));
        // A draining instance has its images or does not need them.
        self.can_fetch(index)
            && instance.draining.is_none()
            && self.status_of(instance, observed) != PodStatus::Unreachable
            && self.is_outdated(instance)
            && self.is_in_service(instance, observed)
            && !matches!(self.method(index), UpdateMethod::Live | UpdateMethod::Refused { .. })
    }

    /// Whether the agent can pull ahead, the instance is to run, and the present revision has other images.
    fn can_fetch(&self, index: usize) -> bool {
        let instance = &self.plan.instances[index];
        let candidate = instance.node.as_ref().and_then(|node| self.candidate(node));
        let before: BTreeSet<&str> = self.revision(instance.version).pod.images().collect();
        candidate.is_some_and(|candidate| candidate.facts.fetches_ahead)
            && instance.target == TargetState::Run
            && self.present.pod.images().any(|image| !before.contains(image))
    }

    /// The pull that was requested for a pod, if it is for the present revision.
    pub(in super::super) fn fetch_request(&self, instance: &Instance) -> Option<Fetching> {
        instance.fetching.filter(|fetching| fetching.version == self.record.spec.version)
    }

    /// The node's report on pulling the present revision.
    pub(in super::super) fn fetch_report<'a>(&self, observed: Option<&'a PodFacts>) -> Option<&'a Fetched> {
        observed?.fetched.as_ref().filter(|fetched| fetched.version == self.record.spec.version)
    }

    /// The error of a node about an image of the pod or its successor.
    pub(super) fn image_error<'a>(&self, observed: &'a PodFacts) -> &'a str {
        let ahead = self.fetch_report(Some(observed)).filter(|report| report.state == FetchState::Hopeless);
        ahead.map_or(&observed.last_error, |report| &report.error)
    }

    pub(super) fn fetch_facts(&self, instance: &Instance, observed: Option<&PodFacts>) -> Fetch {
        match (self.fetch_request(instance), self.fetch_report(observed).map(|report| report.state)) {
            (None, _) => Fetch::Unasked,
            (Some(_), Some(FetchState::Hopeless)) => Fetch::Hopeless,
            (Some(_), Some(FetchState::Coming | FetchState::Here) | None) => Fetch::Coming,
        }
    }

    /// Cancels pulls for instances that are no longer to be replaced, or by another revision.
    pub(super) fn cancel_prefetch(&mut self, wanted: &[RolloutAction]) {
        let wanted: BTreeSet<u32> = wanted.iter().filter_map(|action| replaced(*action)).collect();
        let version = self.record.spec.version;
        let is_obsolete = |index: usize, it: Fetching| it.version != version || !wanted.contains(&number(index));
        for index in 0..self.plan.instances.len() {
            let instance = &mut self.plan.instances[index];
            if instance.fetching.is_some_and(|fetching| is_obsolete(index, fetching)) {
                instance.fetching = None;
                self.wake(self.now);
            }
        }
    }
}

/// The instance whose pod the action replaces by one that does not exist yet.
fn replaced(action: RolloutAction) -> Option<u32> {
    match action {
        RolloutAction::Renew(_) | RolloutAction::Retire(_) => Some(drained_pods(action).0),
        // The successor runs already, or there is none.
        RolloutAction::Promote(_)
        | RolloutAction::Remove(_)
        | RolloutAction::Drop(_)
        | RolloutAction::Create { .. }
        | RolloutAction::Surge(_)
        | RolloutAction::Move { .. }
        | RolloutAction::Reassign { .. }
        | RolloutAction::Divert { .. } => None,
    }
}
