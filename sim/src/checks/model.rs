//! The model of the stored state: every accepted command applied exactly once, in the sequence of the stream.
//!
//! The leader decides which commands it accepts (locks depend on time). The model computes everything that follows from that, and
//! compares it with the store after every commit.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::{Command, Decision, Drift, Operation, Outcome, Removal, RolloutAction, Verb};
use contract::keys::{self, Key};
use contract::layout;
use contract::name::{CommandId, GroupName, NodeName};
use contract::node::NodeChange;
use contract::pod_id::PodId;
use contract::record::{Cursor, GroupRecord, PlacementRecord};
use contract::state::RestartPolicy;
use contract::time::Timestamp;
use scheduler::core::io::{Commit, Write};
use testkit::store::FakeStore;

use crate::checks::commit_changes::Change;
use crate::checks::cordons::Cordons;
use crate::checks::dependencies::{self, Dependencies};
use crate::checks::instances::{PendingRequests, StoredGroup};
use crate::checks::invariants::{Invariant, Violation};
use crate::checks::revisions::Revisions;
use crate::checks::rollout_commands::RolloutCommands;
use crate::checks::stream_ports::StreamPorts;
use crate::checks::switches::Switches;
use crate::world::scheduler_process::settings;

#[derive(Debug, Clone)]
pub struct ExpectedGroup {
    pub instances: i64,
    pub policy: RestartPolicy,
    pub versions: Revisions,
    pub requests: PendingRequests,
    pub commands: RolloutCommands,
}

#[derive(Debug, Default)]
pub struct Model {
    pub groups: BTreeMap<GroupName, ExpectedGroup>,
    /// The instance count of each group after each accepted command; the first entry is before any.
    pub history: BTreeMap<GroupName, Vec<Option<i64>>>,
    /// The entry of `history` that a command made.
    pub position: BTreeMap<CommandId, (GroupName, usize)>,
    /// Nodes that a fault hit: their instances may move.
    pub faulty_nodes: BTreeSet<NodeName>,
    pub stream_ports: StreamPorts,
    pub dependencies: Dependencies,
    pub switches: Switches,
    pub cordons: Cordons,
    /// Removed groups with their possible last versions: a new group of the same name continues from there.
    removed: BTreeMap<GroupName, (Vec<u32>, Removal)>,
    /// Rollout commands of groups that were removed since the last commit: their pods are stored once more.
    removed_commands: BTreeMap<GroupName, RolloutCommands>,
    /// The versions of orphaned groups.
    orphans: BTreeMap<GroupName, Revisions>,
    /// Groups that adopted orphaned instances since the last commit.
    adopted: BTreeSet<GroupName>,
    pub stored: BTreeMap<GroupName, StoredGroup>,
    outcomes: BTreeMap<CommandId, Decision>,
    published: BTreeMap<(String, u64), Option<Command>>,
    cursor: Cursor,
    changes: Vec<Change>,
    /// When each drain of a group was stored, by its begin.
    drains: BTreeMap<GroupName, BTreeMap<Timestamp, Timestamp>>,
}

fn broken(invariant: Invariant, detail: String) -> Violation {
    Violation { invariant, detail }
}

impl Model {
    pub fn published(&mut self, stream: String, sequence: u64, command: Option<Command>) {
        self.published.insert((stream, sequence), command);
    }

    pub fn observe(&mut self, commit: &Commit, store: &FakeStore, now: Timestamp) -> Result<(), Violation> {
        self.check_outcomes(commit)?;
        self.switches.begin_commit();
        self.cordons.begin_commit();
        let before = self.read_groups(commit, store)?;
        let cursor: Cursor = store.read(keys::CURSOR).unwrap_or_default();
        let same = cursor.stream == self.cursor.stream;
        let from = if same { self.cursor.sequence } else { self.leave_stream(&cursor.stream, store)? };
        if cursor.sequence < from {
            return Err(broken(Invariant::CursorMovesForward, format!("{:?} after {:?}", cursor, self.cursor)));
        }
        for sequence in from + 1..=cursor.sequence {
            let place = (cursor.stream.clone(), sequence);
            match self.published.get(&place).cloned() {
                None => {
                    return Err(broken(
                        Invariant::CommandsTakeEffectOnce,
                        format!("the cursor passed {place:?}, which is not there"),
                    ));
                }
                Some(None) => {}
                Some(Some(command)) => self.replay(&command, store)?,
            }
        }
        self.cursor = cursor;
        self.compare()?;
        self.switches.check((commit, store), &before, &self.stored)?;
        self.check_cordons(commit, store)?;
        if !before.is_empty() {
            self.stream_ports.check(&self.stored)?;
        }
        if commit.writes.iter().any(concerns_dependencies) || self.dependencies.is_changed() {
            self.dependencies.check(store)?;
            self.dependencies.note(&self.stored, store, now);
        } else if !before.is_empty() && self.dependencies.are_any() {
            self.dependencies.note(&self.stored, store, now);
        }
        self.observe_groups(before, now)
    }

    fn check_cordons(&self, commit: &Commit, store: &FakeStore) -> Result<(), Violation> {
        let written = commit.writes.iter().filter_map(node_of).collect::<BTreeSet<NodeName>>();
        let differs = |node: &NodeName| self.cordons.differs(node, store);
        let wrong = written.iter().chain(self.cordons.nodes()).find_map(differs);
        wrong.map_or(Ok(()), |detail| Err(broken(Invariant::CommandsTakeEffectOnce, detail)))
    }

    /// Reads the groups that a commit writes, and returns their former state.
    fn read_groups(
        &mut self,
        commit: &Commit,
        store: &FakeStore,
    ) -> Result<BTreeMap<GroupName, Option<StoredGroup>>, Violation> {
        let mut before = BTreeMap::new();
        for name in commit.writes.iter().filter_map(group_of).collect::<BTreeSet<GroupName>>() {
            let is = layout::read_group(&name, store);
            let placed = store.placement(&name);
            let was = match is {
                Ok(None) => self.stored.remove(&name),
                Ok(Some(record)) => {
                    let release = store.read(&keys::release(&name));
                    let revisions = layout::read_revisions(&name, store).unwrap_or_default();
                    self.stored
                        .insert(name.clone(), StoredGroup { record, instances: placed.instances, release, revisions })
                }
                Err(flaw) => {
                    return Err(broken(Invariant::CommandsTakeEffectOnce, format!("{name} cannot be read: {flaw:?}")));
                }
            };
            before.insert(name, was);
        }
        Ok(before)
    }

    /// The stream was deleted and created again, maybe more than once. Commands of the old streams whose outcomes are stored are in
    /// effect; the others are lost. The new stream is read from its start.
    fn leave_stream(&mut self, new: &str, store: &FakeStore) -> Result<u64, Violation> {
        let creation = |stream: &str| stream.rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
        let old = self.cursor.clone();
        let left = |(stream, sequence): &(String, u64)| {
            let behind = *stream == old.stream && *sequence <= old.sequence;
            !behind && (creation(&old.stream)..creation(new)).contains(&creation(stream))
        };
        let mut left: Vec<_> = self.published.iter().filter(|(place, _)| left(place)).collect();
        left.sort_by_key(|((stream, sequence), _)| (creation(stream), *sequence));
        let commands: Vec<Command> = left.into_iter().filter_map(|(_, command)| command.clone()).collect();
        for command in commands.iter().filter(|command| store.contains_key(&keys::outcome(&command.id))) {
            self.replay(command, store)?;
        }
        Ok(0)
    }

    fn check_outcomes(&self, commit: &Commit) -> Result<(), Violation> {
        for write in &commit.writes {
            if let Write::Put { key, value, .. } = write
                && let Key::Outcome(id) = keys::parse(key)
                && let Some(before) = self.outcomes.get(&id)
            {
                let after = serde_json::from_slice::<Outcome>(value).ok().map(|outcome| outcome.decision);
                if after.as_ref() != Some(before) {
                    return Err(broken(Invariant::OutcomesAreFinal, format!("{id}: {before:?} became {after:?}")));
                }
            }
        }
        Ok(())
    }

    fn replay(&mut self, command: &Command, store: &FakeStore) -> Result<(), Violation> {
        if self.outcomes.contains_key(&command.id) {
            return Ok(());
        }
        let outcome: Option<Outcome> = store.read(&keys::outcome(&command.id));
        let Some(outcome) = outcome else {
            let detail = format!("the cursor passed {} and it has no outcome", command.id);
            return Err(broken(Invariant::CommandsTakeEffectOnce, detail));
        };
        self.outcomes.insert(command.id.clone(), outcome.decision.clone());
        match outcome.decision {
            Decision::Accepted => self.apply(command, outcome.at),
            Decision::Refused(_) => Ok(()),
        }
    }

    fn apply(&mut self, command: &Command, at: Timestamp) -> Result<(), Violation> {
        let impossible = || broken(Invariant::CommandsTakeEffectOnce, format!("{command:?} cannot have been accepted"));
        if !self.switches.permit(&command.verb) {
            return Err(impossible());
        }
        match &command.verb {
            Verb::CreateGroup { .. }
            | Verb::RemoveGroup { .. }
            | Verb::Replica { .. }
            | Verb::PatchSpec { .. }
            | Verb::PatchStrategy { .. }
            | Verb::Rollout { .. }
            | Verb::SetGate { .. }
            | Verb::Drained { .. }
            | Verb::Operate { .. } => {
                let name = self.change_group(&command.verb, at).ok_or_else(impossible)?;
                self.switches.note_group_command(&command.verb);
                self.note_history(&command.id, name);
            }
            Verb::Drift { drift, group } => self.drift(drift, group.as_ref()),
            Verb::CreateDependency { .. } | Verb::UpdateDependency { .. } | Verb::RemoveDependency { .. } => {
                self.dependencies.apply(&command.verb).ok_or_else(impossible)?;
            }
            Verb::Evacuate { node } => {
                self.drift(&Drift { from: node.clone(), to: None, force: true, instance: None }, None);
                self.switches.apply(&command.verb).ok_or_else(impossible)?;
            }
            Verb::AddCallback { .. }
            | Verb::RemoveCallback { .. }
            | Verb::Configure { .. }
            | Verb::RunEngine { .. }
            | Verb::Guard { .. }
            | Verb::SetConstraint { .. }
            | Verb::RemoveConstraint { .. } => self.switches.apply(&command.verb).ok_or_else(impossible)?,
            // The workload never restores a backup and changes no policy.
            Verb::Restore { .. }
            | Verb::SetPolicy { .. }
            | Verb::RemovePolicy { .. }
            | Verb::CreateToken { .. }
            | Verb::ReportRefused { .. }
            | Verb::RevokeToken { .. }
            | Verb::CreateJoinToken { .. }
            | Verb::RevokeJoinToken { .. }
            | Verb::Join { .. }
            | Verb::EnforceAccess { .. } => return Err(impossible()),
            Verb::Node { node, change } => {
                if let NodeChange::Drain { force, .. } = change {
                    self.drift(&Drift { from: node.clone(), to: None, force: *force, instance: None }, None);
                }
                self.cordons.apply(node, change).ok_or_else(impossible)?;
            }
        }
        Ok(())
    }

    /// Applies a command about a group; none if the leader cannot have accepted it.
    fn change_group(&mut self, verb: &Verb, at: Timestamp) -> Option<GroupName> {
        if let Verb::CreateGroup { spec } = verb {
            let name: GroupName = spec.name.parse().ok()?;
            let before = self.removed.get(&name).map(|(versions, _)| versions.as_slice()).unwrap_or_default();
            let (mut versions, mut commands) = (Revisions::new(&spec.pod, before), RolloutCommands::new(spec));
            if self.removed.get(&name).is_some_and(|(_, how)| *how == Removal::Orphan) {
                self.adopted.insert(name.clone());
                self.orphans.get(&name).into_iter().for_each(|orphan| versions.inherit(orphan));
                // One commit may open a gate, orphan the group and adopt it.
                self.removed_commands.get(&name).into_iter().for_each(|orphan| commands.inherit(orphan));
            }
            let (instances, policy, requests) = (spec.num_instances, spec.restart_policy, PendingRequests::default());
            let before =
                self.groups.insert(name.clone(), ExpectedGroup { instances, policy, versions, requests, commands });
            return before.is_none().then_some(name);
        }
        if let Verb::RemoveGroup { name, removal } = verb {
            let expected = self.groups.remove(name);
            let orphan = self.removed.get(name).filter(|(_, how)| *how == Removal::Orphan);
            let orphan = orphan.map(|(versions, _)| versions.clone());
            let last = expected.as_ref().map(|expected| expected.versions.numbers()).or(orphan)?;
            self.removed_commands.extend(expected.as_ref().map(|expected| (name.clone(), expected.commands.clone())));
            self.orphans.extend(expected.map(|expected| (name.clone(), expected.versions)));
            self.removed.insert(name.clone(), (last, *removal));
            return Some(name.clone());
        }
        let (Verb::Replica { name, .. }
        | Verb::PatchSpec { name, .. }
        | Verb::PatchStrategy { name, .. }
        | Verb::Rollout { name, .. }
        | Verb::SetGate { name, .. }
        | Verb::Drained { name, .. }
        | Verb::Operate { name, .. }) = verb
        else {
            return None;
        };
        let expected = self.groups.get_mut(name)?;
        expected.commands.apply(verb)?;
        if clears_errors(verb) {
            expected.requests.begin();
        }
        if let Verb::Rollout { action: RolloutAction::Undo { revision, .. }, .. } = verb {
            expected.versions.undone(*revision);
        }
        if let Verb::Replica { num_instances, restart_policy, .. } = verb {
            expected.instances = i64::from(*num_instances);
            expected.policy = restart_policy.unwrap_or(expected.policy);
        }
        if let Verb::PatchSpec { pod, .. } = verb {
            expected.versions.patched(pod);
        }
        if let Verb::Operate { act, instance, .. } = verb {
            // Instance numbers of a group with a strategy may have gaps; the stored state may already reflect later commands.
            let with_strategy = self.stored.get(name).filter(|_| expected.commands.has_strategy());
            let highest = with_strategy.map_or(0, |stored| stored.instances.len());
            let instances = usize::try_from(expected.instances).unwrap_or(0).max(highest);
            expected.requests.operate(*act, *instance, u32::try_from(instances).unwrap_or(0), at);
        }
        Some(name.clone())
    }

    fn note_history(&mut self, id: &CommandId, name: GroupName) {
        if let Some(expected) = self.groups.get_mut(&name) {
            expected.requests.accepted();
        }
        let now = self.groups.get(&name).map(|expected| expected.instances);
        let history = self.history.entry(name.clone()).or_insert_with(|| vec![None]);
        history.push(now);
        self.position.insert(id.clone(), (name, history.len() - 1));
    }

    fn drift(&mut self, drift: &Drift, group: Option<&GroupName>) {
        let concerned = self.groups.iter_mut().filter(|(name, _)| group.is_none_or(|group| group == *name));
        for (_, expected) in concerned {
            expected.requests.drift(drift);
            expected.requests.accepted();
        }
    }

    fn compare(&mut self) -> Result<(), Violation> {
        for (name, StoredGroup { record, .. }) in &self.stored {
            match self.groups.get_mut(name) {
                None if is_leaving(record) => {}
                Some(expected) if !is_leaving(record) => settle(name, expected, record)?,
                None | Some(_) => {
                    let detail = format!("{name} is stored as {record:?}, expected is {:?}", self.groups.get(name));
                    return Err(broken(Invariant::CommandsTakeEffectOnce, detail));
                }
            }
        }
        if let Some(name) = self.groups.keys().find(|name| !self.stored.contains_key(*name)) {
            return Err(broken(Invariant::CommandsTakeEffectOnce, format!("{name} is expected and not stored")));
        }
        Ok(())
    }

    fn observe_groups(
        &mut self,
        before: BTreeMap<GroupName, Option<StoredGroup>>,
        now: Timestamp,
    ) -> Result<(), Violation> {
        for (group, was) in before {
            let Some(is) = self.stored.get(&group).cloned() else { continue };
            let is_adopted = self.adopted.remove(&group);
            let same_life = |was: &StoredGroup| is_adopted || was.record.spec.created_at == is.record.spec.created_at;
            let was = was.filter(same_life).unwrap_or_default();
            let mut drifts = Vec::new();
            if let Some(expected) = self.groups.get_mut(&group) {
                drifts = expected.requests.take_recent();
                if is_adopted && was.record.removal != Removal::Orphan {
                    expected.requests.adopt(&is);
                } else {
                    let checked = expected.requests.check(&was, &is, settings(0, None).operation_limit, now);
                    checked.map_err(|v| Violation { detail: format!("{group}: {}", v.detail), ..v })?;
                }
            }
            let commands = self.groups.get_mut(&group).map(|expected| {
                let commands = expected.commands.clone();
                expected.commands.commit_checked();
                commands
            });
            let begun: BTreeSet<Timestamp> =
                is.pods().filter_map(|(_, pod)| Some(pod.draining.as_ref()?.since)).collect();
            let stored = self.drains.entry(group.clone()).or_default();
            let drains_stored = stored.clone();
            stored.retain(|since, _| begun.contains(since));
            for since in begun {
                stored.entry(since).or_insert(now);
            }
            let commands = commands.or_else(|| self.removed_commands.remove(&group)).unwrap_or_default();
            self.changes.push(Change { group, was, is, drifts, commands, drains_stored });
        }
        self.removed_commands.clear();
        Ok(())
    }

    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Every pod that an order may contain, with its node.
    pub fn ordered(&self) -> Vec<(NodeName, PodId)> {
        let settled = |(group, stored): (&GroupName, &StoredGroup)| {
            let instances = stored.pods().filter(|(_, instance)| instance.leaves.is_none());
            instances.filter_map(|(number, instance)| pod(group, number, instance)).collect::<Vec<_>>()
        };
        let pairs = self.dependencies.planned.iter().map(|(node, pod, _)| (node.clone(), pod.clone()));
        self.stored.iter().flat_map(settled).chain(pairs).collect()
    }
}

/// Whether the command clears the last error.
fn clears_errors(verb: &Verb) -> bool {
    let is_undo = matches!(verb, Verb::Rollout { action: RolloutAction::Undo { .. }, .. });
    is_undo || matches!(verb, Verb::Replica { .. } | Verb::PatchSpec { .. } | Verb::Operate { .. })
}

fn is_removing(record: &GroupRecord) -> bool {
    record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Removing)
}

/// Being removed, or orphaned.
pub fn is_leaving(record: &GroupRecord) -> bool {
    is_removing(record) || record.removal == Removal::Orphan
}

fn settle(name: &GroupName, expected: &mut ExpectedGroup, record: &GroupRecord) -> Result<(), Violation> {
    let hold_once = |detail| broken(Invariant::CommandsTakeEffectOnce, detail);
    if record.spec.num_instances != expected.instances || record.spec.restart_policy != expected.policy {
        return Err(hold_once(format!("{name} is stored as {record:?}, expected is {expected:?}")));
    }
    if let Some(difference) = expected.commands.differs(record) {
        return Err(hold_once(format!("{name} is {difference}")));
    }
    let alone = expected.requests.is_one_command();
    expected.versions.settle(record, alone).map_err(|wrong| hold_once(format!("{name} is stored in {wrong}")))
}

fn group_of(write: &Write) -> Option<GroupName> {
    let (Write::Put { key, .. } | Write::Delete { key }) = write;
    match keys::parse(key) {
        Key::Group(name) | Key::Placement(name, _) | Key::Release(name) | Key::Revision(name, _) => Some(name),
        _ => None,
    }
}

fn node_of(write: &Write) -> Option<NodeName> {
    let (Write::Put { key, .. } | Write::Delete { key }) = write;
    match keys::parse(key) {
        Key::NodeIntent(node) => Some(node),
        _ => None,
    }
}

fn concerns_dependencies(write: &Write) -> bool {
    let (Write::Put { key, .. } | Write::Delete { key }) = write;
    matches!(keys::parse(key), Key::Dependency(_) | Key::Pairs(..))
}

fn pod(group: &GroupName, number: u32, instance: &contract::record::Instance) -> Option<(NodeName, PodId)> {
    let id = PodId { group: group.clone(), instance: number, version: instance.named_version(), drift: instance.drift };
    instance.node.clone().map(|node| (node, id))
}

/// The pods that have a node.
pub fn pods(group: &GroupName, record: &PlacementRecord) -> Vec<(NodeName, PodId)> {
    let instances =
        (1..).zip(&record.instances).flat_map(|(number, instance)| instance.pods().map(move |pod| (number, pod)));
    instances.filter_map(|(number, instance)| pod(group, number, instance)).collect()
}

/// Whether `pod` is stored on `node` and its group is not being removed.
pub fn is_placed(store: &FakeStore, node: &NodeName, pod: &PodId) -> bool {
    if pod.instance == 0 {
        return dependencies::pods(store).iter().any(|(at, planned, _)| at == node && planned == pod);
    }
    let record = store.placement(&pod.group);
    let removing = store.group(&pod.group).is_none_or(|group| is_removing(&group));
    !removing && pods(&pod.group, &record).contains(&(node.clone(), pod.clone()))
}
