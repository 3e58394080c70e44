//! One scheduler process: its real core, and what the shell does around it.
//!
//! A paused process keeps its belief and handles its events later. A killed one loses everything.

use std::time::Duration;

use contract::fence::{Fence, Term};
use contract::time::Timestamp;
use scheduler::core::Core;
use scheduler::core::io::{CommitResult, Effect, Input, Mutant, Settings};
use testkit::store::{Candidate, STEP_DOWN};

use crate::describe;
use crate::world::World;
use crate::world::bus::ORDER_DEADLINE;
use crate::world::event::{Arrival, AtScheduler, Event};

/// What this process believes about the election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belief {
    /// Another process leads, or none.
    Follower,
    /// It holds the leader key and reads the store.
    Loading {
        term: Term,
        /// Last renewal by its own clock.
        renewed: Timestamp,
    },
    Leading {
        term: Term,
        /// Last renewal by its own clock.
        renewed: Timestamp,
    },
}

/// A commit without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightCommit {
    pub id: u64,
    /// Tells apart repeated sends of one commit.
    pub attempt: u64,
}

/// Position in the command stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReader {
    /// Number of the stream's creation.
    pub creation: u32,
    pub next: u64,
    /// The next read is scheduled.
    pub busy: bool,
}

pub struct SchedulerProcess {
    /// The core; none while the process is down.
    pub core: Option<Core>,
    /// Starts so far.
    pub life: u32,
    pub lease: u32,
    pub paused_until: Option<Timestamp>,
    /// Pauses for this time after its next decision, before it performs the effects.
    pub armed: Option<Duration>,
    pub belief: Belief,
    pub store_cut: bool,
    pub bus_cut: bool,
    /// Clock error in milliseconds, set at the start.
    pub skew: i64,
    /// Number of the current etcd watch.
    pub watch: u32,
    /// Whether that watch is open.
    pub watches: bool,
    /// The core's `wake_at`, in true time.
    pub wake: Option<Timestamp>,
    /// The commit in flight.
    pub commit: Option<InFlightCommit>,
    /// Set while it leads.
    pub reader: Option<StreamReader>,
    /// When the last change arrives on the watch; later changes do not overtake it.
    pub mirrored: Timestamp,
    /// The current second and the wakes in it, to find a busy loop.
    pub wakes: (i64, u32),
}

#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub scheduler: usize,
    pub life: u32,
    pub node: usize,
    pub fence: Fence,
}

impl SchedulerProcess {
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
            reader: None,
            mirrored: now,
            wakes: (0, 0),
        }
    }
    pub fn candidate(&self, scheduler: usize) -> Candidate {
        Candidate { scheduler, lease: self.lease }
    }
    /// Whether it leads and its lease cannot have expired.
    pub fn leads(&self, now: Timestamp) -> bool {
        matches!(self.belief, Belief::Leading { renewed, .. } if now.since(renewed) < STEP_DOWN)
    }
}

/// Timeouts in the proportions of the real defaults, but shorter.
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
        // Several nodes may be cut off at the same time.
        losses_stop: 0,
        // Fewer than nodes, so that orders queue.
        orders_at_once: 2,
        faults: mutant.into(),
        ..Settings::default()
    }
}

/// The time that a clock with an error of `skew` milliseconds shows.
pub fn shifted(time: Timestamp, skew: i64) -> Timestamp {
    Timestamp::from_millis(time.as_millis().saturating_add(skew))
}

impl World {
    pub fn at_scheduler(&mut self, scheduler: usize, life: u32, what: AtScheduler) {
        let now = self.queue.now();
        let process = &mut self.schedulers[scheduler];
        if process.life != life || process.core.is_none() {
            return;
        }
        if let Some(until) = process.paused_until {
            if now < until {
                // The election may get its turn after a backlog of other work: the worst case for a stale belief.
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

    pub fn feed_scheduler(&mut self, scheduler: usize, input: Input) {
        let now = self.queue.now();
        let process = &mut self.schedulers[scheduler];
        let skew = process.skew;
        let Some(core) = process.core.as_mut() else { return };
        let line = describe::scheduler_input(&input);
        self.trace.line(now, &format!("s{scheduler}"), &format!("<- {line}"));
        if let Input::Report(message) = &input {
            self.checker.report_arrived(scheduler, &message.stamp().node, now);
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
        // A wake time in the past becomes the next millisecond, so that time moves.
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
            self.trace.line(now, &format!("s{scheduler}"), &format!("pauses for {span:?} before it acts"));
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
            // The real shell also drops the answers of a leader whose lease may have expired.
            Effect::Answer { reply, .. } if !reply.stale && !self.schedulers[scheduler].leads(self.queue.now()) => {}
            Effect::Answer { inbox, reply } => {
                if let Ok(number) = inbox.parse() {
                    self.deliver_from(scheduler, || Arrival::Answer { number, reply: reply.clone() });
                }
            }
            // Simulated clients request no plans.
            Effect::Plan { .. } => {}
            // Nothing in the simulation receives notices, events and dead letters.
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

    /// The answer to an order, or its timeout, whichever comes first.
    pub fn order_answered(&mut self, request: u64, reply: Option<contract::order::OrderReply>) {
        let Some(Request { scheduler, life, node, fence }) = self.requests.remove(&request) else { return };
        let node = self.nodes[node].owner.node.clone();
        let input = Box::new(Input::OrderReplied { node, fence, reply });
        self.queue.after(Duration::ZERO, Event::Scheduler { scheduler, life, what: AtScheduler::Input(input) });
    }

    fn deliver_from(&mut self, scheduler: usize, message: impl Fn() -> Arrival) {
        if !self.schedulers[scheduler].bus_cut {
            self.deliver(message);
        }
    }

    /// Sends a message under the conditions of the bus: zero, one or two copies.
    pub fn deliver(&mut self, message: impl Fn() -> Arrival) {
        for delay in self.bus.deliveries(&mut self.random) {
            self.queue.after(delay, Event::Arrival(message()));
        }
    }
}
