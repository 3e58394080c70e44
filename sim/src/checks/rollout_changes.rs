//! The actions of a rollout, derived from consecutive stored states, in the format of a plan.

use std::collections::{BTreeMap, BTreeSet};

use contract::record::{Instance, Presence};
use contract::rollout_view::{InstanceChange, PlanAction, PlanView};

use crate::checks::commit_changes::identity;
use crate::world::faultless::Snapshot;

/// Instance, action and unit afterwards.
pub type Action = (u32, String, String);

/// Actions of one commit, unsorted, and their batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutStep {
    /// From 1; 0 without batches.
    pub group: u64,
    pub actions: BTreeSet<Action>,
}

pub fn steps(snapshots: &[Snapshot]) -> Vec<RolloutStep> {
    let step = |pair: &[Snapshot]| RolloutStep {
        group: pair[1].release.as_ref().map_or(0, |release| release.batch),
        actions: actions(&pair[0].instances, &pair[1].instances),
    };
    snapshots.windows(2).map(step).filter(|step| !step.actions.is_empty()).collect()
}

pub fn planned(plan: &PlanView) -> Vec<RolloutStep> {
    plan.steps.iter().map(|step| RolloutStep { group: step.group, actions: seen(&step.actions) }).collect()
}

/// The actions that a commit shows: create and renew together are a create, surge and promote together a renew.
fn seen(actions: &[PlanAction]) -> BTreeSet<Action> {
    let mut seen: Vec<Action> = Vec::new();
    for PlanAction { instance, action, unit } in actions {
        let before = seen.iter().rposition(|(other, _, _)| other == instance);
        match (before.map(|at| seen[at].1.as_str()), action.as_str()) {
            (Some("Create"), "Renew" | "InPlace") => {}
            (Some("Surge"), "Promote") => seen[before.unwrap_or(0)].1 = "Renew".to_owned(),
            _ => seen.push((*instance, action.clone(), unit.clone())),
        }
    }
    seen.into_iter().collect()
}

/// The actions of each instance in each batch.
pub fn by_group(steps: &[RolloutStep]) -> BTreeMap<u64, BTreeMap<u32, Vec<String>>> {
    let mut groups: BTreeMap<u64, BTreeMap<u32, Vec<String>>> = BTreeMap::new();
    for step in steps {
        for (instance, action, _) in &step.actions {
            groups.entry(step.group).or_default().entry(*instance).or_default().push(action.clone());
        }
    }
    groups
}

/// The change of every instance between two stored states.
pub fn changes(before: &Snapshot, after: &Snapshot) -> BTreeMap<u32, InstanceChange> {
    let nothing = Instance { presence: Presence::Free, ..Instance::default() };
    let most = before.instances.len().max(after.instances.len());
    let mut changes = BTreeMap::new();
    for index in 0..most {
        let (was, is) =
            (before.instances.get(index).unwrap_or(&nothing), after.instances.get(index).unwrap_or(&nothing));
        let change = match (was.presence, is.presence) {
            (Presence::Free, Presence::Free) => continue,
            (Presence::Free, Presence::Pod | Presence::Vacant) => InstanceChange::Created,
            (Presence::Pod | Presence::Vacant, Presence::Free) => InstanceChange::Removed,
            _ if was.unit != is.unit => InstanceChange::Moved,
            _ if is_in_place(was, is) => InstanceChange::InPlace,
            _ if was.version != is.version => InstanceChange::Recreated,
            _ => InstanceChange::Untouched,
        };
        changes.insert(u32::try_from(index + 1).unwrap_or(u32::MAX), change);
    }
    changes
}

fn is_in_place(was: &Instance, is: &Instance) -> bool {
    let has_kept = is.created_from.is_some() || !is.reserved_addresses.is_empty();
    was.version != is.version && was.node == is.node && has_kept
}

fn actions(was: &[Instance], is: &[Instance]) -> BTreeSet<Action> {
    let nothing = Instance { presence: Presence::Free, ..Instance::default() };
    let mut actions = BTreeSet::new();
    for index in 0..was.len().max(is.len()) {
        let (was, is) = (was.get(index).unwrap_or(&nothing), is.get(index).unwrap_or(&nothing));
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let mut note = |action: &str, unit: &str| actions.extend([(number, action.to_owned(), unit.to_owned())]);
        let is_promoted = was.next.as_deref().is_some_and(|next| identity(next) == identity(is));
        match (was.presence, is.presence) {
            (Presence::Free | Presence::Vacant, Presence::Pod) => note("Create", &is.unit),
            (Presence::Pod | Presence::Vacant, Presence::Free) => note("Remove", &was.unit),
            (Presence::Pod, Presence::Vacant) => note("Retire", &is.unit),
            (Presence::Pod, Presence::Pod) if is_promoted => note("Promote", &is.unit),
            (Presence::Pod, Presence::Pod) => {
                if was.next.is_some() && is.next.is_none() {
                    note("Drop", &is.unit);
                }
                if is_in_place(was, is) {
                    note("InPlace", &is.unit);
                } else if was.version != is.version {
                    note("Renew", &is.unit);
                }
            }
            (Presence::Free, Presence::Vacant | Presence::Free) | (Presence::Vacant, Presence::Vacant) => {}
        }
        let before = if is_promoted { None } else { was.next.as_deref() };
        if let Some(next) = is.next.as_deref().filter(|next| before.map(identity) != Some(identity(next))) {
            note(if next.unit == is.unit { "Surge" } else { "Move" }, &next.unit);
        }
    }
    actions
}
