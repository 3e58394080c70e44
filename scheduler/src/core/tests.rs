//! A scheduler core with an in-memory store and agents that apply every order immediately.

mod access;
mod commands;
mod dependencies;
mod drifts;
mod duplicate_agents;
mod escapes;
mod events;
mod fleet;
mod foreign_store;
mod fullness;
mod gates;
mod history;
mod joins;
mod losses;
mod nodes;
mod notices;
mod operations;
mod orders;
mod pending;
mod policies;
mod ports;
mod quarantine;
mod queries;
mod removals;
mod restores;
mod revisions;
mod rewound;
mod rollout_views;
mod rollouts;
mod storage;
mod stored;
mod strategies;
mod switches;
mod takeover;
mod tombstones;
mod upgrades;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use contract::command::{Command, Outcome, Verb};
use contract::digest::Digest;
use contract::event::Event;
use contract::fence::{Fence, Term};
use contract::keys;
use contract::name::NodeName;
use contract::notice::NoticeBody;
use contract::order::{Order, OrderMessage, OrderReply};
use contract::pod_id::PodId;
use contract::query::{Answer, ClusterView, GroupView, NodeView, Query, Reply};
use contract::report::{ContainerFacts, EngineState, FetchState, Heartbeat, PodFacts, ReportMessage};
use contract::spec::{ContainerSpec, PodGroupSpec, PodSpec};
use contract::state::{RunState, TargetState};
use contract::time::Timestamp;

use testkit::node::FakeNode;
use testkit::samples::{fence, group, group_spec as spec, node};
use testkit::store::{Arrived, Change, FakeStore};

use super::Core;
use super::io::{Commit, CommitResult, Delivery, Effect, Input, Mirror, Settings, Write};

/// A core, its store, its agents and everything that it has sent.
struct Rig {
    core: Core,
    now: i64,
    store: FakeStore,
    agents: BTreeMap<NodeName, FakeNode>,
    /// Nodes that receive no order and send no report.
    unreachable: BTreeSet<NodeName>,
    sequence: u64,
    term: u64,
    commits: Vec<Commit>,
    orders: Vec<(NodeName, OrderMessage)>,
    outcomes: BTreeMap<String, Outcome>,
    replies: BTreeMap<String, Reply>,
    notices: Vec<NoticeBody>,
    events: Vec<Event>,
    resync_requests: Vec<NodeName>,
    dead_letters: Vec<String>,
    stepped_down: Option<String>,
    /// How many of the next commits the store refuses because it is full.
    full_commits: u32,
}

fn create(name: &str, instances: i64) -> Verb {
    Verb::CreateGroup { spec: Box::new(spec(name, instances)) }
}
fn replica(name: &str, num_instances: u32) -> Verb {
    Verb::Replica { name: group(name), num_instances, restart_policy: None }
}
fn remove(name: &str) -> Verb {
    Verb::RemoveGroup { name: group(name), removal: Default::default() }
}

/// A leader with these nodes alive and idle.
fn rig(nodes: &[&str]) -> Rig {
    rig_with(Settings::default(), nodes)
}
fn rig_with(settings: Settings, nodes: &[&str]) -> Rig {
    let mut rig = Rig {
        core: Core::new(settings),
        now: 1_000_000,
        store: FakeStore::default(),
        agents: BTreeMap::new(),
        unreachable: BTreeSet::new(),
        sequence: 0,
        term: 0,
        commits: Vec::new(),
        orders: Vec::new(),
        outcomes: BTreeMap::new(),
        replies: BTreeMap::new(),
        notices: Vec::new(),
        events: Vec::new(),
        resync_requests: Vec::new(),
        dead_letters: Vec::new(),
        stepped_down: None,
        full_commits: 0,
    };
    rig.elect();
    for name in nodes {
        rig.agents.insert(node(name), FakeNode::default());
        rig.report(name);
    }
    rig.report_all();
    rig.clear();
    rig
}

impl Rig {
    fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }
    /// Passes one input to the core and performs no effect.
    fn input(&mut self, input: Input) -> Vec<Effect> {
        let now = self.time();
        self.core.on(input, now)
    }
    /// Passes one input to the core and performs all effects, and the effects of their results.
    fn run(&mut self, input: Input) {
        let effects = self.input(input);
        self.perform(effects);
    }
    fn perform(&mut self, effects: Vec<Effect>) {
        let mut queue: VecDeque<Effect> = effects.into();
        while let Some(effect) = queue.pop_front() {
            if let Some(input) = self.perform_one(effect) {
                queue.extend(self.input(input));
            }
        }
        if self.core.wake_at().is_some_and(|at| at <= self.time()) {
            self.run(Input::Tick);
        }
    }

    fn perform_one(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Commit(commit) => return Some(self.store(commit)),
            Effect::SendOrder { node, message } => return Some(self.send(node, message)),
            Effect::AskWhole { node } => {
                self.resync_requests.push(node.clone());
                let agent = self.agents.get(&node).filter(|_| !self.unreachable.contains(&node))?;
                return Some(Input::Report(ReportMessage::Whole(agent.whole(&node))));
            }
            Effect::Resolve { inbox, outcome } => drop(self.outcomes.insert(inbox, outcome)),
            Effect::Answer { inbox, reply } => drop(self.replies.insert(inbox, *reply)),
            Effect::Plan { inbox, stale, dry_run } => {
                let answer = dry_run.answer(&|| false).expect("a plan");
                self.replies.insert(inbox, Reply::new(stale, answer));
            }
            Effect::Notify { body, .. } => self.notices.push(body),
            Effect::Record(event) => self.events.push(event),
            Effect::Bury(letter) => self.dead_letters.push(letter.subject),
            Effect::StepDown { reason } => self.stepped_down = Some(reason),
        }
        None
    }

    fn store(&mut self, commit: Commit) -> Input {
        if self.full_commits > 0 {
            self.full_commits -= 1;
            return Input::Committed { id: commit.id, result: CommitResult::Full };
        }
        let (now, id) = (self.time(), commit.id);
        let result = match self.store.commit((commit.term, id), commit.writes.iter().map(change), now) {
            Arrived::Stored => CommitResult::Stored,
            Arrived::Again => return Input::Committed { id, result: CommitResult::Stored },
            Arrived::Fenced => return Input::Committed { id, result: CommitResult::Fenced },
            Arrived::Refused => return Input::Committed { id, result: CommitResult::Full },
        };
        // As with etcd, the watch reports a write before its transaction is answered.
        for write in commit.writes.iter().filter(|write| keys::is_loaded(write.key())).cloned() {
            let mirror = match write {
                Write::Put { key, value, .. } => Mirror::Put(key, value),
                Write::Delete { key } => Mirror::Delete(key),
            };
            let effects = self.core.on(Input::Mirror(mirror), now);
            assert!(effects.is_empty(), "{effects:?}");
        }
        self.commits.push(commit);
        Input::Committed { id, result }
    }

    fn send(&mut self, node: NodeName, message: OrderMessage) -> Input {
        let fence = message.fence();
        let reachable = !self.unreachable.contains(&node);
        let reply = self.agents.get_mut(&node).filter(|_| reachable).map(|agent| agent.apply(&message));
        self.orders.push((node.clone(), message));
        Input::OrderReplied { node, fence, reply }
    }

    /// Starts a new term with the stored state.
    fn elect(&mut self) {
        let elected = self.elected();
        self.run(elected);
    }
    /// The start of a new term, not yet passed to the core.
    fn elected(&mut self) -> Input {
        self.term += 1;
        self.store.lead(Term(self.term));
        Input::Elected { term: Term(self.term), stored: self.store.loaded() }
    }
    /// The next command of the stream, not yet passed to the core.
    fn delivery(&mut self, id: &str, verb: Verb) -> Delivery {
        self.sequence += 1;
        let (named, digest) = (id.parse().expect("an id"), Some(Digest::of(&verb)));
        let command = Command { id: named, at: self.time(), by: "tests".to_owned(), verb, digest, credentials: None };
        let (stream, sequence, reply) = ("s1".to_owned(), self.sequence, Some(id.to_owned()));
        Delivery { stream, sequence, stored_at: None, reply, command: Ok(command) }
    }
    /// Runs a command and performs all effects. Returns the outcome as text.
    fn command(&mut self, id: &str, verb: Verb) -> String {
        let delivery = self.delivery(id, verb);
        self.run(Input::Command(delivery));
        self.outcomes.get(id).map_or_else(|| "none".to_owned(), |outcome| format!("{:?}", outcome.decision))
    }
    /// Sends a whole report of a node, unless it is unreachable.
    fn report(&mut self, name: &str) {
        let name = node(name);
        if self.unreachable.contains(&name) {
            return;
        }
        let agent = self.agents.get_mut(&name).expect("an agent");
        agent.sequence += 1;
        let report = agent.whole(&name);
        self.run(Input::Report(ReportMessage::Whole(report)));
    }
    fn report_all(&mut self) {
        for name in self.agents.keys().cloned().collect::<Vec<_>>() {
            self.report(name.as_str());
        }
    }
    fn heartbeat(&self, name: &str) -> Input {
        let name = node(name);
        let agent = &self.agents[&name];
        let digest = agent.whole(&name).digest();
        Input::Report(ReportMessage::Heartbeat(Heartbeat { stamp: agent.stamp(&name), digest }))
    }
    /// Advances the time second by second; every reachable node reports each second.
    fn advance(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += 1_000;
            self.run(Input::Tick);
            self.report_all();
        }
    }
    fn agent(&mut self, name: &str) -> &mut FakeNode {
        self.agents.get_mut(&node(name)).expect("an agent")
    }
    fn query(&mut self, query: Query) -> Answer {
        self.run(Input::Query { query, reply: "query".to_owned() });
        self.replies.remove("query").expect("an answer").answer
    }
    fn nodes(&mut self) -> Vec<NodeView> {
        let Answer::Nodes(nodes) = self.query(Query::Nodes) else { panic!("not nodes") };
        nodes
    }
    fn cluster_view(&mut self) -> ClusterView {
        let Answer::Cluster(view) = self.query(Query::Cluster) else { panic!("not the cluster") };
        view
    }
    fn group(&mut self, name: &str) -> Option<GroupView> {
        match self.query(Query::Group { name: group(name), refresh: false }) {
            Answer::Group(view) => view.map(|view| *view),
            other => panic!("not a group: {other:?}"),
        }
    }
    /// The stored node and drift number of each instance.
    fn places(&self, name: &str) -> Vec<(String, u32)> {
        let place = |instance: &contract::record::Instance| {
            (instance.node.as_ref().map_or_else(|| "nowhere".to_owned(), NodeName::to_string), instance.drift)
        };
        self.instances(name).iter().map(place).collect()
    }
    /// The pods in the order of a node.
    fn pods(&self, name: &str) -> Vec<String> {
        self.agents[&node(name)].order.pods.keys().map(ToString::to_string).collect()
    }
    /// The keys written since [`Rig::clear`], except the progress and the audit log, which do not tell commands apart.
    fn written(&self) -> BTreeSet<String> {
        let writes = self.commits.iter().flat_map(|commit| &commit.writes);
        writes
            .map(|write| match write {
                Write::Put { key, .. } | Write::Delete { key } => key.clone(),
            })
            .filter(|key| key != keys::PROGRESS && key != keys::AUDIT_HEAD && !keys::is_audit_record(key))
            .collect()
    }
    /// Forgets the recorded commits, orders, notices, events and resync requests.
    fn clear(&mut self) {
        self.commits.clear();
        self.orders.clear();
        self.notices.clear();
        self.events.clear();
        self.resync_requests.clear();
    }
}

fn change(write: &Write) -> Change<'_> {
    match write {
        Write::Put { key, value, .. } => (key, Some(value)),
        Write::Delete { key } => (key, None),
    }
}

fn only_commit(effects: &[Effect]) -> &Commit {
    match effects {
        [Effect::Commit(commit)] => commit,
        other => panic!("expected a single commit: {other:?}"),
    }
}

fn first_commit(effects: Vec<Effect>) -> Option<Commit> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Commit(commit) => Some(commit),
        _ => None,
    })
}

fn without_events(mut effects: Vec<Effect>) -> Vec<Effect> {
    effects.retain(|effect| !matches!(effect, Effect::Record(_)));
    effects
}
