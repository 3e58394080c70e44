//! What must hold after every event, whatever went wrong.
//!
//! [`Watch`] stands outside the world and sees everything: what is stored, what is on every disk, what every engine
//! runs. The first breach ends the history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use agent::core::io::{Ledger, Phase, Step};
use contract::command::{Outcome, Refusal, Verdict};
use contract::digest::Digest;
use contract::fence::{Fence, Term};
use contract::keys;
use contract::labels;
use contract::name::NodeName;
use contract::order::{OrderMessage, OrderReply};
use contract::pod_id::{InstanceKey, PodId};
use contract::time::Timestamp;
use scheduler::core::io::Commit;

use crate::engine::{Container, Engine};
use crate::machine::Machine;
use crate::model::Model;
use crate::seat::Lane;
use crate::store::Store;

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// Nothing is stored under a term that is over: a deposed leader would undo what its successor decided.
    NoStaleWrite,
    /// No agent accepts a fence below one it ever accepted, restarts included: the order of a deposed leader would
    /// start what its successor stopped.
    NoStaleOrder,
    /// A leader sends different content under different, growing fences: agents tell orders apart by nothing else.
    FencesGrow,
    /// A placement leaves a node only when that node was silent for `lost_after`: a failover alone moves nothing.
    NothingMovesByFailover,
    /// No instance runs on two connected nodes for longer than the bound.
    NobodyRunsTwice,
    /// Every command is in effect exactly once, in stream order, and what is stored equals the replay of the stream.
    CommandsHoldOnce,
    /// The outcome of a command is decided once.
    OutcomesStand,
    /// The cursor only moves forward: what lies behind it would be decided again.
    CursorMovesForward,
    /// A container without our labels, or of another node, is never touched.
    ForeignersUntouched,
    /// An agent acknowledges an order only when it is on disk: the scheduler will not send it again.
    AcknowledgedIsKept,
    /// One commit at a time, below etcd's limit: two could be stored in the other order.
    OneCommitAtATime,
    /// Nobody is told, and no agent is ordered, what is not stored: the next leader would know nothing of it.
    EffectsFollowCommits,
    /// An answer that is not marked stale shows every change its asker knows to be accepted.
    ReadYourWrites,
    /// A stream port belongs to one group, which keeps it until it is removed; who waits for one runs nothing.
    PortsHaveOneOwner,
    /// A container that is wanted where it runs is not stopped.
    WantedIsLeftAlone,
    /// A stopped engine places nothing and moves nothing.
    StoppedMeansStopped,
    /// A core that asks to be woken again and again without time passing would burn a machine.
    NoBusyLoop,
    /// When nothing goes wrong for a while, everything is as users asked.
    Converges,
    /// A core never panics.
    NoPanic,
    /// One seed is one history.
    Deterministic,
}

/// A breach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub invariant: Invariant,
    /// What happened.
    pub detail: String,
}

/// An instance on two connected nodes may last so long: stop and kill take 10 s, an order 3 s per try.
const TWICE: Duration = Duration::from_secs(75);
/// More wakes than this in a second are a loop: a wake each millisecond would be a thousand.
const MOST_WAKES: u32 = 400;
/// Longest way of a report in the worst weather.
const UNDER_WAY: Duration = Duration::from_secs(17);

/// Everything the invariants remember.
#[derive(Debug, Default)]
pub struct Watch {
    /// The first breach.
    pub violation: Option<Violation>,
    /// The replay of the stream.
    pub model: Model,
    lost_after: Duration,
    accepted: BTreeMap<usize, Fence>,
    sent: BTreeMap<(usize, Fence), Digest>,
    highest_sent: BTreeMap<(usize, Term), Fence>,
    heard: BTreeMap<usize, VecDeque<Timestamp>>,
    placed_ever: BTreeSet<(NodeName, PodId)>,
    foreign: BTreeMap<(usize, String), Container>,
    engines_dirty: bool,
    twice: BTreeMap<InstanceKey, Timestamp>,
}

impl Watch {
    /// A watch over a fresh world.
    pub fn new(lost_after: Duration, engines: &[Engine]) -> Self {
        let all = engines.iter().enumerate();
        let foreign = all.flat_map(|(n, e)| e.containers.iter().map(move |(id, c)| ((n, id.clone()), c.clone())));
        Self { lost_after, foreign: foreign.collect(), ..Default::default() }
    }

    /// Notes a breach; only the first counts.
    pub fn broken(&mut self, invariant: Invariant, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, detail });
        }
    }

    /// A process was woken for the `count`th time within a second.
    pub fn woken(&mut self, who: &str, count: u32) {
        if count > MOST_WAKES {
            self.broken(Invariant::NoBusyLoop, format!("{who} was woken {count} times in one second"));
        }
    }

    /// A node published a report.
    pub fn heard(&mut self, node: usize, now: Timestamp) {
        let heard = self.heard.entry(node).or_default();
        heard.push_back(now);
        while heard.front().is_some_and(|at| now.since(*at) > self.lost_after) {
            heard.pop_front();
        }
    }

    /// A scheduler lets a commit go while `before` may still be under way.
    pub fn committing(&mut self, seat: usize, before: Option<Lane>, commit: &Commit) {
        if let Some(Lane { id, .. }) = before {
            self.broken(
                Invariant::OneCommitAtATime,
                format!("s{seat} sends commit {} while {id} is under way", commit.id),
            );
        }
        if commit.writes.is_empty() || commit.writes.len() >= Commit::MOST_WRITES {
            self.broken(Invariant::OneCommitAtATime, format!("s{seat}: commit of {} writes", commit.writes.len()));
        }
    }

    /// A commit was stored while `led` was the term of the leader key.
    pub fn stored(&mut self, commit: &Commit, led: Option<Term>, store: &Store, now: Timestamp) {
        if led != Some(commit.term) {
            self.broken(
                Invariant::NoStaleWrite,
                format!("commit {} of term {} stored under {led:?}", commit.id, commit.term),
            );
        }
        if let Err(violation) = self.model.observe(commit, store) {
            self.broken(violation.invariant, violation.detail);
        }
        for moved in self.model.take_moves() {
            let Some(node) = index_of(&moved.from) else { continue };
            // What was published only just now may still be under way to the leader.
            let mut ago = self.heard.get(&node).into_iter().flatten().map(|at| now.since(*at));
            let heard = ago.find(|ago| *ago > UNDER_WAY && *ago + UNDER_WAY < self.lost_after);
            if let Some(ago) = heard.filter(|_| !moved.failed) {
                let detail = format!("{} left {}, which was heard {ago:?} ago", moved.instance, moved.from);
                self.broken(Invariant::NothingMovesByFailover, detail);
            }
        }
        let placed = self.model.placed();
        self.placed_ever.extend(placed);
    }

    /// A user is told an outcome.
    pub fn resolved(&mut self, outcome: &Outcome, store: &Store) {
        // A message nobody can read has no id to store an outcome under; it takes no effect that could be lost.
        if matches!(outcome.verdict, Verdict::Refused(Refusal::Malformed { .. })) {
            return;
        }
        let stored: Option<Outcome> = store.read(&keys::outcome(&outcome.id));
        if stored.as_ref().map(|stored| &stored.verdict) != Some(&outcome.verdict) {
            self.broken(Invariant::EffectsFollowCommits, format!("told {outcome:?}, stored is {stored:?}"));
        }
    }

    /// A leader sends an order while `led` is the term of the leader key.
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

    /// An agent answered an order while `disk` was on disk.
    pub fn acknowledged(&mut self, node: usize, reply: &OrderReply, disk: &Ledger) {
        let OrderReply::Accepted { fence, digest } = reply else { return };
        if disk.order.fence != *fence || disk.order.digest() != *digest {
            let detail = format!("n{node} acknowledged {fence} with {} on disk", disk.order.fence);
            self.broken(Invariant::AcknowledgedIsKept, detail);
        }
        self.obeys(node, *fence);
    }

    /// An agent's disk holds an order.
    pub fn on_disk(&mut self, node: usize, fence: Fence) {
        self.obeys(node, fence);
    }

    fn obeys(&mut self, node: usize, fence: Fence) {
        let highest = self.accepted.entry(node).or_insert(fence);
        if fence < *highest {
            let detail = format!("n{node} accepted {fence} after {highest}");
            self.broken(Invariant::NoStaleOrder, detail);
        } else {
            *highest = fence;
        }
    }

    /// An agent asks its engine for a step.
    pub fn working(&mut self, machine: &Machine, step: &Step, engine: &Engine, store: &Store) {
        let node = &machine.owner.node;
        let (Step::Stop { id, .. } | Step::Remove { id, .. } | Step::Start { id }) = step else { return };
        let Some(container) = engine.containers.get(id) else { return };
        let Some(identity) = labels::identify(&machine.owner, |key| container.labels.get(key).map(String::as_str))
        else {
            return self.broken(Invariant::ForeignersUntouched, format!("{node}: {step:?} on {}", container.name));
        };
        let pod = &identity.pod;
        let stops = !matches!(step, Step::Start { .. }) && container.phase == Phase::Running;
        let Some(spec) = machine.disk.order.specs.get(&pod.spec_key()).filter(|_| stops) else { return };
        let same = container.labels.get(labels::SPEC_DIGEST) == Some(&Digest::of(spec.as_ref()).to_string());
        let ordered = machine.disk.order.pods.contains_key(pod) && same && spec.containers.len() == 1;
        let twin = engine.inventory(&machine.owner).iter().filter(|c| c.identity == identity).count() > 1;
        if ordered && !twin && crate::model::is_placed(store, &machine.owner.node, pod) {
            self.broken(Invariant::WantedIsLeftAlone, format!("{node}: {step:?} on running {pod}"));
        }
    }

    /// An engine changed a container.
    pub fn touched(&mut self, engine: usize, id: &str, what: &str) {
        if self.foreign.contains_key(&(engine, id.to_owned())) {
            self.broken(Invariant::ForeignersUntouched, format!("e{engine}: {what}"));
        }
    }

    /// Containers or connections changed.
    pub fn engines_changed(&mut self) {
        self.engines_dirty = true;
    }

    /// Looks at every engine again if something changed, and at the clock in any case.
    pub fn after_event(&mut self, engines: &[Engine], machines: &[Machine], led: bool, now: Timestamp) {
        if std::mem::take(&mut self.engines_dirty) {
            self.look_for_foreigners(engines);
            let twice = running_twice(engines, machines);
            self.twice.retain(|key, _| twice.contains(key));
            for key in twice {
                self.twice.entry(key).or_insert(now);
            }
        }
        if !led {
            // Nobody can end it: the bound counts from the return of a leader.
            self.twice.values_mut().for_each(|since| *since = now);
        }
        if let Some((key, since)) = self.twice.iter().find(|(_, since)| now.since(**since) > TWICE) {
            let detail = format!("{key} runs on two connected nodes since {since}");
            self.broken(Invariant::NobodyRunsTwice, detail);
        }
    }

    fn look_for_foreigners(&mut self, engines: &[Engine]) {
        let harmed = self.foreign.iter().find(|((engine, id), was)| engines[*engine].containers.get(id) != Some(was));
        if let Some(((engine, id), was)) = harmed {
            let detail = format!("{} ({id}) on e{engine} was changed", was.name);
            self.broken(Invariant::ForeignersUntouched, detail);
        }
    }
}

fn running_twice(engines: &[Engine], machines: &[Machine]) -> BTreeSet<InstanceKey> {
    let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for machine in machines.iter().filter(|m| m.connected && m.core.is_some()) {
        let engine = &engines[machine.engine];
        let running = engine.inventory(&machine.owner).into_iter().filter(|c| c.phase == Phase::Running);
        let here: BTreeSet<InstanceKey> = running.map(|c| c.identity.pod.key()).collect();
        for key in here.into_iter().filter(|_| !engine.down) {
            if !once.insert(key.clone()) {
                twice.insert(key);
            }
        }
    }
    twice
}

/// Index of a simulated node by its name.
pub fn index_of(node: &NodeName) -> Option<usize> {
    node.as_str().strip_prefix('n')?.parse().ok()
}
