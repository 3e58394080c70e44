//! The commands of a history with their times, made from the seed.
//!
//! Every kind of command, at any time, for few groups, so that commands conflict; some ids are sent twice, and some messages are
//! unreadable.

use std::time::Duration;

use contract::command::{Act, Command, Verb};
use contract::name::{CommandId, GroupName};
use contract::notice::DeadLetter;
use contract::subjects;
use contract::time::Timestamp;
use testkit::random::Random;

use crate::faults::Fault;
use crate::scenario::Scenario;
use crate::workload::cordons;
use crate::workload::next_command;
use crate::workload::rollouts;
use crate::workload::specs;
use crate::workload::switches;
use crate::world::event_queue::BEGINNING;

#[derive(Debug, Clone)]
pub struct ScheduledCommand {
    pub at: Timestamp,
    /// Sends the same id again at this time.
    pub again_at: Option<Timestamp>,
    pub command: Result<Command, DeadLetter>,
}

#[derive(Debug)]
pub struct Workload {
    /// Not sorted.
    pub commands: Vec<ScheduledCommand>,
    pub groups: Vec<GroupName>,
    /// The groups with a strategy.
    pub released: Vec<GroupName>,
    /// Queries: time and index of the group.
    pub queries: Vec<(Timestamp, usize)>,
    /// Agents that die while they restart instances.
    pub faults_at_commands: Vec<(Timestamp, Fault)>,
}

impl Workload {
    pub fn new(scenario: &Scenario) -> Self {
        let mut random = Random::new(scenario.seed).fork(2);
        let count = random.index(3) + 2;
        let mut groups: Vec<GroupName> = (0..count).filter_map(|n| format!("app{n}.web.web").parse().ok()).collect();
        let busy = u64::try_from(scenario.calm_at.since(BEGINNING).as_millis()).unwrap_or(0);
        let mut commands: Vec<ScheduledCommand> = (0..count)
            .map(|n| {
                let at = BEGINNING + random.span(300, 5_000);
                scheduled(at, n, Verb::CreateGroup { spec: specs::group(&groups[n], at, &mut random) }, &mut random)
            })
            .collect();
        for name in specs::dependency_names() {
            if random.chance(60) {
                let at = BEGINNING + random.span(300, 9_000);
                let verb = Verb::CreateDependency { pod: specs::dependency(&name, &mut random) };
                commands.push(scheduled(at, commands.len(), verb, &mut random));
            }
        }
        let mut last = BEGINNING + random.span(5_000, busy);
        for _ in 0..random.index(26) {
            last = moment(scenario, last, &mut random);
            let group = groups[random.index(groups.len())].clone();
            let number = commands.len();
            let made = if random.chance(4) {
                unreadable(last, number)
            } else {
                let verb = next_command::verb(group, scenario.nodes, last, &mut random);
                scheduled(last, number, verb, &mut random)
            };
            commands.push(made);
        }
        commands.extend(switches::commands(scenario));
        commands.extend(cordons::commands(scenario));
        let (released, steered) = rollouts::commands(scenario);
        commands.extend(steered);
        groups.extend(released.iter().cloned());
        let queries = (0..random.index(20))
            .map(|_| (BEGINNING + random.span(1_000, busy + 60_000), random.index(groups.len())))
            .collect();
        let faults_at_commands =
            commands.iter().flat_map(|scheduled| faults_at_commands(scheduled, scenario, &mut random)).collect();
        Self { commands, groups, released, queries, faults_at_commands }
    }
}

/// A time near a fault, soon after the previous command, or at random.
pub fn moment(scenario: &Scenario, last: Timestamp, random: &mut Random) -> Timestamp {
    let busy = u64::try_from(scenario.calm_at.since(BEGINNING).as_millis()).unwrap_or(0);
    let fault = random.pick(&scenario.faults).map(|(at, _)| *at);
    let (before, after) = (random.span(0, 6_000), random.span(0, 300));
    let fault = fault.map(|at| if random.chance(50) { at - before } else { at + after });
    let soon = last + random.span(0, 9_000);
    let free = BEGINNING + random.span(5_000, busy);
    match random.below(10) {
        0..4 => fault.unwrap_or(free),
        4..8 if soon < scenario.calm_at => soon,
        _ => free,
    }
}

fn faults_at_commands(
    scheduled: &ScheduledCommand,
    scenario: &Scenario,
    random: &mut Random,
) -> Vec<(Timestamp, Fault)> {
    let restarts = matches!(&scheduled.command, Ok(Command { verb: Verb::Operate { act: Act::Restart, .. }, .. }));
    let mut faults = Vec::new();
    for node in (0..scenario.nodes).filter(|_| restarts) {
        let (at, down) = (scheduled.at + random.span(500, 12_000), random.span(300, 3_000));
        if at < scenario.calm_at && random.chance(50) {
            faults.push((at, Fault::KillAgent { node, down }));
        }
    }
    faults
}

fn scheduled(at: Timestamp, number: usize, verb: Verb, random: &mut Random) -> ScheduledCommand {
    let id: CommandId = format!("command-{number}").parse().expect("letters, a dash and digits are a name");
    let again_at = random.chance(25).then(|| at + random.span(100, 60_000));
    ScheduledCommand {
        at,
        again_at,
        command: Ok(Command { id, at, by: "user".to_owned(), verb, digest: None, credentials: None }),
    }
}

fn unreadable(at: Timestamp, number: usize) -> ScheduledCommand {
    let payload = format!("garbage {number}");
    let letter =
        DeadLetter::new(subjects::COMMANDS, "expected value at line 1 column 1".to_owned(), payload.as_bytes(), at);
    ScheduledCommand { at, again_at: None, command: Err(letter) }
}

pub const RETRY: Duration = Duration::from_secs(2);
/// Tries to publish before a user gives up.
pub const MOST_TRIES: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_would_accept_every_spec() {
        for seed in 0..20 {
            for scheduled in Workload::new(&Scenario::new(seed)).commands {
                match scheduled.command.map(|command| command.verb) {
                    Ok(Verb::CreateGroup { spec }) => assert_eq!(spec.validate(), Ok(())),
                    Ok(Verb::PatchSpec { pod, .. } | Verb::CreateDependency { pod }) => {
                        assert_eq!(pod.validate(), Ok(()));
                    }
                    _ => {}
                }
            }
        }
    }
}
