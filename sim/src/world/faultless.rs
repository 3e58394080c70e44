//! A world without faults: one real scheduler core and real agent cores. Time passes only when no core has work left.
//!
//! Messages, disks and engines take no time. Containers become healthy together, every 10 s, because a plan assumes that pods
//! ordered together become ready together. The world keeps every stored version of one group.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use agent::core::io as agent_io;
use contract::command::{Command, Outcome, Verb};
use contract::fence::{Fence, Term};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::query::{Answer, Query, Reply};
use contract::record::Instance;
use contract::state::HealthState;
use contract::time::Timestamp;
use planner::rollout::controller::RolloutState;
use scheduler::core::Core;
use scheduler::core::io::{CommitResult, Delivery, Effect, Input, Settings};
use testkit::container::Container;
use testkit::engine::FakeEngine;
use testkit::random::Random;
use testkit::store::{Arrived, FakeStore};

use crate::world::election::change;
use crate::world::event_queue::BEGINNING;
use crate::world::node_process::NodeProcess;

/// Containers become healthy at multiples of this time; longer than any drain.
pub const BEAT: Duration = Duration::from_secs(10);
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(1_000_000);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The next input of a core.
enum Message {
    Scheduler(Box<Input>),
    Agent(usize, Box<agent_io::Input>),
}

#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub instances: Vec<Instance>,
    pub release: Option<RolloutState>,
}

pub struct FaultlessWorld {
    pub now: Timestamp,
    pub store: FakeStore,
    /// The stored versions of the watched group since the last [`FaultlessWorld::forget`].
    pub snapshots: Vec<Snapshot>,
    core: Core,
    nodes: Vec<NodeProcess>,
    engines: Vec<FakeEngine>,
    queue: VecDeque<Message>,
    orders: Vec<(NodeName, Fence)>,
    outcomes: BTreeMap<String, Outcome>,
    reply: Option<Box<Reply>>,
    sequence: u64,
    random: Random,
    watched: GroupName,
}

impl FaultlessWorld {
    pub fn new(nodes: usize, watched: &GroupName) -> Self {
        let settings = Settings { suspect_after: NEVER, lost_after: NEVER, ..Settings::default() };
        let mut world = Self {
            now: BEGINNING,
            store: FakeStore::default(),
            snapshots: vec![Snapshot::default()],
            core: Core::new(settings),
            nodes: (0..nodes).map(|node| NodeProcess::new(node, node, 0)).collect(),
            engines: (0..nodes).map(|_| FakeEngine::new("c", 4)).collect(),
            queue: VecDeque::new(),
            orders: Vec::new(),
            outcomes: BTreeMap::new(),
            reply: None,
            sequence: 0,
            random: Random::new(0),
            watched: watched.clone(),
        };
        world.store.lead(Term(1));
        world.tell(Input::Elected { term: Term(1), stored: Vec::new() });
        world.tell(Input::Bus { connected: true });
        for node in 0..nodes {
            let process = &mut world.nodes[node];
            let mut settings = agent_io::Settings { heartbeat: NEVER, reread: NEVER, ..process.settings(None) };
            // No image is pulled: a plan does not know how long a pull takes.
            settings.facts.fetches_ahead = false;
            process.core = Some(agent::core::Core::new(settings, agent_io::Ledger::default()));
            world.queue.push_back(Message::Agent(node, Box::new(agent_io::Input::Bus { connected: true })));
        }
        world.settle();
        world
    }

    pub fn command(&mut self, verb: Verb) -> Outcome {
        self.commands(vec![verb]).pop().expect("one command has one outcome")
    }

    /// The scheduler gets all commands before it decides.
    pub fn commands(&mut self, verbs: Vec<Verb>) -> Vec<Outcome> {
        let ids: Vec<String> = verbs.into_iter().map(|verb| self.publish(verb)).collect();
        self.settle();
        let outcome = |id: &String| self.outcomes.remove(id).expect("every stored command has an outcome");
        ids.iter().map(outcome).collect()
    }

    fn publish(&mut self, verb: Verb) -> String {
        self.sequence += 1;
        let id = format!("command-{}", self.sequence);
        let command = Command {
            id: id.parse().expect("letters, a dash and digits are a name"),
            at: self.now,
            by: "user".to_owned(),
            verb,
            digest: None,
            credentials: None,
        };
        let (stream, reply) = ("stream".to_owned(), Some(id.clone()));
        self.tell(Input::Command(Delivery {
            stream,
            sequence: self.sequence,
            stored_at: None,
            reply,
            command: Ok(command),
        }));
        id
    }

    pub fn ask(&mut self, query: Query) -> Answer {
        self.tell(Input::Query { query, reply: "asker".to_owned() });
        self.settle();
        self.reply.take().expect("every query has an answer").answer
    }

    /// Moves time to the next `wake_at` of a core, or to the next beat.
    pub fn pass(&mut self) {
        let since = self.now.since(BEGINNING).as_millis();
        let beats = u64::try_from(since / BEAT.as_millis()).unwrap_or(0) + 1;
        let beat = BEGINNING + BEAT * u32::try_from(beats).unwrap_or(u32::MAX);
        let wakes = self.nodes.iter().filter_map(|process| process.core.as_ref()?.wake_at());
        let next = wakes.chain(self.core.wake_at()).chain([beat]).min().unwrap_or(beat);
        self.now = next.max(self.now + Duration::from_millis(1));
        if self.now == beat {
            self.become_healthy();
        }
        self.tell(Input::Tick);
        for node in 0..self.nodes.len() {
            self.queue.push_back(Message::Agent(node, Box::new(agent_io::Input::Tick)));
        }
        self.settle();
    }

    /// Moves time by one day, after which all instances count as equally old.
    pub fn rest(&mut self) {
        self.now = self.now + DAY;
        self.tell(Input::Tick);
        self.settle();
    }

    /// Drops all snapshots but the last.
    pub fn forget(&mut self) {
        self.snapshots = self.snapshots.pop().into_iter().collect();
    }

    fn become_healthy(&mut self) {
        for node in 0..self.nodes.len() {
            let engine = &mut self.engines[node];
            let is_starting = |c: &Container| c.health == HealthState::Starting;
            let starting: Vec<(String, u32)> = engine
                .containers
                .iter()
                .filter(|(_, c)| is_starting(c))
                .map(|(id, c)| (id.clone(), c.starts))
                .collect();
            for (id, starts) in starting {
                engine.apply_behaviour(&id, starts, self.now);
                let seen = engine.look(&self.nodes[node].owner, &id);
                self.queue.push_back(Message::Agent(node, Box::new(agent_io::Input::Inspected { id, seen })));
            }
        }
    }

    fn tell(&mut self, input: Input) {
        self.queue.push_back(Message::Scheduler(Box::new(input)));
    }

    /// Runs until no core has work left.
    fn settle(&mut self) {
        loop {
            while let Some(next) = self.queue.pop_front() {
                match next {
                    Message::Scheduler(input) => {
                        let effects = self.core.on(*input, self.now);
                        effects.into_iter().for_each(|effect| self.perform(effect));
                    }
                    Message::Agent(node, input) => self.feed(node, *input),
                }
            }
            if self.core.wake_at().is_none_or(|at| at > self.now) {
                break;
            }
            self.tell(Input::Tick);
        }
    }

    fn feed(&mut self, node: usize, input: agent_io::Input) {
        let Some(core) = self.nodes[node].core.as_mut() else { return };
        let effects = core.on(input, self.now);
        for effect in effects {
            if let Some(answer) = self.perform_for_agent(node, effect) {
                self.queue.push_back(Message::Agent(node, Box::new(answer)));
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(commit) => {
                let arrived = self.store.commit((commit.term, commit.id), commit.writes.iter().map(change), self.now);
                assert_eq!(arrived, Arrived::Stored, "commit {} of term {}", commit.id, commit.term);
                self.keep_snapshot();
                self.tell(Input::Committed { id: commit.id, result: CommitResult::Stored });
            }
            Effect::SendOrder { node, message } => {
                self.orders.push((node.clone(), message.fence()));
                let reply = (self.orders.len() - 1).to_string();
                let input = agent_io::Input::Order { message, reply };
                self.post(&node, input);
            }
            Effect::AskWhole { node } => self.post(&node, agent_io::Input::FullReportRequested),
            Effect::Resolve { inbox, outcome } => drop(self.outcomes.insert(inbox, outcome)),
            Effect::Answer { reply, .. } => self.reply = Some(reply),
            Effect::Plan { stale, dry_run, .. } => {
                self.reply = dry_run.answer(&|| false).map(|answer| Box::new(Reply::new(stale, answer)));
            }
            Effect::Notify { .. } | Effect::Record(_) | Effect::Bury(_) | Effect::StepDown { .. } => {}
        }
    }

    fn post(&mut self, node: &NodeName, input: agent_io::Input) {
        if let Some(index) = self.nodes.iter().position(|process| process.owner.node == *node) {
            self.queue.push_back(Message::Agent(index, Box::new(input)));
        }
    }

    fn perform_for_agent(&mut self, node: usize, effect: agent_io::Effect) -> Option<agent_io::Input> {
        let owner = self.nodes[node].owner.clone();
        match effect {
            agent_io::Effect::Persist { id, .. } => Some(agent_io::Input::Persisted { id, result: Ok(()) }),
            agent_io::Effect::Reply { inbox, reply } => {
                let (node, fence) = self.orders[inbox.parse::<usize>().expect("a number")].clone();
                self.tell(Input::OrderReplied { node, fence, reply: Some(reply) });
                None
            }
            agent_io::Effect::Perform { instance, action } => {
                let result = self.engines[node].perform(&owner, &action, self.now, &mut self.random).result;
                Some(agent_io::Input::ActionDone { instance, action, result })
            }
            agent_io::Effect::Fetch { image } => Some(agent_io::Input::Fetched { image, result: Ok(()) }),
            agent_io::Effect::Check { id, started_at, kind, .. } => {
                let result = self.engines[node].check(&id);
                Some(agent_io::Input::Checked { id, started_at, kind, result })
            }
            agent_io::Effect::TakeInventory => Some(agent_io::Input::Inventory(self.engines[node].inventory(&owner))),
            agent_io::Effect::Publish(message) => {
                self.tell(Input::Report(message));
                None
            }
        }
    }

    fn keep_snapshot(&mut self) {
        let instances = self.store.placement(&self.watched).instances;
        let release: Option<RolloutState> = self.store.read(&keys::release(&self.watched));
        let is_news = self.snapshots.last().is_none_or(|last| last.instances != instances || last.release != release);
        if is_news {
            self.snapshots.push(Snapshot { instances, release });
        }
    }
}
