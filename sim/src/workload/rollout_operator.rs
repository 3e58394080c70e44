//! The operator of rollouts: opens readiness gates, confirms drains and batches.
//!
//! During faults it sends a third of these commands. After `calm_at` it sends all of them, resumes paused and frozen rollouts, and
//! resumes after failures of sound specs, so that every rollout that can complete does.

use std::time::Duration;

use contract::command::{Command, RolloutAction, Verb};
use contract::keys;
use contract::name::GroupName;
use contract::record::{GroupRecord, Instance};
use contract::time::Timestamp;
use planner::rollout::controller::RolloutState;
use planner::rollout::transition::RolloutPhase;
use testkit::store::FakeStore;

use crate::checks::model::is_leaving;
use crate::workload::ScheduledCommand;
use crate::workload::specs;
use crate::world::World;
use crate::world::event::{AtUser, Event};

/// No commands in the last 20 s, so that all are decided at the end.
const LAST_COMMANDS: Duration = Duration::from_secs(20);
/// Percentage of commands sent during faults.
const DURING_FAULTS_PERCENT: u64 = 33;

impl World {
    pub fn operate_rollouts(&mut self) {
        let now = self.queue.now();
        let is_calm = now >= self.scenario.calm_at;
        let names = self.workload.released.clone();
        for verb in names.iter().flat_map(|name| rollout_commands(name, &self.store, is_calm)).collect::<Vec<_>>() {
            if is_calm || self.random.chance(DURING_FAULTS_PERCENT) {
                self.send_rollout_command(verb, now);
            }
        }
        let later = self.random.span(2_000, 7_000);
        if !names.is_empty() && now + later + LAST_COMMANDS <= self.scenario.end {
            self.queue.after(later, Event::User(AtUser::OperateRollouts));
        }
    }

    fn send_rollout_command(&mut self, verb: Verb, at: Timestamp) {
        let index = self.workload.commands.len();
        let id = format!("errand-{index}").parse().expect("letters, a dash and digits are a name");
        let command = Ok(Command { id, at, by: "tender".to_owned(), verb, digest: None, credentials: None });
        self.workload.commands.push(ScheduledCommand { at, again_at: None, command });
        self.at_user(&AtUser::Publish { index, attempt: 0 });
    }
}

fn has_rollouts(record: &GroupRecord) -> bool {
    record.spec.has_strategy() && !is_leaving(record)
}

/// The commands that the stored state of a group waits for.
fn rollout_commands(name: &GroupName, store: &FakeStore, is_calm: bool) -> Vec<Verb> {
    let Some(record) = store.group(name).filter(has_rollouts) else {
        return Vec::new();
    };
    let placed = store.placement(name);
    let mut verbs: Vec<Verb> = (1..)
        .zip(&placed.instances)
        .flat_map(|(number, instance)| instance_commands(name, &record, number, instance))
        .collect();
    if let Some(release) = store.read::<RolloutState>(&keys::release(name)) {
        verbs.extend(rollout_command(name, &record, &release, is_calm));
    }
    verbs
}

fn instance_commands(name: &GroupName, record: &GroupRecord, number: u32, instance: &Instance) -> Vec<Verb> {
    let mut verbs = Vec::new();
    for pod in instance.pods().filter(|pod| pod.draining.is_none() && pod.node.is_some()) {
        let closed = record.spec.readiness_gates.iter().filter(|gate| !pod.gates.contains_key(*gate));
        verbs.extend(closed.map(|gate| {
            let (name, gate, version) = (name.clone(), gate.clone(), Some(pod.version));
            Verb::SetGate { name, instance: number, gate, is_true: true, version }
        }));
    }
    if instance.draining.as_ref().is_some_and(|draining| !draining.is_answered) {
        verbs.push(Verb::Drained { name: name.clone(), instance: number });
    }
    verbs
}

fn rollout_command(name: &GroupName, record: &GroupRecord, release: &RolloutState, is_calm: bool) -> Option<Verb> {
    let command = |action| Some(Verb::Rollout { name: name.clone(), release: Some(release.target), action });
    if release.is_frozen && is_calm {
        return command(RolloutAction::Unfreeze);
    }
    let is_forgivable = release.failure.is_some() && specs::is_sound(&record.spec.pod);
    if (record.spec.paused || is_forgivable) && is_calm {
        return command(RolloutAction::Resume);
    }
    let is_waiting = release.phase == RolloutPhase::WaitingForConfirm && release.confirmed != release.batch;
    if is_waiting { command(RolloutAction::Confirm { group: release.batch }) } else { None }
}
