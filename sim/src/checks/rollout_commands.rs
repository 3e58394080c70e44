//! What was said about the releases of one group, replayed: how it wants to be changed, what is paused, frozen, confirmed,
//! opened by a gate or drained.
//!
//! A decision is stored a moment after it was made, together with commands that came in between. So what a decision may have
//! known are all the specs since the commit before.

use std::collections::BTreeSet;

use contract::command::{RolloutAction, Verb};
use contract::record::GroupRecord;
use contract::spec::PodGroupSpec;
use serde_json::Value;

use crate::workload::rollouts::rollout_fields;

/// What was said.
#[derive(Debug, Clone, Default)]
pub struct RolloutCommands {
    /// How the group wants to be changed, and how many instances there are to be.
    spec: PodGroupSpec,
    /// The same as it was at every moment since the commit before.
    lately: Vec<PodGroupSpec>,
    /// Nothing is to move.
    is_frozen: bool,
    /// Nothing was to move since the commit before the last.
    was_frozen: bool,
    /// Groups that were confirmed; without a release it was whichever was current.
    confirmed: BTreeSet<(Option<u32>, u64)>,
    /// Gates that were ever opened, by instance.
    opened: BTreeSet<(u32, String)>,
    /// Instances that were ever said to be drained.
    drained: BTreeSet<u32>,
    /// Those of them since the commit before.
    lately_drained: BTreeSet<u32>,
}

impl RolloutCommands {
    /// A group was created.
    pub fn new(spec: &PodGroupSpec) -> Self {
        Self { spec: spec.clone(), lately: vec![spec.clone()], ..Self::default() }
    }

    /// The pods of an orphan are adopted: what was said of them is still said of them.
    pub fn inherit(&mut self, orphan: &Self) {
        self.opened.extend(orphan.opened.iter().cloned());
        self.drained.extend(&orphan.drained);
        self.lately_drained.extend(&orphan.lately_drained);
    }

    /// An accepted command about the group; none when it cannot have been accepted.
    pub fn apply(&mut self, verb: &Verb) -> Option<()> {
        match verb {
            Verb::Replica { num_instances, .. } => self.spec.num_instances = i64::from(*num_instances),
            Verb::PatchSpec { pod, .. } => self.spec.pod.clone_from(pod),
            Verb::PatchStrategy { fields, .. } => self.spec = merged(&self.spec, fields)?,
            Verb::Rollout { release, action, .. } => self.steer(*release, action),
            Verb::SetGate { instance, gate, is_true: true, .. } => {
                self.opened.insert((*instance, gate.clone()));
            }
            Verb::Drained { instance, .. } => {
                self.drained.insert(*instance);
                self.lately_drained.insert(*instance);
            }
            _ => {}
        }
        self.lately.push(self.spec.clone());
        Some(())
    }

    fn steer(&mut self, release: Option<u32>, action: &RolloutAction) {
        match action {
            RolloutAction::Pause => self.spec.paused = true,
            RolloutAction::Resume => self.spec.paused = false,
            RolloutAction::Confirm { group } => drop(self.confirmed.insert((release, *group))),
            RolloutAction::Freeze => self.is_frozen = true,
            RolloutAction::Unfreeze => (self.is_frozen, self.was_frozen) = (false, false),
            RolloutAction::Skip { .. } | RolloutAction::Abort | RolloutAction::Undo { .. } => {}
        }
    }

    /// It is changed by releases.
    pub fn has_strategy(&self) -> bool {
        self.spec.has_strategy()
    }

    /// What is stored says something else; what, if so.
    pub fn differs(&self, record: &GroupRecord) -> Option<String> {
        let (wanted, stored) = (rollout_fields(&self.spec), rollout_fields(&record.spec));
        (wanted != stored).then(|| format!("stored to be changed by {stored:?}, wanted is {wanted:?}"))
    }

    /// A commit about the group was looked at.
    pub fn looked_at(&mut self) {
        self.lately = vec![self.spec.clone()];
        self.was_frozen = self.is_frozen;
        self.lately_drained.clear();
    }

    /// The specs a decision that was just stored may have been made from.
    pub fn lately(&self) -> &[PodGroupSpec] {
        &self.lately
    }

    /// Nothing was to move, from the commit before until now.
    pub fn is_frozen_throughout(&self) -> bool {
        self.was_frozen && self.is_frozen
    }

    /// Somebody confirmed the group.
    pub fn is_confirmed(&self, release: u32, group: u64) -> bool {
        [Some(release), None].iter().any(|named| self.confirmed.contains(&(*named, group)))
    }

    /// Somebody opened the gate of the instance.
    pub fn is_opened(&self, instance: u32, gate: &str) -> bool {
        self.opened.contains(&(instance, gate.to_owned()))
    }

    /// Somebody said so since the commit before.
    pub fn is_lately_drained(&self, instance: u32) -> bool {
        self.lately_drained.contains(&instance)
    }

    /// Somebody said that the instance is drained.
    pub fn is_drained(&self, instance: u32) -> bool {
        self.drained.contains(&instance)
    }
}

fn merged(spec: &PodGroupSpec, fields: &serde_json::Map<String, Value>) -> Option<PodGroupSpec> {
    let Ok(Value::Object(mut whole)) = serde_json::to_value(spec) else { return None };
    merge(&mut whole, fields);
    serde_json::from_value(Value::Object(whole)).ok()
}

/// What is named is replaced, inside objects too, and what is null goes.
fn merge(into: &mut serde_json::Map<String, Value>, fields: &serde_json::Map<String, Value>) {
    for (key, value) in fields {
        match value {
            Value::Null => drop(into.remove(key)),
            Value::Object(fields) => {
                let mut inside = match into.remove(key) {
                    Some(Value::Object(inside)) => inside,
                    Some(_) | None => serde_json::Map::new(),
                };
                merge(&mut inside, fields);
                into.insert(key.clone(), Value::Object(inside));
            }
            value => drop(into.insert(key.clone(), value.clone())),
        }
    }
}
