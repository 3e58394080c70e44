//! Plans dependency pods that something happened to, and turns plans into decisions.
//!
//! Reports about a pod matter only while a version goes round or a removal waits: what ended or vanished its agent brings
//! back by itself. While a group cannot be read nobody knows what it needs, so nothing is taken away for want of use.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use contract::dependency::Place;
use contract::event::{Event, Kind};
use contract::keys;
use contract::layout;
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::report::PodFacts;
use contract::state::TargetState;
use planner::dependency::{DependencyFacts, DependencyPlan, DependencyTimeouts, place_of, plan_dependency};

use super::super::alarms::Alarm;
use super::super::commit::{self, Bundle};
use super::super::events;
use super::super::io::{Effect, Mutant};
use super::super::leader::Leading;
use super::super::quarantine::{Object, attempt};
use super::{Dependency, order_changes, record_writes};

/// Dependency pods planned per input.
const MOST_PLANS: usize = 64;
/// One with more pairs is planned for reports at most once in [`LARGE_EVERY`].
const LARGE: usize = 200;
/// See [`LARGE`].
const LARGE_EVERY: Duration = Duration::from_millis(200);
/// A pair gets so many times the health poll to come up.
const POLLS: u32 = 5;

impl Leading<'_> {
    /// A leadership begins: what is stored goes to the desks before any order leaves.
    pub(in crate::core) fn seat_dependencies(&mut self) {
        let forgets = self.has_mutant(Mutant::ForgetsPairs);
        if forgets {
            return;
        }
        for name in self.state.dependencies.entries.keys().cloned().collect::<Vec<_>>() {
            let seated = attempt(|| {
                let entry = self.state.dependencies.entries.get(&name);
                for change in entry.into_iter().flat_map(|entry| order_changes(&name, &[], entry)) {
                    self.lead.put_on_desk(&change);
                }
            });
            if let Err(panic) = seated {
                self.set_aside(&Object::Dependency(name), &panic);
            }
        }
    }

    /// A leadership begins: everything is looked at.
    pub(in crate::core) fn begin_dependencies(&mut self) {
        let nodes: BTreeSet<NodeName> = self.state.hosts.keys().cloned().collect();
        for (name, entry) in &mut self.state.dependencies.entries {
            self.state.dependencies.dirty.insert(name.clone());
            if entry.is_removing() {
                // Which nodes had it is not stored: every node must say that it obeys.
                entry.waits_for.clone_from(&nodes);
            }
        }
    }

    /// Plans what is marked, a bounded number of them.
    pub(in crate::core) fn plan_dependencies(&mut self) {
        if self.is_held_back() {
            return;
        }
        for _ in 0..MOST_PLANS {
            let Some(name) = self.state.dependencies.dirty.pop_first() else { return };
            self.reconcile(&Object::Dependency(name.clone()), |leading| leading.plan_dependency(&name));
        }
    }

    /// Marks one.
    pub(in crate::core) fn wake_dependency(&mut self, name: GroupName) {
        self.state.dependencies.dirty.insert(name);
    }

    /// Marks the next one of the slow sweep.
    pub(in crate::core) fn sweep_dependencies(&mut self) {
        let known = &mut self.state.dependencies;
        let after = known.swept.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = known.entries.range((after, Bound::Unbounded)).next().or_else(|| known.entries.iter().next());
        known.swept = next.map(|(name, _)| name.clone());
        known.dirty.extend(known.swept.clone());
    }

    /// A node reported something about a pod that may be a dependency's.
    pub(in crate::core) fn dependency_reported(&mut self, node: &NodeName, pod: &PodId) {
        let known = &self.state.dependencies;
        let guest = known.guests.get(node).and_then(|guests| guests.get(&pod.group));
        let Some(name) = guest.filter(|_| pod.instance == 0).map(|guest| guest.dependency.clone()) else { return };
        let Some(entry) = known.entries.get(&name).filter(|entry| entry.is_outdated()) else { return };
        let not_before = entry.planned_at + LARGE_EVERY;
        if entry.pairs.len() > LARGE && self.now < not_before {
            self.lead.alarms.set_earlier(Alarm::Dependency(name), not_before);
        } else {
            self.wake_dependency(name);
        }
    }

    /// The node told something or took its order: removals that wait for it look again.
    pub(in crate::core) fn look_at_removals(&mut self, node: &NodeName) {
        let known = &mut self.state.dependencies;
        let waits = |name: &&GroupName| known.entries.get(*name).is_some_and(|entry| entry.waits_for.contains(node));
        known.dirty.extend(known.removing.iter().filter(waits).cloned());
    }

    /// Whether a node is heard changed: updates and removals that wait for it look again.
    pub(in crate::core) fn wake_dependencies_on(&mut self, node: &NodeName) {
        let known = &mut self.state.dependencies;
        let guests = known.guests.get(node).into_iter().flat_map(BTreeMap::values);
        known.dirty.extend(guests.map(|guest| guest.dependency.clone()));
        known.dirty.extend(known.removing.iter().cloned());
    }

    fn plan_dependency(&mut self, name: &GroupName) {
        let Some(entry) = self.state.dependencies.entries.get(name) else {
            return self.lead.alarms.set(Alarm::Dependency(name.clone()), None);
        };
        self.panic_on_purpose_for(&entry.record.spec, entry.is_removing());
        let (needed, refused) = self.needed(name, entry);
        let seen: Vec<Option<&PodFacts>> = (entry.pairs.iter())
            .map(|pair| self.ears.pod(&pair.node, &place_of(pair).pod_id(name, pair.version).ok()?))
            .collect();
        let settings = self.settings;
        let facts = DependencyFacts {
            record: &entry.record,
            pairs: &entry.pairs,
            needed: &needed,
            observed: &seen,
            nodes: &self.state.hosts,
            has_leftovers: self.dependency_lingers(name, entry),
            timeouts: DependencyTimeouts {
                idle: settings.dependency_grace,
                coming_up: settings.health_poll.saturating_mul(POLLS),
                removal: settings.operation_limit,
            },
        };
        let plan = plan_dependency(&facts, self.now);
        self.lead.alarms.set(Alarm::Dependency(name.clone()), plan.wake_at);
        let effects = self.tell_refused(name, refused);
        self.conclude_dependency(name, plan, effects);
    }

    /// The places where instances need it, and those it cannot have with the reason.
    fn needed(&self, name: &GroupName, entry: &Dependency) -> (BTreeSet<Place>, Vec<(Place, String)>) {
        let known = &self.state.dependencies;
        let present: BTreeSet<Place> = entry.pairs.iter().map(place_of).collect();
        let users = known.users.get(name).into_iter().flatten();
        let wanted = users.filter(|(_, groups)| self.count_as_users(groups)).map(|(place, _)| place);
        let (mut needed, mut refused) = (BTreeSet::new(), Vec::new());
        for place in wanted {
            match if present.contains(place) { Ok(()) } else { self.may_be_at(name, place) } {
                Ok(()) => drop(needed.insert(place.clone())),
                Err(why) => refused.push((place.clone(), why)),
            }
        }
        if !self.state.spared.is_empty() {
            needed.extend(present);
        }
        (needed, refused)
    }

    /// Every instance that has a node counts, whether it runs or not.
    fn count_as_users(&self, groups: &BTreeSet<GroupName>) -> bool {
        let runs = |name: &GroupName| {
            let group = self.state.groups.get(name);
            group.is_some_and(|group| group.slots().iter().any(|slot| slot.target == TargetState::Run))
        };
        !self.has_mutant(Mutant::NeedsOfRunning) || groups.iter().any(runs)
    }

    fn may_be_at(&self, name: &GroupName, place: &Place) -> Result<(), String> {
        let text = || format!("dependency pod {name} cannot run beside {} on node {}", place.namespace, place.node);
        let pod = place.pod_name(name).map_err(|error| format!("{}: its name {error}", text()))?;
        let others = self.state.dependencies.guests.get(&place.node).and_then(|guests| guests.get(&pod));
        if self.state.groups.contains_key(&pod) || self.state.spared.contains(&pod) {
            return Err(format!("{}: a PodGroup is called {pod}", text()));
        }
        if let Some(other) = others.filter(|other| other.dependency != *name) {
            return Err(format!("{}: {pod} is one of dependency pod {}", text(), other.dependency));
        }
        Ok(())
    }

    /// Says once why a place cannot be had.
    fn tell_refused(&mut self, name: &GroupName, refused: Vec<(Place, String)>) -> Vec<Effect> {
        let Some(entry) = self.state.dependencies.entries.get_mut(name) else { return Vec::new() };
        let told = std::mem::replace(&mut entry.refused, refused.iter().map(|(place, _)| place.clone()).collect());
        let fresh = refused.into_iter().filter(|(place, _)| !told.contains(place));
        let event = |(place, message): (Place, String)| {
            let about = events::of_group(Kind::Unplaceable, name, message, self.now);
            Event { node: Some(place.node), ..about }
        };
        fresh.map(event).map(Effect::Record).collect()
    }

    /// Whether a node that is not lost still has, or may still get, pods of it.
    fn dependency_lingers(&self, name: &GroupName, entry: &Dependency) -> bool {
        let goes = entry.is_removing() || entry.record.delete_when_unused;
        let mut sightings = self.ears.sightings_beside(name);
        goes && (entry.waits_for.iter().any(|node| self.is_awaited(node)) || sightings.any(|node| !self.is_lost(node)))
    }

    /// Whether a node that must let go of something may not have heard of it.
    fn is_awaited(&self, node: &NodeName) -> bool {
        !self.is_lost(node) && !self.obeys(node)
    }

    fn conclude_dependency(&mut self, name: &GroupName, plan: DependencyPlan, effects: Vec<Effect>) {
        let Some(before) = self.state.dependencies.entries.get(name).cloned() else { return };
        let mut bundle = Bundle { effects, ..Bundle::default() };
        let mut after = Dependency { pairs: plan.pairs, planned_at: self.now, ..before.clone() };
        if let Some(record) = plan.record {
            bundle.writes.extend(record_writes(name, Some(&before.record), Some(&record)));
            after.record = record;
        }
        let (moved, changed) = (after.pairs != before.pairs, after.record != before.record);
        if moved {
            bundle.complete.push(keys::all_pairs(name));
            bundle.writes.extend(layout::put_pairs(name, &after.pairs).into_iter().map(commit::put_entry));
            bundle.changes = order_changes(name, &before.pairs, &after);
        }
        if after.is_removing() {
            after.waits_for.extend(before.pairs.iter().map(|pair| pair.node.clone()));
        }
        if plan.gone {
            bundle.writes = record_writes(name, Some(&before.record), None);
            bundle.complete = vec![keys::all_pairs(name)];
            self.state.drop_dependency(name);
        } else if moved || changed {
            self.state.seat(name, after, self.settings.quota_cores);
            // What it is now was just decided: there is nothing new to plan.
            self.state.dependencies.dirty.remove(name);
            self.room_appeared();
        } else {
            self.state.dependencies.entries.insert(name.clone(), after);
        }
        if !bundle.writes.is_empty() || !bundle.complete.is_empty() || !bundle.effects.is_empty() {
            self.decide(bundle);
        }
    }
}
