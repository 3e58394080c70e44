//! The dependency pods that accepted commands request, and where they must run.
//!
//! Which groups need one is read from the stored groups, without the code under test.

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
use testkit::store::FakeStore;

use crate::checks::instances::StoredGroup;
use crate::checks::invariants::{Invariant, Violation};

/// A missing dependency pod counts after this time, while there is a leader that schedules.
const FORGOTTEN: Duration = Duration::from_secs(20);
/// An unused dependency pod is removed this long after its grace: longer than the clock error of schedulers.
const TAKEN_AWAY: Duration = Duration::from_secs(5);

type Need = (GroupName, Place);

#[derive(Debug, Default)]
pub struct Dependencies {
    expected: BTreeMap<GroupName, ExpectedDependency>,
    unmet: BTreeMap<Need, Timestamp>,
    /// Since when each dependency pod is unused.
    idle: BTreeMap<Need, Timestamp>,
    /// A command was accepted since the last comparison.
    changed: bool,
    /// The planned pods, as last stored.
    pub planned: Vec<(NodeName, PodId, PodSpec)>,
}

#[derive(Debug, Clone)]
struct ExpectedDependency {
    spec: PodSpec,
    delete_when_unused: bool,
    removing: bool,
}

impl Dependencies {
    /// None if the leader cannot have accepted the command.
    pub fn apply(&mut self, verb: &Verb) -> Option<()> {
        self.changed = true;
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

    pub fn is_changed(&self) -> bool {
        self.changed
    }

    pub fn are_any(&self) -> bool {
        !self.expected.is_empty()
    }

    pub fn check(&mut self, store: &FakeStore) -> Result<(), Violation> {
        let broken = |invariant, detail| Err(Violation { invariant, detail });
        let stored = records(store);
        self.changed = false;
        self.expected
            .retain(|name, expected| stored.contains_key(name) || !(expected.delete_when_unused || expected.removing));
        for (name, record) in &stored {
            let Some(expected) = self.expected.get_mut(name) else {
                return broken(Invariant::CommandsTakeEffectOnce, format!("{name} is stored and not expected"));
            };
            // A dependency marked for deletion goes when it is unused.
            expected.removing |= expected.delete_when_unused && record.removing_since.is_some();
            let same = expected.spec.version == record.spec.version && expected.spec.asks_the_same(&record.spec);
            let states = (expected.delete_when_unused, expected.removing)
                == (record.delete_when_unused, record.removing_since.is_some());
            if !same || !states {
                return broken(
                    Invariant::CommandsTakeEffectOnce,
                    format!("{name} is stored as {record:?}, not {expected:?}"),
                );
            }
            let mut places = BTreeSet::new();
            for (place, version) in places_of(name, store) {
                if version != record.spec.version && !record.former.contains_key(&version) {
                    return broken(
                        Invariant::VersionsHaveSpecs,
                        format!("{name} {place:?}: no spec for version {version}"),
                    );
                }
                if !places.insert(place.clone()) {
                    return broken(Invariant::OneDependencyPodPerPlace, format!("{name} runs twice at {place:?}"));
                }
            }
        }
        self.planned = pods(store);
        match self.expected.keys().find(|name| !stored.contains_key(*name)) {
            Some(name) => broken(Invariant::CommandsTakeEffectOnce, format!("{name} is expected and not stored")),
            None => Ok(()),
        }
    }

    /// Starts the timers of missing and unused pods, and stops those of all others.
    pub fn note(&mut self, groups: &BTreeMap<GroupName, StoredGroup>, store: &FakeStore, now: Timestamp) {
        let (needed, planned) = (needed(groups, store), planned(store));
        count(&mut self.unmet, needed.difference(&planned), now);
        count(&mut self.idle, planned.difference(&needed), now);
    }

    /// Dependency pods that were unused for longer than the grace. A failing instance that moves from node to node leaves one on each.
    pub fn idle(&self, grace: Duration, now: Timestamp) -> Vec<&Need> {
        self.idle.iter().filter(|(_, since)| now.since(**since) > grace + TAKEN_AWAY).map(|(need, _)| need).collect()
    }

    /// A dependency pod that is missing for too long; the time without a scheduling leader does not count.
    pub fn forgotten(&mut self, can_plan: bool, now: Timestamp) -> Option<String> {
        if !can_plan {
            self.unmet.values_mut().for_each(|since| *since = now);
        }
        let ((name, place), since) = self.unmet.iter().find(|(_, since)| now.since(**since) > FORGOTTEN)?;
        Some(format!("{name} is needed at {place:?} since {since} and not there"))
    }
}

fn records(store: &FakeStore) -> BTreeMap<GroupName, DependencyRecord> {
    let entry = |key: &String| {
        let Key::Dependency(name) = keys::parse(key) else { return None };
        let record = layout::read_dependency(&name, store).ok()??;
        Some((name, record))
    };
    store.keys().filter_map(entry).collect()
}

/// The places and versions of a dependency, as planned.
fn places_of(name: &GroupName, store: &FakeStore) -> Vec<(Place, u32)> {
    let pairs = layout::read_pairs(name, store).unwrap_or_default().into_iter();
    pairs.map(|pair| (Place { node: pair.node, namespace: pair.namespace }, pair.version)).collect()
}

pub fn pods(store: &FakeStore) -> Vec<(NodeName, PodId, PodSpec)> {
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

/// The places at which placed instances need an existing dependency.
fn needed(groups: &BTreeMap<GroupName, StoredGroup>, store: &FakeStore) -> BTreeSet<Need> {
    let known = records(store);
    let mut needed = BTreeSet::new();
    for stored in groups.values() {
        let record = &stored.record;
        for (_, instance) in stored.pods() {
            let Some(node) = &instance.node else { continue };
            let pod = record.former.get(&instance.version).unwrap_or(&record.spec.pod);
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

fn planned(store: &FakeStore) -> BTreeSet<Need> {
    let all = records(store).into_keys().flat_map(|name| {
        let places = places_of(&name, store);
        places.into_iter().map(move |(place, _)| (name.clone(), place))
    });
    all.collect()
}

/// Keeps the start time of each entry that still exists.
fn count<'a>(since: &mut BTreeMap<Need, Timestamp>, are: impl Iterator<Item = &'a Need>, now: Timestamp) {
    let before = std::mem::take(since);
    since.extend(are.map(|need| (need.clone(), before.get(need).copied().unwrap_or(now))));
}
