//! Decides whether what is to take a pod's place can be made on its node, before anything happens to the pod (D-26).
//!
//! Whoever serves and is to be replaced serves on while its node fetches the images of the present version; only when they
//! are there is it drained and replaced. An image that cannot be had is a failure of the release, and nobody was touched for
//! it. The surprise: a node that says nothing about a fetch is not waited for long. It then goes as without one, and its
//! agent still fetches before it ends what runs.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::record::{Fetching, Slot};
use contract::report::{FetchState, Fetched, PodFacts};
use contract::rollout::StrategyType;
use contract::state::TargetState;

use super::super::inplace::Way;
use super::super::{Bucket, Planning, number};
use super::draining::taken_out;
use crate::rollout::controller::{Action, Excuse, Fetch, RolloutState};

/// A node that was asked to fetch says that it does with its next report. Some reports may be lost, and it may be starting.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

impl Planning<'_> {
    /// The instances these actions replace whose nodes do not have the images yet; they are being fetched from now on.
    pub(super) fn fetching_first(&mut self, actions: &[Action], release: &RolloutState) -> BTreeSet<u32> {
        let replaced: Vec<u32> = actions.iter().filter_map(|action| replaced(*action)).collect();
        let is_skipped = |instance: &u32| release.excused.get(instance) == Some(&Excuse::Skipped);
        let asked = replaced.iter().copied().filter(|instance| !is_skipped(instance));
        let fetching: BTreeSet<u32> = asked.filter(|instance| self.fetches_first(*instance)).collect();
        if fetching.is_empty() || self.record.spec.strategy_type() != StrategyType::Recreate {
            return fetching;
        }
        // All of them go at once, so that nobody is down while the others only wait for an image.
        replaced.into_iter().collect()
    }

    /// Whether an instance that is to be replaced waits for its images, which are asked for if they were not.
    fn fetches_first(&mut self, instance: u32) -> bool {
        let Some(index) = usize::try_from(instance).ok().and_then(|it| it.checked_sub(1)) else { return false };
        index < self.plan.slots.len() && self.needs_images(index) && self.waits_for_images(index)
    }

    /// Whether an upgrade without a strategy waits before it replaces an instance: the old container, healthy or not, keeps
    /// running until the node has the images.
    pub(in super::super) fn pulls_first(&mut self, index: usize) -> bool {
        let is_running = self.bucket(index) == Bucket::Running;
        is_running && self.can_fetch(index) && self.waits_for_images(index)
    }

    /// The error of a node that cannot pull the images of the present version for an instance it is to replace.
    pub(in super::super) fn pull_error(&self, index: usize) -> Option<String> {
        self.asked_for(&self.plan.slots[index])?;
        let said = self.said(self.seen(index)).filter(|said| said.state == FetchState::Hopeless)?;
        Some(said.error.clone())
    }

    /// Whether the node does not have the images of the present version yet. Asks for them if they were not asked for.
    fn waits_for_images(&mut self, index: usize) -> bool {
        let asked = self.asked_for(&self.plan.slots[index]);
        let said = asked.and_then(|_| self.said(self.seen(index))).map(|it| it.state);
        match (said, asked) {
            (Some(FetchState::Here), _) => false,
            // How long that may take is for the deadline of the release to say.
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
                self.plan.slots[index].fetching = Some(Fetching { version, since });
                self.wake(since + ANSWERS_WITHIN);
                true
            }
        }
    }

    /// Whether an instance serves, and what takes its place is made of something its node may not have.
    fn needs_images(&self, index: usize) -> bool {
        let (slot, seen) = (&self.plan.slots[index], self.seen(index));
        // Who is being drained was found to have them, or not to need them.
        self.can_fetch(index)
            && slot.draining.is_none()
            && self.bucket_of(slot, seen) != Bucket::Unheard
            && self.is_outdated(slot)
            && self.is_in_service(slot, seen)
            && !matches!(self.way(index), Way::Live | Way::Refused { .. })
    }

    /// Whether the agent of an instance that shall run can fetch ahead, and the present version has images that the
    /// instance does not run.
    fn can_fetch(&self, index: usize) -> bool {
        let slot = &self.plan.slots[index];
        let host = slot.node.as_ref().and_then(|node| self.host(node));
        let before: BTreeSet<&str> = self.revision(slot.version).pod.images().collect();
        host.is_some_and(|host| host.facts.fetches_ahead)
            && slot.target == TargetState::Run
            && self.present.pod.images().any(|image| !before.contains(image))
    }

    /// What its node is asked to fetch for a pod, when that is still what is wanted.
    pub(in super::super) fn asked_for(&self, slot: &Slot) -> Option<Fetching> {
        slot.fetching.filter(|fetching| fetching.version == self.record.spec.version)
    }

    /// What a node says about fetching the present version.
    pub(in super::super) fn said<'a>(&self, seen: Option<&'a PodFacts>) -> Option<&'a Fetched> {
        seen?.fetched.as_ref().filter(|fetched| fetched.version == self.record.spec.version)
    }

    /// What a node says of an image it cannot get for a pod, or to take its place.
    pub(super) fn said_of_image<'a>(&self, seen: &'a PodFacts) -> &'a str {
        let ahead = self.said(Some(seen)).filter(|said| said.state == FetchState::Hopeless);
        ahead.map_or(&seen.last_error, |said| &said.error)
    }

    /// What the conductor is told of it.
    pub(super) fn fetch_facts(&self, slot: &Slot, seen: Option<&PodFacts>) -> Fetch {
        match (self.asked_for(slot), self.said(seen).map(|said| said.state)) {
            (None, _) => Fetch::Unasked,
            (Some(_), Some(FetchState::Hopeless)) => Fetch::Hopeless,
            (Some(_), Some(FetchState::Coming | FetchState::Here) | None) => Fetch::Coming,
        }
    }

    /// Nothing is fetched for those that are not to be replaced any more, or by another version.
    pub(super) fn end_fetching(&mut self, wanted: &[Action]) {
        let wanted: BTreeSet<u32> = wanted.iter().filter_map(|action| replaced(*action)).collect();
        let version = self.record.spec.version;
        let is_over = |index: usize, it: Fetching| it.version != version || !wanted.contains(&number(index));
        for index in 0..self.plan.slots.len() {
            let slot = &mut self.plan.slots[index];
            if slot.fetching.is_some_and(|fetching| is_over(index, fetching)) {
                slot.fetching = None;
                self.wake(self.now);
            }
        }
    }
}

/// The instance whose pod another one is to follow.
fn replaced(action: Action) -> Option<u32> {
    match action {
        Action::Renew(_) | Action::Retire(_) => Some(taken_out(action).0),
        // What takes over runs already, or nothing does.
        Action::Promote(_)
        | Action::Remove(_)
        | Action::Drop(_)
        | Action::Create { .. }
        | Action::Surge(_)
        | Action::Move { .. }
        | Action::Reassign { .. }
        | Action::Divert { .. } => None,
    }
}
