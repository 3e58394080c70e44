//! The commands that go on while things break: some every second, whether or not earlier ones were answered.
//!
//! Each has a key of its own and is sent with it until somebody says what became of it; some are sent twice at once through both
//! apiservers, some once more much later. One loop owns all objects and the journal; a task owns the object its command is
//! about until it is decided. When every object is busy no command is sent: that bounds what is under way.

use std::time::{Duration, Instant};

use contract::api::OperationStatus;
use fabric::shutdown::Shutdown;
use tokio::task::JoinSet;

use crate::chaos::model::{Change, CommandOutcome, Kind, Object};
use crate::chaos::random::Random;
use crate::chaos::request::request;
use crate::cluster::{Answer, Api, Request};

/// Commands a second: a little more than promised, because some ticks find no idle object of their kind.
const EVERY: Duration = Duration::from_millis(40);
const AGAIN_AFTER: Duration = Duration::from_millis(150);
/// What a patch that found no room leaves behind; it was accepted and changed nothing, as documented.
const NO_ROOM: &str = "No resources available to scheduler container";

/// What commands are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Groups with instances.
    pub(crate) busy: u32,
    /// Groups without: enough of what costs nothing that commands go on through a take-over.
    pub(crate) empty: u32,
    /// How long one command is followed.
    pub(crate) patience: Duration,
}

impl Default for Load {
    fn default() -> Self {
        // Two back-offs of the longest kind and a take-over fit in.
        Self { busy: 12, empty: 300, patience: Duration::from_secs(60) }
    }
}

/// One command and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) object: String,
    pub(crate) change: Change,
    pub(crate) sent: Instant,
    pub(crate) decided: Instant,
    pub(crate) outcome: CommandOutcome,
    /// It was sent again after it had been accepted, or twice at once.
    pub(crate) repeated: bool,
    /// What must not be.
    pub(crate) contradiction: Option<String>,
    /// Accepted, but there was no room for it.
    pub(crate) no_room: bool,
}

/// Everything that was asked, and what it adds up to.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) entries: Vec<Entry>,
    pub(crate) objects: Vec<Object>,
}

/// The objects of one cluster. Clusters share the engine, and a container's name does not say whose it is; `tag` does.
fn objects(tag: &str, load: Load) -> Vec<Object> {
    let busy = (1..=load.busy).map(|n| Object::new(Kind::Group { most: 2 }, format!("busy{n}-{tag}.web.web")));
    let empty = (1..=load.empty).map(|n| Object::new(Kind::Group { most: 0 }, format!("empty{n}-{tag}.web.web")));
    let constraints = (1..=30).map(|n| Object::new(Kind::Constraint, format!("proof{n}")));
    // Nobody listens at port 9.
    let callbacks = (1..=4).map(|n| Object::new(Kind::Callback, format!("http://127.0.0.1:9/{n}")));
    busy.chain(empty).chain(constraints).chain(callbacks).collect()
}

/// Sends commands until `stop`, then waits for those under way.
pub(crate) async fn run(api: Api, mut random: Random, (tag, load): (String, Load), stop: Shutdown) -> Journal {
    let mut idle = objects(&tag, load);
    let mut entries: Vec<Entry> = Vec::new();
    let mut under_way: JoinSet<(Object, Entry)> = JoinSet::new();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut number = 0_u64;
    loop {
        tokio::select! {
            Some(Ok((object, entry))) = under_way.join_next() => {
                idle.push(object);
                entries.push(entry);
            }
            () = stop.wait(), if !stop.is_triggered() || under_way.is_empty() => {
                if under_way.is_empty() { break }
            }
            _ = tick.tick(), if !stop.is_triggered() => {
                number += 1;
                if let Some(job) = next_job(&mut idle, &mut random, format!("{tag}-{number}")) {
                    let api = api.clone();
                    under_way.spawn(async move { carry_out(&api, job, load.patience).await });
                }
            }
        }
    }
    Journal { entries, objects: idle }
}

/// One command to be carried out.
#[derive(Debug)]
struct Job {
    object: Object,
    key: String,
    change: Change,
    /// It was accepted before: the same answer is due, and no effect.
    late: bool,
    /// Sent through both apiservers at once.
    duplicate: bool,
    first: usize,
}

fn next_job(idle: &mut Vec<Object>, random: &mut Random, key: String) -> Option<Job> {
    let heavy = random.percent(30);
    let of_weight = |heavy: bool| -> Vec<usize> {
        let is_heavy = |object: &Object| matches!(object.kind, Kind::Group { most } if most > 0);
        (0..idle.len()).filter(|index| is_heavy(&idle[*index]) == heavy && !idle[*index].doubtful).collect()
    };
    // While all of the heavy ones are busy the others go on.
    let fits = Some(of_weight(heavy)).filter(|fits| !fits.is_empty()).unwrap_or_else(|| of_weight(false));
    let index = *fits.get(random.below(fits.len()))?;
    let mut object = idle.swap_remove(index);
    let late = object.last.is_some() && random.percent(5);
    let (key, change) = match object.last.clone() {
        Some(last) if late => last,
        Some(_) | None => (key, object.choose(random)),
    };
    Some(Job { object, key, change, late, duplicate: random.percent(10), first: random.below(2) })
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

/// Sends the command until it is known what became of it.
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

/// What became of a command that was only queued; refusals are told by their text alone, so they are asked for again.
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
