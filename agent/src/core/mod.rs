//! The agent's decisions: inputs and time in, effects out; nothing waits.
//!
//! The core reconciles one instance at a time, and only instances with news. It does nothing before the first inventory and
//! removes nothing before it accepted an order: a new agent adopts the containers it finds and waits.

pub mod io;
pub mod mutants;

mod actions;
mod cache;
mod checks;
mod facts;
mod images;
mod inflight;
mod instances;
mod observe;
mod order_diff;
mod orders;
mod reports;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use contract::digest::Digest;
use contract::pod_id::{InstanceKey, PodId};
use contract::report::{EngineState, ReportHead, Stamp};
use contract::time::Timestamp;

use io::{ContainerSeen, Effect, Input, Ledger, Mutant, Settings};
pub use orders::Tally;

/// Exits this shortly before the engine went away do not count as crashes: a stopping engine kills its containers before it
/// closes the connection.
const ENGINE_SHUTDOWN: Duration = Duration::from_secs(15);

/// Least time between an inventory and the next requested one: however many requests arrive, Docker lists its containers at
/// most once a second.
const INVENTORY_GAP: Duration = Duration::from_secs(1);

/// Interval of the first two heartbeats of a new process; doubled until a scheduler answers.
const FIRST_HEARTBEAT: Duration = Duration::from_millis(125);

/// The agent's state and decisions.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    ledger: Ledger,
    order_digest: Digest,
    intake: orders::Intake,
    cache: cache::Cache,
    checks: checks::Checks,
    images: images::Images,
    reporter: reports::Reporter,
    /// Kill timeouts of pods that left the order.
    graces: BTreeMap<PodId, Duration>,
    in_flight: inflight::InFlight,
    engine: EngineState,
    inventory: Inventory,
    /// The cache may be wrong: take an inventory now.
    inventory_due_now: bool,
    /// A scheduler requested a full report: take an inventory soon.
    inventory_requested: bool,
    connected: bool,
    /// Last message of a scheduler, at first the agent's start.
    last_contact: Timestamp,
    /// Heartbeats sent before the first message of a scheduler; none after it.
    unanswered_heartbeats: Option<u32>,
    started: bool,
}

/// What the agent knows of Docker's containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inventory {
    /// No action before the next inventory. Exits since `excused_since` do not count as restarts. `ever_taken`: an earlier
    /// inventory succeeded.
    Outdated {
        requested_at: Option<Timestamp>,
        excused_since: Timestamp,
        ever_taken: bool,
    },
    Current {
        requested_at: Option<Timestamp>,
        taken_at: Timestamp,
    },
}

impl Core {
    /// Starts from the ledger on disk.
    pub fn new(settings: Settings, ledger: Ledger) -> Self {
        Self {
            order_digest: ledger.order.digest(),
            settings,
            ledger,
            intake: orders::Intake::default(),
            cache: cache::Cache::default(),
            checks: checks::Checks::default(),
            images: images::Images::default(),
            reporter: reports::Reporter::new(),
            graces: BTreeMap::new(),
            in_flight: inflight::InFlight::default(),
            engine: EngineState::Up,
            inventory: Inventory::Outdated { requested_at: None, excused_since: Timestamp::NEVER, ever_taken: false },
            inventory_due_now: false,
            inventory_requested: false,
            connected: true,
            last_contact: Timestamp::NEVER,
            unanswered_heartbeats: Some(0),
            started: false,
        }
    }

    pub fn on(&mut self, input: Input, now: Timestamp) -> Vec<Effect> {
        self.on_all([input], now)
    }

    /// Handles several inputs with one reconciliation and one report.
    pub fn on_all(&mut self, inputs: impl IntoIterator<Item = Input>, now: Timestamp) -> Vec<Effect> {
        let mut out = Vec::new();
        if !self.started {
            self.started = true;
            self.last_contact = now;
            self.in_flight = inflight::InFlight::at_start(&self.ledger, now);
        }
        for input in inputs {
            self.take(input, now, &mut out);
        }
        self.cache.mark_due(now);
        self.request_inventory(now, &mut out);
        self.reconcile(now, &mut out);
        self.start_checks(now, &mut out);
        self.flush_memory(now, &mut out);
        self.report(now, &mut out);
        out
    }

    /// When the core needs an [`Input::Tick`]; a time in the past means now.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if !self.started {
            return Some(Timestamp::NEVER);
        }
        let heartbeat = self.can_report().then(|| self.next_heartbeat());
        let deferred = self.reporter.deferred_until().filter(|_| self.can_report());
        let inventory = self.inventory_due();
        let waits = [self.cache.next_wait(), self.checks.next_due(), self.intake.wake_at()];
        [heartbeat, deferred, inventory].into_iter().chain(waits).flatten().min()
    }

    /// Orders by result, for the metrics.
    pub fn tally(&self) -> Tally {
        self.intake.tally
    }

    /// Containers in the cache.
    pub fn containers(&self) -> usize {
        self.cache.count()
    }

    /// True when the inventory is current, so the core can act.
    pub fn is_settled(&self) -> bool {
        matches!(self.inventory, Inventory::Current { .. })
    }

    fn take(&mut self, input: Input, now: Timestamp, out: &mut Vec<Effect>) {
        match input {
            Input::Order { message, reply } => self.order_arrived(message, reply, now, out),
            Input::Persisted { id, result } => self.written(id, result, now, out),
            Input::Inventory(found) => self.inventory_taken(found, now),
            Input::Inspected { id, seen } => {
                // After a restart of the engine its events may arrive before the inventory.
                if !self.cache.inspected(&id, seen, self.excused_since()) {
                    self.inventory_due_now = true;
                }
            }
            Input::ActionDone { instance, action, result } => self.action_done(&instance, &action, result, now),
            Input::Checked { id, started_at, kind, result } => {
                self.check_finished((&id, started_at), kind, result, now);
            }
            Input::Fetched { image, result } => self.fetched(&image, result, now),
            Input::Engine(state) => self.engine_is(state, now),
            Input::Bus { connected } => {
                if connected && !self.connected {
                    self.reporter.request_whole();
                }
                self.connected = connected;
            }
            Input::FullReportRequested => {
                self.last_contact = now;
                self.unanswered_heartbeats = None;
                self.reporter.request_whole();
                self.inventory_requested = true;
            }
            Input::Tick => {}
        }
    }

    fn engine_is(&mut self, state: EngineState, now: Timestamp) {
        if state == self.engine {
            return;
        }
        let was = std::mem::replace(&mut self.engine, state);
        self.reporter.head_changed();
        if was == EngineState::Up && !self.settings.faults.has(Mutant::ListsOnce) {
            let since = now - ENGINE_SHUTDOWN;
            self.inventory = match self.inventory {
                Inventory::Outdated { excused_since, ever_taken, .. } => {
                    Inventory::Outdated { requested_at: None, excused_since, ever_taken }
                }
                Inventory::Current { .. } => {
                    self.forgive_restarts_since(since);
                    Inventory::Outdated { requested_at: None, excused_since: since, ever_taken: true }
                }
            };
            self.mark_order_if_no_inventory_yet();
        }
    }

    /// When the engine is down at the start of the agent, reports the ordered pods as pending.
    fn mark_order_if_no_inventory_yet(&mut self) {
        if !self.had_inventory() {
            let instances: Vec<InstanceKey> = self.ledger.order.pods.keys().map(PodId::key).collect();
            instances.iter().for_each(|key| self.cache.mark(key));
        }
    }

    fn inventory_taken(&mut self, found: Vec<ContainerSeen>, now: Timestamp) {
        if self.engine != EngineState::Up {
            // Requested before the engine went away: not the inventory that is due after its return.
            return self.cache.inventory_received();
        }
        let excused_since = self.excused_since();
        self.cache.inventory(found, excused_since);
        if excused_since.is_some() {
            let instances: Vec<InstanceKey> = self.ledger.order.pods.keys().map(PodId::key).collect();
            instances.iter().for_each(|key| self.cache.mark(key));
            self.cache.mark_all();
        }
        self.settle_in_flight();
        self.inventory = Inventory::Current { requested_at: None, taken_at: now };
    }

    /// Updates the creations in flight after an inventory.
    fn settle_in_flight(&mut self) {
        let (Inventory::Outdated { requested_at, .. } | Inventory::Current { requested_at, .. }) = self.inventory;
        let Self { in_flight, cache, ledger, .. } = self;
        let is_there = |pod: &PodId| {
            let count = ledger.order.spec_of(pod).map_or(usize::MAX, |spec| spec.containers.len());
            cache.containers(&pod.key()).filter(|seen| seen.identity.pod == *pod).count() >= count
        };
        let concerned = in_flight.inventory_taken(requested_at.unwrap_or(Timestamp::NEVER), is_there);
        concerned.iter().for_each(|key| cache.mark(key));
    }

    /// Exits since then are excused; none while the inventory is current.
    fn excused_since(&self) -> Option<Timestamp> {
        match self.inventory {
            Inventory::Outdated { excused_since, .. } => Some(excused_since),
            Inventory::Current { .. } => None,
        }
    }

    /// When to request an inventory; none while the engine is away.
    fn inventory_due(&self) -> Option<Timestamp> {
        let is_trusted =
            self.settings.faults.has(Mutant::ListsOnce) && matches!(self.inventory, Inventory::Current { .. });
        if self.engine != EngineState::Up || is_trusted {
            return None;
        }
        Some(match self.inventory {
            Inventory::Outdated { requested_at: None, .. } => Timestamp::NEVER,
            Inventory::Outdated { requested_at: Some(requested), .. }
            | Inventory::Current { requested_at: Some(requested), .. } => requested + self.settings.reread,
            Inventory::Current { requested_at: None, .. } if self.inventory_due_now => Timestamp::NEVER,
            Inventory::Current { requested_at: None, taken_at } if self.inventory_requested => taken_at + INVENTORY_GAP,
            Inventory::Current { requested_at: None, taken_at } => {
                let usual = taken_at + self.settings.reread;
                self.in_flight.inventory_at().map_or(usual, |at| at.min(usual))
            }
        })
    }

    fn request_inventory(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.inventory_due().is_some_and(|due| due <= now) {
            match &mut self.inventory {
                Inventory::Outdated { requested_at, .. } | Inventory::Current { requested_at, .. } => {
                    *requested_at = Some(now)
                }
            }
            self.inventory_due_now = false;
            self.inventory_requested = false;
            self.cache.inventory_requested();
            out.push(Effect::TakeInventory);
        }
    }

    fn had_inventory(&self) -> bool {
        match self.inventory {
            Inventory::Outdated { ever_taken, .. } => ever_taken,
            Inventory::Current { .. } => true,
        }
    }

    /// Before the first inventory a report would call every pod missing, so there is none, unless the engine is down: then a
    /// silent node would look dead.
    fn can_report(&self) -> bool {
        self.connected && (self.had_inventory() || self.engine != EngineState::Up)
    }

    fn report(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if !self.can_report() {
            return self.reporter.withhold();
        }
        let heartbeat_due = now >= self.next_heartbeat();
        if !self.reporter.is_due(heartbeat_due, now) {
            return;
        }
        let head = ReportHead {
            stamp: Stamp {
                node: self.settings.owner.node.clone(),
                incarnation: self.settings.incarnation.clone(),
                sequence: 0,
                identity: self.settings.identity.as_str().into(),
            },
            applied: self.ledger.order.fence,
            order_digest: self.order_digest,
            engine: self.engine,
            facts: self.settings.facts.clone(),
            progress: self.ledger.order.progress.clone(),
        };
        let message = self.reporter.message(head, heartbeat_due, now);
        if let (Some(_), Some(count)) = (&message, &mut self.unanswered_heartbeats) {
            *count = count.saturating_add(1);
        }
        out.extend(message.map(Effect::Publish));
    }

    /// Until the first message of a scheduler, heartbeats are faster: 125 ms doubling to the usual interval. So schedulers
    /// that start after the agent notice it soon.
    fn next_heartbeat(&self) -> Timestamp {
        let usual = self.settings.heartbeat;
        let interval = self
            .unanswered_heartbeats
            .map_or(usual, |count| FIRST_HEARTBEAT.saturating_mul(1 << count.min(10)).min(usual));
        self.reporter.published_at() + interval
    }
}

/// All pods of one instance, sorted by id.
fn instance_range(key: &InstanceKey) -> RangeInclusive<PodId> {
    let pod = |version, drift| PodId { group: key.group.clone(), instance: key.instance, version, drift };
    pod(0, 0)..=pod(u32::MAX, u32::MAX)
}
