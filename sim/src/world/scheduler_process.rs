//! One scheduler process: its real core, and everything the shell does around it.
//!
//! A paused process keeps its belief; what happens to it in the meantime waits. A killed one loses everything.

use std::time::Duration;

use contract::fence::{Fence, Term};
use contract::time::Timestamp;
use scheduler::core::Core;
use scheduler::core::io::{CommitResult, Effect, Input, Mutant, Settings};

use crate::describe;
use crate::world::World;
use crate::world::bus::ORDER_DEADLINE;
use crate::world::event::{Arrival, AtScheduler, Event};
use crate::world::store::{Candidate, STEP_DOWN};

/// What the election told this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belief {
    /// Somebody else leads, or nobody.
    Follower,
    /// It holds the key; the state is being read.
    Loading {
        /// Its term.
        term: Term,
        /// Last renewal by its own clock.
        renewed: Timestamp,
    },
    /// It leads.
    Leading {
        /// Its term.
        term: Term,
        /// Last renewal by its own clock.
        renewed: Timestamp,
    },
}

/// A commit whose answer is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightCommit {
    /// The core's name for it.
    pub id: u64,
    /// The same commit may be sent again.
    pub attempt: u64,
}

/// Position of the reader of the command stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReader {
    /// Target creation of the stream.
    pub creation: u32,
    /// The next message.
    pub next: u64,
    /// A look for it is planned.
    pub busy: bool,
}

/// One scheduler process.
pub struct SchedulerProcess {
    /// The core; none while the process is down.
    pub core: Option<Core>,
    /// Runs so far.
    pub life: u32,
    /// Leases so far.
    pub lease: u32,
    /// Stands still until then.
    pub paused_until: Option<Timestamp>,
    /// Will stand still between its next decision and the performing of it.
    pub armed: Option<Duration>,
    /// What it believes.
    pub belief: Belief,
    /// etcd cannot be reached.
    pub store_cut: bool,
    /// The bus cannot be reached.
    pub bus_cut: bool,
    /// How wrong its clock is, in milliseconds; read at its start.
    pub skew: i64,
    /// Watches of etcd so far.
    pub watch: u32,
    /// The present one is open.
    pub watches: bool,
    /// When the core wants to be woken, in true time.
    pub wake: Option<Timestamp>,
    /// The commit under way.
    pub commit: Option<InFlightCommit>,
    /// The reader of the command stream, while it leads.
    pub feed: Option<StreamReader>,
    /// Last thing put on the watch: changes arrive in order.
    pub mirrored: Timestamp,
    /// Wakes in the present second, to find a core that spins.
    pub wakes: (i64, u32),
}

/// An order under way.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Who sent it.
    pub scheduler: usize,
    /// In which run.
    pub life: u32,
    /// To which node.
    pub node: usize,
    /// Its fence.
    pub fence: Fence,
}

impl SchedulerProcess {
    /// A process that is not running yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            core: None,
            life: 0,
            lease: 0,
            paused_until: None,
            armed: None,
            belief: Belief::Follower,
            store_cut: false,
            bus_cut: false,
            skew: 0,
            watch: 0,
            watches: true,
            wake: None,
            commit: None,
            feed: None,
            mirrored: now,
            wakes: (0, 0),
        }
    }
    /// Its present campaign.
    pub fn candidate(&self, scheduler: usize) -> Candidate {
        Candidate { scheduler, lease: self.lease }
    }
    /// True while it leads and its lease cannot have run out.
    pub fn leads(&self, now: Timestamp) -> bool {
        matches!(self.belief, Belief::Leading { renewed, .. } if now.since(renewed) < STEP_DOWN)
    }
}

/// Timing of the schedulers in the simulation: the proportions of the real one, shorter.
pub fn settings(scheduler: usize, mutant: Option<Mutant>) -> Settings {
    Settings {
        name: format!("s{scheduler}"),
        suspect_after: Duration::from_secs(10),
        lost_after: Duration::from_secs(45),
        failover_grace: Duration::from_secs(15),
        operation_limit: Duration::from_secs(120),
        health_poll: Duration::from_secs(2),
        early_exit: Duration::from_secs(1),
        dependency_grace: Duration::from_secs(30),
        // Cut nodes are the simulator's daily bread.
        losses_stop: 0,
        // Fewer than there are nodes, so that orders wait for each other here too.
        orders_at_once: 2,
        mutant,
        ..Settings::default()
    }
}

/// A time as a clock shows it that is wrong by so many milliseconds.
pub fn shifted(time: Timestamp, skew: i64) -> Timestamp {
    Timestamp::from_millis(time.as_millis().saturating_add(skew))
}

impl World {
    /// Something happens inside a scheduler process.
    pub fn at_scheduler(&mut self, scheduler: usize, life: u32, what: AtScheduler) {
        let now = self.queue.now();
        let process = &mut self.schedulers[scheduler];
        if process.life != life || process.core.is_none() {
            return;
        }
        if let Some(until) = process.paused_until {
            if now < until {
                // The election's own look may come after a backlog of other work: the worst case for stale belief.
                let slow =
                    if matches!(what, AtScheduler::Campaign) { self.random.span(0, 1_500) } else { Duration::ZERO };
                self.queue.at(until + slow, Event::Scheduler { scheduler, life, what });
                return;
            }
            process.paused_until = None;
        }
        match what {
            AtScheduler::Campaign => self.campaign(scheduler),
            AtScheduler::Loaded(term) => self.loaded(scheduler, term),
            AtScheduler::Input(input) => self.feed_scheduler(scheduler, *input),
            AtScheduler::Wake(at) => self.wake_scheduler(scheduler, at),
            AtScheduler::ReadCommand => self.read_command(scheduler),
            AtScheduler::OrderDeadline(request) => self.order_answered(request, None),
            AtScheduler::Perform(effects) => self.perform_for_scheduler(scheduler, effects),
            AtScheduler::MirrorReset => self.mirror_reset(scheduler),
            AtScheduler::BusPing => self.bus_ping(scheduler),
            AtScheduler::Mirrored { watch, change } => {
                if self.schedulers[scheduler].watch == watch {
                    self.feed_scheduler(scheduler, Input::Mirror(change));
                }
            }
            AtScheduler::CommitDeadline(attempt) => self.commit_answered(scheduler, attempt, CommitResult::Unknown),
            AtScheduler::CommitAnswered(attempt, result) => self.commit_answered(scheduler, attempt, result),
        }
    }

    fn wake_scheduler(&mut self, scheduler: usize, at: Timestamp) {
        if self.schedulers[scheduler].wake != Some(at) {
            return;
        }
        self.schedulers[scheduler].wake = None;
        let second = at.as_millis() / 1000;
        let wakes = &mut self.schedulers[scheduler].wakes;
        *wakes = if wakes.0 == second { (second, wakes.1 + 1) } else { (second, 1) };
        let wakes = wakes.1;
        self.checker.woken(&format!("s{scheduler}"), wakes);
        self.feed_scheduler(scheduler, Input::Tick);
    }

    /// Feeds the core now and performs what it decides.
    pub fn feed_scheduler(&mut self, scheduler: usize, input: Input) {
        let now = self.queue.now();
        let process = &mut self.schedulers[scheduler];
        let skew = process.skew;
        let Some(core) = process.core.as_mut() else { return };
        let line = describe::scheduler_input(&input);
        self.trace.line(now, &format!("s{scheduler}"), &format!("<- {line}"));
        if let Input::Report(message) = &input {
            self.checker.hears(scheduler, &message.stamp().node, now);
        }
        let effects = core.on(input, shifted(now, skew));
        let wake = core.wake_at().map(|at| shifted(at, -skew));
        self.plan_scheduler_wake(scheduler, wake);
        if !effects.is_empty() {
            self.perform_for_scheduler(scheduler, effects);
        }
    }

    fn plan_scheduler_wake(&mut self, scheduler: usize, wake: Option<Timestamp>) {
        let now = self.queue.now();
        let life = self.schedulers[scheduler].life;
        // A core that asks for the past is woken as soon as possible, and time moves on.
        let wake = wake.map(|at| at.max(now + Duration::from_millis(1)));
        if self.schedulers[scheduler].wake != wake {
            self.schedulers[scheduler].wake = wake;
            if let Some(at) = wake {
                self.queue.at(at, Event::Scheduler { scheduler, life, what: AtScheduler::Wake(at) });
            }
        }
    }

    fn perform_for_scheduler(&mut self, scheduler: usize, effects: Vec<Effect>) {
        let now = self.queue.now();
        let matters = effects.iter().any(|e| matches!(e, Effect::Commit(_) | Effect::SendOrder { .. }));
        let armed = self.schedulers[scheduler].armed.filter(|_| matters && now < self.scenario.calm_at);
        if let Some(span) = armed {
            let life = self.schedulers[scheduler].life;
            self.schedulers[scheduler].armed = None;
            self.pause_scheduler(scheduler, now + span);
            self.trace.line(now, &format!("s{scheduler}"), &format!("stands still for {span:?} before it acts"));
            let until = self.schedulers[scheduler].paused_until.unwrap_or(now);
            self.queue.at(until, Event::Scheduler { scheduler, life, what: AtScheduler::Perform(effects) });
            return;
        }
        for effect in effects {
            let line = describe::scheduler_effect(&effect);
            self.trace.line(now, &format!("s{scheduler}"), &format!("-> {line}"));
            self.perform_scheduler_effect(scheduler, effect);
        }
    }

    fn perform_scheduler_effect(&mut self, scheduler: usize, effect: Effect) {
        match effect {
            Effect::Commit(commit) => self.send_commit(scheduler, commit),
            Effect::SendOrder { node, message } => self.send_order(scheduler, node.as_str(), &message),
            Effect::AskWhole { node } => {
                let Some(node) = self.node_index(node.as_str()) else { return };
                self.deliver_from(scheduler, || Arrival::AskWhole { node });
            }
            Effect::Resolve { outcome, .. } => {
                self.checker.resolved(&outcome, &self.store);
                self.deliver_from(scheduler, || Arrival::Outcome(outcome.clone()));
            }
            // As in the real shell: a leader that stood still for longer than its lease may not know yet that it is none.
            Effect::Answer { reply, .. } if !reply.stale && !self.schedulers[scheduler].leads(self.queue.now()) => {}
            Effect::Answer { inbox, reply } => {
                if let Ok(number) = inbox.parse() {
                    self.deliver_from(scheduler, || Arrival::Answer { number, reply: reply.clone() });
                }
            }
            // Simulated clients request no plans.
            Effect::Plan { .. } => {}
            // Notices and dead letters leave the simulated world.
            Effect::Notify { .. } | Effect::Record(_) | Effect::Bury(_) => {}
            Effect::StepDown { .. } => self.step_down(scheduler),
        }
    }

    fn send_order(&mut self, scheduler: usize, node: &str, message: &contract::order::OrderMessage) {
        let now = self.queue.now();
        let Some(node) = self.node_index(node) else { return };
        let life = self.schedulers[scheduler].life;
        let term = self.store.leader(now).map(|key| key.term);
        self.checker.ordered(node, &self.nodes[node].owner.node, message, term);
        self.request_count += 1;
        let request = self.request_count;
        self.requests.insert(request, Request { scheduler, life, node, fence: message.fence() });
        self.deliver_from(scheduler, || Arrival::Order { node, request, message: Box::new(message.clone()) });
        let deadline = Event::Scheduler { scheduler, life, what: AtScheduler::OrderDeadline(request) };
        self.queue.after(ORDER_DEADLINE, deadline);
    }

    /// An order is answered, or its time is over; only the first of these counts.
    pub fn order_answered(&mut self, request: u64, reply: Option<contract::order::OrderReply>) {
        let Some(Request { scheduler, life, node, fence }) = self.requests.remove(&request) else { return };
        let node = self.nodes[node].owner.node.clone();
        let input = Box::new(Input::OrderReplied { node, fence, reply });
        self.queue.after(Duration::ZERO, Event::Scheduler { scheduler, life, what: AtScheduler::Input(input) });
    }

    /// A scheduler sends a message, if it reaches the bus.
    fn deliver_from(&mut self, scheduler: usize, message: impl Fn() -> Arrival) {
        if !self.schedulers[scheduler].bus_cut {
            self.deliver(message);
        }
    }

    /// Puts copies of a message on their way as the conditions has it.
    pub fn deliver(&mut self, message: impl Fn() -> Arrival) {
        for delay in self.bus.deliveries(&mut self.random) {
            self.queue.after(delay, Event::Arrival(message()));
        }
    }
}
