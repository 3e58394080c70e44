//! The replay of commands about dependency pods, and where their pods must stand.
//!
//! Who needs one is read from the stored groups alone, without the code under test.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::command::Verb;
use contract::dependency::Place;
use contract::keys::{self, Key};
use contract::layout;
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::record::DependencyRecord;
use contract::spec::PodSpec;
use contract::state::DependencyPolicy;
use contract::time::Timestamp;

use crate::checks::instances::StoredGroup;
use crate::checks::invariants::{Invariant, Violation};
use crate::world::store::Store;

/// A need that is not met for so long, while somebody leads and plans, was forgotten.
const FORGOTTEN: Duration = Duration::from_secs(20);
/// A pair that had its time is taken away so soon when nothing goes wrong: clocks of schedulers are wrong by less.
const TAKEN_AWAY: Duration = Duration::from_secs(5);

/// A dependency pod at a place.
type Need = (GroupName, Place);

/// Dependency pods as they must be stored.
#[derive(Debug, Default)]
pub struct Dependencies {
    expected: BTreeMap<GroupName, ExpectedDependency>,
    unmet: BTreeMap<Need, Timestamp>,
    /// Since when nothing needs a pair that is there.
    idle: BTreeMap<Need, Timestamp>,
    /// A command about them was accepted and not compared yet.
    asked: bool,
    /// Where they are planned, as last stored.
    pub planned: Vec<(NodeName, PodId, PodSpec)>,
}

#[derive(Debug, Clone)]
struct ExpectedDependency {
    spec: PodSpec,
    delete_when_unused: bool,
    removing: bool,
}

impl Dependencies {
    /// An accepted command about a dependency pod; none when it cannot have been accepted.
    pub fn apply(&mut self, verb: &Verb) -> Option<()> {
        self.asked = true;
        if let Verb::CreateDependency { pod } = verb {
            let name: GroupName = pod.name.parse().ok()?;
            let annotation = if pod.annotation.is_empty() { "{}".to_owned() } else { pod.annotation.clone() };
            let spec = PodSpec { version: 0, annotation, ..*pod.clone() };
            let before =
                self.expected.insert(name, ExpectedDependency { spec, delete_when_unused: false, removing: false });
            return before.is_none_or(|before| before.delete_when_unused || before.removing).then_some(());
        }
        if let Verb::UpdateDependency { pod } = verb {
            let name: GroupName = pod.name.parse().ok()?;
            let expected = self.expected.get_mut(&name).filter(|expected| !expected.removing)?;
            let next = expected.spec.patched(*pod.clone(), Timestamp::NEVER);
            expected.delete_when_unused = false;
            if !next.asks_the_same(&expected.spec) {
                expected.spec = next;
            }
        }
        if let Verb::RemoveDependency { name, force } = verb {
            let expected = self.expected.get_mut(name).filter(|expected| !expected.removing)?;
            expected.delete_when_unused = true;
            expected.removing = *force;
        }
        Some(())
    }

    /// Whether what is stored must be looked at.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Whether there is a dependency pod at all.
    pub fn are_any(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Compares with what is stored.
    pub fn check(&mut self, store: &Store) -> Result<(), Violation> {
        let broken = |invariant, detail| Err(Violation { invariant, detail });
        let stored = records(store);
        self.asked = false;
        self.expected
            .retain(|name, expected| stored.contains_key(name) || !(expected.delete_when_unused || expected.removing));
        for (name, record) in &stored {
            let Some(expected) = self.expected.get_mut(name) else {
                return broken(Invariant::CommandsHoldOnce, format!("{name} is stored and not expected"));
            };
            // What nothing needs any more goes by itself.
            expected.removing |= expected.delete_when_unused && record.removing_since.is_some();
            let same = expected.spec.version == record.spec.version && expected.spec.asks_the_same(&record.spec);
            let states = (expected.delete_when_unused, expected.removing)
                == (record.delete_when_unused, record.removing_since.is_some());
            if !same || !states {
                return broken(
                    Invariant::CommandsHoldOnce,
                    format!("{name} is stored as {record:?}, not {expected:?}"),
                );
            }
            let mut places = BTreeSet::new();
            for (place, version) in places_of(name, store) {
                if version != record.spec.version && !record.former.contains_key(&version) {
                    return broken(Invariant::VersionsHaveSpecs, format!("{name} {place:?}: nobody knows {version}"));
                }
                if !places.insert(place.clone()) {
                    return broken(Invariant::OnePairPerPlace, format!("{name} runs twice at {place:?}"));
                }
            }
        }
        self.planned = pods(store);
        match self.expected.keys().find(|name| !stored.contains_key(*name)) {
            Some(name) => broken(Invariant::CommandsHoldOnce, format!("{name} is expected and not stored")),
            None => Ok(()),
        }
    }

    /// Dependencies that are not met, and pairs nothing needs, begin to count; others are forgotten.
    pub fn note(&mut self, groups: &BTreeMap<GroupName, StoredGroup>, store: &Store, now: Timestamp) {
        let (needed, planned) = (needed(groups, store), planned(store));
        count(&mut self.unmet, needed.difference(&planned), now);
        count(&mut self.idle, planned.difference(&needed), now);
    }

    /// Pairs that nothing needs and that had their time: an instance that fails again and again goes from node to node, and
    /// leaves one behind each time.
    pub fn idle(&self, grace: Duration, now: Timestamp) -> Vec<&Need> {
        self.idle.iter().filter(|(_, since)| now.since(**since) > grace + TAKEN_AWAY).map(|(need, _)| need).collect()
    }

    /// A need that was forgotten; while nobody can plan the time does not count.
    pub fn forgotten(&mut self, can_plan: bool, now: Timestamp) -> Option<String> {
        if !can_plan {
            self.unmet.values_mut().for_each(|since| *since = now);
        }
        let ((name, place), since) = self.unmet.iter().find(|(_, since)| now.since(**since) > FORGOTTEN)?;
        Some(format!("{name} is needed at {place:?} since {since} and not there"))
    }
}

fn records(store: &Store) -> BTreeMap<GroupName, DependencyRecord> {
    let entry = |key: &String| {
        let Key::Dependency(name) = keys::parse(key) else { return None };
        let record = layout::read_dependency(&name, store.keys()).ok()??;
        Some((name, record))
    };
    store.keys().keys().filter_map(entry).collect()
}

/// Where a dependency pod runs by the plan, and in which version.
fn places_of(name: &GroupName, store: &Store) -> Vec<(Place, u32)> {
    let pairs = layout::read_pairs(name, store.keys()).unwrap_or_default().into_iter();
    pairs.map(|pair| (Place { node: pair.node, namespace: pair.namespace }, pair.version)).collect()
}

/// Every pod of a dependency that is planned, with its node and what it is made from.
pub fn pods(store: &Store) -> Vec<(NodeName, PodId, PodSpec)> {
    let mut pods = Vec::new();
    for (name, record) in records(store) {
        for (place, version) in places_of(&name, store) {
            let spec = record.former.get(&version).unwrap_or(&record.spec);
            if let Ok(id) = place.pod_id(&name, version) {
                pods.push((place.node.clone(), id, PodSpec { version, ..place.pod_spec(spec) }));
            }
        }
    }
    pods
}

/// Where instances that have a node need a dependency pod that is there.
fn needed(groups: &BTreeMap<GroupName, StoredGroup>, store: &Store) -> BTreeSet<Need> {
    let known = records(store);
    let mut needed = BTreeSet::new();
    for stored in groups.values() {
        let record = &stored.record;
        for (_, slot) in stored.pods() {
            let Some(node) = &slot.node else { continue };
            let pod = record.former.get(&slot.version).unwrap_or(&record.spec.pod);
            for dependency in &pod.dependencies {
                let Ok(name) = dependency.pod_name.parse::<GroupName>() else { continue };
                let namespace = match dependency.policy {
                    DependencyPolicy::Namespace => pod.namespace.clone(),
                    DependencyPolicy::Node => node.to_string(),
                };
                if known.get(&name).is_some_and(|record| record.removing_since.is_none()) {
                    needed.insert((name, Place { node: node.clone(), namespace }));
                }
            }
        }
    }
    needed
}

/// Every pair that is planned.
fn planned(store: &Store) -> BTreeSet<Need> {
    let all = records(store).into_keys().flat_map(|name| {
        let places = places_of(&name, store);
        places.into_iter().map(move |(place, _)| (name.clone(), place))
    });
    all.collect()
}

/// Keeps since when each of these is so.
fn count<'a>(since: &mut BTreeMap<Need, Timestamp>, are: impl Iterator<Item = &'a Need>, now: Timestamp) {
    let before = std::mem::take(since);
    since.extend(are.map(|need| (need.clone(), before.get(need).copied().unwrap_or(now))));
}
