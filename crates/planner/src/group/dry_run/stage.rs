//! Where a rehearsal happens: slots to which steps are done one after another, and what is noted of each.
//!
//! Between two steps everything that was ordered came up and everything that was to go is gone, so nobody waits for a node to
//! let go. What an instance is called in the end is decided by all that happened to it: who is removed is removed, whatever
//! was before.

use std::collections::{BTreeMap, BTreeSet};

use contract::record::{Filling, Slot};
use contract::rollout_view::{InstanceChange, PlanAction, PlanStep, PlanView, Unplaced};

use super::super::inplace::Way;
use super::super::{Bucket, Planning, number};
use super::empty_view;
use crate::placement::Need;
use crate::rollout::batches::BatchKind;
use crate::rollout::controller::{self, Action};

/// Reasons of nodes in one answer, but for those of one instance: 1,000 instances that find no place on 5,000 nodes would be
/// five million.
const MOST_REASONS: usize = 20_000;

/// What one step does.
pub(super) struct Step<'a> {
    pub(super) group: u64,
    pub(super) kind: Option<BatchKind>,
    pub(super) actions: &'a [Action],
    /// Instances of each unit that serve meanwhile.
    pub(super) available: &'a [i64],
}

pub(super) struct Stage<'a> {
    pub(super) planning: Planning<'a>,
    pub(super) units: Vec<String>,
    view: PlanView,
    /// Pods and what they need, before anything happened.
    before: (i64, Need),
    most: (i64, Need),
}

impl<'a> Stage<'a> {
    pub(super) fn new(planning: Planning<'a>, units: Vec<String>) -> Self {
        let before = load(&planning, planning.facts.slots);
        let view = empty_view(planning.facts);
        Self { planning, units, view, before, most: before }
    }

    /// Performs one step and notes it.
    pub(super) fn perform(&mut self, step: &Step<'_>) {
        let mut available = step.available.to_vec();
        let mut actions = Vec::new();
        for action in step.actions {
            let way = self.way(*action);
            if way == Some(Way::Live)
                && let Some(unit) = self.unit_of(*action).and_then(|unit| available.get_mut(unit))
            {
                // It serves while it is updated.
                *unit += 1;
            }
            self.note_fate(*action, way.as_ref());
            self.planning.act(*action, &self.units);
            actions.push(self.action(*action, way.as_ref()));
        }
        self.settle(step.actions);
        let named = |(unit, count): (&String, &i64)| (unit.clone(), *count);
        let kind = step.kind.map_or("", |kind| match kind {
            BatchKind::Beta => "Beta",
            BatchKind::Batch => "Batch",
        });
        let available: BTreeMap<String, i64> = self.units.iter().zip(&available).map(named).collect();
        self.view.steps.push(PlanStep { group: step.group, kind: kind.to_owned(), actions, available });
    }

    /// Finds places for the instances without one; then everything that was ordered runs.
    fn settle(&mut self, actions: &[Action]) {
        // While no instance gives its room back, one that found no place finds none again: only new ones are tried.
        let tried: Option<BTreeSet<usize>> = actions.iter().map(|action| added(*action)).collect();
        self.planning.place_waiting(tried.as_ref());
        let now = load(&self.planning, &self.planning.plan.slots);
        let larger =
            |a: Need, b: Need| Need { memory: a.memory.max(b.memory), cpu_millis: a.cpu_millis.max(b.cpu_millis) };
        self.most = (self.most.0.max(now.0), larger(self.most.1, now.1));
        for slot in &mut self.planning.plan.slots {
            slot.leaves = None;
        }
    }

    /// Says where the pods are by now.
    pub(super) fn tell_places(&self, slots: &mut [controller::Slot]) {
        let name = |pod: Option<&Slot>| pod.and_then(|pod| Some(pod.node.as_ref()?.to_string())).unwrap_or_default();
        for told in slots {
            let slot = index_of(told.number).and_then(|index| self.planning.plan.slots.get(index));
            if let Some(main) = &mut told.main {
                main.node = name(slot);
            }
            if let Some(next) = &mut told.next {
                next.pod.node = name(slot.and_then(|slot| slot.next.as_deref()));
            }
        }
    }

    fn way(&self, action: Action) -> Option<Way> {
        let Action::Renew(number) = action else { return None };
        index_of(number).filter(|index| *index < self.planning.plan.slots.len()).map(|index| self.planning.way(index))
    }

    fn unit_of(&self, action: Action) -> Option<usize> {
        let slot = self.planning.plan.slots.get(index_of(instance_of(action))?)?;
        self.units.iter().position(|unit| *unit == slot.unit)
    }

    fn action(&self, action: Action, way: Option<&Way>) -> PlanAction {
        let instance = instance_of(action);
        let slot = index_of(instance).and_then(|index| self.planning.plan.slots.get(index));
        let next = slot.and_then(|slot| slot.next.as_deref());
        let (action, pod) = match action {
            Action::Create { .. } => ("Create", slot),
            Action::Surge(_) => ("Surge", next),
            Action::Promote(_) => ("Promote", slot),
            Action::Renew(_) if matches!(way, Some(Way::Live | Way::SameAddress)) => ("InPlace", slot),
            Action::Renew(_) => ("Renew", slot),
            Action::Drop(_) => ("Drop", slot),
            Action::Retire(_) => ("Retire", slot),
            Action::Remove(_) => ("Remove", slot),
            Action::Move { .. } | Action::Divert { .. } => ("Move", next),
            Action::Reassign { .. } => ("Move", slot),
        };
        PlanAction { instance, action: action.to_owned(), unit: pod.map(|pod| pod.unit.clone()).unwrap_or_default() }
    }

    fn note_fate(&mut self, action: Action, way: Option<&Way>) {
        let instance = instance_of(action);
        let is_known = self.view.changes.contains_key(&instance);
        let fate = match action {
            Action::Create { .. } if !is_known => InstanceChange::Created,
            Action::Create { .. } | Action::Surge(_) => InstanceChange::Recreated,
            Action::Renew(_) => match way {
                Some(Way::Live | Way::SameAddress) => InstanceChange::InPlace,
                Some(Way::Anew | Way::Refused { .. }) | None => InstanceChange::Recreated,
            },
            Action::Move { .. } | Action::Reassign { .. } | Action::Divert { .. } => InstanceChange::Moved,
            Action::Remove(_) => InstanceChange::Removed,
            Action::Promote(_) | Action::Drop(_) | Action::Retire(_) => return,
        };
        match self.view.changes.get(&instance) {
            // What is new does not become less so by what follows; its number may even be given up again.
            Some(InstanceChange::Created) if fate == InstanceChange::Removed => {
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
                self.view.changes.insert(instance, fate);
            }
        }
    }

    /// What is said in the end; `serving` are the instances of each unit that serve before anything happens.
    pub(super) fn view(mut self, serving: &[i64], completes: bool, warnings: Vec<String>) -> PlanView {
        let least = |unit: &String, now: i64| {
            let steps = self.view.steps.iter().filter_map(|step| step.available.get(unit).copied());
            steps.min().unwrap_or(now)
        };
        let serving = serving.iter().copied().chain(std::iter::repeat(0));
        let fewest = self.units.iter().zip(serving).map(|(unit, now)| (unit.clone(), least(unit, now))).collect();
        let mut left = MOST_REASONS;
        let unplaced = self.planning.unschedulable.iter().map(|(index, why)| {
            let is_told = left > 0;
            left = left.saturating_sub(why.reasons.len());
            let reasons = why.reasons.iter().filter(|_| is_told);
            Unplaced {
                instance: number(*index),
                unit: self.planning.plan.slots.get(*index).map(|slot| slot.unit.clone()).unwrap_or_default(),
                nodes: reasons.map(|(node, why)| (node.clone(), why.iter().cloned().collect())).collect(),
            }
        });
        self.view.unplaced = unplaced.collect();
        self.view.min_available = fewest;
        self.view.completes = completes && self.view.unplaced.is_empty();
        self.view.warnings = warnings;
        let untold = self.view.unplaced.iter().filter(|it| it.nodes.is_empty()).count();
        if left == 0 && untold > 0 {
            self.view.warnings.push(format!("reasons are left out for {untold} instances that find no place"));
        }
        let extra = self.most.1.minus(self.before.1);
        self.view.peak_extra_pods = (self.most.0 - self.before.0).max(0);
        (self.view.peak_extra_memory, self.view.peak_extra_cpu_millis) = (extra.memory, extra.cpu_millis);
        self.view
    }
}

impl Planning<'_> {
    /// Finds places for the instances without one, or for some of them, and repairs no other.
    fn place_waiting(&mut self, only: Option<&BTreeSet<usize>>) {
        self.unfold();
        self.plan.buckets = (0..self.plan.slots.len()).map(|index| self.bucket(index)).collect();
        let is_waiting = |index: &usize| {
            self.plan.buckets[*index] == Bucket::Waiting
                && self.plan.slots[*index].filling == Filling::Pod
                && only.is_none_or(|only| only.contains(&self.instance(*index)))
        };
        self.moves = (0..self.plan.slots.len()).filter(is_waiting).collect();
        self.place();
        self.fold();
    }
}

/// The instance that an action adds a pod to; none when the action may give room back.
fn added(action: Action) -> Option<usize> {
    match action {
        Action::Create { slot, .. } | Action::Surge(slot) | Action::Move { slot, .. } => index_of(slot),
        Action::Promote(_)
        | Action::Renew(_)
        | Action::Drop(_)
        | Action::Retire(_)
        | Action::Remove(_)
        | Action::Reassign { .. }
        | Action::Divert { .. } => None,
    }
}

/// Pods, and what they need together.
fn load(planning: &Planning<'_>, slots: &[Slot]) -> (i64, Need) {
    slots
        .iter()
        .flat_map(Slot::pods)
        .fold((0, Need::default()), |(pods, need), pod| (pods + 1, need.plus(planning.revision(pod.version).need)))
}

fn index_of(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

fn instance_of(action: Action) -> u32 {
    match action {
        Action::Create { slot, .. }
        | Action::Move { slot, .. }
        | Action::Reassign { slot, .. }
        | Action::Divert { slot, .. } => slot,
        Action::Surge(number)
        | Action::Promote(number)
        | Action::Renew(number)
        | Action::Drop(number)
        | Action::Retire(number)
        | Action::Remove(number) => number,
    }
}
