//! Cluster-wide state that accepted commands request (switches, constraints, callbacks), and writes that scheduling-off forbids.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::Verb;
use contract::keys::{self, Key};
use contract::name::GroupName;
use contract::record::{CallbacksRecord, Draining, Instance};
use contract::switches::{Constraint, ConstraintsRecord, EngineRecord};
use contract::time::Timestamp;
use scheduler::core::io::{Commit, Write};
use testkit::store::FakeStore;

use crate::checks::instances::StoredGroup;
use crate::checks::invariants::{Invariant, Violation};

#[derive(Debug, Default)]
pub struct Switches {
    pub engine: EngineRecord,
    constraints: BTreeMap<String, Constraint>,
    callbacks: BTreeSet<String>,
    /// Scheduling was on at some time since the previous commit.
    ran: bool,
    /// Groups whose gates or drains a command changed since then: these are stored with the placement.
    commanded: BTreeSet<GroupName>,
    /// Groups that replaced a group under removal, which has no placement any more.
    recreated: BTreeSet<GroupName>,
}

impl Switches {
    pub fn begin_commit(&mut self) {
        self.ran = self.engine.running;
        self.commanded.clear();
        self.recreated.clear();
    }

    pub fn note_group_command(&mut self, verb: &Verb) {
        match verb {
            // A new gate is open for existing pods.
            Verb::SetGate { name, .. } | Verb::Drained { name, .. } | Verb::PatchStrategy { name, .. } => {
                self.commanded.insert(name.clone());
            }
            Verb::CreateGroup { spec } => {
                // The adopting spec may have gates that the orphaned pods do not know.
                let name = spec.name.parse::<GroupName>().ok();
                self.commanded.extend(name.clone());
                self.recreated.extend(name);
            }
            _ => {}
        }
    }

    /// Whether the leader may accept the command.
    pub fn permit(&self, verb: &Verb) -> bool {
        !self.engine.refuses_changes() || verb.passes_read_only()
    }

    /// None if the leader cannot have accepted the command.
    pub fn apply(&mut self, verb: &Verb) -> Option<()> {
        match verb {
            Verb::Configure { readonly, maintenance } => {
                self.engine.readonly = readonly.unwrap_or(self.engine.readonly);
                self.engine.maintenance = maintenance.unwrap_or(self.engine.maintenance);
            }
            Verb::RunEngine { running } => {
                self.engine.running = *running;
                self.ran |= *running;
            }
            Verb::Guard { working } => self.engine.guarding = *working,
            Verb::SetConstraint { constraint } => {
                self.constraints.insert(constraint.kind.clone(), constraint.clone());
            }
            Verb::RemoveConstraint { kind } => drop(self.constraints.remove(kind)?),
            Verb::AddCallback { url } => {
                self.callbacks.insert(url.clone());
            }
            Verb::RemoveCallback { url } => self.callbacks.remove(url).then_some(())?,
            Verb::Evacuate { node } => {
                let kind = "node".to_owned();
                let constraint = Constraint { kind: kind.clone(), equal: false, value: node.to_string(), soft: true };
                self.constraints.insert(kind, constraint);
            }
            Verb::PatchSpec { .. }
            | Verb::PatchStrategy { .. }
            | Verb::Rollout { .. }
            | Verb::SetGate { .. }
            | Verb::Drained { .. }
            | Verb::Operate { .. }
            | Verb::Drift { .. }
            | Verb::Node { .. }
            | Verb::Restore { .. }
            | Verb::SetPolicy { .. }
            | Verb::RemovePolicy { .. }
            | Verb::CreateToken { .. }
            | Verb::ReportRefused { .. }
            | Verb::RevokeToken { .. }
            | Verb::CreateJoinToken { .. }
            | Verb::RevokeJoinToken { .. }
            | Verb::Join { .. }
            | Verb::EnforceAccess { .. }
            | Verb::CreateDependency { .. }
            | Verb::UpdateDependency { .. }
            | Verb::RemoveDependency { .. }
            | Verb::CreateGroup { .. }
            | Verb::RemoveGroup { .. }
            | Verb::Replica { .. } => {}
        }
        Some(())
    }

    /// Compares with the store, and finds placements that were decided while scheduling was off.
    pub fn check(
        &self,
        (commit, store): (&Commit, &FakeStore),
        before: &BTreeMap<GroupName, Option<StoredGroup>>,
        stored: &BTreeMap<GroupName, StoredGroup>,
    ) -> Result<(), Violation> {
        let broken = |invariant, detail| Err(Violation { invariant, detail });
        let engine: EngineRecord = store.read(keys::ENGINE).unwrap_or_default();
        let constraints: ConstraintsRecord = store.read(keys::CONSTRAINTS).unwrap_or_default();
        let callbacks: CallbacksRecord = store.read(keys::CALLBACKS).unwrap_or_default();
        let same = engine == self.engine && constraints.constraints == self.constraints;
        if !same || callbacks.urls != self.callbacks {
            let detail = format!("stored are {engine:?} {constraints:?} {callbacks:?}, expected {self:?}");
            return broken(Invariant::CommandsTakeEffectOnce, detail);
        }
        for write in &commit.writes {
            let (Write::Put { key, .. } | Write::Delete { key }) = write;
            let is_plan = match keys::parse(key) {
                Key::Placement(name, _) => {
                    !self.is_commanded(&name, before.get(&name).and_then(Option::as_ref), stored.get(&name))
                }
                key => matches!(key, Key::Pairs(..)),
            };
            if !self.ran && is_plan {
                return broken(
                    Invariant::SchedulingOffPlacesNothing,
                    format!("{key} is written while scheduling is off"),
                );
            }
        }
        Ok(())
    }

    /// Whether the placement differs only in what commands change.
    fn is_commanded(&self, name: &GroupName, before: Option<&StoredGroup>, after: Option<&StoredGroup>) -> bool {
        let pods = |stored: Option<&StoredGroup>| -> Vec<Instance> {
            stored.map(|stored| stored.instances.iter().map(without_commanded_state).collect()).unwrap_or_default()
        };
        let (before, after) = (pods(before), pods(after));
        (self.commanded.contains(name) && before == after) || (self.recreated.contains(name) && after.is_empty())
    }
}

/// An instance without what commands and reports change, which is stored with the next commit.
fn without_commanded_state(instance: &Instance) -> Instance {
    let draining = instance.draining.clone().map(|draining| Draining { is_answered: false, ..draining });
    let (gates, gates_closed_at) = (BTreeMap::new(), Timestamp::NEVER);
    let next = instance.next.as_deref().map(|next| Box::new(without_commanded_state(next)));
    let (why, addresses) = (String::new(), Vec::new());
    Instance { draining, gates, gates_closed_at, next, why, addresses, ..instance.clone() }
}
