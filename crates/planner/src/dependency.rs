//! Decides on which nodes a dependency pod runs, and in which version.
//!
//! The instances determine where it is needed, in every plan; no reference count can drift. A pod that is not needed any
//! more stays for a while, so a redeployment finds it running. A new version updates one pair (node and namespace) after
//! another: the next one follows when the previous one is up or has timed out. A deletion of an unused pod proceeds like a
//! forced removal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::dependency::Place;
use contract::name::NodeName;
use contract::query::Liveness;
use contract::record::{DependencyRecord, Pair};
use contract::report::PodFacts;
use contract::state::{HealthState, RunState};
use contract::time::Timestamp;

use crate::placement::Candidate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DependencyTimeouts {
    /// A pair that is not needed is removed after this time.
    pub idle: Duration,
    /// The update of the next pair waits at most this long for the previous one.
    pub coming_up: Duration,
    /// A removal ends after this time, whatever nodes still have.
    pub removal: Duration,
}

/// The input of [`plan_dependency`].
#[derive(Clone, Copy)]
pub struct DependencyFacts<'a> {
    pub record: &'a DependencyRecord,
    /// Where it runs, sorted by place.
    pub pairs: &'a [Pair],
    /// Where an instance needs it.
    pub needed: &'a BTreeSet<Place>,
    /// The report on each pair.
    pub observed: &'a [Option<&'a PodFacts>],
    pub nodes: &'a BTreeMap<NodeName, Candidate>,
    /// A node that is not lost still has, or may still get, pods that must go.
    pub has_leftovers: bool,
    pub timeouts: DependencyTimeouts,
}

/// The result of [`plan_dependency`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DependencyPlan {
    /// The pairs afterwards, sorted by place.
    pub pairs: Vec<Pair>,
    /// The record afterwards, if it differs.
    pub record: Option<DependencyRecord>,
    /// The removal is complete: the leader deletes the record.
    pub gone: bool,
    /// When to plan again even if nothing is reported.
    pub wake_at: Option<Timestamp>,
}

/// Plans one dependency pod.
pub fn plan_dependency(facts: &DependencyFacts<'_>, now: Timestamp) -> DependencyPlan {
    if let Some(since) = facts.record.removing_since {
        return plan_removal(facts, since, now);
    }
    if facts.record.delete_when_unused && facts.needed.is_empty() {
        let record = DependencyRecord { removing_since: Some(now), ..facts.record.clone() };
        return DependencyPlan { record: Some(record), ..plan_removal(facts, now, now) };
    }
    let mut planning = DependencyPlanning { facts, now, plan: DependencyPlan::default() };
    planning.keep();
    planning.add();
    planning.update();
    planning.forget_versions();
    planning.plan
}

/// All pairs are removed; the record follows when no node has a pod left.
fn plan_removal(facts: &DependencyFacts<'_>, since: Timestamp, now: Timestamp) -> DependencyPlan {
    let limit = since + facts.timeouts.removal;
    let gone = (facts.pairs.is_empty() && !facts.has_leftovers) || now >= limit;
    DependencyPlan { gone, wake_at: (!gone).then_some(limit), ..DependencyPlan::default() }
}

struct DependencyPlanning<'a> {
    facts: &'a DependencyFacts<'a>,
    now: Timestamp,
    plan: DependencyPlan,
}

impl DependencyPlanning<'_> {
    /// Keeps pairs that are needed or were until recently.
    fn keep(&mut self) {
        for pair in self.facts.pairs {
            let needed = self.facts.needed.contains(&place_of(pair));
            let idle_since = match pair.idle_since {
                _ if needed => Timestamp::NEVER,
                since if since.happened() => since,
                _ => self.now,
            };
            let over = idle_since + self.facts.timeouts.idle;
            let is_decommissioned = self.facts.nodes.get(&pair.node).is_some_and(|candidate| candidate.decommissioned);
            if !needed && (self.now >= over || is_decommissioned) {
                continue;
            }
            if !needed {
                self.wake(over);
            }
            self.plan.pairs.push(Pair { idle_since, ..pair.clone() });
        }
    }

    /// New places get the present version immediately: an instance waits for it.
    fn add(&mut self) {
        let present: BTreeSet<Place> = self.plan.pairs.iter().map(place_of).collect();
        let fresh = self.facts.needed.iter().filter(|place| !present.contains(*place)).map(|place| Pair {
            node: place.node.clone(),
            namespace: place.namespace.clone(),
            version: self.facts.record.spec.version,
            since: self.now,
            idle_since: Timestamp::NEVER,
        });
        self.plan.pairs.extend(fresh);
        self.plan.pairs.sort_by_key(place_of);
    }

    /// Updates the first pair of an earlier version, unless another one is still starting.
    fn update(&mut self) {
        let present = self.facts.record.spec.version;
        let Some(next) = self.plan.pairs.iter().position(|pair| pair.version != present) else { return };
        let coming =
            self.plan.pairs.iter().filter(|pair| pair.version == present).filter_map(|pair| self.comes_up_by(pair));
        let until = match coming.max() {
            Some(until) => until,
            None => {
                let pair = &mut self.plan.pairs[next];
                (pair.version, pair.since) = (present, self.now);
                self.now + self.facts.timeouts.coming_up
            }
        };
        self.wake(until);
    }

    /// How long the other pairs wait for a pair of the present version; none if they need not wait.
    fn comes_up_by(&self, pair: &Pair) -> Option<Timestamp> {
        let lost = self.facts.nodes.get(&pair.node).is_some_and(|candidate| candidate.liveness == Liveness::Lost);
        let until = pair.since + self.facts.timeouts.coming_up;
        let order = |before: &Pair| (&before.node, &before.namespace).cmp(&(&pair.node, &pair.namespace));
        let index = self.facts.pairs.binary_search_by(order).ok();
        let index = index.filter(|index| self.facts.pairs[*index].version == pair.version);
        let up = index.and_then(|index| *self.facts.observed.get(index)?).is_some_and(is_up);
        (!lost && !up && self.now < until).then_some(until)
    }

    /// Earlier specs are kept while a pair runs them.
    fn forget_versions(&mut self) {
        let used: BTreeSet<u32> = self.plan.pairs.iter().map(|pair| pair.version).collect();
        let record = self.facts.record;
        if record.former.keys().any(|version| !used.contains(version)) {
            let mut record = record.clone();
            record.former.retain(|version, _| used.contains(version));
            self.plan.record = Some(record);
        }
    }

    fn wake(&mut self, at: Timestamp) {
        self.plan.wake_at = Some(self.plan.wake_at.map_or(at, |other| other.min(at)));
    }
}

pub fn place_of(pair: &Pair) -> Place {
    Place { node: pair.node.clone(), namespace: pair.namespace.clone() }
}

fn is_up(facts: &PodFacts) -> bool {
    let well = match facts.health {
        HealthState::None | HealthState::Healthy => true,
        HealthState::Starting | HealthState::Unhealthy => false,
    };
    facts.state == RunState::Success && well && !facts.leaving
}

#[cfg(test)]
#[path = "dependency_tests.rs"]
mod tests;
