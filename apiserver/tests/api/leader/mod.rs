//! The fake leader: reads commands from the stream, replies with outcomes and answers queries, over a real nats-server.
//!
//! It decides as the real leader does where the rows of `contract/rows` can tell (the cluster tests of `cli` send the same rows
//! to a real leader), and otherwise by the name of the object.

mod access;
mod backups;
mod commands;
mod joins;
mod nodes;
mod queries;
mod rollouts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use contract::access::table::AccessTable;
use contract::access::token::TokenRecord;
use contract::command::{Command, Decision, Outcome};
use contract::policy::Policy;
use contract::query::Reply;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::subjects;
use contract::switches::{Constraint, EngineRecord};
use fabric::nats::Bus;
use tokio::sync::oneshot;

/// How the fake leader behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Decides and replies.
    Leads,
    /// Decides, but its replies are lost: outcomes are learned only by asking.
    LosesReplies,
    /// Answers as a standby does and reads no commands.
    StandsBy,
}

/// Ends with [`Leader::stop`], which gives back the commands it saw.
pub(crate) struct Leader {
    /// How often nodes were to look anew at a group.
    pub(crate) refreshed: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Vec<Command>>,
}

impl Leader {
    /// Leads an open cluster.
    pub(crate) async fn start(bus: &Bus, manner: Manner) -> Self {
        Self::start_with(bus, manner, access::table(false, Vec::new())).await
    }

    /// Leads a cluster that enforces access control.
    pub(crate) async fn enforcing(bus: &Bus, tokens: Vec<TokenRecord>, anonymous: &[&str]) -> Self {
        let anonymous = anonymous.iter().map(|text| text.parse().unwrap()).collect();
        let table = AccessTable { anonymous, ..access::table(true, tokens) };
        Self::start_with(bus, Manner::Leads, table).await
    }

    async fn start_with(bus: &Bus, manner: Manner, access: AccessTable) -> Self {
        let subject = match manner {
            Manner::Leads | Manner::LosesReplies => subjects::QUERY_LEADER,
            Manner::StandsBy => subjects::QUERY_STANDBY,
        };
        let mut questions = bus.subscribe(subject).await.unwrap();
        let mut commands = bus.read_stream(subjects::COMMANDS_STREAM, 0).await.unwrap();
        let (stop, mut stopped) = oneshot::channel();
        let bus = bus.clone();
        let refreshed = Arc::new(AtomicUsize::new(0));
        let mut state = State { refreshed: refreshed.clone(), access: access::Known(access), ..State::default() };
        let task = fabric::tasks::spawn("leader", async move {
            loop {
                tokio::select! {
                    question = questions.next() => {
                        let question = question.unwrap();
                        let answer = state.answer(&question.decode().unwrap());
                        let reply = Reply::new(manner == Manner::StandsBy, answer);
                        bus.answer(&question.reply.unwrap(), &reply).await.unwrap();
                    }
                    stored = commands.next(), if manner != Manner::StandsBy => {
                        let stored = stored.unwrap();
                        let command: Command = serde_json::from_slice(&stored.payload).unwrap();
                        let outcome = state.decide(command);
                        if manner == Manner::Leads {
                            let inbox = stored.header(subjects::REPLY_HEADER).expect("commands carry an inbox");
                            bus.answer(inbox, &outcome).await.unwrap();
                        }
                    }
                    _ = &mut stopped => return state.seen,
                }
            }
        });
        Self { refreshed, stop, task }
    }

    pub(crate) async fn stop(self) -> Vec<Command> {
        self.stop.send(()).unwrap();
        self.task.await.unwrap()
    }
}

#[derive(Default)]
struct State {
    seen: Vec<Command>,
    refreshed: Arc<AtomicUsize>,
    dependencies: BTreeMap<String, PodSpec>,
    groups: BTreeMap<String, PodGroupSpec>,
    outcomes: BTreeMap<String, Outcome>,
    callbacks: BTreeSet<String>,
    engine: EngineRecord,
    constraints: BTreeMap<String, Constraint>,
    policies: BTreeMap<String, Policy>,
    access: access::Known,
    joins: joins::Joins,
}

impl State {
    fn decide(&mut self, command: Command) -> Outcome {
        if let Some(known) = self.outcomes.get(command.id.as_str()) {
            return known.clone();
        }
        let allowed = access::authorize(self, &command);
        let decision =
            allowed.and_then(|()| self.decision(&command.verb)).map_or_else(Decision::Refused, |()| Decision::Accepted);
        let principal = access::owner(&self.access.0, &command);
        let outcome = Outcome { id: command.id.clone(), at: command.at, decision, digest: command.digest, principal };
        self.outcomes.insert(command.id.to_string(), outcome.clone());
        self.seen.push(command);
        outcome
    }
}
