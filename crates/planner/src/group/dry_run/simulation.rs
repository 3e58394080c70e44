//! Applies the steps of a plan to a copy of the instances and records what each step does.
//!
//! Between two steps every ordered pod is ready and every removed one is gone, so no step waits for a node. The change of an
//! instance summarises all its actions: created and removed again is no change at all, updated and then removed is `Removed`.

use std::collections::{BTreeMap, BTreeSet};

use contract::record::{Instance, Presence};
use contract::rollout_view::{InstanceChange, PlanAction, PlanStep, PlanView, Unplaced};

use super::super::rollout::{adds, instance_of};
use super::super::update_method::UpdateMethod;
use super::super::{Planning, PodStatus, index_of, number};
use super::empty_view;
use crate::placement::Need;
use crate::rollout::batches::BatchKind;
use crate::rollout::controller::{self, RolloutAction, SimulatedStep};

/// Reasons of nodes in one answer, except those of the first instance: 1,000 unschedulable instances on 5,000 nodes would
/// give five million.
const MOST_REASONS: usize = 20_000;

pub(super) struct PlanSimulation<'a> {
    pub(super) planning: Planning<'a>,
    pub(super) units: Vec<String>,
    view: PlanView,
    /// Pods and their resources before the first step.
    before: (i64, Need),
    most: (i64, Need),
}

impl<'a> PlanSimulation<'a> {
    pub(super) fn new(planning: Planning<'a>, units: Vec<String>) -> Self {
        let before = load(&planning, planning.facts.instances);
        let view = empty_view(planning.facts);
        Self { planning, units, view, before, most: before }
    }

    /// Applies one step and records it.
    pub(super) fn apply(&mut self, step: &SimulatedStep) {
        let mut available = step.available.clone();
        let mut actions = Vec::new();
        for action in &step.actions {
            let method = self.method(*action);
            if method == Some(UpdateMethod::Live)
                && let Some(unit) = self.unit_of(*action).and_then(|unit| available.get_mut(unit))
            {
                // It serves during the update.
                *unit += 1;
            }
            self.note_change(*action, method.as_ref());
            self.planning.apply_action(*action, &self.units);
            actions.push(self.action(*action, method.as_ref()));
        }
        self.settle(&step.actions);
        let named = |(unit, count): (&String, &i64)| (unit.clone(), *count);
        let kind = step.kind.map_or("", |kind| match kind {
            BatchKind::Beta => "Beta",
            BatchKind::Batch => "Batch",
        });
        let available: BTreeMap<String, i64> = self.units.iter().zip(&available).map(named).collect();
        self.view.steps.push(PlanStep { group: step.batch, kind: kind.to_owned(), actions, available });
    }

    /// Places the instances without a node; then every ordered pod runs.
    fn settle(&mut self, actions: &[RolloutAction]) {
        // While no instance frees resources, an unschedulable one stays so: only new ones are tried.
        let tried: Option<BTreeSet<usize>> = actions.iter().map(|action| added(*action)).collect();
        self.planning.place_waiting(tried.as_ref());
        let now = load(&self.planning, &self.planning.plan.instances);
        let larger =
            |a: Need, b: Need| Need { memory: a.memory.max(b.memory), cpu_millis: a.cpu_millis.max(b.cpu_millis) };
        self.most = (self.most.0.max(now.0), larger(self.most.1, now.1));
        for instance in &mut self.planning.plan.instances {
            instance.leaves = None;
        }
    }

    /// Copies the nodes of the pods to the controller's instances.
    pub(super) fn copy_nodes(&self, instances: &mut [controller::Instance]) {
        let name =
            |pod: Option<&Instance>| pod.and_then(|pod| Some(pod.node.as_ref()?.to_string())).unwrap_or_default();
        for instance in instances {
            let planned = index_of(instance.number).and_then(|index| self.planning.plan.instances.get(index));
            if let Some(main) = &mut instance.main {
                main.node = name(planned);
            }
            if let Some(next) = &mut instance.next {
                next.pod.node = name(planned.and_then(|planned| planned.next.as_deref()));
            }
        }
    }

    fn method(&self, action: RolloutAction) -> Option<UpdateMethod> {
        let RolloutAction::Renew(number) = action else { return None };
        index_of(number)
            .filter(|index| *index < self.planning.plan.instances.len())
            .map(|index| self.planning.method(index))
    }

    fn unit_of(&self, action: RolloutAction) -> Option<usize> {
        let instance = self.planning.plan.instances.get(index_of(instance_of(action))?)?;
        self.units.iter().position(|unit| *unit == instance.unit)
    }

    fn action(&self, action: RolloutAction, method: Option<&UpdateMethod>) -> PlanAction {
        let number = instance_of(action);
        let instance = index_of(number).and_then(|index| self.planning.plan.instances.get(index));
        let next = instance.and_then(|instance| instance.next.as_deref());
        let (action, pod) = match action {
            RolloutAction::Create { .. } => ("Create", instance),
            RolloutAction::Surge(_) => ("Surge", next),
            RolloutAction::Promote(_) => ("Promote", instance),
            RolloutAction::Renew(_) if matches!(method, Some(UpdateMethod::Live | UpdateMethod::SameAddress)) => {
                ("InPlace", instance)
            }
            RolloutAction::Renew(_) => ("Renew", instance),
            RolloutAction::Drop(_) => ("Drop", instance),
            RolloutAction::Retire(_) => ("Retire", instance),
            RolloutAction::Remove(_) => ("Remove", instance),
            RolloutAction::Move { .. } | RolloutAction::Divert { .. } => ("Move", next),
            RolloutAction::Reassign { .. } => ("Move", instance),
        };
        PlanAction {
            instance: number,
            action: action.to_owned(),
            unit: pod.map(|pod| pod.unit.clone()).unwrap_or_default(),
        }
    }

    fn note_change(&mut self, action: RolloutAction, method: Option<&UpdateMethod>) {
        let instance = instance_of(action);
        let is_known = self.view.changes.contains_key(&instance);
        let change = match action {
            RolloutAction::Create { .. } if !is_known => InstanceChange::Created,
            RolloutAction::Create { .. } | RolloutAction::Surge(_) => InstanceChange::Recreated,
            RolloutAction::Renew(_) => match method {
                Some(UpdateMethod::Live | UpdateMethod::SameAddress) => InstanceChange::InPlace,
                Some(UpdateMethod::Recreate | UpdateMethod::Refused { .. }) | None => InstanceChange::Recreated,
            },
            RolloutAction::Move { .. } | RolloutAction::Reassign { .. } | RolloutAction::Divert { .. } => {
                InstanceChange::Moved
            }
            RolloutAction::Remove(_) => InstanceChange::Removed,
            RolloutAction::Promote(_) | RolloutAction::Drop(_) | RolloutAction::Retire(_) => return,
        };
        match self.view.changes.get(&instance) {
            // A created instance stays `Created` whatever follows, unless it is removed again.
            Some(InstanceChange::Created) if change == InstanceChange::Removed => {
                self.view.changes.remove(&instance);
            }
            Some(InstanceChange::Created) => {}
            Some(
                InstanceChange::Untouched
                | InstanceChange::InPlace
                | InstanceChange::Recreated
                | InstanceChange::Moved
                | InstanceChange::Removed,
            )
            | None => {
                self.view.changes.insert(instance, change);
            }
        }
    }

    /// The finished plan; `serving` are the available instances of each unit before the first step.
    pub(super) fn view(mut self, serving: &[i64], completes: bool, warnings: Vec<String>) -> PlanView {
        let least = |unit: &String, now: i64| {
            let steps = self.view.steps.iter().filter_map(|step| step.available.get(unit).copied());
            steps.min().unwrap_or(now)
        };
        let serving = serving.iter().copied().chain(std::iter::repeat(0));
        let fewest = self.units.iter().zip(serving).map(|(unit, now)| (unit.clone(), least(unit, now))).collect();
        let mut left = MOST_REASONS;
        let unplaced = self.planning.unschedulable.iter().map(|(index, why)| {
            let is_listed = left > 0;
            left = left.saturating_sub(why.reasons.len());
            let reasons = why.reasons.iter().filter(|_| is_listed);
            Unplaced {
                instance: number(*index),
                unit: self
                    .planning
                    .plan
                    .instances
                    .get(*index)
                    .map(|instance| instance.unit.clone())
                    .unwrap_or_default(),
                nodes: reasons.map(|(node, why)| (node.clone(), why.iter().cloned().collect())).collect(),
            }
        });
        self.view.unplaced = unplaced.collect();
        self.view.min_available = fewest;
        self.view.completes = completes && self.view.unplaced.is_empty();
        self.view.warnings = warnings;
        let unlisted = self.view.unplaced.iter().filter(|it| it.nodes.is_empty()).count();
        if left == 0 && unlisted > 0 {
            self.view.warnings.push(format!("reasons are omitted for {unlisted} instances that fit on no node"));
        }
        let extra = self.most.1.minus(self.before.1);
        self.view.peak_extra_pods = (self.most.0 - self.before.0).max(0);
        (self.view.peak_extra_memory, self.view.peak_extra_cpu_millis) = (extra.memory, extra.cpu_millis);
        self.view
    }
}

impl Planning<'_> {
    /// Places the instances without a node, or only some of them, and replaces no other.
    fn place_waiting(&mut self, only: Option<&BTreeSet<usize>>) {
        self.flatten_surge();
        self.plan.statuses = (0..self.plan.instances.len()).map(|index| self.status(index)).collect();
        let is_waiting = |index: &usize| {
            self.plan.statuses[*index] == PodStatus::Unplaced
                && self.plan.instances[*index].presence == Presence::Pod
                && only.is_none_or(|only| only.contains(&self.instance(*index)))
        };
        self.to_place = (0..self.plan.instances.len()).filter(is_waiting).collect();
        self.place();
        self.unflatten_surge();
    }
}

/// The instance that an action adds a pod to; none if the action may free resources.
fn added(action: RolloutAction) -> Option<usize> {
    if adds(action) { index_of(instance_of(action)) } else { None }
}

/// Number of pods and their resources.
fn load(planning: &Planning<'_>, instances: &[Instance]) -> (i64, Need) {
    instances
        .iter()
        .flat_map(Instance::pods)
        .fold((0, Need::default()), |(pods, need), pod| (pods + 1, need.plus(planning.revision(pod.version).need)))
}
