//! The simulated world: all processes, all machines, the bus, the store and time, driven by one queue of events.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::core::io as agent_io;
use contract::labels;
use contract::time::Timestamp;
use scheduler::core::io as scheduler_io;

use crate::checks::checker::Watch;
use crate::checks::invariants::Invariant;
use crate::mutant::Mutant;
use crate::random::Random;
use crate::scenario::Plan;
use crate::trace::Trace;
use crate::workload::Workload;
use crate::workload::users::Users;
use crate::world::bus::Bus;
use crate::world::engine::Engine;
use crate::world::event::{Arrival, AtMachine, AtScheduler, AtUser, Event};
use crate::world::event_queue::{BEGINNING, Queue};
use crate::world::node_process::Machine;
use crate::world::scheduler_process::{Request, Seat, settings};
use crate::world::store::Store;

/// How often it is looked whether everything is as users asked.
const LOOKS: u32 = 3;
/// What is under way is done within so long: an order takes 3 s per try, a stop and a removal up to 5 s each.
const UNDER_WAY: Duration = Duration::from_secs(15);

/// Everything.
pub struct World {
    /// Time and what is to come.
    pub queue: Queue<Event>,
    /// Chance.
    pub random: Random,
    /// The history so far.
    pub trace: Trace,
    /// etcd.
    pub store: Store,
    /// NATS.
    pub bus: Bus,
    /// Docker engines.
    pub engines: Vec<Engine>,
    /// Scheduler processes.
    pub seats: Vec<Seat>,
    /// Nodes.
    pub machines: Vec<Machine>,
    /// Orders under way.
    pub requests: BTreeMap<u64, Request>,
    /// Orders ever sent.
    pub request_count: u64,
    /// Commits ever sent.
    pub attempts: u64,
    /// What users know.
    pub users: Users,
    /// What users want.
    pub workload: Workload,
    /// What goes wrong.
    pub plan: Plan,
    /// The guard that is off.
    pub mutant: Option<Mutant>,
    /// The invariants.
    pub watch: Watch,
}

/// What stands on the nodes, whatever anybody says about it.
#[derive(Clone, Copy)]
pub struct Nodes<'a> {
    /// Docker engines.
    pub engines: &'a [Engine],
    /// Nodes.
    pub machines: &'a [Machine],
}

impl World {
    /// The world of a plan before its first event.
    pub fn new(plan: Plan, mutant: Option<Mutant>, whole_trace: bool) -> Self {
        let mut random = Random::new(plan.seed).fork(3);
        let engines: Vec<Engine> = (0..plan.engines).map(|_| engine_with_foreigners()).collect();
        let machine = |node: usize| {
            let skew =
                i64::try_from(random.below(2 * plan.skew + 1)).unwrap_or(0) - i64::try_from(plan.skew).unwrap_or(0);
            Machine::new(node, node % plan.engines, skew)
        };
        let machines = (0..plan.nodes).map(machine).collect();
        let workload = Workload::new(&plan);
        let mut world = Self {
            queue: Queue::default(),
            random,
            trace: Trace::new(whole_trace),
            store: Store::new(mutant != Some(Mutant::NoGuard), mutant != Some(Mutant::NoOrder)),
            bus: Bus::default(),
            watch: Watch::new(settings(0, None).lost_after, &engines),
            engines,
            seats: (0..plan.schedulers).map(|_| Seat::new(BEGINNING)).collect(),
            machines,
            requests: BTreeMap::new(),
            request_count: 0,
            attempts: 0,
            users: Users::default(),
            workload,
            plan,
            mutant,
        };
        world.set_out();
        world
    }

    fn set_out(&mut self) {
        for (at, fault) in self.plan.faults.iter().chain(&self.workload.mishaps).cloned() {
            self.queue.at(at, Event::Fault(fault));
        }
        for (index, wish) in self.workload.wishes.iter().enumerate() {
            for at in [Some(wish.at), wish.again_at].into_iter().flatten() {
                self.queue.at(at, Event::User(AtUser::Publish { index, attempt: 0 }));
            }
        }
        for (at, group) in &self.workload.questions {
            self.queue.at(*at, Event::User(AtUser::Ask { group: *group }));
        }
        self.queue.after(Duration::from_secs(4), Event::User(AtUser::Tend));
        (0..self.machines.len()).for_each(|node| self.start_agent(node));
        (0..self.seats.len()).for_each(|seat| self.start_scheduler(seat));
    }

    /// Lets everything happen, until the end or the first breach. What is under way at the end is given its time: what is wrong is
    /// still wrong when it is looked at again.
    pub fn run(&mut self) {
        let (mut end, mut looks) = (self.plan.end, LOOKS);
        while self.watch.violation.is_none() {
            let Some(event) = self.queue.pop() else { break };
            let now = self.queue.now();
            if now > end {
                let flaws = self.flaws();
                looks -= 1;
                if flaws.is_empty() {
                    break;
                }
                if looks == 0 {
                    self.watch.broken(Invariant::Converges, flaws.join("; "));
                    break;
                }
                end = now + UNDER_WAY;
            }
            self.happen(event);
            let led = self.somebody_leads(now);
            self.watch.after_event(&Nodes { engines: &self.engines, machines: &self.machines }, led, now);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Scheduler { seat, life, what } => self.at_scheduler(seat, life, what),
            Event::Machine { node, life, what } => self.at_machine(node, life, what),
            Event::Commit { seat, attempt, commit } => self.commit_arrives(seat, attempt, &commit),
            Event::Arrival(arrival) => self.arrive(arrival),
            Event::Step { node, life, lane, step } => self.step_arrives(node, life, lane, step),
            Event::ContainerBehaviour { engine, id, starts } => self.fulfil(engine, &id, starts),
            Event::User(what) => self.at_user(&what),
            Event::Fault(fault) => self.fail(&fault),
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Report { seat, .. } | Arrival::Query { seat, .. } if self.seats[seat].bus_cut => {}
            Arrival::Report { seat, message } => self.tell_scheduler(seat, scheduler_io::Input::Report(*message)),
            Arrival::Query { seat, number, query } => {
                self.tell_scheduler(seat, scheduler_io::Input::Query { query, reply: number.to_string() });
            }
            Arrival::Order { node, request, message } => {
                self.tell_agent(node, agent_io::Input::Order { message: *message, reply: request.to_string() });
            }
            Arrival::AskWhole { node } => self.tell_agent(node, agent_io::Input::WholeAsked),
            Arrival::OrderReply { request, .. } if self.asker_is_cut(request) => {}
            Arrival::OrderReply { request, reply } => self.order_answered(request, Some(reply)),
            Arrival::Outcome(outcome) => self.outcome_arrives(&outcome),
            Arrival::Answer { number, reply } => self.answer_arrives(number, &reply),
        }
    }

    /// A message reaches a scheduler process, if it runs.
    fn tell_scheduler(&mut self, seat: usize, input: scheduler_io::Input) {
        let life = self.seats[seat].life;
        self.at_scheduler(seat, life, AtScheduler::Input(Box::new(input)));
    }

    /// A message reaches an agent, if it runs and is connected.
    fn tell_agent(&mut self, node: usize, input: agent_io::Input) {
        if self.machines[node].connected {
            let life = self.machines[node].life;
            self.at_machine(node, life, AtMachine::Input(Box::new(input)));
        }
    }

    /// Something happens on a machine after `delay`, if the same agent still runs then.
    pub fn on_machine_after(&mut self, node: usize, delay: Duration, what: AtMachine) {
        let life = self.machines[node].life;
        self.queue.after(delay, Event::Machine { node, life, what });
    }

    /// Every node on an engine finds out soon how it is.
    pub fn probe_engine(&mut self, engine: usize) {
        for node in 0..self.machines.len() {
            if self.machines[node].engine == engine {
                let delay = self.random.span(1, 3_000);
                self.on_machine_after(node, delay, AtMachine::Probe);
            }
        }
    }

    fn somebody_leads(&mut self, now: Timestamp) -> bool {
        let Some(key) = self.store.leader(now) else { return false };
        let is_free = self.reaches_store(key.holder.seat) && !self.store.is_full;
        let seat = &self.seats[key.holder.seat];
        is_free && seat.leads(now) && seat.paused_until.is_none_or(|until| until <= now) && !seat.bus_cut
    }

    /// etcd answers a scheduler.
    pub fn reaches_store(&self, seat: usize) -> bool {
        !self.seats[seat].store_cut && !self.store.is_lost
    }

    /// Whoever sent an order does not reach the bus.
    fn asker_is_cut(&self, request: u64) -> bool {
        self.requests.get(&request).is_some_and(|request| self.seats[request.seat].bus_cut)
    }

    /// True when a scheduler listens to questions for the leader.
    pub fn believes_to_lead(&self, seat: usize) -> bool {
        self.seats[seat].core.is_some()
            && matches!(self.seats[seat].belief, crate::world::scheduler_process::Belief::Leading { .. })
    }

    /// Index of a node by its name.
    pub fn node_called(&self, name: &str) -> Option<usize> {
        self.machines.iter().position(|machine| machine.owner.node.as_str() == name)
    }
}

/// An engine that is used by others too, some of them dressed like us.
fn engine_with_foreigners() -> Engine {
    let mut engine = Engine::default();
    let label = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let pod = [
        (labels::POD_NAME, "app0.web.web"),
        (labels::INSTANCE, "1"),
        (labels::VERSION, "0"),
        (labels::DRIFT, "0"),
        (labels::CONTAINER_INDEX, "0"),
    ];
    let other = [pod.as_slice(), &[(labels::CLUSTER, "another"), (labels::NODE, "n0")]].concat();
    let nobody = [pod.as_slice(), &[(labels::CLUSTER, crate::world::node_process::CLUSTER)]].concat();
    engine.add_foreign("postgres", label(&[]), BEGINNING);
    engine.add_foreign("look-alike", label(&pod), BEGINNING);
    engine.add_foreign("of-another-cluster", label(&other), BEGINNING);
    engine.add_foreign("of-no-node", label(&nobody), BEGINNING);
    engine
}
