//! The replay of the command stream: what must be stored if every command took effect exactly once, in order.
//!
//! The verdicts are the leader's (locks depend on time); everything that follows from them is computed here and
//! compared with what is stored after every commit.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::{Command, Operation, Outcome, Verb, Verdict};
use contract::keys::{self, Key};
use contract::name::{CommandId, GroupName, NodeName};
use contract::pod_id::{InstanceKey, PodId};
use contract::record::{Cursor, GroupRecord, PlacementRecord};
use contract::spec::PodGroupSpec;
use contract::state::RestartPolicy;
use scheduler::core::io::{Commit, Write};

use crate::claims::Claims;
use crate::invariants::{Invariant, Violation};
use crate::store::Store;
use crate::switches::Switches;

/// What is wanted of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Instances.
    pub instances: i64,
    /// Policy.
    pub policy: RestartPolicy,
    /// The spec it was created with.
    pub spec: PodGroupSpec,
}

/// An instance that changed its node.
#[derive(Debug, Clone)]
pub struct Move {
    /// Which instance.
    pub instance: InstanceKey,
    /// Where it was.
    pub from: NodeName,
    /// It had failed there.
    pub failed: bool,
}

/// The replay.
#[derive(Debug, Default)]
pub struct Model {
    /// Groups as they must be stored.
    pub groups: BTreeMap<GroupName, Wanted>,
    /// What each group was after each of its accepted commands; the first entry is before any.
    pub history: BTreeMap<GroupName, Vec<Option<i64>>>,
    /// Position in its group's history, by command.
    pub position: BTreeMap<CommandId, (GroupName, usize)>,
    /// Instances an engine failed or a container vanished from lately: they may move.
    pub shaken: BTreeSet<NodeName>,
    /// Stream ports.
    pub claims: Claims,
    switches: Switches,
    outcomes: BTreeMap<CommandId, Verdict>,
    published: BTreeMap<(String, u64), Option<Command>>,
    cursor: Cursor,
    placements: BTreeMap<GroupName, PlacementRecord>,
    moves: Vec<Move>,
}

fn broken(invariant: Invariant, detail: String) -> Violation {
    Violation { invariant, detail }
}

impl Model {
    /// A message is in the stream.
    pub fn published(&mut self, stream: String, sequence: u64, command: Option<Command>) {
        self.published.insert((stream, sequence), command);
    }

    /// A commit is stored.
    pub fn observe(&mut self, commit: &Commit, store: &Store) -> Result<(), Violation> {
        self.check_outcomes(commit)?;
        self.switches.begin_commit();
        let cursor: Cursor = store.read(keys::CURSOR).unwrap_or_default();
        let from = if cursor.stream == self.cursor.stream { self.cursor.sequence } else { self.leave_stream(store)? };
        if cursor.sequence < from {
            return Err(broken(Invariant::CursorMovesForward, format!("{:?} after {:?}", cursor, self.cursor)));
        }
        for sequence in from + 1..=cursor.sequence {
            let place = (cursor.stream.clone(), sequence);
            match self.published.get(&place).cloned() {
                None => {
                    return Err(broken(
                        Invariant::CommandsHoldOnce,
                        format!("the cursor passed {place:?}, which is not there"),
                    ));
                }
                Some(None) => {}
                Some(Some(command)) => self.replay(&command, store)?,
            }
        }
        self.cursor = cursor;
        self.compare(store)?;
        self.claims.check(store)?;
        self.switches.check(commit, store)?;
        self.observe_placements(commit);
        Ok(())
    }

    /// The stream was lost and created anew. What was read of the old one and stored with the first of the new one is in
    /// effect; the rest of it is lost with its stream. The new one is read from its beginning.
    fn leave_stream(&mut self, store: &Store) -> Result<u64, Violation> {
        let old = self.cursor.clone();
        for sequence in old.sequence + 1.. {
            match self.published.get(&(old.stream.clone(), sequence)).cloned() {
                None => break,
                Some(Some(command)) if store.keys().contains_key(&keys::outcome(&command.id)) => {
                    self.replay(&command, store)?
                }
                Some(_) => {}
            }
        }
        Ok(0)
    }

    fn check_outcomes(&self, commit: &Commit) -> Result<(), Violation> {
        for write in &commit.writes {
            if let Write::Put { key, value, .. } = write
                && let Key::Outcome(id) = keys::parse(key)
                && let Some(before) = self.outcomes.get(&id)
            {
                let after = serde_json::from_slice::<Outcome>(value).ok().map(|outcome| outcome.verdict);
                if after.as_ref() != Some(before) {
                    return Err(broken(Invariant::OutcomesStand, format!("{id}: {before:?} became {after:?}")));
                }
            }
        }
        Ok(())
    }

    fn replay(&mut self, command: &Command, store: &Store) -> Result<(), Violation> {
        if self.outcomes.contains_key(&command.id) {
            return Ok(());
        }
        let outcome: Option<Outcome> = store.read(&keys::outcome(&command.id));
        let Some(outcome) = outcome else {
            let detail = format!("the cursor passed {} and it has no outcome", command.id);
            return Err(broken(Invariant::CommandsHoldOnce, detail));
        };
        self.outcomes.insert(command.id.clone(), outcome.verdict.clone());
        match outcome.verdict {
            Verdict::Accepted => self.apply(command),
            Verdict::Refused(_) => Ok(()),
        }
    }

    fn apply(&mut self, command: &Command) -> Result<(), Violation> {
        let impossible = || broken(Invariant::CommandsHoldOnce, format!("{command:?} cannot have been accepted"));
        if !self.switches.permit(&command.verb) {
            return Err(impossible());
        }
        let name = match &command.verb {
            Verb::CreateGroup { spec } => {
                let name: GroupName = spec.name.parse().map_err(|_| impossible())?;
                let wanted = Wanted { instances: spec.num_instances, policy: spec.restart_policy, spec: *spec.clone() };
                if self.groups.insert(name.clone(), wanted).is_some() {
                    return Err(impossible());
                }
                name
            }
            Verb::RemoveGroup { name } => {
                self.groups.remove(name).ok_or_else(impossible)?;
                name.clone()
            }
            Verb::Replica { name, num_instances, restart_policy } => {
                let wanted = self.groups.get_mut(name).ok_or_else(impossible)?;
                wanted.instances = i64::from(*num_instances);
                wanted.policy = restart_policy.unwrap_or(wanted.policy);
                name.clone()
            }
            Verb::AddCallback { .. }
            | Verb::RemoveCallback { .. }
            | Verb::Configure { .. }
            | Verb::RunEngine { .. }
            | Verb::Guard { .. }
            | Verb::SetConstraint { .. }
            | Verb::RemoveConstraint { .. } => return self.switches.apply(&command.verb).ok_or_else(impossible),
        };
        let now = self.groups.get(&name).map(|wanted| wanted.instances);
        let history = self.history.entry(name.clone()).or_insert_with(|| vec![None]);
        history.push(now);
        self.position.insert(command.id.clone(), (name, history.len() - 1));
        Ok(())
    }

    fn compare(&self, store: &Store) -> Result<(), Violation> {
        let mut stored = BTreeSet::new();
        for (key, value) in store.keys() {
            let Key::Group(name) = keys::parse(key) else { continue };
            let Ok(record) = serde_json::from_slice::<GroupRecord>(value) else {
                return Err(broken(Invariant::CommandsHoldOnce, format!("{name} cannot be read")));
            };
            let removing = record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Removing);
            let same = |wanted: &Wanted| {
                !removing
                    && record.spec.num_instances == wanted.instances
                    && record.spec.restart_policy == wanted.policy
                    && record.spec.pod.containers == wanted.spec.pod.containers
            };
            if !self.groups.get(&name).map_or(removing, same) {
                let detail = format!("{name} is stored as {record:?}, wanted is {:?}", self.groups.get(&name));
                return Err(broken(Invariant::CommandsHoldOnce, detail));
            }
            stored.insert(name);
        }
        if let Some(name) = self.groups.keys().find(|name| !stored.contains(*name)) {
            return Err(broken(Invariant::CommandsHoldOnce, format!("{name} is wanted and not stored")));
        }
        Ok(())
    }

    fn observe_placements(&mut self, commit: &Commit) {
        for write in &commit.writes {
            match write {
                Write::Put { key, value, .. } => {
                    if let Key::Placement(name) = keys::parse(key)
                        && let Ok(record) = serde_json::from_slice::<PlacementRecord>(value)
                    {
                        self.note_moves(&name, &record);
                        self.placements.insert(name, record);
                    }
                }
                Write::Delete { key } => {
                    if let Key::Placement(name) = keys::parse(key) {
                        self.placements.remove(&name);
                    }
                }
            }
        }
    }

    fn note_moves(&mut self, group: &GroupName, record: &PlacementRecord) {
        let Some(before) = self.placements.get(group) else { return };
        for (number, (was, is)) in (1..).zip(before.slots.iter().zip(&record.slots)) {
            if let Some(from) = was.node.clone().filter(|from| is.node.as_ref() != Some(from)) {
                let failed = is.failures > 0 || was.failures > 0 || self.shaken.contains(&from);
                self.moves.push(Move {
                    instance: InstanceKey { group: group.clone(), instance: number },
                    from,
                    failed,
                });
            }
        }
    }

    /// Instances that changed their node since last asked.
    pub fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.moves)
    }

    /// Every pod that is placed, with its node.
    pub fn placed(&self) -> Vec<(NodeName, PodId)> {
        self.placements.iter().flat_map(|(group, record)| pods(group, record)).collect()
    }
}

/// The pods of a placement that have a node.
pub fn pods(group: &GroupName, record: &PlacementRecord) -> Vec<(NodeName, PodId)> {
    let pod = |(instance, slot): (u32, &contract::record::Slot)| {
        let id = PodId { group: group.clone(), instance, version: slot.version, drift: slot.drift };
        slot.node.clone().map(|node| (node, id))
    };
    (1..).zip(&record.slots).filter_map(pod).collect()
}

/// True when `pod` is stored as placed on `node` and its group is not being removed.
pub fn is_placed(store: &Store, node: &NodeName, pod: &PodId) -> bool {
    let record: Option<PlacementRecord> = store.read(&keys::placement(&pod.group));
    let group: Option<GroupRecord> = store.read(&keys::group(&pod.group));
    let removing = group.is_none_or(|g| g.operation.is_some_and(|o| o.kind == Operation::Removing));
    !removing && record.is_some_and(|record| pods(&pod.group, &record).contains(&(node.clone(), pod.clone())))
}
