//! Plans groups that something happened to, and turns plans into decisions.
//!
//! Only groups marked dirty are planned, a bounded number of instances per input so that a takeover of ten thousand groups does not keep
//! reports and questions waiting; behind that a slow sweep visits every group, so that a lost mark costs time, not truth.

use std::ops::Bound;
use std::time::Duration;

use contract::name::{GroupName, NodeName};
use contract::record::Slot;
use planner::group::plan_group;

use crate::core::commands;
use crate::core::io::Mutant;
use crate::core::leader::{Leading, SWEEP_EVERY};
use crate::core::state::quarantine::Object;
use crate::core::timers::Alarm;

use super::input::{self, Scene, Sight};
use super::{apply, dependencies, mutants, removal};

/// Groups without a place are tried again so long after room may have appeared: many changes, one try.
const TRY_WAITING_AFTER: Duration = Duration::from_millis(500);
/// Instances planned per input, but for those of the last group.
const MOST_PLANNED: usize = 8192;
/// A group without instances takes a look, too.
const LEAST: usize = 16;

impl Leading<'_> {
    /// Plans dirty groups, a bounded number of them.
    pub(in crate::core) fn plan_dirty(&mut self) {
        if commands::cluster::is_held_back(self) {
            return;
        }
        let mut planned = 0;
        while planned < MOST_PLANNED {
            let Some(name) = self.lead.dirty.pop_first() else { return };
            self.reconcile(&Object::Group(name.clone()), |leading| leading.plan_one(&name));
            let instances = self.state.groups.get(&name).map_or(0, |group| group.slots().len());
            planned += instances.max(LEAST);
        }
    }

    /// A node reported something about the group: it is planned, now or together with what is reported next.
    pub(in crate::core) fn reported(&mut self, name: GroupName) {
        if !self.state.groups.contains_key(&name) {
            return;
        }
        match self.lead.pace.gathers_until(self.now) {
            Some(later) => self.lead.alarms.set_earlier(Alarm::Group(name), later),
            None => drop(self.lead.dirty.insert(name)),
        }
    }

    /// Marks the next group of the slow sweep.
    pub(in crate::core) fn sweep(&mut self) {
        let groups = &self.state.groups;
        let after = self.lead.swept.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = groups.range((after, Bound::Unbounded)).next().or_else(|| groups.iter().next());
        self.lead.swept = next.map(|(name, _)| name.clone());
        self.lead.dirty.extend(self.lead.swept.clone());
        dependencies::sweep_dependencies(self);
        self.lead.alarms.set(Alarm::Sweep, Some(self.now + SWEEP_EVERY));
    }

    fn plan_one(&mut self, name: &GroupName) {
        removal::vacate(self, name);
        let Some(group) = self.state.groups.get(name) else {
            self.lead.waiting.remove(name);
            return self.lead.alarms.set(Alarm::Group(name.clone()), None);
        };
        if group.is_orphan() {
            return self.lead.alarms.set(Alarm::Group(name.clone()), None);
        }
        let need = group.need(group.record.spec.version);
        self.state.hosts.prepare(need);
        let Some(group) = self.state.groups.get(name) else { return };
        let surplus = input::surplus(self, name, group);
        let sight = if self.has_mutant(Mutant::CountsByName) {
            Sight::by_name(self.ears, name, group)
        } else {
            Sight::of(self.ears, name, group)
        };
        let record = mutants::misread(self, &group.record);
        let scene = Scene {
            state: self.state,
            settings: self.settings,
            sight,
            surplus: &surplus,
            vacated: input::vacated(self, name, group.slots()),
            lingers: input::lingers(self, name, group),
            known: self.lead.known.of(name),
            standings: Some(&self.state.hosts.standings),
        };
        self.panic_on_purpose(&group.record);
        let plan = scene.look(group, &record, |facts| plan_group(facts, self.now));
        let plan = mutants::spoiled(self, &group.record, plan);
        self.lead.alarms.set(Alarm::Group(name.clone()), plan.wake_at);
        let (removing, before) = (group.is_removing(), left(group.slots()));
        self.lead.pace.planned(group.slots().len(), self.now);
        if removing {
            removal::conclude_removal(self, name, &plan);
        } else {
            apply::conclude(self, name, plan);
        }
        for node in surplus.nodes {
            self.lead.draining.entry(node).or_default().insert(name.clone());
        }
        input::expect_vacancies(self, name, &before);
    }
}

/// The node each instance leaves.
fn left(slots: &[Slot]) -> Vec<Option<NodeName>> {
    slots.iter().map(|slot| slot.leaves.clone()).collect()
}

impl Leading<'_> {
    /// Room may have appeared: whoever waits for a place is tried again soon.
    pub(in crate::core) fn room_appeared(&mut self) {
        if !self.lead.waiting.is_empty() {
            self.lead.alarms.set_once(Alarm::Waiting, self.now + TRY_WAITING_AFTER);
        }
    }
}
