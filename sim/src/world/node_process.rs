//! One node: the agent's real core, its disk, its connection to the bus, and the index of its engine.
//!
//! Disk and engine outlive the agent: the engine performs an action even when the agent that requested it is dead, and the disk
//! keeps the last complete ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agent::core::Core;
use agent::core::io::{Action, Effect, Input, Ledger, Mutant, Settings};
use contract::labels::Owner;
use contract::pod_id::InstanceKey;
use contract::report::{EngineState, NodeFacts};
use contract::time::Timestamp;
use testkit::container::{Container, ContainerBehaviour};

use crate::checks::invariants::Invariant;
use crate::describe;
use crate::scenario::MEMORY;
use crate::workload::rollout_specs::unit_of;
use crate::world::World;
use crate::world::event::{Arrival, AtNode, Event};

pub const CLUSTER: &str = "simulated";
pub const HEARTBEAT: Duration = Duration::from_secs(3);

pub struct NodeProcess {
    pub owner: Owner,
    pub engine: usize,
    /// The agent's core; none while the process is down.
    pub core: Option<Core>,
    /// Starts of the agent so far.
    pub life: u32,
    pub connected: bool,
    pub labels: BTreeMap<String, String>,
    /// Clock error in milliseconds.
    pub skew: i64,
    /// Memory for pods, in bytes.
    pub memory: u64,
    /// The ledger on disk.
    pub disk: Ledger,
    /// An older ledger, for faults that bring it back.
    pub backup: Ledger,
    pub disk_full: bool,
    /// Instances with an action in flight.
    pub busy: BTreeSet<InstanceKey>,
    /// The ledger being written, then those that wait.
    pub writing: Vec<(u64, Ledger)>,
    /// The core's `wake_at`, in true time.
    pub wake: Option<Timestamp>,
    /// The current second and the wakes in it, to find a busy loop.
    pub wakes: (i64, u32),
}

impl NodeProcess {
    pub fn new(node: usize, engine: usize, skew: i64) -> Self {
        let name = format!("n{node}").parse().expect("a letter and a digit are a name");
        Self {
            owner: Owner { cluster: CLUSTER.to_owned(), node: name },
            engine,
            core: None,
            life: 0,
            connected: true,
            labels: BTreeMap::from([
                ("group".to_owned(), "default".to_owned()),
                ("zone".to_owned(), unit_of(node).to_owned()),
            ]),
            skew,
            memory: MEMORY << 20,
            disk: Ledger::default(),
            backup: Ledger::default(),
            disk_full: false,
            busy: BTreeSet::new(),
            writing: Vec::new(),
            wake: None,
            wakes: (0, 0),
        }
    }
    fn clock(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_millis(now.as_millis() + self.skew)
    }
    pub fn settings(&self, mutant: Option<Mutant>) -> Settings {
        let facts = NodeFacts {
            address: format!("{}:2375", self.owner.node),
            ip: "10.0.0.1".to_owned(),
            cpu_millis: 64_000,
            cores: 64,
            memory: self.memory,
            labels: self.labels.clone(),
            wire: contract::WIRE_VERSION,
            fetches_ahead: true,
            ..Default::default()
        };
        Settings {
            owner: self.owner.clone(),
            identity: format!("{}-disk", self.owner.node),
            incarnation: format!("{}-{}", self.owner.node, self.life),
            facts,
            heartbeat: HEARTBEAT,
            reread: Duration::from_secs(20),
            most_restarts: 3,
            restart_window: Duration::from_secs(60),
            alone_after: Duration::from_secs(30),
            faults: mutant.into(),
        }
    }
}

impl World {
    pub fn start_agent(&mut self, node: usize) {
        if self.nodes[node].core.is_some() {
            return;
        }
        let now = self.queue.now();
        let mutant = self.mutant.and_then(crate::mutant::Mutant::of_agent);
        let process = &mut self.nodes[node];
        process.life += 1;
        process.busy.clear();
        process.wake = None;
        process.core = Some(Core::new(process.settings(mutant), process.disk.clone()));
        let (connected, engine) = (process.connected, process.engine);
        self.trace.line(now, &format!("n{node}"), "agent starts");
        self.feed_agent(node, Input::Bus { connected });
        match self.engines[engine].state() {
            EngineState::Up => {}
            state @ (EngineState::Down | EngineState::Hung) => self.feed_agent(node, Input::Engine(state)),
        }
    }

    /// Kills the agent process. A write in flight may or may not reach the disk.
    pub fn kill_agent(&mut self, node: usize) {
        let now = self.queue.now();
        let written = self.random.chance(50);
        let process = &mut self.nodes[node];
        process.core = None;
        if let Some((_, ledger)) = process.writing.first().filter(|_| written && !process.disk_full) {
            process.disk = ledger.clone();
        }
        process.writing.clear();
        let fence = process.disk.order.fence;
        self.checker.on_disk(node, fence);
        self.trace.line(now, &format!("n{node}"), "agent is killed");
    }

    pub fn at_node(&mut self, node: usize, life: u32, what: AtNode) {
        let process = &self.nodes[node];
        if process.life != life || process.core.is_none() {
            return;
        }
        match what {
            AtNode::Input(input) => self.feed_agent(node, *input),
            AtNode::Wake(at) => self.wake_agent(node, at),
            AtNode::Written => self.written(node),
            AtNode::List => self.list(node),
            AtNode::Fetch(image) => {
                let result = self.engines[self.nodes[node].engine].fetch(&image, &mut self.random);
                self.feed_agent(node, Input::Fetched { image, result });
            }
            AtNode::Probe => {
                let state = self.engines[self.nodes[node].engine].state();
                self.feed_agent(node, Input::Engine(state));
            }
            AtNode::Ping => {
                let connected = self.nodes[node].connected;
                self.feed_agent(node, Input::Bus { connected });
            }
        }
    }

    fn wake_agent(&mut self, node: usize, at: Timestamp) {
        if self.nodes[node].wake != Some(at) {
            return;
        }
        let process = &mut self.nodes[node];
        process.wake = None;
        let second = at.as_millis() / 1000;
        process.wakes = if process.wakes.0 == second { (second, process.wakes.1 + 1) } else { (second, 1) };
        let wakes = process.wakes.1;
        self.checker.woken(&format!("n{node}"), wakes);
        self.feed_agent(node, Input::Tick);
    }

    pub fn feed_agent(&mut self, node: usize, input: Input) {
        let now = self.queue.now();
        let line = describe::agent_input(&input);
        let process = &mut self.nodes[node];
        if let Input::ActionDone { instance, .. } = &input {
            process.busy.remove(instance);
        }
        let (clock, skew, life) = (process.clock(now), process.skew, process.life);
        let Some(core) = process.core.as_mut() else { return };
        self.trace.line(now, &format!("n{node}"), &format!("<- {line}"));
        let effects = core.on(input, clock);
        let earliest = now + Duration::from_millis(1);
        let wake = core.wake_at().map(|at| Timestamp::from_millis(at.as_millis().saturating_sub(skew)).max(earliest));
        if process.wake != wake {
            process.wake = wake;
            if let Some(at) = wake {
                self.queue.at(at, Event::Node { node, life, what: AtNode::Wake(at) });
            }
        }
        for effect in effects {
            let line = describe::agent_effect(&effect);
            self.trace.line(now, &format!("n{node}"), &format!("-> {line}"));
            self.perform_for_agent(node, effect);
        }
    }

    fn perform_for_agent(&mut self, node: usize, effect: Effect) {
        let life = self.nodes[node].life;
        match effect {
            Effect::Persist { id, ledger } => self.persist(node, id, *ledger),
            Effect::Reply { inbox, reply } => {
                self.checker.acknowledged(node, &reply, &self.nodes[node].disk);
                if let Some(request) = inbox.parse().ok().filter(|_| self.nodes[node].connected) {
                    self.deliver(|| Arrival::OrderReply { request, reply: reply.clone() });
                }
            }
            Effect::Perform { instance, action } => self.request_action(node, instance, action),
            Effect::Fetch { image } => {
                let delay = self.random.span(5, 8_000);
                self.queue.after(delay, Event::Node { node, life, what: AtNode::Fetch(image) });
            }
            Effect::Check { id, started_at, kind, .. } => {
                let delay = self.random.span(1, 200);
                let result = self.engines[self.nodes[node].engine].check(&id);
                let input = Box::new(Input::Checked { id, started_at, kind, result });
                self.queue.after(delay, Event::Node { node, life, what: AtNode::Input(input) });
            }
            Effect::TakeInventory => {
                let delay = self.random.span(2, 60);
                self.queue.after(delay, Event::Node { node, life, what: AtNode::List });
            }
            Effect::Publish(message) => self.publish_report(node, &message),
        }
    }

    fn publish_report(&mut self, node: usize, message: &contract::report::ReportMessage) {
        if !self.nodes[node].connected {
            return;
        }
        let now = self.queue.now();
        self.checker.report_published(node, now);
        for scheduler in 0..self.schedulers.len() {
            self.deliver(|| Arrival::Report { scheduler, message: Box::new(message.clone()) });
        }
    }

    fn persist(&mut self, node: usize, id: u64, ledger: Ledger) {
        let process = &mut self.nodes[node];
        process.writing.push((id, ledger));
        if process.writing.len() == 1 {
            self.write_next(node);
        }
    }

    fn write_next(&mut self, node: usize) {
        let life = self.nodes[node].life;
        let slow = self.random.chance(5);
        let delay = if slow { self.random.span(100, 800) } else { self.random.span(1, 15) };
        self.queue.after(delay, Event::Node { node, life, what: AtNode::Written });
    }

    fn written(&mut self, node: usize) {
        let process = &mut self.nodes[node];
        if process.writing.is_empty() {
            return;
        }
        let (id, ledger) = process.writing.remove(0);
        let result = if process.disk_full { Err("no space left on device".to_owned()) } else { Ok(()) };
        if result.is_ok() {
            process.disk = ledger;
            let fence = process.disk.order.fence;
            if self.random.chance(4) {
                process.backup = process.disk.clone();
            }
            self.checker.on_disk(node, fence);
        }
        if !self.nodes[node].writing.is_empty() {
            self.write_next(node);
        }
        self.feed_agent(node, Input::Persisted { id, result });
    }

    fn list(&mut self, node: usize) {
        let process = &self.nodes[node];
        let engine = &self.engines[process.engine];
        let life = process.life;
        let state = engine.state();
        if state != EngineState::Up {
            return self.feed_agent(node, Input::Engine(state));
        }
        let input = Input::Inventory(engine.inventory(&process.owner));
        // An action may finish while the list is on its way to the core.
        let delay = self.random.span(0, 60);
        self.queue.after(delay, Event::Node { node, life, what: AtNode::Input(Box::new(input)) });
    }

    fn request_action(&mut self, node: usize, instance: InstanceKey, action: Action) {
        if !self.nodes[node].busy.insert(instance.clone()) {
            let detail =
                format!("n{node}: {} while another action of {instance} is in flight", describe::action(&action));
            self.checker.broken(Invariant::OneActionPerInstance, detail);
        }
        let process = &self.nodes[node];
        self.checker.action_requested(process, &action, &self.engines[process.engine], &self.store);
        let life = process.life;
        let delay = match &action {
            Action::Create { .. } => self.random.span(30, 1_500),
            Action::Update { .. } | Action::Start { .. } => self.random.span(10, 400),
            Action::ReadEnd { .. } => self.random.span(1, 50),
            Action::Replace { .. } => self.random.span(40, 5_000),
            Action::Stop { .. } | Action::Remove { .. } => self.random.span(10, 5_000),
        };
        self.queue.after(delay, Event::Action { node, life, instance, action });
    }

    /// Schedules the behaviour of a container that was just started.
    fn schedule_behaviour(&mut self, engine: usize, id: &str) {
        let now = self.queue.now();
        let fresh = |c: &&Container| {
            c.started_at == now && (c.has_health_check() || c.behaviour() == ContainerBehaviour::Dying)
        };
        let Some(container) = self.engines[engine].containers.get(id).filter(fresh) else { return };
        let (id, starts) = (id.to_owned(), container.starts);
        let delay = self.random.span(300, 5_000);
        self.queue.after(delay, Event::ContainerBehaviour { engine, id, starts });
    }

    pub fn action_arrives(&mut self, node: usize, life: u32, instance: InstanceKey, action: Action) {
        let now = self.queue.now();
        let process = &self.nodes[node];
        let (owner, engine_index) = (process.owner.clone(), process.engine);
        if self.engines[engine_index].hung_until.is_some() {
            return self.time_out_action(node, life, instance, action);
        }
        let engine = &mut self.engines[engine_index];
        // An error arrives after the client's timeout.
        let done = engine.perform(&owner, &action, now, &mut self.random);
        let line = format!("{} {}", describe::action(&action), describe::action_result(&done.result));
        self.trace.line(now, &format!("e{engine_index}"), &line);
        self.checker.engines_changed();
        if let Some(touched) = &done.touched {
            self.checker.touched(engine_index, touched, &line);
            self.checker.action_done(&self.nodes[node], &action, touched);
            self.schedule_behaviour(engine_index, touched);
            if self.nodes[node].life != life {
                // The agent that requested the action is dead, but the engine publishes an event.
                self.look(engine_index, touched);
            }
        }
        let wait = if done.result.is_err() { self.random.span(1, 3_000) } else { self.random.span(0, 40) };
        let input = Box::new(Input::ActionDone { instance, action, result: done.result });
        self.queue.after(wait, Event::Node { node, life, what: AtNode::Input(input) });
    }
}
