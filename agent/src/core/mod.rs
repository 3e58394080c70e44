//! Decides what the agent does: inputs and time in, effects out, nothing waits.
//!
//! Work goes lane by lane (one instance of one group), and only instances something happened to are looked at. Nothing
//! is done before the first inventory, and nothing is removed before an order was ever accepted: a fresh agent
//! adopts what it finds and waits.

pub mod io;

mod actions;
mod cache;
mod facts;
mod images;
mod inflight;
mod instances;
mod observe;
mod order_diff;
mod orders;
mod reports;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use contract::digest::Digest;
use contract::fence::Fence;
use contract::pod_id::{InstanceKey, PodId};
use contract::report::{EngineState, ReportHead, Stamp};
use contract::time::Timestamp;

use io::{ContainerSeen, Effect, Input, Ledger, Mutant, Settings};
pub use orders::Tally;

/// Ends this short before the engine went away belong to its going: an engine that shuts down kills its containers
/// before it closes the connection.
const DYING_ENGINE: Duration = Duration::from_secs(15);

/// Between an inventory and the next one that is taken because somebody asked: however many ask, the engine lists its
/// containers once a second at most.
const LOOK_GAP: Duration = Duration::from_secs(1);

/// Between the first two signs of life of a run nobody has answered yet; doubled by each further one.
const FIRST_BEAT: Duration = Duration::from_millis(125);

/// The agent's mind.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    ledger: Ledger,
    order_digest: Digest,
    intake: orders::Intake,
    cache: cache::Cache,
    images: images::Images,
    reporter: reports::Reporter,
    /// What pods that left the order get between the request to end and the kill.
    graces: BTreeMap<PodId, Duration>,
    /// What an earlier run may have left under way.
    in_flight: inflight::InFlight,
    engine: EngineState,
    /// Whether the containers are known.
    sight: Sight,
    /// Something is not as it should be known: the next inventory is due now.
    inventory_due_now: bool,
    /// A scheduler wants to see the containers as they are now: the next inventory is due soon.
    inventory_requested: bool,
    connected: bool,
    /// When a scheduler last said anything; the agent's own start counts as a word.
    last_word: Timestamp,
    /// How often this run told of itself before any scheduler spoke; none once one did.
    unheard: Option<u32>,
    begun: bool,
}

/// Whether the containers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// An inventory must come before any step. Ends since `excuse` are not counted in restart budgets.
    Blind { asked_at: Option<Timestamp>, excuse: Timestamp, ever: bool },
    /// Known as of the last inventory.
    Clear { asked_at: Option<Timestamp>, taken_at: Timestamp },
}

impl Core {
    /// A core that begins with what is on disk.
    pub fn new(settings: Settings, ledger: Ledger) -> Self {
        Self {
            order_digest: ledger.order.digest(),
            settings,
            ledger,
            intake: orders::Intake::default(),
            cache: cache::Cache::default(),
            images: images::Images::default(),
            reporter: reports::Reporter::new(),
            graces: BTreeMap::new(),
            in_flight: inflight::InFlight::default(),
            engine: EngineState::Up,
            sight: Sight::Blind { asked_at: None, excuse: Timestamp::NEVER, ever: false },
            inventory_due_now: false,
            inventory_requested: false,
            connected: true,
            last_word: Timestamp::NEVER,
            unheard: Some(0),
            begun: false,
        }
    }

    /// Takes one input and says what to do.
    pub fn on(&mut self, input: Input, now: Timestamp) -> Vec<Effect> {
        self.on_all([input], now)
    }

    /// Takes inputs that waited together: one look at the instances and one report answer all of them.
    pub fn on_all(&mut self, inputs: impl IntoIterator<Item = Input>, now: Timestamp) -> Vec<Effect> {
        let mut out = Vec::new();
        if !self.begun {
            self.begun = true;
            self.last_word = now;
            self.in_flight = inflight::InFlight::of(&self.ledger, now);
        }
        for input in inputs {
            self.take(input, now, &mut out);
        }
        self.cache.mark_due(now);
        self.ask_inventory(now, &mut out);
        self.work(now, &mut out);
        self.flush_memory(now, &mut out);
        self.report(now, &mut out);
        out
    }

    /// When the core wants a [`Input::Tick`]; a time in the past means now.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if !self.begun {
            return Some(Timestamp::NEVER);
        }
        let heartbeat = self.can_report().then(|| self.next_beat());
        let untold = self.reporter.waits_until().filter(|_| self.can_report());
        let reread = self.inventory_due();
        [heartbeat, untold, reread, self.cache.next_wait(), self.intake.wake_at()].into_iter().flatten().min()
    }

    /// Orders counted by what became of them, for the metrics.
    pub fn tally(&self) -> Tally {
        self.intake.tally
    }

    /// The order obeyed.
    pub fn obeyed(&self) -> Fence {
        self.ledger.order.fence
    }

    /// Containers of this node, as last seen.
    pub fn containers(&self) -> usize {
        self.cache.count()
    }

    /// True when the containers are known and the core can act.
    pub fn is_settled(&self) -> bool {
        matches!(self.sight, Sight::Clear { .. })
    }

    fn take(&mut self, input: Input, now: Timestamp, out: &mut Vec<Effect>) {
        match input {
            Input::Order { message, reply } => self.order_arrived(message, reply, now, out),
            Input::Persisted { id, result } => self.written(id, result, now, out),
            Input::Inventory(found) => self.inventory_taken(found, now),
            Input::Inspected { id, seen } => {
                // A returned engine tells of ends it brought about before the inventory does.
                if !self.cache.looked(&id, seen, self.excuse_since()) {
                    self.inventory_due_now = true;
                }
            }
            Input::ActionDone { instance, action, result } => self.action_done(&instance, &action, result, now),
            Input::Fetched { image, result } => self.fetched(&image, result, now),
            Input::Engine(state) => self.engine_is(state, now),
            Input::Bus { connected } => {
                if connected && !self.connected {
                    self.reporter.ask_whole();
                }
                self.connected = connected;
            }
            Input::FullReportRequested => {
                self.last_word = now;
                self.unheard = None;
                self.reporter.ask_whole();
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
        if was == EngineState::Up && self.settings.mutant != Some(Mutant::ListsOnce) {
            let excuse = now - DYING_ENGINE;
            self.sight = match self.sight {
                Sight::Blind { excuse, ever, .. } => Sight::Blind { asked_at: None, excuse, ever },
                Sight::Clear { .. } => {
                    self.forgive_restarts_since(excuse);
                    Sight::Blind { asked_at: None, excuse, ever: true }
                }
            };
            self.mark_order_if_never_seen();
        }
    }

    /// Before the first inventory the ordered pods are told as pending, once the engine turns out to be away.
    fn mark_order_if_never_seen(&mut self) {
        if !self.ever_seen() {
            let instances: Vec<InstanceKey> = self.ledger.order.pods.keys().map(PodId::key).collect();
            instances.iter().for_each(|key| self.cache.mark(key));
        }
    }

    fn inventory_taken(&mut self, found: Vec<ContainerSeen>, now: Timestamp) {
        if self.engine != EngineState::Up {
            // It was asked for before the engine went away, and would pass for the look due after its return.
            return self.cache.inventory_ends();
        }
        let excuse = self.excuse_since();
        self.cache.inventory(found, excuse);
        if excuse.is_some() {
            let instances: Vec<InstanceKey> = self.ledger.order.pods.keys().map(PodId::key).collect();
            instances.iter().for_each(|key| self.cache.mark(key));
            self.cache.mark_all();
        }
        self.settle_in_flight();
        self.sight = Sight::Clear { asked_at: None, taken_at: now };
    }

    /// The containers are known as of now: so is some of what an earlier run may have left.
    fn settle_in_flight(&mut self) {
        let (Sight::Blind { asked_at, .. } | Sight::Clear { asked_at, .. }) = self.sight;
        let Self { in_flight, cache, ledger, .. } = self;
        let is_there = |pod: &PodId| {
            let count = ledger.order.spec_of(pod).map_or(usize::MAX, |spec| spec.containers.len());
            cache.containers(&pod.key()).filter(|seen| seen.identity.pod == *pod).count() >= count
        };
        let concerned = in_flight.looked(asked_at.unwrap_or(Timestamp::NEVER), is_there);
        concerned.iter().for_each(|key| cache.mark(key));
    }

    /// Since when ends are not counted; none while the containers are known.
    fn excuse_since(&self) -> Option<Timestamp> {
        match self.sight {
            Sight::Blind { excuse, .. } => Some(excuse),
            Sight::Clear { .. } => None,
        }
    }

    /// When to ask for an inventory; never while the engine is away.
    fn inventory_due(&self) -> Option<Timestamp> {
        let is_trusted = self.settings.mutant == Some(Mutant::ListsOnce) && matches!(self.sight, Sight::Clear { .. });
        if self.engine != EngineState::Up || is_trusted {
            return None;
        }
        Some(match self.sight {
            Sight::Blind { asked_at: None, .. } => Timestamp::NEVER,
            Sight::Blind { asked_at: Some(asked), .. } | Sight::Clear { asked_at: Some(asked), .. } => {
                asked + self.settings.reread
            }
            Sight::Clear { asked_at: None, .. } if self.inventory_due_now => Timestamp::NEVER,
            Sight::Clear { asked_at: None, taken_at } if self.inventory_requested => taken_at + LOOK_GAP,
            Sight::Clear { asked_at: None, taken_at } => {
                let usual = taken_at + self.settings.reread;
                self.in_flight.look_at().map_or(usual, |at| at.min(usual))
            }
        })
    }

    fn ask_inventory(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.inventory_due().is_some_and(|due| due <= now) {
            match &mut self.sight {
                Sight::Blind { asked_at, .. } | Sight::Clear { asked_at, .. } => *asked_at = Some(now),
            }
            self.inventory_due_now = false;
            self.inventory_requested = false;
            self.cache.inventory_begins();
            out.push(Effect::TakeInventory);
        }
    }

    fn ever_seen(&self) -> bool {
        match self.sight {
            Sight::Blind { ever, .. } => ever,
            Sight::Clear { .. } => true,
        }
    }

    /// Before the first inventory a report would call every pod missing. It is held back, unless the engine is away
    /// and the node would look dead.
    fn can_report(&self) -> bool {
        self.connected && (self.ever_seen() || self.engine != EngineState::Up)
    }

    fn report(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if !self.can_report() {
            return self.reporter.withhold();
        }
        let heartbeat_due = now >= self.next_beat();
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
        if let (Some(_), Some(beats)) = (&message, &mut self.unheard) {
            *beats = beats.saturating_add(1);
        }
        out.extend(message.map(Effect::Publish));
    }

    /// When the next sign of life is due. Until a scheduler speaks for the first time they come faster, slowing down to
    /// the usual pace: who started before the schedulers is noticed at once and not a heartbeat later.
    fn next_beat(&self) -> Timestamp {
        let usual = self.settings.heartbeat;
        let pace = self.unheard.map_or(usual, |beats| FIRST_BEAT.saturating_mul(1 << beats.min(10)).min(usual));
        self.reporter.told_at() + pace
    }
}

/// All pods of one lane, in the order of pod ids.
fn instance_range(key: &InstanceKey) -> RangeInclusive<PodId> {
    let pod = |version, drift| PodId { group: key.group.clone(), instance: key.instance, version, drift };
    pod(0, 0)..=pod(u32::MAX, u32::MAX)
}
