//! Plans groups that something happened to, and turns plans into decisions.
//!
//! Only groups marked dirty are planned, a bounded number of instances per input so that a takeover of ten thousand groups does not keep
//! reports and questions waiting; behind that a slow sweep visits every group, so that a lost mark costs time, not truth.

use std::borrow::Cow;
use std::ops::Bound;

use contract::command::Operation;
use contract::name::{GroupName, NodeName};
use contract::record::{Filling, GroupRecord, Slot};
use contract::report::PodFacts;
use contract::rollout::Amount;
use contract::state::TargetState;
use contract::time::Timestamp;
use contract::{keys, layout};
use planner::group::{GroupPlan, plan_group};

use crate::core::commit::{self, Bundle};
use crate::core::io::{Mutant, Write};
use crate::core::leader::{Leading, SWEEP_EVERY};
use crate::core::observe::reports::Ears;
use crate::core::state::quarantine::Object;
use crate::core::state::revisions::Origin;
use crate::core::state::{Group, pod_id, pods_of};
use crate::core::timers::Alarm;

use super::input::Scene;

/// Instances planned per input, but for those of the last group.
const MOST_PLANNED: usize = 8192;
/// A group without instances takes a look, too.
const LEAST: usize = 16;

impl Leading<'_> {
    /// Plans dirty groups, a bounded number of them.
    pub(in crate::core) fn plan_dirty(&mut self) {
        if self.is_held_back() {
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
        self.sweep_dependencies();
        self.lead.alarms.set(Alarm::Sweep, Some(self.now + SWEEP_EVERY));
    }

    fn plan_one(&mut self, name: &GroupName) {
        self.vacate(name);
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
        let surplus = self.surplus(name, group);
        let sight = if self.has_mutant(Mutant::CountsByName) {
            Sight::by_name(self.ears, name, group)
        } else {
            Sight::of(self.ears, name, group)
        };
        let record = self.misread(&group.record);
        let scene = Scene {
            state: self.state,
            settings: self.settings,
            sight,
            surplus: &surplus,
            vacated: self.vacated(name, group.slots()),
            lingers: self.lingers(name, group),
            known: self.lead.known.of(name),
            standings: Some(&self.state.hosts.standings),
        };
        self.panic_on_purpose(&group.record);
        let plan = scene.look(group, &record, |facts| plan_group(facts, self.now));
        let plan = self.spoiled(&group.record, plan);
        self.lead.alarms.set(Alarm::Group(name.clone()), plan.wake_at);
        let (removing, before) = (group.is_removing(), left(group.slots()));
        self.lead.pace.planned(group.slots().len(), self.now);
        if removing {
            self.conclude_removal(name, &plan);
        } else {
            self.conclude(name, plan);
        }
        for node in surplus.nodes {
            self.lead.draining.entry(node).or_default().insert(name.clone());
        }
        self.expect_vacancies(name, &before);
    }

    /// The record without what one of the planner's guards goes by, for the simulator.
    fn misread<'r>(&self, record: &'r GroupRecord) -> Cow<'r, GroupRecord> {
        let mut misread = Cow::Borrowed(record);
        if self.has_mutant(Mutant::ConfirmsItself)
            && let Some(strategy) = misread.to_mut().spec.strategy.as_mut()
        {
            strategy.need_waiting_for_confirm = false;
        }
        if self.has_mutant(Mutant::SurgesMore)
            && let Some(strategy) = misread.to_mut().spec.strategy.as_mut()
        {
            let surge = strategy.max_surge.unwrap_or(Amount::Count(0));
            strategy.max_surge = Some(Amount::Count(surge.rounded_up(record.spec.num_instances) + 2));
        }
        if self.has_mutant(Mutant::TakesMore)
            && let Some(strategy) = misread.to_mut().spec.strategy.as_mut()
        {
            let missing = strategy.max_unavailable.unwrap_or(Amount::Count(0));
            strategy.max_unavailable = Some(Amount::Count(missing.rounded_down(record.spec.num_instances) + 2));
        }
        if self.has_mutant(Mutant::SkipsDrains) {
            misread.to_mut().spec.drain = None;
        }
        if self.has_mutant(Mutant::SparesNobody) {
            misread.to_mut().equals.clear();
        }
        misread
    }

    /// The plan without one of the planner's guards, for the simulator.
    fn spoiled(&self, before: &GroupRecord, mut plan: GroupPlan) -> GroupPlan {
        if self.has_mutant(Mutant::ForgetsStops) {
            let upgraded = plan.slots.iter_mut().filter(|slot| slot.version > 0 && slot.version == before.spec.version);
            upgraded.for_each(|slot| slot.target = TargetState::Run);
        }
        if let Some(record) = plan.record.as_mut().filter(|_| self.settings.mutant.is_some()) {
            // What was misread is not written.
            record.spec.strategy.clone_from(&before.spec.strategy);
            record.spec.drain.clone_from(&before.spec.drain);
        }
        if let Some((record, proven)) = plan.record.as_mut().zip(before.proven)
            && self.has_mutant(Mutant::VersionGoesBack)
            && record.spec.version > before.spec.version
        {
            (record.spec.version, record.spec.pod.version) = (proven, proven);
        }
        plan
    }

    fn conclude(&mut self, name: &GroupName, mut plan: GroupPlan) {
        if plan.waiting {
            self.lead.waiting.insert(name.clone())
        } else {
            self.lead.waiting.remove(name)
        };
        let effects = self.plan_told(name, &plan);
        let mut bundle = Bundle { effects, ..Bundle::default() };
        let is_news = plan.record.is_some() || plan.release.is_some();
        let group = self.state.groups.get(name).filter(|_| is_news);
        let record_before = group.map(|group| group.record.clone());
        let origin = taken_back(record_before.as_ref(), plan.record.as_ref());
        if let Some(group) = self.state.groups.get_mut(name) {
            group.report = plan.report.take();
        }
        if plan.record.is_some() || plan.store {
            let may_differ =
                plan.store || plan.record.as_ref().is_some_and(|record| self.orders_otherwise(name, record));
            let before = may_differ.then(|| self.state.assignments(name));
            if let Some(record) = plan.record {
                if record.operation.is_none() && !record.drifts.is_empty() {
                    // The lock is free for who waited for it.
                    self.lead.dirty.insert(name.clone());
                }
                bundle.writes.push(self.set_record(name, record));
            }
            if plan.store {
                bundle.put_slots(name, &plan.slots);
                self.room_appeared();
            }
            self.state.set_slots(name, plan.slots);
            bundle.changes = before.map(|before| before.changes_to(&self.state.assignments(name))).unwrap_or_default();
            bundle.decided = self.decided_now(name);
        } else if self.state.groups.get(name).is_some_and(|group| group.slots() != plan.slots) {
            self.state.set_slots(name, plan.slots);
        }
        if let Some((release, group)) = plan.release.zip(self.state.groups.get_mut(name)) {
            if !(plan.store && self.settings.mutant == Some(Mutant::ForgetsReleases)) {
                bundle.writes.push(commit::put(keys::release(name), &release));
            }
            group.release = Some(release);
        }
        if is_news {
            bundle.writes.extend(self.note_revisions(name, record_before.as_ref(), origin));
        }
        if !bundle.writes.is_empty() || !bundle.complete.is_empty() || !bundle.effects.is_empty() {
            self.decide(bundle);
        }
    }

    /// Whether the same slots mean other orders with this record.
    fn orders_otherwise(&self, name: &GroupName, after: &GroupRecord) -> bool {
        let Some(before) = self.state.groups.get(name).map(|group| &group.record) else { return true };
        let ordered = |record: &GroupRecord| GroupRecord {
            operation: record.operation.clone().filter(|operation| operation.kind == Operation::Removing),
            updated_at: Timestamp::NEVER,
            proven: None,
            last_error: String::new(),
            ..record.clone()
        };
        ordered(before) != ordered(after)
    }

    /// Changes a group's record; the write that stores it. Ports it does not claim any longer are free.
    pub(in crate::core) fn set_record(&mut self, name: &GroupName, record: GroupRecord) -> Write {
        let write = commit::put_entry(layout::put_group(name, &record));
        if self.lead.redigested.remove(name) {
            self.lead.respecified.insert(name.clone(), Vec::new());
        } else if self.state.groups.get(name).is_none_or(|group| !has_same_specs(&group.record, &record)) {
            self.note_specs(name);
            self.lead.respecified.entry(name.clone()).or_default();
        }
        let before = self.state.claims.of(name).cloned();
        self.state.set_record(name, record, self.settings.quota_cores);
        self.lead.ports_freed |= before.as_ref() != self.state.claims.of(name);
        write
    }
}

/// What is reported of exactly the pods of a group's slots.
pub(in crate::core) struct Sight<'a> {
    pub(in crate::core) seen: Vec<Option<&'a PodFacts>>,
    /// Of those beside them.
    pub(in crate::core) beside: Vec<Option<&'a PodFacts>>,
}

impl<'a> Sight<'a> {
    pub(in crate::core) fn of(ears: &'a Ears, name: &GroupName, group: &Group) -> Self {
        let look = |index: usize, pod: Option<&Slot>| {
            let pod = pod.filter(|pod| pod.filling == Filling::Pod)?;
            ears.pod(pod.node.as_ref()?, &pod_id(name, index, pod))
        };
        let slots = || group.slots().iter().enumerate();
        Self {
            seen: slots().map(|(index, slot)| look(index, Some(slot))).collect(),
            beside: slots().map(|(index, slot)| look(index, slot.next.as_deref())).collect(),
        }
    }
}

impl<'a> Sight<'a> {
    /// Whatever pod of an instance its node reports, for the simulator.
    fn by_name(ears: &'a Ears, name: &GroupName, group: &Group) -> Self {
        let look = |number: u32, pod: Option<&Slot>| {
            let node = pod?.node.as_ref()?;
            ears.pods(node, pods_of(name, number..=number)).map(|(_, facts)| facts).next()
        };
        Self {
            seen: (1..).zip(group.slots()).map(|(number, slot)| look(number, Some(slot))).collect(),
            beside: (1..).zip(group.slots()).map(|(number, slot)| look(number, slot.next.as_deref())).collect(),
        }
    }
}

/// The node each instance leaves.
fn left(slots: &[Slot]) -> Vec<Option<NodeName>> {
    slots.iter().map(|slot| slot.leaves.clone()).collect()
}

/// Where the revision a plan leads to comes from: it takes one back that failed.
fn taken_back(before: Option<&GroupRecord>, after: Option<&GroupRecord>) -> Origin {
    let is_next = |after: &&GroupRecord| before.is_some_and(|before| before.spec.version != after.spec.version);
    let Some(after) = after.filter(is_next) else { return Origin::default() };
    // The newest of the versions that count as the new one is the one it copies.
    let copies = after.equals.last().copied();
    Origin { by: String::new(), cause: after.last_error.clone(), copies, takes_back: true }
}

/// Whether two records refer to the same pod specs.
fn has_same_specs(one: &GroupRecord, other: &GroupRecord) -> bool {
    (&one.spec.pod, &one.former) == (&other.spec.pod, &other.former)
}
