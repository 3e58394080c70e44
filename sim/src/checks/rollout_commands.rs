//! The accepted rollout commands of one group: its strategy, what is paused, frozen or confirmed, open gates and answered drains.
//!
//! A decision is stored together with commands that arrived after it. So it may have known any spec since the previous commit.

use std::collections::BTreeSet;

use contract::command::{RolloutAction, Verb};
use contract::record::GroupRecord;
use contract::spec::PodGroupSpec;
use serde_json::Value;

use crate::workload::rollouts::rollout_fields;

#[derive(Debug, Clone, Default)]
pub struct RolloutCommands {
    spec: PodGroupSpec,
    /// All values of `spec` since the previous commit.
    recent: Vec<PodGroupSpec>,
    is_frozen: bool,
    /// Frozen since the commit before the previous one.
    was_frozen: bool,
    /// Confirmed batches; without a release number the current one was meant.
    confirmed: BTreeSet<(Option<u32>, u64)>,
    opened: BTreeSet<(u32, String)>,
    drained: BTreeSet<u32>,
    recently_drained: BTreeSet<u32>,
}

impl RolloutCommands {
    pub fn new(spec: &PodGroupSpec) -> Self {
        Self { spec: spec.clone(), recent: vec![spec.clone()], ..Self::default() }
    }

    /// The group adopts orphaned pods with their gates and drains.
    pub fn inherit(&mut self, orphan: &Self) {
        self.opened.extend(orphan.opened.iter().cloned());
        self.drained.extend(&orphan.drained);
        self.recently_drained.extend(&orphan.recently_drained);
    }

    /// None if the leader cannot have accepted the command.
    pub fn apply(&mut self, verb: &Verb) -> Option<()> {
        match verb {
            Verb::Replica { num_instances, .. } => self.spec.num_instances = i64::from(*num_instances),
            Verb::PatchSpec { pod, .. } => self.spec.pod.clone_from(pod),
            Verb::PatchStrategy { fields, .. } => self.spec = merged(&self.spec, fields)?,
            Verb::Rollout { release, action, .. } => self.apply_action(*release, action),
            Verb::SetGate { instance, gate, is_true: true, .. } => {
                self.opened.insert((*instance, gate.clone()));
            }
            Verb::Drained { instance, .. } => {
                self.drained.insert(*instance);
                self.recently_drained.insert(*instance);
            }
            _ => {}
        }
        self.recent.push(self.spec.clone());
        Some(())
    }

    fn apply_action(&mut self, release: Option<u32>, action: &RolloutAction) {
        match action {
            RolloutAction::Pause => self.spec.paused = true,
            RolloutAction::Resume => self.spec.paused = false,
            RolloutAction::Confirm { group } => drop(self.confirmed.insert((release, *group))),
            RolloutAction::Freeze => self.is_frozen = true,
            RolloutAction::Unfreeze => (self.is_frozen, self.was_frozen) = (false, false),
            RolloutAction::Skip { .. } | RolloutAction::Abort | RolloutAction::Undo { .. } => {}
        }
    }

    pub fn has_strategy(&self) -> bool {
        self.spec.has_strategy()
    }

    pub fn differs(&self, record: &GroupRecord) -> Option<String> {
        let (expected, stored) = (rollout_fields(&self.spec), rollout_fields(&record.spec));
        (expected != stored).then(|| format!("stored with {stored:?}, expected is {expected:?}"))
    }

    pub fn commit_checked(&mut self) {
        self.recent = vec![self.spec.clone()];
        self.was_frozen = self.is_frozen;
        self.recently_drained.clear();
    }

    /// The specs that the decision of the last commit may have known.
    pub fn recent_specs(&self) -> &[PodGroupSpec] {
        &self.recent
    }

    /// Frozen from the previous commit until now.
    pub fn is_frozen_throughout(&self) -> bool {
        self.was_frozen && self.is_frozen
    }

    pub fn is_confirmed(&self, release: u32, group: u64) -> bool {
        [Some(release), None].iter().any(|named| self.confirmed.contains(&(*named, group)))
    }

    pub fn is_opened(&self, instance: u32, gate: &str) -> bool {
        self.opened.contains(&(instance, gate.to_owned()))
    }

    pub fn is_drained_since_commit(&self, instance: u32) -> bool {
        self.recently_drained.contains(&instance)
    }

    pub fn is_drained(&self, instance: u32) -> bool {
        self.drained.contains(&instance)
    }
}

fn merged(spec: &PodGroupSpec, fields: &serde_json::Map<String, Value>) -> Option<PodGroupSpec> {
    let Ok(Value::Object(mut whole)) = serde_json::to_value(spec) else { return None };
    merge(&mut whole, fields);
    serde_json::from_value(Value::Object(whole)).ok()
}

/// Replaces the named fields, in nested objects too; null removes a field.
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
