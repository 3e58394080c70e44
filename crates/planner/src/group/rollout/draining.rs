//! Decides whether a pod may be touched now, or is taken out of service first (D-24).
//!
//! A pod that serves is shown as not ready before anything happens to it: for the grace of the group, and until somebody
//! outside answers where that is asked for. Whoever is not to be touched after all is back in service at once, because being
//! drained only hides its gates. An answer that does not come is a failure of the release that asks; who goes for good, is
//! left behind, or goes without a release that could fail, goes then all the same. The surprise: with a grace of nothing it still takes a plan,
//! since who watches the gates must have seen them false.

use std::collections::BTreeSet;

use contract::record::{Draining, Slot};
use contract::report::PodFacts;
use contract::rollout::StrategyType;

use super::super::inplace::Way;
use super::super::{Bucket, Planning, number};
use super::settings::farewell;
use crate::rollout::controller::{Action, Excuse, RolloutState};

/// One of the pods of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    /// Its own.
    Main,
    /// The one beside it.
    Beside,
}

/// Why a pod goes, as far as that says who is waited for.
#[derive(Debug, Clone, Copy)]
struct Leave {
    /// The release goes on without it.
    is_skipped: bool,
    /// Its instance goes for good.
    is_final: bool,
    /// A release is under way, which can fail.
    is_released: bool,
}

/// The instance an action is about, and the pods of it that go.
pub(super) fn taken_out(action: Action) -> (u32, &'static [Which]) {
    match action {
        Action::Renew(number) | Action::Promote(number) | Action::Retire(number) => (number, &[Which::Main]),
        Action::Remove(number) => (number, &[Which::Main, Which::Beside]),
        Action::Drop(number) => (number, &[Which::Beside]),
        Action::Create { slot, .. }
        | Action::Move { slot, .. }
        | Action::Reassign { slot, .. }
        | Action::Divert { slot, .. } => (slot, &[]),
        Action::Surge(number) => (number, &[]),
    }
}

impl Planning<'_> {
    /// Whether an action may be performed now; those it takes are being drained otherwise.
    pub(super) fn may_perform(&mut self, action: Action, release: &RolloutState) -> bool {
        let (instance, pods) = taken_out(action);
        let Some(index) = usize::try_from(instance).ok().and_then(|it| it.checked_sub(1)) else { return true };
        if matches!(action, Action::Renew(_)) && index < self.plan.slots.len() && self.way(index) == Way::Live {
            return true;
        }
        if self.is_taken_blindly(index, action) {
            return false;
        }
        if matches!(action, Action::Renew(_)) && self.is_unheard(index, Which::Main) {
            // It is not renewed before its node answers, so there is nothing to drain it for.
            return true;
        }
        let leave = Leave {
            is_skipped: release.excused.get(&instance) == Some(&Excuse::Skipped),
            is_final: matches!(action, Action::Remove(_)),
            is_released: release.is_open(),
        };
        // All of them are asked, so that they are drained at the same time.
        let may: Vec<bool> = pods.iter().map(|which| self.may_go(index, *which, leave)).collect();
        may.into_iter().all(|may| may)
    }

    /// A release with budgets would take a pod whose node does not answer, and which may well serve: nothing is concluded
    /// from silence, so it waits until the node is heard or lost. Whoever is removed goes in any case.
    fn is_taken_blindly(&self, index: usize, action: Action) -> bool {
        let is_budgeted = self.record.spec.strategy_type() == StrategyType::RollingUpdate;
        match action {
            Action::Promote(_) => {
                let next = self.pod(index, Which::Beside);
                is_budgeted
                    && self.is_unheard(index, Which::Main)
                    && !next.is_some_and(|(pod, seen)| self.ready(pod, seen).ready)
            }
            Action::Retire(_) => is_budgeted && self.is_unheard(index, Which::Main),
            Action::Drop(_) => is_budgeted && self.is_unheard(index, Which::Beside),
            // A renewal waits by itself.
            Action::Renew(_)
            | Action::Remove(_)
            | Action::Create { .. }
            | Action::Surge(_)
            | Action::Move { .. }
            | Action::Reassign { .. }
            | Action::Divert { .. } => false,
        }
    }

    fn is_unheard(&self, index: usize, which: Which) -> bool {
        self.pod(index, which).is_some_and(|(pod, seen)| self.bucket_of(pod, seen) == Bucket::Unheard)
    }

    fn may_go(&mut self, index: usize, which: Which, leave: Leave) -> bool {
        let Some(farewell) = farewell(&self.record.spec) else { return true };
        let Some((pod, seen)) = self.pod(index, which) else { return true };
        if !self.is_in_service(pod, seen) {
            return true;
        }
        let Some(draining) = pod.draining.clone() else {
            let (since, now) = (self.now, self.now);
            self.set_draining(index, which, Some(Draining { since, is_answered: false, is_final: leave.is_final }));
            self.wake(now + farewell.grace);
            return false;
        };
        if draining.is_final != leave.is_final {
            self.set_draining(index, which, Some(Draining { is_final: leave.is_final, ..draining }));
        }
        // Nobody outside sees a drain before it is stored; whoever stores it plans the group again.
        let Some(stored) = self.facts.stored.get(&draining.since) else { return false };
        let (rested, patience) = (*stored + farewell.grace, draining.since + farewell.timeout);
        let is_answered = !farewell.needs_answer || draining.is_answered;
        let may_do_without = leave.is_final || leave.is_skipped || !leave.is_released;
        let has_answer = is_answered || (may_do_without && self.now >= patience);
        let limit = if self.now < rested { rested } else { patience };
        if self.now < limit {
            self.wake(limit);
        }
        let may = self.now >= rested && has_answer;
        if may && !is_answered {
            self.plan.undrained.push(number(index));
        }
        may
    }

    /// Only those are told of that really went.
    pub(super) fn forget_undrained_who_stay(&mut self) {
        let is_drained = |instance: &u32| {
            let index = usize::try_from(instance.saturating_sub(1)).unwrap_or(usize::MAX);
            self.plan.slots.get(index).is_some_and(|slot| slot.pods().any(|pod| pod.draining.is_some()))
        };
        let gone: BTreeSet<u32> = self.plan.undrained.iter().filter(|it| !is_drained(it)).copied().collect();
        self.plan.undrained = gone.into_iter().collect();
    }

    /// Work may be sent to it, or was when its node was last heard.
    pub(super) fn is_in_service(&self, pod: &Slot, seen: Option<&PodFacts>) -> bool {
        let serves = self.serves_since(pod, seen).is_some_and(|since| since <= self.now);
        serves || self.bucket_of(pod, seen) == Bucket::Unheard
    }

    /// The answer to a pod being drained did not come in time, and the release cannot do without.
    pub(super) fn is_overdue(&self, draining: &Draining) -> bool {
        let is_asked = !draining.is_answered && !draining.is_final;
        let farewell = farewell(&self.record.spec).filter(|farewell| farewell.needs_answer && is_asked);
        farewell.is_some_and(|farewell| self.waits_from(draining.since) + farewell.timeout <= self.now)
    }

    /// Who is not to be touched after all goes on as before, and the next plan sees it serve.
    pub(super) fn end_draining(&mut self, wanted: &[Action]) {
        let is_wanted = |index: usize, which: Which| {
            let taken = wanted.iter().map(|action| taken_out(*action));
            taken.into_iter().any(|(instance, pods)| instance == number(index) && pods.contains(&which))
        };
        for index in 0..self.plan.slots.len() {
            for which in [Which::Main, Which::Beside] {
                let is_drained = self.pod(index, which).is_some_and(|(pod, _)| pod.draining.is_some());
                if is_drained && !is_wanted(index, which) {
                    self.set_draining(index, which, None);
                    self.wake(self.now);
                }
            }
        }
    }

    fn pod(&self, index: usize, which: Which) -> Option<(&Slot, Option<&PodFacts>)> {
        let slot = self.plan.slots.get(index)?;
        match which {
            Which::Main => Some((slot, self.seen(index))),
            Which::Beside => Some((slot.next.as_deref()?, self.beside.get(index).copied().flatten())),
        }
    }

    fn set_draining(&mut self, index: usize, which: Which, draining: Option<Draining>) {
        let slot = self.plan.slots.get_mut(index);
        let pod = match which {
            Which::Main => slot,
            Which::Beside => slot.and_then(|slot| slot.next.as_deref_mut()),
        };
        if let Some(pod) = pod {
            pod.draining = draining;
            // What is fetched for it is there, or is not waited for.
            pod.fetching = None;
        }
    }
}
