//! A client: publishes commands as an apiserver does, and sends queries.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::WIRE_VERSION;
use contract::access::token::{Credentials, Proof};
use contract::command::{Command, Decision, Outcome, Verb};
use contract::name::CommandId;
use contract::query::{Answer, ClusterView, Query, Reply};
use contract::subjects;
use devcluster::plan::OWN_USER;
use fabric::clock::Clock;
use fabric::nats::{Bus, Subscription};
use futures_util::StreamExt;
use tokio::time::Instant;

use crate::load::run::Error;

/// Parallel publishes; each waits until the bus has synced it to disk.
const AT_ONCE: usize = 64;
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) struct Client {
    bus: Bus,
    inbox: String,
    outcomes: Subscription,
    clock: Clock,
    asked: u64,
}

impl Client {
    pub(crate) async fn connect(url: &str) -> Result<Self, Error> {
        let bus = Bus::connect(&fabric::nats::Args::at(url), "scale").await?;
        let inbox = bus.inbox();
        let outcomes = bus.subscribe(&inbox).await?;
        Ok(Self { bus, inbox, outcomes, clock: Clock::start(), asked: 0 })
    }

    fn command(&mut self, verb: Verb) -> Command {
        self.asked += 1;
        let id: CommandId = format!("scale-{}", self.asked).parse().expect("letters, digits and a dash are a name");
        let by = "scale".to_owned();
        // As an apiserver proves a client that has no token and comes from its own user.
        let proof = OWN_USER.parse().map(Proof::Anonymous).expect("a constant that is a binding");
        let credentials = Credentials { apiserver: by.clone(), peer: "127.0.0.1".to_owned(), proof: Some(proof) };
        Command { id, at: self.clock.now(), by, verb, digest: None, credentials: Some(Box::new(credentials)) }
    }

    /// Publishes all commands and waits for all outcomes. A refusal is an error.
    pub(crate) async fn all(&mut self, verbs: Vec<Verb>) -> Result<(), Error> {
        let commands: Vec<Command> = verbs.into_iter().map(|verb| self.command(verb)).collect();
        let mut open: BTreeMap<CommandId, ()> = commands.iter().map(|command| (command.id.clone(), ())).collect();
        let Self { bus, inbox, outcomes, .. } = self;
        let publish = async {
            let mut sent = futures_util::stream::iter(&commands)
                .map(|command| publish(bus, inbox, command))
                .buffer_unordered(AT_ONCE);
            while let Some(sent) = sent.next().await {
                sent?;
            }
            Ok::<(), Error>(())
        };
        let receive = async {
            while !open.is_empty() {
                let Some(outcome) = next(outcomes).await else { return Err(Error::Closed) };
                check(&outcome)?;
                open.remove(&outcome.id);
            }
            Ok(())
        };
        tokio::try_join!(publish, receive).map(drop)
    }

    /// Returns the time from the publish to the outcome.
    pub(crate) async fn one(&mut self, verb: Verb) -> Result<Duration, Error> {
        let started = Instant::now();
        self.all(vec![verb]).await?;
        Ok(started.elapsed())
    }

    /// None without a leader.
    pub(crate) async fn cluster(&self) -> Option<ClusterView> {
        let asked = self.bus.request(subjects::QUERY_LEADER, &Query::Cluster, Duration::from_secs(5));
        match asked.await.ok()? {
            Reply { stale: false, answer: Answer::Cluster(view), .. } => Some(view),
            Reply { .. } => None,
        }
    }
}

async fn publish(bus: &Bus, inbox: &str, command: &Command) -> Result<(), Error> {
    let wire = WIRE_VERSION.to_string();
    let headers = [(subjects::REPLY_HEADER, inbox), (subjects::WIRE_HEADER, wire.as_str())];
    bus.publish_durable(subjects::COMMANDS, command.id.as_str(), &headers, command, DEADLINE).await?;
    Ok(())
}

async fn next(outcomes: &mut Subscription) -> Option<Outcome> {
    loop {
        if let Ok(outcome) = outcomes.next().await?.decode() {
            return Some(outcome);
        }
    }
}

fn check(outcome: &Outcome) -> Result<(), Error> {
    match &outcome.decision {
        Decision::Accepted => Ok(()),
        Decision::Refused(refusal) => Err(Error::Refused { command: outcome.id.to_string(), why: refusal.to_string() }),
    }
}
