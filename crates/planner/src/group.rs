//! Decides what happens to every instance of one group.
//!
//! Each instance falls into exactly one bucket; the bucket says what to do. All waiting is `wake_at`, all memory is in the
//! slots, so a new leader continues where the old one stopped, and planning a finished group changes nothing. The surprise:
//! an instance on a lost node that fits nowhere else keeps its node, because that node may come back with it.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::Operation;
use contract::name::NodeName;
use contract::notice::Incident;
use contract::query::Liveness;
use contract::record::{OperationRecord, Slot};
use contract::report::{EngineState, PodFacts};
use contract::spec::PodGroupSpec;
use contract::state::{RunState, TargetState};
use contract::time::Timestamp;

use crate::placement::{Batch, Host, Need, Tenants, Wish};

/// First wait after a failed attempt; doubled by each further one.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Everything one group is planned from.
#[derive(Clone, Copy)]
pub struct GroupFacts<'a> {
    /// What is wanted.
    pub spec: &'a PodGroupSpec,
    /// What one instance takes.
    pub need: Need,
    /// The operation that holds the lock.
    pub operation: Option<&'a OperationRecord>,
    /// An operation gives its lock back after so long, done or not.
    pub operation_limit: Duration,
    /// Where the instances are.
    pub slots: &'a [Slot],
    /// What each slot's node reports of exactly that pod.
    pub seen: &'a [Option<&'a PodFacts>],
    /// A node that is not lost still has pods of the group that must go.
    pub lingers: bool,
    /// Others have its stream ports: nothing of it runs before they are its own.
    pub blocked: bool,
    /// The guard works: missing instances are made anew.
    pub guarding: bool,
    /// Expressions every placement obeys beside its own.
    pub constraints: &'a [String],
    /// The nodes.
    pub hosts: &'a BTreeMap<NodeName, Host>,
    /// What is placed on them.
    pub tenants: &'a dyn Tenants,
}

/// What one instance is found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// It has no place.
    Waiting,
    /// It has a place and is not up yet.
    Pending,
    /// It runs.
    Running,
    /// It ended; its agent starts it again or lets it go.
    Ended,
    /// It could not be created.
    Failed,
    /// Its container is gone.
    Missing,
    /// Its node is lost.
    Lost,
    /// It is left as it is: moving or making it anew could cost its data, it shall be stopped, or the guard sleeps.
    Held,
    /// Its node or the engine there does not answer; nothing is concluded from that.
    Unheard,
}

/// What to do with a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPlan {
    /// The slots afterwards.
    pub slots: Vec<Slot>,
    /// They differ from before in what must survive a change of leader.
    pub store: bool,
    /// The operation is over.
    pub finished: bool,
    /// An instance wants a place and has none.
    pub waiting: bool,
    /// When to plan again even if nothing happens.
    pub wake_at: Option<Timestamp>,
    /// What the outside is told, by instance number.
    pub incidents: Vec<(u32, Incident)>,
    /// Why: what each instance was found to be.
    pub buckets: Vec<Bucket>,
}

/// Plans one group.
pub fn plan_group(facts: &GroupFacts<'_>, now: Timestamp) -> GroupPlan {
    if let Some(operation) = facts.operation.filter(|o| o.kind == Operation::Removing) {
        return plan_removal(facts, operation, now);
    }
    if facts.blocked {
        return GroupPlan { slots: facts.slots.to_vec(), finished: facts.operation.is_some(), ..GroupPlan::default() };
    }
    let mut planning = Planning { facts, now, plan: GroupPlan::default(), moves: Vec::new(), unsettled: false };
    planning.resize();
    for index in 0..planning.plan.slots.len() {
        planning.classify(index);
    }
    planning.place();
    planning.conclude()
}

fn plan_removal(facts: &GroupFacts<'_>, operation: &OperationRecord, now: Timestamp) -> GroupPlan {
    let limit = operation.since + facts.operation_limit;
    let finished = !facts.lingers || now >= limit;
    GroupPlan {
        store: !facts.slots.is_empty(),
        finished,
        wake_at: (!finished).then_some(limit),
        ..GroupPlan::default()
    }
}

struct Planning<'a> {
    facts: &'a GroupFacts<'a>,
    now: Timestamp,
    plan: GroupPlan,
    /// Slots that need a new place.
    moves: Vec<usize>,
    unsettled: bool,
}

impl Planning<'_> {
    /// Scaling up appends, scaling down drops the highest numbers.
    fn resize(&mut self) {
        let wanted = usize::try_from(self.facts.spec.num_instances).unwrap_or(0);
        let fresh = Slot { version: self.facts.spec.version, ..Slot::default() };
        self.plan.slots = self.facts.slots.to_vec();
        self.plan.slots.resize(wanted, fresh);
    }

    fn classify(&mut self, index: usize) {
        let seen = self.facts.seen.get(index).copied().flatten();
        let slot = &self.plan.slots[index];
        let host = slot.node.as_ref().map(|node| self.facts.hosts.get(node));
        let bucket = bucket_of(slot, seen, host, self.facts);
        self.plan.buckets.push(bucket);
        match bucket {
            Bucket::Waiting | Bucket::Lost => self.moves.push(index),
            Bucket::Pending => {
                self.unsettled = true;
                if self.plan.slots[index].failures == 0 {
                    self.plan.slots[index].why.clear();
                }
            }
            Bucket::Running => self.calm(index),
            Bucket::Ended => {}
            Bucket::Failed => self.failed(index, seen.map_or("", |facts| facts.last_error.as_str())),
            Bucket::Missing => self.missing(index),
            Bucket::Held => self.held(index, host.flatten()),
            // Suspect or engine trouble settles an operation; a node not heard yet may still answer.
            Bucket::Unheard => {
                self.unsettled |= host.flatten().is_none_or(|host| host.liveness == Liveness::Unknown);
            }
        }
    }

    /// What runs has no failures behind it, once the wait after the last attempt is over.
    fn calm(&mut self, index: usize) {
        let slot = &mut self.plan.slots[index];
        if slot.retry_at.happened() && self.now < slot.retry_at {
            let at = slot.retry_at;
            self.wake(at);
        } else if slot.failures > 0 || slot.retry_at.happened() || !slot.why.is_empty() {
            slot.failures = 0;
            slot.retry_at = Timestamp::NEVER;
            slot.why.clear();
        }
    }

    fn failed(&mut self, index: usize, error: &str) {
        let slot = &mut self.plan.slots[index];
        if !slot.retry_at.happened() {
            slot.failures = slot.failures.saturating_add(1);
            slot.retry_at = self.now + wait_after(slot.failures);
            error.clone_into(&mut slot.why);
        }
        self.retry_when_due(index);
    }

    /// The first disappearance is repaired at once, a further one after the wait.
    fn missing(&mut self, index: usize) {
        self.retry_when_due(index);
        if self.moves.last() == Some(&index) {
            let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            self.plan.incidents.push((number, Incident::Missing));
        }
    }

    fn retry_when_due(&mut self, index: usize) {
        let retry_at = self.plan.slots[index].retry_at;
        if retry_at.happened() && self.now < retry_at {
            self.wake(retry_at);
        } else {
            self.moves.push(index);
        }
    }

    fn held(&mut self, index: usize, host: Option<&Host>) {
        let slot = &mut self.plan.slots[index];
        let Some(node) = &slot.node else { return };
        if host.is_some_and(|host| host.liveness == Liveness::Lost) {
            slot.why = format!("node {node} is lost; the instance is stateful and waits for it");
        } else if slot.target == TargetState::Run && !self.facts.spec.pod.stateful {
            slot.why = format!("its container on node {node} is missing and the guard sleeps");
        } else if slot.target == TargetState::Run {
            slot.why = format!("its container on node {node} is missing; a stateful instance is not made anew");
        }
    }

    /// Finds a place for every slot that needs one, in the order of their numbers.
    fn place(&mut self) {
        if self.moves.is_empty() {
            return;
        }
        let mut siblings: BTreeMap<NodeName, u32> = BTreeMap::new();
        for (index, slot) in self.plan.slots.iter().enumerate() {
            if let Some(node) = slot.node.as_ref().filter(|_| self.moves.binary_search(&index).is_err()) {
                *siblings.entry(node.clone()).or_default() += 1;
            }
        }
        let (facts, moves) = (self.facts, std::mem::take(&mut self.moves));
        let filters = [facts.spec.pod.filters.as_slice(), facts.constraints].concat();
        let mut batch = Batch::new(facts.hosts, &filters, facts.need, &siblings, facts.tenants);
        // Slots beyond the new number are gone from the plan but not yet from the nodes' accounts.
        for node in facts.slots.iter().skip(self.plan.slots.len()).filter_map(|slot| slot.node.as_ref()) {
            batch.release(node);
        }
        for index in moves {
            self.place_one(&mut batch, index);
        }
    }

    fn place_one(&mut self, batch: &mut Batch<'_>, index: usize) {
        let bucket = self.plan.buckets[index];
        let old = self.plan.slots[index].node.clone();
        let stays = self.facts.spec.pod.is_stateful();
        let wish = Wish { pin: old.as_ref().filter(|_| stays), avoid: old.as_ref().filter(|_| !stays) };
        // Its own room is free only while it looks for a place: who finds none keeps it.
        if let Some(old) = &old {
            batch.release(old);
        }
        match batch.place(wish) {
            Ok(node) => self.moved(index, bucket, node),
            Err(unplaceable) => {
                if let Some(old) = &old {
                    batch.keep(old);
                }
                self.not_moved(index, bucket, &unplaceable.sentence());
            }
        }
    }

    fn moved(&mut self, index: usize, bucket: Bucket, node: NodeName) {
        self.unsettled = true;
        let now = self.now;
        let slot = &mut self.plan.slots[index];
        let had_place = slot.node.replace(node).is_some();
        slot.version = self.facts.spec.version;
        slot.drift += u32::from(had_place);
        slot.retry_at = Timestamp::NEVER;
        if bucket == Bucket::Missing {
            slot.failures = slot.failures.saturating_add(1);
            slot.retry_at = now + wait_after(slot.failures);
        }
        if bucket != Bucket::Failed {
            slot.why.clear();
        }
    }

    fn not_moved(&mut self, index: usize, bucket: Bucket, sentence: &str) {
        self.plan.waiting = true;
        let now = self.now;
        let slot = &mut self.plan.slots[index];
        slot.why = match (&slot.node, bucket) {
            (Some(node), Bucket::Lost) => format!("node {node} is lost; {sentence}"),
            _ => sentence.to_owned(),
        };
        if matches!(bucket, Bucket::Failed | Bucket::Missing) {
            slot.failures = slot.failures.saturating_add(1);
            slot.retry_at = now + wait_after(slot.failures);
            let at = slot.retry_at;
            self.wake(at);
        }
    }

    fn conclude(mut self) -> GroupPlan {
        if let Some(operation) = self.facts.operation {
            let limit = operation.since + self.facts.operation_limit;
            let lingers = operation.kind == Operation::Scheduling && self.facts.lingers;
            self.plan.finished = !(self.unsettled || lingers) || self.now >= limit;
            if !self.plan.finished {
                self.wake(limit);
            }
        }
        let before = self.facts.slots;
        let same = before.len() == self.plan.slots.len() && before.iter().zip(&self.plan.slots).all(same_but_why);
        self.plan.store = !same;
        self.plan
    }

    fn wake(&mut self, at: Timestamp) {
        self.plan.wake_at = Some(self.plan.wake_at.map_or(at, |other| other.min(at)));
    }
}

/// The text alone is not worth a write: it changes with every byte of free memory, and the next leader finds it again.
fn same_but_why((a, b): (&Slot, &Slot)) -> bool {
    let Slot { node, version, drift, target, failures, retry_at, why: _ } = a;
    (node, version, drift, target, failures, retry_at)
        == (&b.node, &b.version, &b.drift, &b.target, &b.failures, &b.retry_at)
}

/// How long to wait after the `failures`th failure in a row.
pub fn wait_after(failures: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_WAIT)
}

/// The bucket of one slot; `host` is none without a node, and none inside when the node is not known.
fn bucket_of(slot: &Slot, seen: Option<&PodFacts>, host: Option<Option<&Host>>, facts: &GroupFacts<'_>) -> Bucket {
    let Some(host) = host else { return Bucket::Waiting };
    let Some(host) = host else { return Bucket::Unheard };
    match host.liveness {
        Liveness::Lost if facts.spec.pod.is_stateful() => return Bucket::Held,
        Liveness::Lost => return Bucket::Lost,
        Liveness::Suspect | Liveness::Unknown => return Bucket::Unheard,
        Liveness::Alive => {}
    }
    if host.engine != EngineState::Up {
        return Bucket::Unheard;
    }
    let Some(seen) = seen.filter(|seen| !seen.leaving) else { return Bucket::Pending };
    match seen.state {
        RunState::Success => Bucket::Running,
        RunState::Exit | RunState::Fail | RunState::Paused => Bucket::Ended,
        RunState::Error if slot.target == TargetState::Stop || seen.containers.iter().any(|c| c.running) => {
            Bucket::Ended
        }
        RunState::Error => Bucket::Failed,
        RunState::Missing if slot.target == TargetState::Stop || facts.spec.pod.stateful => Bucket::Held,
        RunState::Missing if !facts.guarding => Bucket::Held,
        RunState::Missing => Bucket::Missing,
        RunState::Pending | RunState::Drift | RunState::Inconsistent | RunState::Removed => Bucket::Pending,
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
