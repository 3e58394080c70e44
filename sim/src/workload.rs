//! What users ask for in a history: a list of commands with their times, made from the seed.
//!
//! Every kind of command, at any moment, for few groups, so that they meet; some ids twice, and some
//! messages nobody can read.

use std::time::Duration;

use contract::command::{Command, Verb};
use contract::name::{CommandId, GroupName};
use contract::notice::DeadLetter;
use contract::spec::{ContainerSpec, PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::subjects;
use contract::time::Timestamp;

use crate::braking;
use crate::faults::Plan;
use crate::queue::BEGINNING;
use crate::random::Random;

/// One thing a user publishes.
#[derive(Debug, Clone)]
pub struct Wish {
    /// When.
    pub at: Timestamp,
    /// The same again, long after.
    pub again_at: Option<Timestamp>,
    /// What.
    pub command: Result<Command, DeadLetter>,
}

/// All of it.
#[derive(Debug)]
pub struct Workload {
    /// Commands in no order.
    pub wishes: Vec<Wish>,
    /// The groups they are about.
    pub groups: Vec<GroupName>,
    /// When somebody asks, and about which group.
    pub questions: Vec<(Timestamp, usize)>,
}

impl Workload {
    /// The workload of a plan.
    pub fn new(plan: &Plan) -> Self {
        let mut random = Random::new(plan.seed).fork(2);
        let count = random.index(3) + 2;
        let groups: Vec<GroupName> = (0..count).filter_map(|n| format!("app{n}.web.web").parse().ok()).collect();
        let busy = u64::try_from(plan.calm_at.since(BEGINNING).as_millis()).unwrap_or(0);
        let mut wishes: Vec<Wish> = (0..count)
            .map(|n| {
                let at = BEGINNING + random.span(300, 5_000);
                wish(at, n, Verb::CreateGroup { spec: spec(&groups[n], at, &mut random) }, &mut random)
            })
            .collect();
        for number in count..count + random.index(16) {
            // Half of them at the very moment something goes wrong.
            let moment = random.pick(&plan.faults).map(|(at, _)| *at + random.span(0, 300));
            let at = moment.filter(|_| random.chance(50)).unwrap_or_else(|| BEGINNING + random.span(5_000, busy));
            let group = groups[random.index(groups.len())].clone();
            let made = if random.chance(4) {
                unreadable(at, number)
            } else {
                let verb = verb(group, at, &mut random);
                wish(at, number, verb, &mut random)
            };
            wishes.push(made);
        }
        wishes.extend(braking::wishes(plan));
        let questions = (0..random.index(20))
            .map(|_| (BEGINNING + random.span(1_000, busy + 60_000), random.index(count)))
            .collect();
        Self { wishes, groups, questions }
    }
}

fn wish(at: Timestamp, number: usize, verb: Verb, random: &mut Random) -> Wish {
    let id: CommandId = format!("command-{number}").parse().expect("letters, a dash and digits are a name");
    let again_at = random.chance(25).then(|| at + random.span(100, 60_000));
    Wish { at, again_at, command: Ok(Command { id, at, by: "user".to_owned(), verb }) }
}

fn unreadable(at: Timestamp, number: usize) -> Wish {
    let payload = format!("garbage {number}");
    let letter =
        DeadLetter::new(subjects::COMMANDS, "expected value at line 1 column 1".to_owned(), payload.as_bytes(), at);
    Wish { at, again_at: None, command: Err(letter) }
}

fn verb(name: GroupName, at: Timestamp, random: &mut Random) -> Verb {
    let url = format!("http://callback.example/{}", random.below(2));
    match random.below(100) {
        0..30 => Verb::CreateGroup { spec: spec(&name, at, random) },
        30..65 => {
            let restart_policy = random.chance(20).then_some(RestartPolicy::OnFail);
            Verb::Replica { name, num_instances: u32::try_from(random.below(6)).unwrap_or(1), restart_policy }
        }
        65..90 => Verb::RemoveGroup { name },
        90..96 => Verb::AddCallback { url },
        _ => Verb::RemoveCallback { url },
    }
}

fn spec(name: &GroupName, at: Timestamp, random: &mut Random) -> Box<PodGroupSpec> {
    let container = |n: u64| ContainerSpec {
        image: format!("demo:{n}"),
        cpu_limit: 1,
        memory_limit: 64 << 20,
        ..Default::default()
    };
    let containers = (0..if random.chance(15) { 2 } else { 1 }).map(|_| container(random.below(4))).collect();
    let pod = PodSpec {
        name: name.to_string(),
        namespace: "app".to_owned(),
        containers,
        stateful: random.chance(20),
        kill_timeout: 10,
        annotation: annotation(random),
        ..Default::default()
    };
    let spec = PodGroupSpec {
        name: name.to_string(),
        namespace: "app".to_owned(),
        num_instances: i64::try_from(random.between(1, 6)).unwrap_or(1),
        restart_policy: if random.chance(80) { RestartPolicy::Always } else { RestartPolicy::OnFail },
        pod,
        ..Default::default()
    };
    Box::new(spec.for_creation(at))
}

/// Some groups want a stream port or two, of so few that they meet.
fn annotation(random: &mut Random) -> String {
    let port = |srcport: u64| format!(r#"{{"srcport":{srcport},"dstport":80,"proto":"tcp"}}"#);
    match random.below(10) {
        0..2 => format!(r#"{{"ports":[{}]}}"#, port(9001 + random.below(3))),
        2 => format!(r#"{{"ports":[{},{}]}}"#, port(9001), port(9002 + random.below(2))),
        _ => String::new(),
    }
}

/// Between two tries to publish.
pub const RETRY: Duration = Duration::from_secs(2);
/// Tries to publish before a user gives up.
pub const MOST_TRIES: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_asked_for_is_one_the_api_would_take() {
        for seed in 0..20 {
            for wish in Workload::new(&Plan::new(seed)).wishes {
                if let Ok(Command { verb: Verb::CreateGroup { spec }, .. }) = wish.command {
                    assert_eq!(spec.validate(), Ok(()));
                }
            }
        }
    }
}
