//! Whoever tends releases: sets the gates of pods, says that instances are drained, confirms groups.
//!
//! In bad times it does so now and then. When everything is calm it does all of it, lets go on what was paused or frozen, and
//! looks past failures of what is sound, so that every release that can come to an end does.

use std::time::Duration;

use contract::command::{Command, RolloutAction, Verb};
use contract::keys;
use contract::name::GroupName;
use contract::record::{GroupRecord, Slot};
use contract::time::Timestamp;
use planner::rollout::controller::RolloutState;
use planner::rollout::transition::RolloutPhase;

use crate::checks::model::is_departing;
use crate::workload::ScheduledCommand;
use crate::workload::specs;
use crate::world::World;
use crate::world::event::{AtUser, Event};
use crate::world::store::Store;

/// Nothing is asked for so shortly before the end: it is to be decided by then.
const LAST_ORDERS: Duration = Duration::from_secs(20);
/// In bad times one errand in three is done.
const SELDOM: u64 = 33;

impl World {
    /// Looks at every release and does what it waits for.
    pub fn tend(&mut self) {
        let now = self.queue.now();
        let is_calm = now >= self.scenario.calm_at;
        let names = self.workload.released.clone();
        for verb in names.iter().flat_map(|name| errands(name, &self.store, is_calm)).collect::<Vec<_>>() {
            if is_calm || self.random.chance(SELDOM) {
                self.run_errand(verb, now);
            }
        }
        let later = self.random.span(2_000, 7_000);
        if !names.is_empty() && now + later + LAST_ORDERS <= self.scenario.end {
            self.queue.after(later, Event::User(AtUser::Tend));
        }
    }

    fn run_errand(&mut self, verb: Verb, at: Timestamp) {
        let index = self.workload.commands.len();
        let id = format!("errand-{index}").parse().expect("letters, a dash and digits are a name");
        let command = Ok(Command { id, at, by: "tender".to_owned(), verb, digest: None });
        self.workload.commands.push(ScheduledCommand { at, again_at: None, command });
        self.at_user(&AtUser::Publish { index, attempt: 0 });
    }
}

/// Its releases can be spoken to.
fn is_led(record: &GroupRecord) -> bool {
    record.spec.has_strategy() && !is_departing(record)
}

/// What a group waits for, as it is stored.
fn errands(name: &GroupName, store: &Store, is_calm: bool) -> Vec<Verb> {
    let Some(record) = store.group(name).filter(is_led) else {
        return Vec::new();
    };
    let placed = store.placement(name);
    let mut verbs: Vec<Verb> =
        (1..).zip(&placed.slots).flat_map(|(instance, slot)| of_instance(name, &record, instance, slot)).collect();
    if let Some(release) = store.read::<RolloutState>(&keys::release(name)) {
        verbs.extend(of_release(name, &record, &release, is_calm));
    }
    verbs
}

fn of_instance(name: &GroupName, record: &GroupRecord, instance: u32, slot: &Slot) -> Vec<Verb> {
    let mut verbs = Vec::new();
    for pod in slot.pods().filter(|pod| pod.draining.is_none() && pod.node.is_some()) {
        let closed = record.spec.readiness_gates.iter().filter(|gate| !pod.gates.contains_key(*gate));
        verbs.extend(closed.map(|gate| {
            let (name, gate, version) = (name.clone(), gate.clone(), Some(pod.version));
            Verb::SetGate { name, instance, gate, is_true: true, version }
        }));
    }
    if slot.draining.as_ref().is_some_and(|draining| !draining.is_answered) {
        verbs.push(Verb::Drained { name: name.clone(), instance });
    }
    verbs
}

fn of_release(name: &GroupName, record: &GroupRecord, release: &RolloutState, is_calm: bool) -> Option<Verb> {
    let say = |action| Some(Verb::Rollout { name: name.clone(), release: Some(release.target), action });
    if release.is_frozen && is_calm {
        return say(RolloutAction::Unfreeze);
    }
    let is_forgivable = release.failure.is_some() && specs::is_sound(&record.spec.pod);
    if (record.spec.paused || is_forgivable) && is_calm {
        return say(RolloutAction::Resume);
    }
    let is_waiting = release.phase == RolloutPhase::WaitingForConfirm && release.confirmed != release.batch;
    if is_waiting { say(RolloutAction::Confirm { group: release.batch }) } else { None }
}
