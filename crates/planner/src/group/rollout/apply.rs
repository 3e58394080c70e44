//! Applies the actions of the rollout controller to the instances.
//!
//! New pods have no node here; they are placed afterwards together with replaced pods. A removed pod leaves the plan
//! immediately; its node is remembered where a new pod of the instance must wait for its removal. Pod names must be unique: a
//! name contains the version and the drift counter, so a pod that is created again in the same version gets the next drift.

use std::collections::BTreeSet;

use contract::command::Drift;
use contract::record::{Instance, Presence};
use contract::state::TargetState;

use super::super::reservations::{ExtraConstraint, PlacementRequest};
use super::super::{Planning, forget_pod, index_of};
use super::drain::drained_pods;
use crate::placement::NodePreference;
use crate::rollout::controller::{Decision, RolloutAction, RolloutState};

/// How much of a decision was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    All,
    /// Some actions must wait.
    Partial,
    /// All actions must wait.
    Nothing,
    /// The controller decides again after instances that scale-down removes are gone.
    AwaitingScaleDown,
}

impl Planning<'_> {
    /// Applies the actions that are possible now.
    pub(super) fn apply(&mut self, decision: &Decision, units: &[String]) -> Applied {
        let removes = |action: &&RolloutAction| matches!(action, RolloutAction::Remove(_));
        let removed: Vec<RolloutAction> = decision.actions.iter().filter(removes).copied().collect();
        let waiting = self.not_ready(&removed, &decision.state);
        if waiting.is_empty() {
            return self.apply_all(decision, units);
        }
        self.cancel_drains(&removed);
        self.cancel_prefetch(&removed);
        for action in removed.iter().filter(|action| !waiting.contains(&drained_pods(**action).0)) {
            self.apply_action(*action, units);
        }
        Applied::AwaitingScaleDown
    }

    fn apply_all(&mut self, decision: &Decision, units: &[String]) -> Applied {
        let mut waiting = self.not_ready(&decision.actions, &decision.state);
        self.cancel_drains(&decision.actions);
        self.cancel_prefetch(&decision.actions);
        // New pods were counted against pods that go: while some of those remain, new ones would exceed the limit.
        let is_full = decision.actions.iter().any(|it| waiting.contains(&drained_pods(*it).0) && frees(*it));
        let mut done = 0;
        for action in &decision.actions {
            let (number, _) = drained_pods(*action);
            let has_to_wait = waiting.contains(&number) || (is_full && adds(*action));
            if !has_to_wait && self.apply_action(*action, units) {
                done += 1;
            } else {
                // Further actions on the same instance assume that this one is applied.
                waiting.insert(number);
            }
        }
        self.clear_stuck();
        match done {
            all if all == decision.actions.len() => Applied::All,
            0 => Applied::Nothing,
            _ => Applied::Partial,
        }
    }

    /// The instances whose successors lack images or whose pods are not drained yet; starts both.
    fn not_ready(&mut self, actions: &[RolloutAction], release: &RolloutState) -> BTreeSet<u32> {
        let fetching = self.instances_to_prefetch(actions, release);
        let waits = |action: &&RolloutAction| {
            fetching.contains(&drained_pods(**action).0) || !self.may_apply(**action, release)
        };
        actions.iter().filter(waits).map(|action| drained_pods(*action).0).collect()
    }

    /// Applies one action; false if it is not possible now.
    pub(in super::super) fn apply_action(&mut self, action: RolloutAction, units: &[String]) -> bool {
        let at = |number: u32| index_of(number).unwrap_or(usize::MAX);
        let named = |unit: usize| units.get(unit).cloned().unwrap_or_default();
        let (number, _) = drained_pods(action);
        if !matches!(action, RolloutAction::Create { .. }) && at(number) >= self.plan.instances.len() {
            return true;
        }
        match action {
            RolloutAction::Create { instance, unit, revision } => self.create(at(instance), named(unit), revision),
            RolloutAction::Surge(number) => self.start_surge(at(number)),
            RolloutAction::Move { instance, unit } => return self.begin_move(at(instance), named(unit)),
            RolloutAction::Divert { instance, unit } => self.divert(at(instance), named(unit)),
            RolloutAction::Promote(number) => self.promote(at(number)),
            RolloutAction::Renew(number) => return self.renew_instance(at(number)),
            RolloutAction::Drop(number) => self.drop_surge(at(number)),
            RolloutAction::Retire(number) => self.remove_pods(at(number), Presence::Vacant),
            RolloutAction::Remove(number) => self.remove_pods(at(number), Presence::Free),
            RolloutAction::Reassign { instance, unit } => return self.reassign(at(instance), named(unit)),
        }
        true
    }

    fn create(&mut self, index: usize, unit: String, version: u32) {
        let hole = Instance { presence: Presence::Free, ..Instance::default() };
        let instances = self.plan.instances.len().max(index + 1);
        self.plan.instances.resize(instances, hole);
        self.observed_surge.resize(instances, None);
        let before = &self.plan.instances[index];
        // A free number becomes a new instance; a retired one is the same instance as before.
        let kept = match before.presence {
            Presence::Free => Instance { drift: before.drift, leaves: before.leaves.clone(), ..Instance::default() },
            Presence::Pod | Presence::Vacant => before.clone(),
        };
        let drift = kept.drift + u32::from(kept.presence == Presence::Vacant && kept.version == version);
        let mut instance =
            Instance { presence: Presence::Pod, unit, version, drift, since: self.now, next: None, ..kept };
        forget_pod(&mut instance);
        if instance.leaves.is_some() {
            // A terminating pod that counted as a stray now belongs to this instance: plan again, because the count changed.
            self.wake(self.now);
        }
        self.plan.instances[index] = instance;
        self.touched.insert(index);
    }

    fn start_surge(&mut self, index: usize) {
        let version = self.record.spec.version;
        let main = &self.plan.instances[index];
        // Terminating pods of the instance may have the next names.
        let leaving = self.facts.leaving.get(index).copied().unwrap_or(0);
        let next = self.surge_pod(index, version, main.drift + leaving, main.unit.clone());
        self.plan.instances[index].next = Some(Box::new(next));
        self.observed_surge[index] = None;
    }

    /// Moves to another unit by a surge pod; false for a stateful pod, whose data cannot move.
    fn begin_move(&mut self, index: usize, unit: String) -> bool {
        let main = &self.plan.instances[index];
        if self.revision(main.version).pod.is_stateful() {
            return false;
        }
        let leaving = self.facts.leaving.get(index).copied().unwrap_or(0);
        let next = self.surge_pod(index, main.version, main.drift + 1 + leaving, unit);
        self.plan.instances[index].next = Some(Box::new(next));
        self.observed_surge[index] = None;
        true
    }

    fn surge_pod(&self, index: usize, version: u32, drift: u32, unit: String) -> Instance {
        let main = &self.plan.instances[index];
        Instance {
            version,
            drift,
            unit,
            target: main.target,
            starts_requested: main.starts_requested,
            restarts_requested: main.restarts_requested,
            since: self.now,
            ..Instance::default()
        }
    }

    fn divert(&mut self, index: usize, unit: String) {
        let Some(mut next) = self.plan.instances[index].next.take() else { return };
        next.drift += u32::from(next.node.is_some());
        self.release_resources(&next);
        let next = Instance { unit, node: None, why: String::new(), ..*next };
        self.plan.instances[index].next = Some(Box::new(reset_attempts(next)));
        self.observed_surge[index] = None;
    }

    fn promote(&mut self, index: usize) {
        let Some(next) = self.plan.instances[index].next.take() else { return };
        let main = std::mem::replace(&mut self.plan.instances[index], *next);
        self.release_resources(&main);
        self.plan.instances[index].target = main.target;
        if self.plan.instances[index].node.is_none() {
            // The surge pod has no node, so it waits for the removal of the current pod and adds no pod.
            let left = main.node.clone().filter(|node| main.leaves.is_none() && !self.is_lost(node));
            self.plan.instances[index].leaves = main.leaves.clone().or(left);
        }
        let observed = std::mem::take(&mut self.observed_surge[index]);
        self.observed.resize(self.observed.len().max(index + 1), None);
        self.observed[index] = observed;
    }

    fn drop_surge(&mut self, index: usize) {
        if let Some(next) = self.plan.instances[index].next.take() {
            self.release_resources(&next);
        }
        self.observed_surge[index] = None;
    }

    /// Removes the pods of an instance. The instance remembers their names and the node of the current pod.
    fn remove_pods(&mut self, index: usize, presence: Presence) {
        let highest = self.plan.instances[index].next.as_ref().map_or(0, |next| next.drift + 1);
        self.drop_surge(index);
        let instance = self.plan.instances[index].clone();
        self.release_resources(&instance);
        // A stateful pod on a lost node may still run there: the next pod of that number waits for the node.
        let left =
            instance.node.clone().filter(|node| instance.leaves.is_none() && !self.is_given_up(node, instance.version));
        let had_pod = u32::from(instance.node.is_some() && instance.leaves.is_none());
        let drift = match presence {
            // The next pod has another version and thus another name.
            Presence::Pod | Presence::Vacant => instance.drift,
            Presence::Free => highest.max(instance.drift + had_pod),
        };
        let target = if presence == Presence::Free { TargetState::Run } else { instance.target };
        let mut left =
            Instance { presence, target, drift, node: None, leaves: instance.leaves.clone().or(left), ..instance };
        left.reserved_addresses.clear();
        left.why.clear();
        forget_pod(&mut left);
        self.plan.instances[index] = reset_attempts(left);
        self.touched.insert(index);
    }

    /// Moves the current pod, which is unplaced or stopped, to another unit; false if its data binds it.
    fn reassign(&mut self, index: usize, unit: String) -> bool {
        let instance = self.plan.instances[index].clone();
        if instance.node.is_some() && self.revision(instance.version).pod.is_stateful() {
            return false;
        }
        self.release_resources(&instance);
        let left = instance.node.clone().filter(|node| instance.leaves.is_none() && !self.is_lost(node));
        let drift = instance.drift + u32::from(left.is_some());
        let mut instance = Instance { unit, node: None, drift, leaves: instance.leaves.clone().or(left), ..instance };
        instance.reserved_addresses.clear();
        instance.why.clear();
        forget_pod(&mut instance);
        self.plan.instances[index] = reset_attempts(instance);
        self.touched.insert(index);
        true
    }

    /// Moves the surge pod too, if another node fits.
    pub(in super::super) fn move_surge(&mut self, index: usize, drift: &Drift) {
        let Some(next) = self.plan.instances[index].next.clone() else { return };
        let Some(old) = next.node.clone().filter(|node| *node == drift.from) else { return };
        let revision = self.revision(next.version).clone();
        self.reservations.release(&old, revision.need);
        self.reservations.uncount(&old);
        let extra = ExtraConstraint::Expression(format!("constraint:node!={}", drift.from));
        let request = PlacementRequest { version: next.version, extra, unit_constraint: self.unit_constraint(&next) };
        let Ok(node) = self.reservations.place(&request, &revision, NodePreference::default()) else {
            return self.reservations.keep(&old, revision.need);
        };
        let mut moved = Instance { node: Some(node), drift: self.next_drift(index), why: String::new(), ..*next };
        forget_pod(&mut moved);
        self.plan.instances[index].next = Some(Box::new(moved));
        self.observed_surge[index] = None;
    }

    fn release_resources(&mut self, pod: &Instance) {
        if let Some(node) = &pod.node {
            let need = self.revision(pod.version).need;
            self.reservations.release(node, need);
            self.reservations.uncount(node);
        }
    }
}

/// Failures of earlier attempts do not count for a new placement.
fn reset_attempts(instance: Instance) -> Instance {
    let fresh = Instance::default();
    Instance {
        failures: 0,
        retry_at: fresh.retry_at,
        unplaced_since: fresh.unplaced_since,
        addresses: Vec::new(),
        ..instance
    }
}

/// The action frees a pod for others.
fn frees(action: RolloutAction) -> bool {
    match action {
        RolloutAction::Promote(_) | RolloutAction::Retire(_) | RolloutAction::Remove(_) | RolloutAction::Drop(_) => {
            true
        }
        RolloutAction::Create { .. }
        | RolloutAction::Surge(_)
        | RolloutAction::Renew(_)
        | RolloutAction::Move { .. }
        | RolloutAction::Reassign { .. }
        | RolloutAction::Divert { .. } => false,
    }
}

/// The action adds a pod.
pub(in super::super) fn adds(action: RolloutAction) -> bool {
    match action {
        RolloutAction::Create { .. } | RolloutAction::Surge(_) | RolloutAction::Move { .. } => true,
        RolloutAction::Promote(_)
        | RolloutAction::Renew(_)
        | RolloutAction::Drop(_)
        | RolloutAction::Retire(_)
        | RolloutAction::Remove(_)
        | RolloutAction::Reassign { .. }
        | RolloutAction::Divert { .. } => false,
    }
}
