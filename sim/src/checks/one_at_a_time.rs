//! One at a time: an upgrade, a restart or a drift takes the next instance down only when the one before is up again, or has
//! had its time.
//!
//! What is up is seen on the engines, not in reports.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::core::io::Phase;
use contract::name::NodeName;
use contract::pod_id::{InstanceKey, PodId};
use contract::state::TargetState;
use contract::time::Timestamp;

use crate::checks::checker::index_of;
use crate::checks::commit_changes::{Change, Stride};
use crate::workload::specs::is_sound;
use crate::world::Nodes;

/// Clocks of schedulers are wrong by less.
const AHEAD: Duration = Duration::from_secs(2);

/// An instance that was taken down.
#[derive(Debug, Clone)]
struct Taken {
    pod: PodId,
    node: Option<NodeName>,
    since: Timestamp,
    /// Others need not wait for it any longer from then on.
    until: Timestamp,
    restarts: u32,
    containers: usize,
}

/// The instances that were taken down and are not up yet.
#[derive(Debug, Default)]
pub struct Turns {
    taken: BTreeMap<InstanceKey, Taken>,
}

impl Turns {
    /// A commit is stored; `excused` nodes are lost, or were tampered with. What is wrong, if anything.
    pub fn observe(&mut self, change: &Change, poll: Duration, excused: impl Fn(&NodeName) -> bool) -> Option<String> {
        let mut wrong = None;
        for stride in change.strides() {
            let spec = change.spec(stride.is.version);
            let setup = Duration::from_secs(spec.map_or(0, |spec| spec.setup_time).max(0).unsigned_abs());
            let is_over = stride.is_promoted() || change.is_another(&stride);
            if stride.is.target == TargetState::Stop || stride.is.node.is_none() || is_over {
                self.taken.remove(&stride.instance);
            } else if is_released(change, &stride) {
                // Budgets say how many a release takes down, and no turn has to wait for it.
                self.taken.remove(&stride.instance);
            } else if is_taken(&stride) && (stride.is.version != stride.was.version || spec.is_some_and(is_sound)) {
                let since = stride.is.since;
                let group = self.taken.iter().filter(|(key, _)| key.group == change.group);
                let mut others = group.filter(|(key, _)| **key != stride.instance);
                let waits = |taken: &Taken| since < taken.until && !taken.node.as_ref().is_some_and(&excused);
                if let Some((other, taken)) = others.find(|(_, taken)| waits(taken)) {
                    wrong = Some(format!("{} goes at {since}, {other} is not up: {taken:?}", stride.instance));
                }
                let taken = Taken {
                    pod: stride.pod(),
                    node: stride.is.node.clone(),
                    since,
                    until: since + poll.max(setup) * 5,
                    restarts: stride.is.restarts_requested,
                    containers: spec.map_or(0, |spec| spec.containers.len()),
                };
                self.taken.insert(stride.instance, taken);
            } else if let Some(taken) = self.taken.get_mut(&stride.instance) {
                // Made anew for reasons of its own.
                (taken.pod, taken.node) = (stride.pod(), stride.is.node.clone());
            }
        }
        self.taken.retain(|key, _| key.group != change.group || number(key) <= change.is.slots.len());
        wrong
    }

    /// A group is gone.
    pub fn forget(&mut self, gone: impl Fn(&InstanceKey) -> bool) {
        self.taken.retain(|key, _| !gone(key));
    }

    /// Containers changed.
    pub fn look(&mut self, nodes: &Nodes<'_>) {
        self.taken.retain(|_, taken| !is_up(taken, nodes));
    }
}

/// A release brought it to another revision, or to the unit it belongs to: both are the conductor's, and cost its budget.
fn is_released(change: &Change, stride: &Stride<'_>) -> bool {
    let (was, is) = (stride.was, stride.is);
    let changed = was.version != is.version || was.filling != is.filling || was.unit != is.unit;
    changed && change.is.record.spec.has_strategy()
}

fn number(key: &InstanceKey) -> usize {
    usize::try_from(key.instance).unwrap_or(usize::MAX)
}

/// An instance that ran is taken down on purpose.
fn is_taken(stride: &Stride<'_>) -> bool {
    let (was, is) = (stride.was, stride.is);
    let ran = was.target == TargetState::Run && was.node.is_some() && was.leaves.is_none() && was.failures == 0;
    let anew = is.version != was.version || is.restarts_requested > was.restarts_requested;
    ran && (anew || (is.leaves.is_some() && is.leaves == was.node))
}

fn is_up(taken: &Taken, nodes: &Nodes<'_>) -> bool {
    let Some(machine) = taken.node.as_ref().and_then(index_of).and_then(|node| nodes.machines.get(node)) else {
        return false;
    };
    let memory = machine.disk.memory.get(&taken.pod);
    let answered = taken.restarts > 0 && memory.is_some_and(|memory| memory.restarts_done >= taken.restarts);
    let inventory = nodes.engines[machine.engine].inventory(&machine.owner);
    let own = inventory.iter().filter(|seen| seen.identity.pod == taken.pod && seen.phase == Phase::Running);
    // The clock of the leader that took it down may be ahead of the engine's.
    own.filter(|seen| answered || seen.started_at + AHEAD >= taken.since).count() >= taken.containers
}
