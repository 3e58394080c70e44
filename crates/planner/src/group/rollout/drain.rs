//! Drains a pod before an action stops it.
//!
//! A serving pod is shown as not ready for the grace period of the group and, if the group asks for it, until an outside
//! system answers `drained`. A pod whose action is withdrawn serves again immediately, because draining only hides its gates.
//! A missing answer fails the rollout; pods that scale-down removes, that are skipped, or that go without an open rollout
//! stop at the timeout. Even a grace period of 0 s takes one plan, because watchers of the gates must see them closed.

use std::collections::BTreeSet;

use contract::record::{Draining, Instance};
use contract::report::PodFacts;
use contract::rollout::StrategyType;

use super::super::update_method::UpdateMethod;
use super::super::{Planning, PodStatus, index_of, number};
use super::settings::drain_policy;
use crate::rollout::controller::{Excuse, RolloutAction, RolloutState};

/// One of the pods of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodRole {
    Current,
    Surge,
}

/// Decides whether a missing answer may be ignored.
#[derive(Debug, Clone, Copy)]
struct DrainReason {
    /// The rollout continues without the instance.
    is_skipped: bool,
    /// Scale-down removes the instance.
    is_final: bool,
    /// A rollout is open, which can fail.
    is_released: bool,
}

/// The instance of an action and its pods that the action stops.
pub(super) fn drained_pods(action: RolloutAction) -> (u32, &'static [PodRole]) {
    match action {
        RolloutAction::Renew(number) | RolloutAction::Promote(number) | RolloutAction::Retire(number) => {
            (number, &[PodRole::Current])
        }
        RolloutAction::Remove(number) => (number, &[PodRole::Current, PodRole::Surge]),
        RolloutAction::Drop(number) => (number, &[PodRole::Surge]),
        RolloutAction::Create { instance, .. }
        | RolloutAction::Move { instance, .. }
        | RolloutAction::Reassign { instance, .. }
        | RolloutAction::Divert { instance, .. } => (instance, &[]),
        RolloutAction::Surge(number) => (number, &[]),
    }
}

impl Planning<'_> {
    /// Whether an action may be applied now; otherwise its pods are drained.
    pub(super) fn may_apply(&mut self, action: RolloutAction, release: &RolloutState) -> bool {
        let (instance, pods) = drained_pods(action);
        let Some(index) = index_of(instance) else { return true };
        if matches!(action, RolloutAction::Renew(_))
            && index < self.plan.instances.len()
            && self.method(index) == UpdateMethod::Live
        {
            return true;
        }
        if self.must_wait_for_node(index, action) {
            return false;
        }
        if matches!(action, RolloutAction::Renew(_)) && self.is_unreachable(index, PodRole::Current) {
            // It is not renewed before its node answers, so it is not drained yet.
            return true;
        }
        let reason = DrainReason {
            is_skipped: release.excused.get(&instance) == Some(&Excuse::Skipped),
            is_final: matches!(action, RolloutAction::Remove(_)),
            is_released: release.is_open(),
        };
        // All pods are drained at the same time.
        let may: Vec<bool> = pods.iter().map(|role| self.is_drained(index, *role, reason)).collect();
        may.into_iter().all(|may| may)
    }

    /// Whether a rollout with a budget must wait for a silent node: its pod may well serve, so the rollout waits until the
    /// node is heard or lost. Scale-down does not wait.
    fn must_wait_for_node(&self, index: usize, action: RolloutAction) -> bool {
        let is_budgeted = self.record.spec.strategy_type() == StrategyType::RollingUpdate;
        match action {
            RolloutAction::Promote(_) => {
                let next = self.pod(index, PodRole::Surge);
                is_budgeted
                    && self.is_unreachable(index, PodRole::Current)
                    && !next.is_some_and(|(pod, observed)| self.ready(pod, observed).ready)
            }
            RolloutAction::Retire(_) => is_budgeted && self.is_unreachable(index, PodRole::Current),
            RolloutAction::Drop(_) => is_budgeted && self.is_unreachable(index, PodRole::Surge),
            // Renewals check this themselves.
            RolloutAction::Renew(_)
            | RolloutAction::Remove(_)
            | RolloutAction::Create { .. }
            | RolloutAction::Surge(_)
            | RolloutAction::Move { .. }
            | RolloutAction::Reassign { .. }
            | RolloutAction::Divert { .. } => false,
        }
    }

    fn is_unreachable(&self, index: usize, role: PodRole) -> bool {
        self.pod(index, role).is_some_and(|(pod, observed)| self.status_of(pod, observed) == PodStatus::Unreachable)
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
        // No watcher sees a drain before it is committed; the commit leads to the next plan.
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

    /// Reports only those undrained instances whose pods really stop.
    pub(super) fn keep_undrained_that_left(&mut self) {
        let is_drained = |instance: &u32| {
            let instance = index_of(*instance).and_then(|index| self.plan.instances.get(index));
            instance.is_some_and(|instance| instance.pods().any(|pod| pod.draining.is_some()))
        };
        let gone: BTreeSet<u32> = self.plan.undrained.iter().filter(|it| !is_drained(it)).copied().collect();
        self.plan.undrained = gone.into_iter().collect();
    }

    /// Whether the pod serves, or did when its node was last heard.
    pub(super) fn is_in_service(&self, pod: &Instance, observed: Option<&PodFacts>) -> bool {
        let serves = self.serves_since(pod, observed).is_some_and(|since| since <= self.now);
        serves || self.status_of(pod, observed) == PodStatus::Unreachable
    }

    /// Whether the answer to a drain is late and the rollout cannot continue without it.
    pub(super) fn is_overdue(&self, draining: &Draining) -> bool {
        let is_asked = !draining.is_answered && !draining.is_final;
        let drain_policy = drain_policy(&self.record.spec).filter(|drain_policy| drain_policy.needs_answer && is_asked);
        drain_policy.is_some_and(|drain_policy| self.waits_from(draining.since) + drain_policy.timeout <= self.now)
    }

    /// Pods that no action stops any more serve again; the next plan sees that.
    pub(super) fn cancel_drains(&mut self, wanted: &[RolloutAction]) {
        let is_wanted = |index: usize, role: PodRole| {
            let taken = wanted.iter().map(|action| drained_pods(*action));
            taken.into_iter().any(|(instance, pods)| instance == number(index) && pods.contains(&role))
        };
        for index in 0..self.plan.instances.len() {
            for role in [PodRole::Current, PodRole::Surge] {
                let is_drained = self.pod(index, role).is_some_and(|(pod, _)| pod.draining.is_some());
                if is_drained && !is_wanted(index, role) {
                    self.set_draining(index, role, None);
                    self.wake(self.now);
                }
            }
        }
    }

    fn pod(&self, index: usize, role: PodRole) -> Option<(&Instance, Option<&PodFacts>)> {
        let instance = self.plan.instances.get(index)?;
        match role {
            PodRole::Current => Some((instance, self.observed(index))),
            PodRole::Surge => Some((instance.next.as_deref()?, self.observed_surge.get(index).copied().flatten())),
        }
    }

    fn set_draining(&mut self, index: usize, role: PodRole, draining: Option<Draining>) {
        let instance = self.plan.instances.get_mut(index);
        let pod = match role {
            PodRole::Current => instance,
            PodRole::Surge => instance.and_then(|instance| instance.next.as_deref_mut()),
        };
        if let Some(pod) = pod {
            pod.draining = draining;
            // The images are present, or the drain does not wait for them.
            pod.fetching = None;
        }
    }
}
