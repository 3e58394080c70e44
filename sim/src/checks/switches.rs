//! The replay of what holds for the whole cluster (switches, constraints, callbacks), and what a stopped engine must not do.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::Verb;
use contract::keys::{self, Key};
use contract::name::GroupName;
use contract::record::{CallbacksRecord, Draining, Slot};
use contract::switches::{Constraint, ConstraintsRecord, EngineRecord};
use contract::time::Timestamp;
use scheduler::core::io::{Commit, Write};

use crate::checks::instances::StoredGroup;
use crate::checks::invariants::{Invariant, Violation};
use crate::world::store::Store;

/// The switches as they must be stored.
#[derive(Debug, Default)]
pub struct Switches {
    /// The engine's own.
    pub engine: EngineRecord,
    constraints: BTreeMap<String, Constraint>,
    callbacks: BTreeSet<String>,
    /// The engine ran at some moment since the commit before this one was stored.
    ran: bool,
    /// Groups whose placement a command itself may have changed since then: gates and drains are kept there.
    told: BTreeSet<GroupName>,
    /// Groups that took the name of one that goes: nothing of that is placed any more.
    made: BTreeSet<GroupName>,
}

impl Switches {
    /// A commit is about to be replayed.
    pub fn begin_commit(&mut self) {
        self.ran = self.engine.running;
        self.told.clear();
        self.made.clear();
    }

    /// A command about a group was accepted.
    pub fn tell(&mut self, verb: &Verb) {
        match verb {
            // A gate that is added is true for pods that are there.
            Verb::SetGate { name, .. } | Verb::Drained { name, .. } | Verb::PatchStrategy { name, .. } => {
                self.told.insert(name.clone());
            }
            Verb::CreateGroup { spec } => {
                // Who adopts an orphan may ask for gates its pods were made without.
                let name = spec.name.parse::<GroupName>().ok();
                self.told.extend(name.clone());
                self.made.extend(name);
            }
            _ => {}
        }
    }

    /// False when the command must have been refused.
    pub fn permit(&self, verb: &Verb) -> bool {
        !self.engine.refuses_changes() || verb.passes_read_only()
    }

    /// An accepted command; none when it cannot have been accepted.
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
            | Verb::CreateDependency { .. }
            | Verb::UpdateDependency { .. }
            | Verb::RemoveDependency { .. }
            | Verb::CreateGroup { .. }
            | Verb::RemoveGroup { .. }
            | Verb::Replica { .. } => {}
        }
        Some(())
    }

    /// Compares with what is stored, and looks for plans a stopped engine made; `before` and `stored` are the groups the
    /// commit is about.
    pub fn check(
        &self,
        (commit, store): (&Commit, &Store),
        before: &BTreeMap<GroupName, Option<StoredGroup>>,
        stored: &BTreeMap<GroupName, StoredGroup>,
    ) -> Result<(), Violation> {
        let broken = |invariant, detail| Err(Violation { invariant, detail });
        let engine: EngineRecord = store.read(keys::ENGINE).unwrap_or_default();
        let constraints: ConstraintsRecord = store.read(keys::CONSTRAINTS).unwrap_or_default();
        let callbacks: CallbacksRecord = store.read(keys::CALLBACKS).unwrap_or_default();
        let same = engine == self.engine && constraints.constraints == self.constraints;
        if !same || callbacks.urls != self.callbacks {
            let detail = format!("stored are {engine:?} {constraints:?} {callbacks:?}, wanted {self:?}");
            return broken(Invariant::CommandsHoldOnce, detail);
        }
        for write in &commit.writes {
            let (Write::Put { key, .. } | Write::Delete { key }) = write;
            let is_plan = match keys::parse(key) {
                Key::Placement(name, _) => {
                    !self.is_told(&name, before.get(&name).and_then(Option::as_ref), stored.get(&name))
                }
                key => matches!(key, Key::Pairs(..)),
            };
            if !self.ran && is_plan {
                return broken(Invariant::StoppedMeansStopped, format!("{key} is written while the engine is stopped"));
            }
        }
        Ok(())
    }

    /// A command changed what is said of the pods of a group, and nothing else of them.
    fn is_told(&self, name: &GroupName, before: Option<&StoredGroup>, after: Option<&StoredGroup>) -> bool {
        let pods = |stored: Option<&StoredGroup>| -> Vec<Slot> {
            stored.map(|stored| stored.slots.iter().map(unsaid).collect()).unwrap_or_default()
        };
        let (before, after) = (pods(before), pods(after));
        (self.told.contains(name) && before == after) || (self.made.contains(name) && after.is_empty())
    }
}

/// An instance without what people say of its pods, and without what is only known of it: that is stored with whatever is
/// stored next.
fn unsaid(slot: &Slot) -> Slot {
    let draining = slot.draining.clone().map(|draining| Draining { is_answered: false, ..draining });
    let (gates, gates_closed_at) = (BTreeMap::new(), Timestamp::NEVER);
    let next = slot.next.as_deref().map(|next| Box::new(unsaid(next)));
    let (why, addresses) = (String::new(), Vec::new());
    Slot { draining, gates, gates_closed_at, next, why, addresses, ..slot.clone() }
}
