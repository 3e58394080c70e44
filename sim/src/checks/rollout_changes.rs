//! What a release did, read from one stored state to the next, in the words of a plan.

use std::collections::{BTreeMap, BTreeSet};

use contract::record::{Filling, Slot};
use contract::rollout_view::{InstanceChange, PlanAction, PlanView};

use crate::checks::commit_changes::identity;
use crate::world::faultless::Snapshot;

/// One thing done to one instance: its number, the deed, its unit afterwards.
pub type Action = (u32, String, String);

/// What was done at once, and in which group of the release; deeds in no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutStep {
    /// The group, from 1; 0 where there are none.
    pub group: u64,
    /// The deeds.
    pub actions: BTreeSet<Action>,
}

/// Step by step, what happened.
pub fn steps(snapshots: &[Snapshot]) -> Vec<RolloutStep> {
    let step = |pair: &[Snapshot]| RolloutStep {
        group: pair[1].release.as_ref().map_or(0, |release| release.batch),
        actions: actions(&pair[0].slots, &pair[1].slots),
    };
    snapshots.windows(2).map(step).filter(|step| !step.actions.is_empty()).collect()
}

/// The same of a plan.
pub fn planned(plan: &PlanView) -> Vec<RolloutStep> {
    plan.steps.iter().map(|step| RolloutStep { group: step.group, actions: seen(&step.actions) }).collect()
}

/// What is stored after deeds that were done at once: who is created and renewed was created, and whose second pod took over
/// as soon as it was ordered was renewed.
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

/// What was done to whom by group, whatever came first within it.
pub fn by_group(steps: &[RolloutStep]) -> BTreeMap<u64, BTreeMap<u32, Vec<String>>> {
    let mut groups: BTreeMap<u64, BTreeMap<u32, Vec<String>>> = BTreeMap::new();
    for step in steps {
        for (instance, action, _) in &step.actions {
            groups.entry(step.group).or_default().entry(*instance).or_default().push(action.clone());
        }
    }
    groups
}

/// What became of every instance between two stored states.
pub fn changes(before: &Snapshot, after: &Snapshot) -> BTreeMap<u32, InstanceChange> {
    let nothing = Slot { filling: Filling::Nothing, ..Slot::default() };
    let most = before.slots.len().max(after.slots.len());
    let mut changes = BTreeMap::new();
    for index in 0..most {
        let (was, is) = (before.slots.get(index).unwrap_or(&nothing), after.slots.get(index).unwrap_or(&nothing));
        let change = match (was.filling, is.filling) {
            (Filling::Nothing, Filling::Nothing) => continue,
            (Filling::Nothing, Filling::Pod | Filling::Retired) => InstanceChange::Created,
            (Filling::Pod | Filling::Retired, Filling::Nothing) => InstanceChange::Removed,
            _ if was.unit != is.unit => InstanceChange::Moved,
            _ if is_in_place(was, is) => InstanceChange::InPlace,
            _ if was.version != is.version => InstanceChange::Recreated,
            _ => InstanceChange::Untouched,
        };
        changes.insert(u32::try_from(index + 1).unwrap_or(u32::MAX), change);
    }
    changes
}

fn is_in_place(was: &Slot, is: &Slot) -> bool {
    let has_kept = is.created_from.is_some() || !is.reserved_addresses.is_empty();
    was.version != is.version && was.node == is.node && has_kept
}

fn actions(was: &[Slot], is: &[Slot]) -> BTreeSet<Action> {
    let nothing = Slot { filling: Filling::Nothing, ..Slot::default() };
    let mut actions = BTreeSet::new();
    for index in 0..was.len().max(is.len()) {
        let (was, is) = (was.get(index).unwrap_or(&nothing), is.get(index).unwrap_or(&nothing));
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let mut note = |action: &str, unit: &str| actions.extend([(number, action.to_owned(), unit.to_owned())]);
        let is_promoted = was.next.as_deref().is_some_and(|next| identity(next) == identity(is));
        match (was.filling, is.filling) {
            (Filling::Nothing | Filling::Retired, Filling::Pod) => note("Create", &is.unit),
            (Filling::Pod | Filling::Retired, Filling::Nothing) => note("Remove", &was.unit),
            (Filling::Pod, Filling::Retired) => note("Retire", &is.unit),
            (Filling::Pod, Filling::Pod) if is_promoted => note("Promote", &is.unit),
            (Filling::Pod, Filling::Pod) => {
                if was.next.is_some() && is.next.is_none() {
                    note("Drop", &is.unit);
                }
                if is_in_place(was, is) {
                    note("InPlace", &is.unit);
                } else if was.version != is.version {
                    note("Renew", &is.unit);
                }
            }
            (Filling::Nothing, Filling::Retired | Filling::Nothing) | (Filling::Retired, Filling::Retired) => {}
        }
        let before = if is_promoted { None } else { was.next.as_deref() };
        if let Some(next) = is.next.as_deref().filter(|next| before.map(identity) != Some(identity(next))) {
            note(if next.unit == is.unit { "Surge" } else { "Move" }, &next.unit);
        }
    }
    actions
}
