//! Commands about groups with a strategy: spec changes, scaling, strategies, every rollout action, gates, drains, and every kind of
//! removal.
//!
//! They conflict with each other, with faults and with other commands. [`super::rollout_operator`] answers what they leave open.

use contract::command::{Act, Command, Removal, RolloutAction, Verb};
use contract::name::GroupName;
use contract::spec::PodGroupSpec;
use contract::time::Timestamp;
use serde_json::{Map, Value};
use testkit::random::Random;

use crate::scenario::Scenario;
use crate::workload::next_command;
use crate::workload::rollout_specs;
use crate::workload::{ScheduledCommand, moment};
use crate::world::event_queue::BEGINNING;

/// No groups in a quarter of the histories.
pub fn commands(scenario: &Scenario) -> (Vec<GroupName>, Vec<ScheduledCommand>) {
    let mut random = Random::new(scenario.seed).fork(8);
    let count = if random.chance(75) { random.index(2) + 1 } else { 0 };
    let names = rollout_specs::names(count, scenario.seed);
    let mut verbs = Vec::new();
    for name in &names {
        let at = BEGINNING + random.span(300, 5_000);
        verbs.push((at, Verb::CreateGroup { spec: rollout_specs::group(name, at, &mut random) }));
        let mut last = at;
        for _ in 0..random.index(16) + 4 {
            last = moment(scenario, last, &mut random);
            verbs.push((last, verb(name, scenario.nodes, last, &mut random)));
        }
    }
    let commands = verbs.into_iter().enumerate().map(|(number, (at, verb))| scheduled(number, at, verb, &mut random));
    (names, commands.collect())
}

fn scheduled(number: usize, at: Timestamp, verb: Verb, random: &mut Random) -> ScheduledCommand {
    let id = format!("release-{number}").parse().expect("letters, a dash and digits are a name");
    let again_at = random.chance(15).then(|| at + random.span(100, 60_000));
    ScheduledCommand {
        at,
        again_at,
        command: Ok(Command { id, at, by: "releaser".to_owned(), verb, digest: None, credentials: None }),
    }
}

fn verb(name: &GroupName, nodes: usize, at: Timestamp, random: &mut Random) -> Verb {
    let name = name.clone();
    match random.below(100) {
        0..30 => {
            let pod = Box::new(rollout_specs::pod(&name, 30, random));
            Verb::PatchSpec { name, pod, cause: "another try".to_owned() }
        }
        30..42 => {
            let num_instances = u32::try_from(random.below(7)).unwrap_or(1);
            Verb::Replica { name, num_instances, restart_policy: None }
        }
        42..64 => {
            let release = random.chance(15).then(|| u32::try_from(random.below(6)).unwrap_or(0));
            Verb::Rollout { name, release, action: action(random) }
        }
        64..72 => Verb::PatchStrategy { name, fields: patch(random) },
        72..77 => Verb::SetGate {
            name,
            instance: u32::try_from(random.between(1, 5)).unwrap_or(1),
            gate: rollout_specs::GATE.to_owned(),
            is_true: random.chance(40),
            version: None,
        },
        77..79 => Verb::Drained { name, instance: u32::try_from(random.between(1, 5)).unwrap_or(1) },
        79..85 => {
            let ways = [Removal::Foreground, Removal::Background, Removal::Orphan];
            Verb::RemoveGroup { name, removal: *random.pick(&ways).unwrap_or(&ways[0]) }
        }
        85..91 => Verb::CreateGroup { spec: rollout_specs::group(&name, at, random) },
        91..96 => {
            let act = *random.pick(&[Act::Start, Act::Stop, Act::Restart]).unwrap_or(&Act::Restart);
            Verb::Operate { name, act, instance: u32::try_from(random.below(4)).unwrap_or(0) }
        }
        _ => next_command::drift(name, nodes, random),
    }
}

fn action(random: &mut Random) -> RolloutAction {
    let group = random.between(1, 4);
    match random.below(12) {
        0..2 => RolloutAction::Pause,
        2..4 => RolloutAction::Resume,
        4..6 => RolloutAction::Confirm { group },
        6 => RolloutAction::Skip { group },
        7 => RolloutAction::Abort,
        8..10 => {
            let revision = random.chance(50).then(|| u32::try_from(random.below(6)).unwrap_or(0));
            RolloutAction::Undo { revision, cause: "the other was better".to_owned() }
        }
        10 => RolloutAction::Freeze,
        _ => RolloutAction::Unfreeze,
    }
}

/// Some fields of a random strategy. Fields that depend on the strategy come with it.
fn patch(random: &mut Random) -> Map<String, Value> {
    let all = rollout_fields(&rollout_specs::fields(random));
    let together = ["Strategy", "Topology", "UpdatePolicy"];
    let is_whole = random.chance(40);
    let chosen = |key: &str, random: &mut Random| match together.contains(&key) {
        true => is_whole,
        false => random.chance(30),
    };
    let mut fields: Map<String, Value> = all.into_iter().filter(|(key, _)| chosen(key, random)).collect();
    if let Some(Value::Object(strategy)) = fields.get_mut("Strategy") {
        // A patch is merged: another strategy type must set the fields of the former one to null.
        let all = ["MaxSurge", "MaxUnavailable", "BatchSize", "NeedWaitingForConfirm", "Window", "UpgradePause"];
        for name in all.into_iter().chain(["ConfirmFirstDeployment"]) {
            strategy.entry(name).or_insert(Value::Null);
        }
    }
    fields
}

/// The fields of a spec that describe rollouts, without defaults.
pub fn rollout_fields(spec: &PodGroupSpec) -> Map<String, Value> {
    let bare = PodGroupSpec { name: String::new(), ..PodGroupSpec::default() };
    let keys = |spec: &PodGroupSpec| match serde_json::to_value(spec) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    };
    let common = keys(&bare);
    keys(spec).into_iter().filter(|(key, _)| !common.contains_key(key)).collect()
}
