//! The state of the simulated world, and the loop that takes one event after another from the queue.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::core::io as agent_io;
use contract::labels;
use contract::time::Timestamp;
use scheduler::core::io as scheduler_io;
use testkit::engine::FakeEngine;
use testkit::random::Random;
use testkit::store::FakeStore;

use crate::checks::checker::Checker;
use crate::checks::invariants::Invariant;
use crate::mutant::Mutant;
use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::workload::Workload;
use crate::workload::users::Users;
use crate::world::bus::Bus;
use crate::world::event::{Arrival, AtNode, AtScheduler, AtUser, Event};
use crate::world::event_queue::{BEGINNING, Queue};
use crate::world::node_process::NodeProcess;
use crate::world::scheduler_process::{Request, SchedulerProcess, settings};

/// How often the convergence check runs at the end of a history before its flaws count.
const CONVERGENCE_CHECKS: u32 = 3;
/// Work in flight finishes within this time: an order takes 3 s per try, a stop and a removal up to 5 s each.
const IN_FLIGHT: Duration = Duration::from_secs(15);

pub struct World {
    pub queue: Queue<Event>,
    pub random: Random,
    pub trace: Trace,
    /// etcd.
    pub store: FakeStore,
    /// NATS.
    pub bus: Bus,
    pub engines: Vec<FakeEngine>,
    pub schedulers: Vec<SchedulerProcess>,
    pub nodes: Vec<NodeProcess>,
    /// Orders without an answer, by request number.
    pub requests: BTreeMap<u64, Request>,
    pub request_count: u64,
    /// Commits sent so far.
    pub attempts: u64,
    pub users: Users,
    pub workload: Workload,
    pub scenario: Scenario,
    /// The guard that is switched off.
    pub mutant: Option<Mutant>,
    pub checker: Checker,
}

/// The containers and ledgers on the nodes, whatever the reports say.
#[derive(Clone, Copy)]
pub struct GroundTruth<'a> {
    pub engines: &'a [FakeEngine],
    pub nodes: &'a [NodeProcess],
}

impl World {
    pub fn new(scenario: Scenario, mutant: Option<Mutant>, whole_trace: bool) -> Self {
        let mut random = Random::new(scenario.seed).fork(3);
        let engines: Vec<FakeEngine> = (0..scenario.engines).map(|_| engine_with_foreigners()).collect();
        let process = |node: usize| {
            let skew = i64::try_from(random.below(2 * scenario.skew + 1)).unwrap_or(0)
                - i64::try_from(scenario.skew).unwrap_or(0);
            NodeProcess::new(node, node % scenario.engines, skew)
        };
        let nodes = (0..scenario.nodes).map(process).collect();
        let workload = Workload::new(&scenario);
        let mut world = Self {
            queue: Queue::default(),
            random,
            trace: Trace::new(whole_trace),
            store: FakeStore::new(mutant != Some(Mutant::IgnoresTerms), mutant != Some(Mutant::StoresLateCommits)),
            bus: Bus::default(),
            checker: Checker::new(settings(0, None).lost_after, &engines),
            engines,
            schedulers: (0..scenario.schedulers).map(|_| SchedulerProcess::new(BEGINNING)).collect(),
            nodes,
            requests: BTreeMap::new(),
            request_count: 0,
            attempts: 0,
            users: Users::default(),
            workload,
            scenario,
            mutant,
        };
        world.schedule_everything();
        world
    }

    fn schedule_everything(&mut self) {
        for (at, fault) in self.scenario.faults.iter().chain(&self.workload.faults_at_commands).cloned() {
            self.queue.at(at, Event::Fault(fault));
        }
        for (index, scheduled) in self.workload.commands.iter().enumerate() {
            for at in [Some(scheduled.at), scheduled.again_at].into_iter().flatten() {
                self.queue.at(at, Event::User(AtUser::Publish { index, attempt: 0 }));
            }
        }
        for (at, group) in &self.workload.queries {
            self.queue.at(*at, Event::User(AtUser::Ask { group: *group }));
        }
        self.queue.after(Duration::from_secs(4), Event::User(AtUser::OperateRollouts));
        (0..self.nodes.len()).for_each(|node| self.start_agent(node));
        (0..self.schedulers.len()).for_each(|scheduler| self.start_scheduler(scheduler));
    }

    /// Handles events until the end or the first violation. A flaw at the end counts only if it is still there 15 s and 30 s later, when
    /// work in flight has finished.
    pub fn run(&mut self) {
        let (mut end, mut checks) = (self.scenario.end, CONVERGENCE_CHECKS);
        while self.checker.violation.is_none() {
            let Some(event) = self.queue.pop() else { break };
            let now = self.queue.now();
            if now > end {
                let flaws = self.flaws();
                checks -= 1;
                if flaws.is_empty() {
                    break;
                }
                if checks == 0 {
                    self.checker.broken(Invariant::Converges, flaws.join("; "));
                    break;
                }
                end = now + IN_FLIGHT;
            }
            self.handle(event);
            let led = self.has_working_leader(now);
            self.checker.after_event(&GroundTruth { engines: &self.engines, nodes: &self.nodes }, led, now);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Scheduler { scheduler, life, what } => self.at_scheduler(scheduler, life, what),
            Event::Node { node, life, what } => self.at_node(node, life, what),
            Event::Commit { scheduler, attempt, commit } => self.commit_arrives(scheduler, attempt, &commit),
            Event::Arrival(arrival) => self.arrive(arrival),
            Event::Action { node, life, instance, action } => self.action_arrives(node, life, instance, action),
            Event::ContainerBehaviour { engine, id, starts } => self.apply_behaviour(engine, &id, starts),
            Event::User(what) => self.at_user(&what),
            Event::Fault(fault) => self.fail(&fault),
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Report { scheduler, .. } | Arrival::Query { scheduler, .. }
                if self.schedulers[scheduler].bus_cut => {}
            Arrival::Report { scheduler, message } => {
                self.tell_scheduler(scheduler, scheduler_io::Input::Report(*message))
            }
            Arrival::Query { scheduler, number, query } => {
                self.tell_scheduler(scheduler, scheduler_io::Input::Query { query, reply: number.to_string() });
            }
            Arrival::Order { node, request, message } => {
                self.tell_agent(node, agent_io::Input::Order { message: *message, reply: request.to_string() });
            }
            Arrival::AskWhole { node } => self.tell_agent(node, agent_io::Input::FullReportRequested),
            Arrival::OrderReply { request, .. } if self.sender_is_cut(request) => {}
            Arrival::OrderReply { request, reply } => self.order_answered(request, Some(reply)),
            Arrival::Outcome(outcome) => self.outcome_arrives(&outcome),
            Arrival::Answer { number, reply } => self.answer_arrives(number, &reply),
        }
    }

    fn tell_scheduler(&mut self, scheduler: usize, input: scheduler_io::Input) {
        let life = self.schedulers[scheduler].life;
        self.at_scheduler(scheduler, life, AtScheduler::Input(Box::new(input)));
    }

    fn tell_agent(&mut self, node: usize, input: agent_io::Input) {
        if self.nodes[node].connected {
            let life = self.nodes[node].life;
            self.at_node(node, life, AtNode::Input(Box::new(input)));
        }
    }

    /// Schedules an event for the agent process that runs now; a restart drops it.
    pub fn on_node_after(&mut self, node: usize, delay: Duration, what: AtNode) {
        let life = self.nodes[node].life;
        self.queue.after(delay, Event::Node { node, life, what });
    }

    /// Every agent on an engine probes it within 3 s.
    pub fn probe_engine(&mut self, engine: usize) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].engine == engine {
                let delay = self.random.span(1, 3_000);
                self.on_node_after(node, delay, AtNode::Probe);
            }
        }
    }

    fn has_working_leader(&mut self, now: Timestamp) -> bool {
        let Some(key) = self.store.leader(now) else { return false };
        let is_free = self.reaches_store(key.holder.scheduler) && !self.store.is_full;
        let scheduler = &self.schedulers[key.holder.scheduler];
        is_free && scheduler.leads(now) && scheduler.paused_until.is_none_or(|until| until <= now) && !scheduler.bus_cut
    }

    pub fn reaches_store(&self, scheduler: usize) -> bool {
        !self.schedulers[scheduler].store_cut && !self.store.is_lost
    }

    fn sender_is_cut(&self, request: u64) -> bool {
        self.requests.get(&request).is_some_and(|request| self.schedulers[request.scheduler].bus_cut)
    }

    /// Whether the scheduler answers queries for the leader, rightly or not.
    pub fn believes_to_lead(&self, scheduler: usize) -> bool {
        self.schedulers[scheduler].core.is_some()
            && matches!(self.schedulers[scheduler].belief, crate::world::scheduler_process::Belief::Leading { .. })
    }

    pub fn node_index(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|process| process.owner.node.as_str() == name)
    }
}

/// An engine with foreign containers, three of which carry some of our labels.
fn engine_with_foreigners() -> FakeEngine {
    let mut engine = FakeEngine::new("c", 4);
    let label = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let pod = [
        (labels::POD_NAME, "app0.web.web"),
        (labels::INSTANCE, "1"),
        (labels::VERSION, "0"),
        (labels::DRIFT, "0"),
        (labels::CONTAINER_INDEX, "0"),
    ];
    let other = [pod.as_slice(), &[(labels::CLUSTER, "another"), (labels::NODE, "n0")]].concat();
    let no_node = [pod.as_slice(), &[(labels::CLUSTER, crate::world::node_process::CLUSTER)]].concat();
    engine.add_foreign("postgres", label(&[]), BEGINNING);
    engine.add_foreign("look-alike", label(&pod), BEGINNING);
    engine.add_foreign("of-another-cluster", label(&other), BEGINNING);
    engine.add_foreign("of-no-node", label(&no_node), BEGINNING);
    engine
}
