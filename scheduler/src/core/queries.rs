//! Answers questions from memory, the same way on the leader and on a standby.

use std::collections::BTreeSet;
use std::ops::Bound;

use contract::fence::Term;
use contract::name::{GroupName, NodeName};
use contract::query::{Answer, ClusterView, GroupLine, GroupView, Liveness, MOST_OVERDUE, Overdue, PodView, Query};
use contract::record::{Filling, Slot};
use contract::report::PodFacts;
use contract::state::RunState;
use contract::time::Timestamp;
use planner::overdue::ReadinessCheck;
use planner::ports;
use planner::view::{self, GroupStatus};

use super::dry_run::DryRun;
use super::io::Settings;
use super::reports::Ears;
use super::state::{Group, State, pod_id};

/// Lines of one list at most: an asker with more patience asks again after the last name.
const MOST_LINES: u32 = 1_000;
/// Nodes that the reason of one wait names.
const MOST_NODES_SHOWN: usize = 3;

/// What questions are answered from.
pub(super) struct Library<'a> {
    pub(super) settings: &'a Settings,
    pub(super) term: Option<Term>,
    pub(super) state: &'a State,
    pub(super) ears: &'a Ears,
    pub(super) now: Timestamp,
}

/// What a question leads to.
pub(super) enum Answered {
    /// Its answer.
    Now(Answer),
    /// A plan that is computed beside the decisions.
    Later(Box<DryRun>),
}

impl Library<'_> {
    /// Answers one question, or says what is to be computed for it.
    pub(super) fn answer(&self, query: Query) -> Answered {
        Answered::Now(match query {
            Query::Group { name, refresh: _ } => Answer::Group(self.group(&name).map(Box::new)),
            Query::Groups { namespace, after, limit } => {
                Answer::Groups(self.groups(namespace.as_deref(), after, limit))
            }
            Query::Rollout { name } => Answer::Rollout(self.rollout(&name).map(Box::new)),
            Query::Revisions { name } => self.revisions(&name),
            Query::Plan { spec, within_millis: _ } => match self.dry_run(*spec) {
                Ok(dry_run) => return Answered::Later(Box::new(dry_run)),
                Err(refusal) => Answer::Plan(Err(refusal)),
            },
            Query::Dependency { name } => Answer::Dependency(self.dependency(&name).map(Box::new)),
            Query::Nodes => Answer::Nodes(self.nodes()),
            Query::Node { name } => Answer::Node(self.node_page(&name).map(Box::new)),
            Query::Cluster => Answer::Cluster(self.cluster()),
            Query::Operation { id } => Answer::Operation(self.state.outcomes.get(&id).cloned()),
            Query::Engine => Answer::Engine(self.state.engine),
            Query::Constraints => Answer::Constraints(self.state.constraints.values().cloned().collect()),
            Query::Callbacks => Answer::Callbacks(self.state.callbacks.iter().cloned().collect()),
            Query::Ports => Answer::Ports(self.state.port_claims()),
            // What is stored is read from the store, by the shell.
            Query::Backup { .. } => Answer::Backup(Err("only a store can be backed up".to_owned())),
            Query::History { name, instance } => Answer::History(self.state.histories.of(&name, instance)),
        })
    }

    fn group(&self, name: &GroupName) -> Option<GroupView> {
        let group = self.state.groups.get(name).filter(|group| group.is_present())?;
        let pods = self.pods(name, group);
        let GroupStatus { state, health, last_error, running: _ } = self.standing(name, group, &pods);
        Some(GroupView {
            spec: group.record.spec.clone(),
            state,
            health,
            last_error,
            updated_at: group.record.updated_at,
            operation: group.record.operation.as_ref().map(|operation| operation.kind),
            pods,
        })
    }

    /// One pod for each instance wanted: the one beside it is the release's business.
    fn pods(&self, name: &GroupName, group: &Group) -> Vec<PodView> {
        let wanted = usize::try_from(group.record.spec.num_instances).unwrap_or(0);
        let pending = Slot { version: group.record.spec.version, ..Slot::default() };
        // Instances wanted but not planned yet are pending: a reader of its own write counts them. Holes are filled first.
        let held = group.slots().iter().filter(|slot| slot.filling != Filling::Nothing).count();
        let mut missing = wanted.saturating_sub(held);
        let mut pods = Vec::with_capacity(wanted);
        for index in 0.. {
            match group.slots().get(index) {
                _ if pods.len() >= wanted => break,
                Some(slot) if slot.filling == Filling::Pod => pods.push(self.pod(name, index, slot)),
                Some(slot) if slot.filling == Filling::Retired => {
                    pods.push(self.pod(name, index, &Slot { why: slot.why.clone(), ..pending.clone() }));
                }
                Some(_) if missing == 0 => {}
                Some(_) | None => {
                    missing = missing.saturating_sub(1);
                    pods.push(self.pod(name, index, &pending));
                }
            }
        }
        pods
    }

    fn pod(&self, name: &GroupName, index: usize, slot: &Slot) -> PodView {
        let id = pod_id(name, index, slot);
        let host = slot.node.as_ref().and_then(|node| self.state.hosts.get(node));
        let seen = slot.node.as_ref().and_then(|node| self.ears.pod(node, &id));
        let node_ip = host.map(|host| host.facts.ip.clone()).unwrap_or_default();
        let facts = view::pod_facts(slot, seen, host);
        let addresses = addresses(slot, &facts);
        PodView { id, node: slot.node.clone(), node_ip, target: slot.target, facts, addresses }
    }

    fn groups(&self, namespace: Option<&str>, after: Option<GroupName>, limit: u32) -> Vec<GroupLine> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.state.groups.range((from, Bound::Unbounded));
        let seen = groups.filter(|(_, group)| group.is_listed());
        let chosen = seen.filter(|(_, group)| namespace.is_none_or(|wanted| group.record.spec.namespace == wanted));
        let limit = usize::try_from(limit.min(MOST_LINES)).unwrap_or(usize::MAX);
        chosen.take(limit).map(|(name, group)| self.line(name, group)).collect()
    }

    fn line(&self, name: &GroupName, group: &Group) -> GroupLine {
        let pods = self.pods(name, group);
        let standing = self.standing(name, group, &pods);
        let (ready, overdue) = self.readiness(name, group);
        let spec = &group.record.spec;
        GroupLine {
            name: name.clone(),
            namespace: spec.namespace.clone(),
            version: spec.version,
            wanted: u32::try_from(spec.num_instances).unwrap_or(0),
            running: standing.running,
            state: standing.state,
            operation: group.record.operation.as_ref().map(|operation| operation.kind),
            last_error: waits_of_removal(group).unwrap_or(standing.last_error),
            ready: Some(ready),
            overdue,
        }
    }

    fn standing(&self, name: &GroupName, group: &Group, pods: &[PodView]) -> GroupStatus {
        let standing = standing(group, pods);
        match self.state.quarantine.reason_of_group(name) {
            Some(last_error) => GroupStatus { last_error, ..standing },
            None => standing,
        }
    }

    /// How many instances are ready, and which have not been for too long. An instance is ready when one of its pods is.
    fn readiness(&self, name: &GroupName, group: &Group) -> (u32, Vec<Overdue>) {
        let (mut ready, mut overdue) = (0, Vec::new());
        for (index, slot) in group.slots().iter().enumerate().filter(|(_, slot)| slot.filling == Filling::Pod) {
            let looks: Vec<_> = slot.pods().map(|slot| (slot, self.pod(name, index, slot).facts)).collect();
            let looks = looks.iter().filter_map(|(slot, facts)| {
                let pod = group.pod(slot.version)?;
                Some(ReadinessCheck { group: &group.record.spec, pod, slot, facts, now: self.now })
            });
            if looks.clone().any(ReadinessCheck::is_ready) {
                ready += 1;
            }
            let why = looks.map(ReadinessCheck::overdue).collect::<Option<Vec<String>>>().and_then(|mut why| why.pop());
            if let Some(why) = why.filter(|_| overdue.len() < MOST_OVERDUE) {
                overdue.push(Overdue { instance: pod_id(name, index, slot).instance, why });
            }
        }
        (ready, overdue)
    }

    fn cluster(&self) -> ClusterView {
        let groups = self.state.groups.values().filter(|group| group.is_present());
        let (count, instances) = groups.fold((0, 0), |(count, sum), group| {
            (count + 1, sum + u64::try_from(group.record.spec.num_instances).unwrap_or(0))
        });
        let hosts = self.state.hosts.iter();
        let heard = hosts.clone().filter(|(_, host)| host.liveness != Liveness::Lost);
        let running = heard.filter_map(|(name, _)| self.ears.get(name)).map(|ear| u64::from(ear.running)).sum();
        ClusterView {
            scheduler: self.settings.name.clone(),
            term: self.term,
            groups: count,
            instances,
            running,
            nodes_alive: hosts.clone().filter(|(_, host)| host.liveness == Liveness::Alive).count() as u64,
            nodes: hosts.len() as u64,
            foreign_store: self.state.foreign_store.len() as u64,
            restored: self.state.store.restored.clone(),
            quarantined: self.state.quarantine.views(),
            warnings: self.state.warnings.values().cloned().collect(),
        }
    }
}

/// Where an instance is reached, or was when it last ran.
fn addresses(slot: &Slot, facts: &PodFacts) -> Vec<String> {
    let seen: Vec<String> = facts.containers.iter().map(|container| container.ip.clone()).collect();
    if seen.iter().all(String::is_empty) { slot.addresses.clone() } else { seen }
}

/// The whole made of its instances; a group that waits for stream ports has failed, and says so until it has them.
///
/// What the last operation ran into is more than what its instances say, and is shown until the next one.
fn standing(group: &Group, pods: &[PodView]) -> GroupStatus {
    let mut standing = view::group_status(pods.iter().map(|pod| &pod.facts));
    if !group.record.taken_ports.is_empty() {
        standing.state = RunState::Fail;
        standing.last_error = ports::sentence(&group.record.spec.name, &group.record.taken_ports);
    }
    if !group.record.last_error.is_empty() {
        standing.last_error.clone_from(&group.record.last_error);
    }
    standing
}

/// What a group that is being removed waits for.
fn waits_of_removal(group: &Group) -> Option<String> {
    let named = group.slots().iter().filter_map(|slot| slot.leaves.as_ref());
    let nodes: BTreeSet<&str> = named.chain(&group.draining).map(NodeName::as_str).collect();
    if !group.is_removing() || nodes.is_empty() {
        return None;
    }
    let shown: Vec<&str> = nodes.iter().copied().take(MOST_NODES_SHOWN).collect();
    let more = if nodes.len() > shown.len() { ", …" } else { "" };
    Some(format!("is being removed: waits until {}{more} confirmed that its containers are gone", shown.join(", ")))
}
