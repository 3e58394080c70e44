//! A world in which nothing goes wrong: one real scheduler core, real agent cores, and time that passes only when nobody has
//! anything left to do.
//!
//! Messages, disks and engines take no time. Containers become healthy together, at full beats: so what was ordered between two
//! beats comes up at once, which is what a plan takes for granted. Every change of a group that is stored is kept.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use agent::core::io as agent_io;
use contract::command::{Command, Outcome, Verb};
use contract::fence::{Fence, Term};
use contract::keys;
use contract::layout;
use contract::name::{GroupName, NodeName};
use contract::query::{Answer, Query, Reply};
use contract::record::{GroupRecord, Slot};
use contract::state::HealthState;
use contract::time::Timestamp;
use planner::rollout::controller::RolloutState;
use scheduler::core::Core;
use scheduler::core::io::{CommitResult, Delivery, Effect, Input, Settings, Write};

use crate::random::Random;
use crate::world::engine::Engine;
use crate::world::event_queue::BEGINNING;
use crate::world::node_process::NodeProcess;

/// Between two moments at which containers become healthy; longer than any drain.
pub const BEAT: Duration = Duration::from_secs(10);
/// Longer than any history on a world.
const NEVER: Duration = Duration::from_secs(1_000_000);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Who is told what next.
enum Message {
    Scheduler(Box<Input>),
    Agent(usize, Box<agent_io::Input>),
}

/// A group as it was stored at some moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Its instances.
    pub slots: Vec<Slot>,
    /// Its release.
    pub release: Option<RolloutState>,
}

/// The world.
pub struct FaultlessWorld {
    /// The present.
    pub now: Timestamp,
    /// What is stored.
    pub store: BTreeMap<String, Vec<u8>>,
    /// How the group that is looked at changed, from the last call of [`FaultlessWorld::forget`] on.
    pub snapshots: Vec<Snapshot>,
    core: Core,
    nodes: Vec<NodeProcess>,
    engines: Vec<Engine>,
    queue: VecDeque<Message>,
    orders: Vec<(NodeName, Fence)>,
    outcomes: BTreeMap<String, Outcome>,
    reply: Option<Box<Reply>>,
    sequence: u64,
    random: Random,
    watched: GroupName,
}

impl FaultlessWorld {
    /// So many nodes, alive and idle, in units as in any simulated world.
    pub fn new(nodes: usize, watched: &GroupName) -> Self {
        let settings = Settings { suspect_after: NEVER, lost_after: NEVER, ..Settings::default() };
        let mut world = Self {
            now: BEGINNING,
            store: BTreeMap::new(),
            snapshots: vec![Snapshot::default()],
            core: Core::new(settings),
            nodes: (0..nodes).map(|node| NodeProcess::new(node, node, 0)).collect(),
            engines: (0..nodes).map(|_| Engine::default()).collect(),
            queue: VecDeque::new(),
            orders: Vec::new(),
            outcomes: BTreeMap::new(),
            reply: None,
            sequence: 0,
            random: Random::new(0),
            watched: watched.clone(),
        };
        world.tell(Input::Elected { term: Term(1), stored: Vec::new() });
        world.tell(Input::Bus { connected: true });
        for node in 0..nodes {
            let process = &mut world.nodes[node];
            let mut settings = agent_io::Settings { heartbeat: NEVER, reread: NEVER, ..process.settings(None) };
            // The images are at hand: how long each node would fetch them is no part of a plan.
            settings.facts.fetches_ahead = false;
            process.core = Some(agent::core::Core::new(settings, agent_io::Ledger::default()));
            world.queue.push_back(Message::Agent(node, Box::new(agent_io::Input::Bus { connected: true })));
        }
        world.settle();
        world
    }

    /// A command reaches the scheduler; what became of it.
    pub fn command(&mut self, verb: Verb) -> Outcome {
        self.commands(vec![verb]).pop().expect("one command has one outcome")
    }

    /// Commands reach the scheduler at once.
    pub fn commands(&mut self, verbs: Vec<Verb>) -> Vec<Outcome> {
        let ids: Vec<String> = verbs.into_iter().map(|verb| self.publish(verb)).collect();
        self.settle();
        let outcome = |id: &String| self.outcomes.remove(id).expect("a command that is stored is answered");
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

    /// A question is answered.
    pub fn ask(&mut self, query: Query) -> Answer {
        self.tell(Input::Query { query, reply: "asker".to_owned() });
        self.settle();
        self.reply.take().expect("a question is answered").answer
    }

    /// Time passes to the next thing anybody waits for, or to the next beat.
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

    /// A day passes in which nothing happens: whoever is ranked by age is as old as all others then.
    pub fn rest(&mut self) {
        self.now = self.now + DAY;
        self.tell(Input::Tick);
        self.settle();
    }

    /// What happened until now is not looked at any more.
    pub fn forget(&mut self) {
        self.snapshots = self.snapshots.pop().into_iter().collect();
    }

    /// Something that is stored.
    pub fn read<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_slice(self.store.get(key)?).ok()
    }

    /// The group that is looked at.
    pub fn record(&self) -> Option<GroupRecord> {
        layout::read_group(&self.watched, &self.store).ok()?
    }

    fn become_healthy(&mut self) {
        for node in 0..self.nodes.len() {
            let engine = &mut self.engines[node];
            let is_starting = |c: &crate::world::engine::Container| c.health == HealthState::Starting;
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

    /// Until nobody has anything left to do now.
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
                for write in commit.writes {
                    match write {
                        Write::Put { key, value, .. } => drop(self.store.insert(key, value)),
                        Write::Delete { key } => drop(self.store.remove(&key)),
                    }
                }
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
            agent_io::Effect::Perform { instance: lane, action: step } => {
                let result = self.engines[node].perform(&owner, &step, self.now, &mut self.random).result;
                Some(agent_io::Input::ActionDone { instance: lane, action: step, result })
            }
            agent_io::Effect::Fetch { image } => Some(agent_io::Input::Fetched { image, result: Ok(()) }),
            agent_io::Effect::TakeInventory => Some(agent_io::Input::Inventory(self.engines[node].inventory(&owner))),
            agent_io::Effect::Publish(message) => {
                self.tell(Input::Report(message));
                None
            }
        }
    }

    fn keep_snapshot(&mut self) {
        let slots = layout::read_slots(&self.watched, &self.store).unwrap_or_default();
        let release: Option<RolloutState> = self.read(&keys::release(&self.watched));
        let is_news = self.snapshots.last().is_none_or(|last| last.slots != slots || last.release != release);
        if is_news {
            self.snapshots.push(Snapshot { slots, release });
        }
    }
}
