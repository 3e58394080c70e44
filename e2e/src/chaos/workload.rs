//! Sends commands at a fixed rate while faults occur, whether or not earlier ones were answered.
//!
//! Each command has its own key and is retried with it until its outcome is known; some are sent through both apiservers at the
//! same time, some again much later. One loop owns all objects and the journal; a task owns its object until the command is
//! decided. Without an idle object no command is sent, which bounds the commands in flight.

use std::time::{Duration, Instant};

use contract::api::OperationStatus;
use fabric::shutdown::Shutdown;
use testkit::random::Random;
use tokio::task::JoinSet;

use crate::chaos::model::{Change, CommandOutcome, Kind, Object};
use crate::chaos::request::request;
use crate::cluster::{Answer, Api, Request};

/// Slightly above the goal, because sometimes no object is idle.
const EVERY: Duration = Duration::from_millis(40);
const AGAIN_AFTER: Duration = Duration::from_millis(150);
/// The error of an accepted patch that fits on no node and changed nothing, as documented.
const NO_ROOM: &str = "No resources available to scheduler container";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) busy: u32,
    /// Groups without instances: enough that commands continue during a takeover.
    pub(crate) empty: u32,
    /// How long a command is retried.
    pub(crate) patience: Duration,
}

impl Default for Load {
    fn default() -> Self {
        // Two of the longest back-offs and a takeover.
        Self { busy: 12, empty: 300, patience: Duration::from_secs(60) }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) object: String,
    pub(crate) change: Change,
    pub(crate) sent: Instant,
    pub(crate) decided: Instant,
    pub(crate) outcome: CommandOutcome,
    /// Sent again after it was accepted, or twice at the same time.
    pub(crate) repeated: bool,
    /// Why the outcome contradicts the model.
    pub(crate) contradiction: Option<String>,
    /// Accepted, but it fits on no node.
    pub(crate) no_room: bool,
}

#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) entries: Vec<Entry>,
    pub(crate) objects: Vec<Object>,
}

/// Clusters share the engine, so names contain the `tag` of the cluster.
fn objects(tag: &str, load: Load) -> Vec<Object> {
    let busy = (1..=load.busy).map(|n| Object::new(Kind::Group { most: 2 }, format!("busy{n}-{tag}.web.web")));
    let empty = (1..=load.empty).map(|n| Object::new(Kind::Group { most: 0 }, format!("empty{n}-{tag}.web.web")));
    let constraints = (1..=30).map(|n| Object::new(Kind::Constraint, format!("proof{n}")));
    // No server listens on port 9.
    let callbacks = (1..=4).map(|n| Object::new(Kind::Callback, format!("http://127.0.0.1:9/{n}")));
    busy.chain(empty).chain(constraints).chain(callbacks).collect()
}

/// Sends commands until `stop`, then waits for those in flight.
pub(crate) async fn run(api: Api, mut random: Random, (tag, load): (String, Load), stop: Shutdown) -> Journal {
    let mut idle = objects(&tag, load);
    let mut entries: Vec<Entry> = Vec::new();
    let mut in_flight: JoinSet<(Object, Entry)> = JoinSet::new();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut number = 0_u64;
    loop {
        tokio::select! {
            Some(Ok((object, entry))) = in_flight.join_next() => {
                idle.push(object);
                entries.push(entry);
            }
            () = stop.wait(), if !stop.is_triggered() || in_flight.is_empty() => {
                if in_flight.is_empty() { break }
            }
            _ = tick.tick(), if !stop.is_triggered() => {
                number += 1;
                if let Some(job) = next_job(&mut idle, &mut random, format!("{tag}-{number}")) {
                    let api = api.clone();
                    in_flight.spawn(async move { carry_out(&api, job, load.patience).await });
                }
            }
        }
    }
    Journal { entries, objects: idle }
}

#[derive(Debug)]
struct Job {
    object: Object,
    key: String,
    change: Change,
    /// A repeat of an accepted command: must be accepted again, without effect.
    late: bool,
    /// Sent through both apiservers at the same time.
    duplicate: bool,
    first: usize,
}

fn next_job(idle: &mut Vec<Object>, random: &mut Random, key: String) -> Option<Job> {
    let heavy = random.chance(30);
    let of_weight = |heavy: bool| -> Vec<usize> {
        let is_heavy = |object: &Object| matches!(object.kind, Kind::Group { most } if most > 0);
        (0..idle.len()).filter(|index| is_heavy(&idle[*index]) == heavy && !idle[*index].doubtful).collect()
    };
    // If all groups with instances are busy, an object without takes the command.
    let fits = Some(of_weight(heavy)).filter(|fits| !fits.is_empty()).unwrap_or_else(|| of_weight(false));
    let index = *fits.get(random.index(fits.len()))?;
    let mut object = idle.swap_remove(index);
    let late = object.last.is_some() && random.chance(5);
    let (key, change) = match object.last.clone() {
        Some(last) if late => last,
        Some(_) | None => (key, object.choose(random)),
    };
    Some(Job { object, key, change, late, duplicate: random.chance(10), first: random.index(2) })
}

async fn carry_out(api: &Api, job: Job, patience: Duration) -> (Object, Entry) {
    let Job { mut object, key, change, late, duplicate, first } = job;
    let sent = Instant::now();
    let wanted = request(&object, &change);
    let ask = |index| settle(api, &wanted, &key, index, patience);
    let (outcome, other) = if duplicate {
        let (outcome, other) = tokio::join!(ask(first), ask(first + 1));
        (outcome, Some(other))
    } else {
        (ask(first).await, None)
    };
    let decided = Instant::now();
    let mut contradiction =
        other.filter(|other| *other != outcome).map(|other| format!("one key, two answers: {other:?}"));
    let mut no_room = false;
    if late {
        contradiction = contradiction.or_else(|| {
            (outcome != CommandOutcome::Accepted).then(|| "was accepted before and is not when sent again".to_owned())
        });
    } else {
        contradiction = contradiction.or_else(|| object.contradiction(&change, &outcome));
        if outcome == CommandOutcome::Accepted {
            no_room = matches!(change, Change::Spec { .. }) && found_no_room(api, &object.name).await;
            if !no_room {
                object.accept(&key, &change);
            }
        }
    }
    object.doubtful |= matches!(outcome, CommandOutcome::Unknown { .. });
    let name = object.name.clone();
    let entry = Entry {
        key,
        object: name,
        change,
        sent,
        decided,
        outcome,
        repeated: late || duplicate,
        contradiction,
        no_room,
    };
    (object, entry)
}

async fn settle(api: &Api, request: &Request, key: &str, first: usize, patience: Duration) -> CommandOutcome {
    let begun = Instant::now();
    let mut index = first;
    loop {
        let last = match api.call(index, request, Some(key)).await {
            Answer::Said { status: 202, body } if body["queued"] != true => return CommandOutcome::Accepted,
            Answer::Said { status: 202, body } => match decided(api, index, key).await {
                Some(outcome) => return outcome,
                None => format!("202 {body}"),
            },
            Answer::Said { status: 503, body } => format!("503 {body}"),
            Answer::Said { status, body } => {
                return CommandOutcome::Refused {
                    status,
                    message: body["message"].as_str().unwrap_or_default().to_owned(),
                };
            }
            Answer::Nothing { why } => why,
        };
        if begun.elapsed() > patience {
            return CommandOutcome::Unknown { last };
        }
        index += 1;
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// The outcome of a queued command; refusals are repeated to get their status.
async fn decided(api: &Api, index: usize, key: &str) -> Option<CommandOutcome> {
    let Answer::Said { status: 200, body } = api.get(index, &format!("/api/operations?id={key}")).await else {
        return None;
    };
    let status: OperationStatus = serde_json::from_value(body).ok()?;
    (status.state == "accepted").then_some(CommandOutcome::Accepted)
}

async fn found_no_room(api: &Api, name: &str) -> bool {
    for index in 0..40 {
        if let Answer::Said { status: 200, body } = api.get(index, &format!("/api/podgroups?name={name}")).await {
            return body["LastError"] == NO_ROOM;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
    false
}
