//! Reconciles dependency pods.
//!
//! Reports about a dependency pod matter only during an update or a removal: its agent restarts a pod that exited. While the
//! record of a group cannot be read, its needs are unknown, so no dependency pod is removed as unused.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::dependency::Place;
use contract::event::{Event, Kind};
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::report::PodFacts;
use contract::state::TargetState;
use contract::{keys, layout};
use planner::dependency::{DependencyFacts, DependencyPlan, DependencyTimeouts, place_of, plan_dependency};

use crate::core::commit::{self, Bundle};
use crate::core::io::{Effect, Mutant};
use crate::core::leader::Leading;
use crate::core::state::dependencies::{Dependency, order_changes, record_writes};
use crate::core::state::quarantine::{Object, attempt};
use crate::core::timers::Timer;
use crate::core::{commands, events};

use super::input;

/// Dependency pods reconciled per input.
const PER_INPUT: usize = 64;
/// A dependency pod with more pairs is reconciled for reports at most once in [`LARGE_EVERY`].
const LARGE: usize = 200;
/// See [`LARGE`].
const LARGE_EVERY: Duration = Duration::from_millis(200);
/// A pair has this many health polls to start.
const POLLS: u32 = 5;

/// Starts a leadership: puts the stored pairs into the queues before any order leaves.
pub(in crate::core) fn queue_orders(leading: &mut Leading<'_>) {
    let forgets = leading.has_mutant(Mutant::ForgetsDependencies);
    if forgets {
        return;
    }
    for name in leading.state.dependencies.names().cloned().collect::<Vec<_>>() {
        let seated = attempt(|| {
            let entry = leading.state.dependencies.get(&name);
            for change in entry.into_iter().flat_map(|entry| order_changes(&name, &[], entry)) {
                leading.lead.dispatch.change(&change);
            }
        });
        if let Err(panic) = seated {
            leading.quarantine_at_start(&Object::Dependency(name), &panic);
        }
    }
}

/// Starts a leadership: every dependency pod is reconciled.
pub(in crate::core) fn begin_dependencies(leading: &mut Leading<'_>) {
    let nodes: BTreeSet<NodeName> = leading.state.nodes.keys().cloned().collect();
    leading.state.dependencies.mark_all(&nodes);
}

/// Plans what is marked, a bounded number of them.
pub(in crate::core) fn reconcile_dependencies(leading: &mut Leading<'_>) {
    if commands::cluster::is_paused(leading) {
        return;
    }
    for _ in 0..PER_INPUT {
        let Some(name) = leading.state.dependencies.take_marked() else { return };
        leading.reconcile(&Object::Dependency(name.clone()), |leading| reconcile_dependency(leading, &name));
    }
}

/// A node reported something about a pod that may be a dependency's.
pub(in crate::core) fn dependency_reported(leading: &mut Leading<'_>, node: &NodeName, pod: &PodId) {
    let known = &leading.state.dependencies;
    let Some(name) = known.owner_of(node, &pod.group).filter(|_| pod.instance == 0).cloned() else { return };
    let Some(entry) = known.get(&name).filter(|entry| entry.is_outdated()) else { return };
    let not_before = entry.planned_at + LARGE_EVERY;
    if entry.pairs.len() > LARGE && leading.now < not_before {
        leading.lead.timers.set_earlier(Timer::Dependency(name), not_before);
    } else {
        leading.state.dependencies.mark(name);
    }
}

fn reconcile_dependency(leading: &mut Leading<'_>, name: &GroupName) {
    let Some(entry) = leading.state.dependencies.get(name) else {
        return leading.lead.timers.set(Timer::Dependency(name.clone()), None);
    };
    leading.settings.faults.panic_on(&entry.record.spec, entry.is_removing());
    let (needed, refused) = needed(leading, name, entry);
    let seen: Vec<Option<&PodFacts>> = (entry.pairs.iter())
        .map(|pair| leading.reports.pod(&pair.node, &place_of(pair).pod_id(name, pair.version).ok()?))
        .collect();
    let settings = leading.settings;
    let facts = DependencyFacts {
        record: &entry.record,
        pairs: &entry.pairs,
        needed: &needed,
        observed: &seen,
        nodes: &leading.state.nodes,
        has_leftovers: dependency_lingers(leading, name, entry),
        timeouts: DependencyTimeouts {
            idle: settings.dependency_grace,
            coming_up: settings.health_poll.saturating_mul(POLLS),
            removal: settings.operation_limit,
        },
    };
    let plan = plan_dependency(&facts, leading.now);
    leading.lead.timers.set(Timer::Dependency(name.clone()), plan.wake_at);
    let effects = report_refused_places(leading, name, refused);
    apply_plan(leading, name, plan, effects);
}

/// The places where instances need it, and those it cannot have with the reason.
fn needed(leading: &Leading<'_>, name: &GroupName, entry: &Dependency) -> (BTreeSet<Place>, Vec<(Place, String)>) {
    let present: BTreeSet<Place> = entry.pairs.iter().map(place_of).collect();
    let users = leading.state.dependencies.users_of(name);
    let wanted = users.filter(|(_, groups)| count_as_users(leading, groups)).map(|(place, _)| place);
    let (mut needed, mut refused) = (BTreeSet::new(), Vec::new());
    for place in wanted {
        match if present.contains(place) { Ok(()) } else { may_be_at(leading, name, place) } {
            Ok(()) => drop(needed.insert(place.clone())),
            Err(why) => refused.push((place.clone(), why)),
        }
    }
    if !leading.state.spared().is_empty() {
        needed.extend(present);
    }
    (needed, refused)
}

/// Every instance that has a node counts, whether it runs or not.
fn count_as_users(leading: &Leading<'_>, groups: &BTreeSet<GroupName>) -> bool {
    let runs = |name: &GroupName| {
        let group = leading.state.groups.get(name);
        group.is_some_and(|group| group.instances().iter().any(|instance| instance.target == TargetState::Run))
    };
    !leading.has_mutant(Mutant::IgnoresNeedsOfStopped) || groups.iter().any(runs)
}

fn may_be_at(leading: &Leading<'_>, name: &GroupName, place: &Place) -> Result<(), String> {
    let text = || format!("dependency pod {name} cannot run beside {} on node {}", place.namespace, place.node);
    let pod = place.pod_name(name).map_err(|error| format!("{}: its name {error}", text()))?;
    if leading.state.groups.contains_key(&pod) || leading.state.spared().contains(&pod) {
        return Err(format!("{}: a PodGroup is called {pod}", text()));
    }
    if let Some(other) = leading.state.dependencies.owner_of(&place.node, &pod).filter(|other| *other != name) {
        return Err(format!("{}: {pod} is one of dependency pod {other}", text()));
    }
    Ok(())
}

/// Says once why a place cannot be had.
fn report_refused_places(leading: &mut Leading<'_>, name: &GroupName, refused: Vec<(Place, String)>) -> Vec<Effect> {
    let places = refused.iter().map(|(place, _)| place.clone()).collect();
    let Some(known) = leading.state.dependencies.set_refused(name, places) else { return Vec::new() };
    let fresh = refused.into_iter().filter(|(place, _)| !known.contains(place));
    let event = |(place, message): (Place, String)| {
        let about = events::of_group(Kind::Unplaceable, name, message, leading.now);
        Event { node: Some(place.node), ..about }
    };
    fresh.map(event).map(Effect::Record).collect()
}

/// Whether a node that is not lost still has, or may still get, pods of it.
fn dependency_lingers(leading: &Leading<'_>, name: &GroupName, entry: &Dependency) -> bool {
    let goes = entry.is_removing() || entry.record.delete_when_unused;
    let mut sightings = leading.reports.sightings_beside(name);
    goes && (entry.waits_for.iter().any(|node| is_awaited(leading, node))
        || sightings.any(|node| !input::is_lost(leading, node)))
}

/// Whether the node may still run a pod that was removed from its order.
fn is_awaited(leading: &Leading<'_>, node: &NodeName) -> bool {
    !input::is_lost(leading, node) && !input::has_applied_order(leading, node)
}

fn apply_plan(leading: &mut Leading<'_>, name: &GroupName, plan: DependencyPlan, effects: Vec<Effect>) {
    let Some(before) = leading.state.dependencies.get(name).cloned() else { return };
    let mut bundle = Bundle { effects, ..Bundle::default() };
    let mut after = Dependency { pairs: plan.pairs, planned_at: leading.now, ..before.clone() };
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
        leading.state.drop_dependency(name);
    } else if moved || changed {
        leading.state.set_dependency(name, after, leading.settings.quota_cores);
        // The new state was just decided: there is nothing left to reconcile.
        leading.state.dependencies.unmark(name);
        leading.retry_unschedulable();
    } else {
        leading.state.dependencies.note_planned(name, after);
    }
    if !bundle.writes.is_empty() || !bundle.complete.is_empty() || !bundle.effects.is_empty() {
        leading.decide(bundle);
    }
}
