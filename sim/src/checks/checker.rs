//! Checks the invariants after every event.
//!
//! [`Checker`] sees the whole world: the store, every disk and every engine. The first violation ends the history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use agent::core::io::{Ledger, Phase};
use contract::command::{Decision, Outcome, Refusal, Removal};
use contract::digest::Digest;
use contract::fence::{Fence, Term};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::order::{OrderMessage, OrderReply};
use contract::pod_id::{InstanceKey, PodId};
use contract::record::OperationRecord;
use contract::report::EngineState;
use contract::time::Timestamp;
use scheduler::core::io::Commit;
use testkit::container::{Container, Origin};
use testkit::engine::FakeEngine;
use testkit::store::FakeStore;

use crate::checks::commit_changes::{Excused, Lost};
use crate::checks::instances::StoredGroup;
use crate::checks::invariants::{Invariant, Violation};
use crate::checks::model::Model;
use crate::checks::one_at_a_time::OneAtATime;
use crate::checks::serving::Serving;
use crate::world::GroundTruth;
use crate::world::node_process::NodeProcess;
use crate::world::scheduler_process::InFlightCommit;
use crate::world::scheduler_process::settings;

/// How long an instance may run on two connected nodes: stop and kill take 10 s, an order 3 s per try.
const TWICE: Duration = Duration::from_secs(75);
/// An operation releases its lock after at most 120 s, plus some seconds for the commit.
const HELD: Duration = Duration::from_secs(140);
/// More wakes than this in a second are a busy loop.
const MOST_WAKES: u32 = 400;
/// The longest delay of a report under the worst bus conditions.
pub(crate) const IN_FLIGHT: Duration = Duration::from_secs(17);

#[derive(Debug, Default)]
pub struct Checker {
    pub violation: Option<Violation>,
    pub model: Model,
    pub(crate) lost_after: Duration,
    accepted: BTreeMap<usize, Fence>,
    sent: BTreeMap<(usize, Fence), Digest>,
    highest_sent: BTreeMap<(usize, Term), Fence>,
    pub(crate) reports_published: BTreeMap<usize, VecDeque<Timestamp>>,
    placed_ever: BTreeSet<(NodeName, PodId)>,
    foreign: BTreeMap<(usize, String), Container>,
    engines_dirty: bool,
    twice: BTreeMap<InstanceKey, Timestamp>,
    pub(crate) lost: Lost,
    /// The scheduler and time of the first send of each commit, by term and id.
    sendings: BTreeMap<(Term, u64), (usize, Timestamp)>,
    /// The decisions of the last commit were made after this time: when the previous commit was sent.
    pub(crate) decided_since: Timestamp,
    /// The scheduler that sent the last commit.
    decided_by: usize,
    /// The last report of each node at each scheduler: (scheduler, node).
    hearings: BTreeMap<(usize, usize), Timestamp>,
    /// When a report ended a silence of at least lost_after: (scheduler, node).
    silences: BTreeMap<(usize, usize), Timestamp>,
    /// When a report ended a silence of at least suspect_after: (scheduler, node).
    pauses: BTreeMap<(usize, usize), Timestamp>,
    /// The highest fence that an agent accepted before it lost its ledger.
    forgotten: BTreeMap<usize, Fence>,
    pub(crate) excused: Excused,
    pub(crate) one_at_a_time: OneAtATime,
    pub(crate) serving: Serving,
    /// The operation that holds the lock of a group, and since when it could release it.
    pub(crate) locks: BTreeMap<GroupName, (OperationRecord, Timestamp)>,
    /// The number of requested restarts that each container has had, by engine and id.
    pub(crate) restarted: BTreeMap<(usize, String), u32>,
    pub(crate) pods_by_container: BTreeMap<(usize, String), PodId>,
}

impl Checker {
    pub fn new(lost_after: Duration, engines: &[FakeEngine]) -> Self {
        let all = engines.iter().enumerate();
        let foreign = all.flat_map(|(n, e)| e.containers.iter().map(move |(id, c)| ((n, id.clone()), c.clone())));
        Self { lost_after, foreign: foreign.collect(), ..Default::default() }
    }

    /// Notes a violation; only the first counts.
    pub fn broken(&mut self, invariant: Invariant, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, detail });
        }
    }

    pub fn woken(&mut self, who: &str, count: u32) {
        if count > MOST_WAKES {
            self.broken(Invariant::NoBusyLoop, format!("{who} was woken {count} times in one second"));
        }
    }

    pub fn report_published(&mut self, node: usize, now: Timestamp) {
        let heard = self.reports_published.entry(node).or_default();
        heard.push_back(now);
        while heard.front().is_some_and(|at| now.since(*at) > self.lost_after) {
            heard.pop_front();
        }
    }

    /// A report reached a scheduler. A node counts as silent by the reports that arrive, not by those it sends.
    pub fn report_arrived(&mut self, scheduler: usize, node: &NodeName, now: Timestamp) {
        let Some(node) = index_of(node) else { return };
        let before = self.hearings.insert((scheduler, node), now);
        let silence = before.map_or(Duration::ZERO, |before| now.since(before));
        if silence >= self.lost_after {
            self.silences.insert((scheduler, node), now);
        }
        if silence >= settings(scheduler, None).suspect_after {
            self.pauses.insert((scheduler, node), now);
        }
    }

    /// A scheduler sends a commit; `before` is a commit without an answer.
    pub fn committing(&mut self, scheduler: usize, before: Option<InFlightCommit>, commit: &Commit, now: Timestamp) {
        self.sendings.entry((commit.term, commit.id)).or_insert((scheduler, now));
        if let Some(InFlightCommit { id, .. }) = before {
            self.broken(
                Invariant::OneCommitAtATime,
                format!("s{scheduler} sends commit {} while {id} is in flight", commit.id),
            );
        }
        if commit.writes.is_empty() || commit.writes.len() >= Commit::MOST_WRITES {
            self.broken(Invariant::OneCommitAtATime, format!("s{scheduler}: commit of {} writes", commit.writes.len()));
        }
    }

    /// `led` is the term of the leader key at the time of the commit.
    pub fn stored(&mut self, commit: &Commit, led: Option<Term>, store: &FakeStore, now: Timestamp) {
        if led != Some(commit.term) {
            self.broken(
                Invariant::NoStaleWrite,
                format!("commit {} of term {} stored under {led:?}", commit.id, commit.term),
            );
        }
        if let Err(violation) = self.model.observe(commit, store, now) {
            self.broken(violation.invariant, violation.detail);
        }
        self.lost.observe(commit, now);
        let before = commit.id.checked_sub(1).and_then(|id| self.sendings.get(&(commit.term, id)));
        let first = self.sendings.get(&(commit.term, commit.id));
        (self.decided_by, self.decided_since) = before.or(first).copied().unwrap_or((self.decided_by, now));
        let ordered = self.model.ordered();
        self.placed_ever.extend(ordered);
    }

    pub fn resolved(&mut self, outcome: &Outcome, store: &FakeStore) {
        // An unreadable message has no id to store an outcome under, and no effect.
        if matches!(outcome.decision, Decision::Refused(Refusal::Malformed { .. })) {
            return;
        }
        let stored: Option<Outcome> = store.read(&keys::outcome(&outcome.id));
        if stored.as_ref().map(|stored| &stored.decision) != Some(&outcome.decision) {
            self.broken(Invariant::EffectsFollowCommits, format!("sent {outcome:?}, stored is {stored:?}"));
        }
    }

    /// `led` is the term of the leader key at the time of the send.
    pub fn ordered(&mut self, node: usize, name: &NodeName, message: &OrderMessage, led: Option<Term>) {
        let fence = message.fence();
        let (digest, pods): (Digest, Vec<&PodId>) = match message {
            OrderMessage::Whole(order) => (order.digest(), order.pods.keys().collect()),
            OrderMessage::Delta(delta) => (delta.digest, delta.pods.put.keys().collect()),
        };
        if *self.sent.entry((node, fence)).or_insert(digest) != digest {
            self.broken(Invariant::FencesGrow, format!("{name}: two orders under fence {fence}"));
        }
        let highest = self.highest_sent.entry((node, fence.term)).or_insert(fence);
        if *highest > fence {
            let detail = format!("{name}: order {fence} sent after {highest}");
            self.broken(Invariant::FencesGrow, detail);
        } else {
            *highest = fence;
        }
        if led == Some(fence.term)
            && let Some(pod) = pods.into_iter().find(|pod| !self.placed_ever.contains(&(name.clone(), (*pod).clone())))
        {
            self.broken(
                Invariant::EffectsFollowCommits,
                format!("{name} is ordered to run {pod}, which is not placed there"),
            );
        }
    }

    pub fn acknowledged(&mut self, node: usize, reply: &OrderReply, disk: &Ledger) {
        let OrderReply::Accepted { fence, digest } = reply else { return };
        if disk.order.fence != *fence || disk.order.digest() != *digest {
            let detail = format!("n{node} acknowledged {fence} with {} on disk", disk.order.fence);
            self.broken(Invariant::AcknowledgedIsKept, detail);
        }
        if let Some(sent) = self.sent.get(&(node, *fence)).filter(|sent| *sent != digest) {
            let detail = format!("n{node} acknowledged {digest} under {fence}, sent was {sent}");
            self.broken(Invariant::AcknowledgedIsKept, detail);
        }
        self.accepted_fence(node, *fence);
    }

    pub fn on_disk(&mut self, node: usize, fence: Fence) {
        self.accepted_fence(node, fence);
    }

    fn accepted_fence(&mut self, node: usize, fence: Fence) {
        let highest = self.accepted.entry(node).or_insert(fence);
        if fence < *highest {
            let detail = format!("n{node} accepted {fence} after {highest}");
            self.broken(Invariant::NoStaleOrder, detail);
        } else {
            *highest = fence;
        }
    }

    /// A fault emptied or reverted the ledger: the agent forgot orders, restarts and moves.
    pub fn ledger_lost(&mut self, process: &NodeProcess, node: usize) {
        let known = self.accepted.insert(node, process.disk.order.fence);
        let highest = self.forgotten.entry(node).or_default();
        *highest = known.unwrap_or_default().max(*highest);
        self.restarted.retain(|(engine, _), _| *engine != process.engine);
        self.excused.extend(process.disk.order.pods.keys().map(PodId::key));
        self.model.faulty_nodes.insert(process.owner.node.clone());
    }

    /// The agent has not yet accepted an order as new as the last one before it lost its ledger.
    pub(crate) fn ledger_is_old(&self, process: &NodeProcess) -> bool {
        let known = index_of(&process.owner.node).and_then(|node| self.forgotten.get(&node));
        known.is_some_and(|known| process.disk.order.fence < *known)
    }

    /// Whether the leader may have considered the node lost: it is stored as lost, or it was silent for lost_after and returned while
    /// the commit was in flight.
    pub(crate) fn may_be_lost(&self, node: &NodeName, now: Timestamp) -> bool {
        let back_at = index_of(node).and_then(|node| self.silences.get(&(self.decided_by, node)));
        self.lost.contains(node, now) || back_at.is_some_and(|at| *at >= self.decided_since)
    }

    /// Whether the leader may have decided while the node was silent for suspect_after.
    pub(crate) fn may_be_suspect(&self, node: &NodeName, now: Timestamp) -> bool {
        let Some(heard) = index_of(node).map(|node| (self.decided_by, node)) else { return false };
        let is_silent = |at: &Timestamp| now.since(*at) >= settings(self.decided_by, None).suspect_after;
        self.hearings.get(&heard).is_none_or(is_silent) || self.pauses.get(&heard) >= Some(&self.decided_since)
    }

    pub fn touched(&mut self, engine: usize, id: &str, what: &str) {
        if self.foreign.contains_key(&(engine, id.to_owned())) {
            self.broken(Invariant::ForeignContainersUntouched, format!("e{engine}: {what}"));
        }
    }

    pub fn engines_changed(&mut self) {
        self.engines_dirty = true;
    }

    /// Inspects all engines if a container changed, and checks the time limits.
    pub fn after_event(&mut self, truth: &GroundTruth<'_>, led: bool, now: Timestamp) {
        if std::mem::take(&mut self.engines_dirty) {
            self.look_for_foreigners(truth.engines);
            self.look_for_copies(truth.engines);
            self.one_at_a_time.look(truth);
            if self.model.stored.values().any(|stored| stored.record.spec.has_strategy()) {
                self.serving.look(truth, now);
            }
            let twice = running_twice(truth, &self.model.stored);
            self.twice.retain(|key, _| twice.contains(key));
            for key in twice {
                self.twice.entry(key).or_insert(now);
            }
        }
        let can_plan = led && self.model.switches.engine.running;
        if !led {
            // Without a leader no duplicate can be removed: the limit counts from the next leader.
            self.twice.values_mut().for_each(|since| *since = now);
        }
        if !can_plan {
            self.locks.values_mut().for_each(|(_, since)| *since = now);
        }
        if let Some((key, since)) = self.twice.iter().find(|(_, since)| now.since(**since) > TWICE) {
            let detail = format!("{key} runs on two connected nodes since {since}");
            self.broken(Invariant::NoInstanceRunsTwice, detail);
        }
        if let Some((group, (held, _))) = self.locks.iter().find(|(_, (_, since))| now.since(*since) > HELD) {
            let detail = format!("{group} is still {:?} since {}", held.kind, held.since);
            self.broken(Invariant::LocksAreReleased, detail);
        }
        if let Some(forgotten) = self.model.dependencies.forgotten(can_plan, now) {
            self.broken(Invariant::DependenciesArePlaced, forgotten);
        }
    }

    /// A stateful instance runs on one node. Groups of the same name that were created at different times are independent.
    fn look_for_copies(&mut self, engines: &[FakeEngine]) {
        let mut seen: BTreeMap<(InstanceKey, Timestamp), (&NodeName, &Container)> = BTreeMap::new();
        let mut found = None;
        let running = |c: &&Container| c.phase == Phase::Running;
        for container in engines.iter().flat_map(|engine| engine.containers.values()).filter(running) {
            let Origin::Pod { owner, identity, spec, .. } = &container.origin else { continue };
            if !spec.is_stateful() {
                continue;
            }
            let (key, life) = (identity.pod.key(), spec.created_at);
            let (node, other) = *seen.entry((key.clone(), life)).or_insert((&owner.node, container));
            if *node != owner.node && !self.excused.contains(&key) {
                found = Some(format!("{} runs on {node}, {} on {}", other.name(), container.name(), owner.node));
            }
        }
        if let Some(detail) = found {
            self.broken(Invariant::StatefulRunsOnce, detail);
        }
    }

    fn look_for_foreigners(&mut self, engines: &[FakeEngine]) {
        let harmed = self.foreign.iter().find(|((engine, id), was)| engines[*engine].containers.get(id) != Some(was));
        if let Some(((engine, id), was)) = harmed {
            let detail = format!("{} ({id}) on e{engine} was changed", was.name());
            self.broken(Invariant::ForeignContainersUntouched, detail);
        }
    }
}

/// Instances that run on two nodes, except surge pods and orphans.
fn running_twice(truth: &GroundTruth<'_>, stored: &BTreeMap<GroupName, StoredGroup>) -> BTreeSet<InstanceKey> {
    let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
    // Orphaned containers stay as they are, also in the middle of a rollout.
    let is_orphan = |pod: &PodId| stored.get(&pod.group).is_some_and(|stored| stored.record.removal == Removal::Orphan);
    let is_beside = |pod: &PodId, node: &NodeName| {
        let instances = stored.get(&pod.group).map_or(&[][..], |stored| &stored.instances);
        let instance = usize::try_from(pod.instance).ok().and_then(|number| instances.get(number.checked_sub(1)?));
        let next = instance.and_then(|instance| instance.next.as_deref());
        next.is_some_and(|next| (next.version, next.drift, next.node.as_ref()) == (pod.version, pod.drift, Some(node)))
    };
    for process in truth.nodes.iter().filter(|m| m.connected && m.core.is_some()) {
        let engine = &truth.engines[process.engine];
        let running = engine.inventory(&process.owner).into_iter().filter(|c| c.phase == Phase::Running);
        let own = running.filter(|c| !is_beside(&c.identity.pod, &process.owner.node) && !is_orphan(&c.identity.pod));
        let here: BTreeSet<InstanceKey> = own.map(|c| c.identity.pod.key()).collect();
        for key in here.into_iter().filter(|_| engine.state() == EngineState::Up) {
            if !once.insert(key.clone()) {
                twice.insert(key);
            }
        }
    }
    twice
}

pub fn index_of(node: &NodeName) -> Option<usize> {
    node.as_str().strip_prefix('n')?.parse().ok()
}
