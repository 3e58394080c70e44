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

use super::super::update_method::UpdateMethod;
use super::super::{InstanceStatus, Planning, number};
use super::settings::drain_policy;
use crate::rollout::controller::{Action, Excuse, Release};

/// One of the pods of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodRole {
    Current,
    Surge,
}

/// Why a pod goes, as far as that says who is waited for.
#[derive(Debug, Clone, Copy)]
struct DrainReason {
    /// The release goes on without it.
    is_skipped: bool,
    /// Its instance goes for good.
    is_final: bool,
    /// A release is under way, which can fail.
    is_released: bool,
}

/// The instance an action is about, and the pods of it that go.
pub(super) fn drained_pods(action: Action) -> (u32, &'static [PodRole]) {
    match action {
        Action::Renew(number) | Action::Promote(number) | Action::Retire(number) => (number, &[PodRole::Current]),
        Action::Remove(number) => (number, &[PodRole::Current, PodRole::Surge]),
        Action::Drop(number) => (number, &[PodRole::Surge]),
        Action::Create { slot, .. }
        | Action::Move { slot, .. }
        | Action::Reassign { slot, .. }
        | Action::Divert { slot, .. } => (slot, &[]),
        Action::Surge(number) => (number, &[]),
    }
}

impl Planning<'_> {
    /// Whether an action may be performed now; those it takes are being drained otherwise.
    pub(super) fn may_apply(&mut self, action: Action, release: &Release) -> bool {
        let (instance, pods) = drained_pods(action);
        let Some(index) = usize::try_from(instance).ok().and_then(|it| it.checked_sub(1)) else { return true };
        if matches!(action, Action::Renew(_))
            && index < self.plan.slots.len()
            && self.method(index) == UpdateMethod::Live
        {
            return true;
        }
        if self.must_wait_for_node(index, action) {
            return false;
        }
        if matches!(action, Action::Renew(_)) && self.is_unreachable(index, PodRole::Current) {
            // It is not renewed before its node answers, so there is nothing to drain it for.
            return true;
        }
        let reason = DrainReason {
            is_skipped: release.excused.get(&instance) == Some(&Excuse::Skipped),
            is_final: matches!(action, Action::Remove(_)),
            is_released: release.is_open(),
        };
        // All of them are asked, so that they are drained at the same time.
        let may: Vec<bool> = pods.iter().map(|role| self.is_drained(index, *role, reason)).collect();
        may.into_iter().all(|may| may)
    }

    /// A release with budgets would take a pod whose node does not answer, and which may well serve: nothing is concluded
    /// from silence, so it waits until the node is heard or lost. Whoever is removed goes in any case.
    fn must_wait_for_node(&self, index: usize, action: Action) -> bool {
        let is_budgeted = self.record.spec.strategy_type() == StrategyType::RollingUpdate;
        match action {
            Action::Promote(_) => {
                let next = self.pod(index, PodRole::Surge);
                is_budgeted
                    && self.is_unreachable(index, PodRole::Current)
                    && !next.is_some_and(|(pod, observed)| self.ready(pod, observed).ready)
            }
            Action::Retire(_) => is_budgeted && self.is_unreachable(index, PodRole::Current),
            Action::Drop(_) => is_budgeted && self.is_unreachable(index, PodRole::Surge),
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

    fn is_unreachable(&self, index: usize, role: PodRole) -> bool {
        self.pod(index, role)
            .is_some_and(|(pod, observed)| self.status_of(pod, observed) == InstanceStatus::Unreachable)
    }

    fn is_drained(&mut self, index: usize, role: PodRole, reason: DrainReason) -> bool {
        let Some(drain_policy) = drain_policy(&self.record.spec) else { return true };
        let Some((pod, observed)) = self.pod(index, role) else { return true };
        if !self.is_in_service(pod, observed) {
            return true;
        }
        let Some(draining) = pod.draining.clone() else {
            let (since, now) = (self.now, self.now);
            self.set_draining(index, role, Some(Draining { since, is_answered: false, is_final: reason.is_final }));
            self.wake(now + drain_policy.grace);
            return false;
        };
        if draining.is_final != reason.is_final {
            self.set_draining(index, role, Some(Draining { is_final: reason.is_final, ..draining }));
        }
        // Nobody outside sees a drain before it is stored; whoever stores it plans the group again.
        let Some(stored) = self.facts.committed.get(&draining.since) else { return false };
        let (rested, patience) = (*stored + drain_policy.grace, draining.since + drain_policy.timeout);
        let is_answered = !drain_policy.needs_answer || draining.is_answered;
        let may_do_without = reason.is_final || reason.is_skipped || !reason.is_released;
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
    pub(super) fn keep_undrained_that_left(&mut self) {
        let is_drained = |instance: &u32| {
            let index = usize::try_from(instance.saturating_sub(1)).unwrap_or(usize::MAX);
            self.plan.slots.get(index).is_some_and(|slot| slot.pods().any(|pod| pod.draining.is_some()))
        };
        let gone: BTreeSet<u32> = self.plan.undrained.iter().filter(|it| !is_drained(it)).copied().collect();
        self.plan.undrained = gone.into_iter().collect();
    }

    /// Work may be sent to it, or was when its node was last heard.
    pub(super) fn is_in_service(&self, pod: &Slot, observed: Option<&PodFacts>) -> bool {
        let serves = self.serves_since(pod, observed).is_some_and(|since| since <= self.now);
        serves || self.status_of(pod, observed) == InstanceStatus::Unreachable
    }

    /// The answer to a pod being drained did not come in time, and the release cannot do without.
    pub(super) fn is_overdue(&self, draining: &Draining) -> bool {
        let is_asked = !draining.is_answered && !draining.is_final;
        let drain_policy = drain_policy(&self.record.spec).filter(|drain_policy| drain_policy.needs_answer && is_asked);
        drain_policy.is_some_and(|drain_policy| self.waits_from(draining.since) + drain_policy.timeout <= self.now)
    }

    /// Who is not to be touched after all goes on as before, and the next plan sees it serve.
    pub(super) fn cancel_drains(&mut self, wanted: &[Action]) {
        let is_wanted = |index: usize, role: PodRole| {
            let taken = wanted.iter().map(|action| drained_pods(*action));
            taken.into_iter().any(|(instance, pods)| instance == number(index) && pods.contains(&role))
        };
        for index in 0..self.plan.slots.len() {
            for role in [PodRole::Current, PodRole::Surge] {
                let is_drained = self.pod(index, role).is_some_and(|(pod, _)| pod.draining.is_some());
                if is_drained && !is_wanted(index, role) {
                    self.set_draining(index, role, None);
                    self.wake(self.now);
                }
            }
        }
    }

    fn pod(&self, index: usize, role: PodRole) -> Option<(&Slot, Option<&PodFacts>)> {
        let slot = self.plan.slots.get(index)?;
        match role {
            PodRole::Current => Some((slot, self.observed(index))),
            PodRole::Surge => Some((slot.next.as_deref()?, self.observed_surge.get(index).copied().flatten())),
        }
    }

    fn set_draining(&mut self, index: usize, role: PodRole, draining: Option<Draining>) {
        let slot = self.plan.slots.get_mut(index);
        let pod = match role {
            PodRole::Current => slot,
            PodRole::Surge => slot.and_then(|slot| slot.next.as_deref_mut()),
        };
        if let Some(pod) = pod {
            pod.draining = draining;
            // What is fetched for it is there, or is not waited for.
            pod.fetching = None;
        }
    }
}
