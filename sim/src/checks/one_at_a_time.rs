//! An upgrade, a restart or a move takes the next instance down only when the previous one is up again or its time is over.
//!
//! Whether an instance is up is read from the engines, not from reports.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::core::io::Phase;
use contract::name::NodeName;
use contract::pod_id::{InstanceKey, PodId};
use contract::state::TargetState;
use contract::time::Timestamp;

use crate::checks::checker::index_of;
use crate::checks::commit_changes::{Change, Transition};
use crate::workload::specs::is_sound;
use crate::world::GroundTruth;

/// Longer than the clock error of schedulers.
const AHEAD: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
struct TakenDown {
    pod: PodId,
    node: Option<NodeName>,
    since: Timestamp,
    /// After this time others need not wait for it.
    until: Timestamp,
    restarts: u32,
    containers: usize,
}

#[derive(Debug, Default)]
pub struct OneAtATime {
    taken: BTreeMap<InstanceKey, TakenDown>,
}

impl OneAtATime {
    /// Returns what is wrong with a commit. `excused` nodes are lost, or a fault hit their engine.
    pub fn observe(&mut self, change: &Change, poll: Duration, excused: impl Fn(&NodeName) -> bool) -> Option<String> {
        let mut wrong = None;
        for transition in change.transitions() {
            let spec = change.spec(transition.is.version);
            let setup = Duration::from_secs(spec.map_or(0, |spec| spec.setup_time).max(0).unsigned_abs());
            let is_over = transition.is_promoted() || change.is_another(&transition);
            if transition.is.target == TargetState::Stop || transition.is.node.is_none() || is_over {
                self.taken.remove(&transition.instance);
            } else if is_released(change, &transition) {
                // The budget limits how many pods a rollout takes down.
                self.taken.remove(&transition.instance);
            } else if is_taken(&transition)
                && (transition.is.version != transition.was.version || spec.is_some_and(is_sound))
            {
                let since = transition.is.since;
                let group = self.taken.iter().filter(|(key, _)| key.group == change.group);
                let mut others = group.filter(|(key, _)| **key != transition.instance);
                let waits = |taken: &TakenDown| since < taken.until && !taken.node.as_ref().is_some_and(&excused);
                if let Some((other, taken)) = others.find(|(_, taken)| waits(taken)) {
                    wrong = Some(format!("{} goes at {since}, {other} is not up: {taken:?}", transition.instance));
                }
                let taken = TakenDown {
                    pod: transition.pod(),
                    node: transition.is.node.clone(),
                    since,
                    until: since + poll.max(setup) * 5,
                    restarts: transition.is.restarts_requested,
                    containers: spec.map_or(0, |spec| spec.containers.len()),
                };
                self.taken.insert(transition.instance, taken);
            } else if let Some(taken) = self.taken.get_mut(&transition.instance) {
                // Recreated for another reason.
                (taken.pod, taken.node) = (transition.pod(), transition.is.node.clone());
            }
        }
        self.taken.retain(|key, _| key.group != change.group || number(key) <= change.is.instances.len());
        wrong
    }

    pub fn forget(&mut self, gone: impl Fn(&InstanceKey) -> bool) {
        self.taken.retain(|key, _| !gone(key));
    }

    pub fn look(&mut self, truth: &GroundTruth<'_>) {
        self.taken.retain(|_, taken| !is_up(taken, truth));
    }
}

/// A rollout changed its revision or its unit, within the budget.
fn is_released(change: &Change, transition: &Transition<'_>) -> bool {
    let (was, is) = (transition.was, transition.is);
    let changed = was.version != is.version || was.presence != is.presence || was.unit != is.unit;
    changed && change.is.record.spec.has_strategy()
}

fn number(key: &InstanceKey) -> usize {
    usize::try_from(key.instance).unwrap_or(usize::MAX)
}

/// The commit takes a running instance down on purpose.
fn is_taken(transition: &Transition<'_>) -> bool {
    let (was, is) = (transition.was, transition.is);
    let ran = was.target == TargetState::Run && was.node.is_some() && was.leaves.is_none() && was.failures == 0;
    let anew = is.version != was.version || is.restarts_requested > was.restarts_requested;
    ran && (anew || (is.leaves.is_some() && is.leaves == was.node))
}

fn is_up(taken: &TakenDown, truth: &GroundTruth<'_>) -> bool {
    let Some(process) = taken.node.as_ref().and_then(index_of).and_then(|node| truth.nodes.get(node)) else {
        return false;
    };
    let memory = process.disk.memory.get(&taken.pod);
    let answered = taken.restarts > 0 && memory.is_some_and(|memory| memory.restarts_done >= taken.restarts);
    let inventory = truth.engines[process.engine].inventory(&process.owner);
    let own = inventory.iter().filter(|seen| seen.identity.pod == taken.pod && seen.phase == Phase::Running);
    // The leader's clock may be ahead of the engine's.
    own.filter(|seen| answered || seen.started_at + AHEAD >= taken.since).count() >= taken.containers
}
