//! One simulated node: the agent's real core with a simulated engine.
//!
//! A small version of the agent's shell: the same subjects and messages in the same sequence. Its disk keeps nothing and is fast.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent::core::Core;
use agent::core::io::{Action, Effect, Faults, Input, Ledger, Settings};
use contract::labels::Owner;
use contract::name::NodeName;
use contract::order::OrderMessage;
use contract::subjects;
use contract::time::Timestamp;
use fabric::clock::Clock;
use fabric::nats::{Bus, Error, Message, Subscription};
use planner::check::CheckResult;
use tokio::sync::watch;

use crate::load::engine::DelayedEngine;
use crate::load::specs::Specs;
use crate::load::workload;

/// Upper bound of a sleep; the core requests a heartbeat earlier.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Simulated containers never change by themselves, so inventories find nothing.
const REREAD: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) orders: AtomicU64,
    /// Full orders among them.
    pub(crate) wholes: AtomicU64,
    pub(crate) order_bytes: AtomicU64,
    /// Containers whose creation has started.
    pub(crate) begun: AtomicU64,
    pub(crate) made: AtomicU64,
    pub(crate) removed: AtomicU64,
    /// Reports sent, heartbeats included.
    pub(crate) reports: AtomicU64,
    /// Messages that could not be read or sent.
    pub(crate) failures: AtomicU64,
}

pub(crate) struct Node {
    core: Core,
    engine: DelayedEngine,
    bus: Bus,
    orders: Subscription,
    resyncs: Subscription,
    connected: watch::Receiver<bool>,
    reports: String,
    clock: Clock,
    start_after: Duration,
    counts: Arc<Counts>,
    specs: Arc<Specs>,
}

#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) clock: Clock,
    pub(crate) start_after: Duration,
    pub(crate) counts: Arc<Counts>,
    pub(crate) specs: Arc<Specs>,
}

impl Node {
    pub(crate) async fn start(number: u32, bus: Bus, common: &Common) -> Result<Self, Error> {
        let name: NodeName = workload::node_name(number).parse().expect("letters, digits and a dash are a name");
        let owner = Owner { cluster: "scale".to_owned(), node: name.clone() };
        let settings = Settings {
            owner: owner.clone(),
            identity: format!("{name}-disk"),
            incarnation: format!("{name}-1"),
            facts: workload::node_facts(number),
            heartbeat: Duration::from_secs(3),
            reread: REREAD,
            most_restarts: 3,
            restart_window: Duration::from_secs(60),
            alone_after: Duration::from_secs(3600),
            faults: Faults::default(),
        };
        Ok(Self {
            core: Core::new(settings, Ledger::default()),
            engine: DelayedEngine::new(number, owner),
            orders: bus.subscribe(&subjects::order(&name)).await?,
            resyncs: bus.subscribe(&subjects::resync(&name)).await?,
            reports: subjects::report(&name),
            connected: bus.connected(),
            bus,
            clock: common.clock,
            // Engines differ in speed.
            start_after: common.start_after / 2 + common.start_after * (number % 100) / 100,
            counts: Arc::clone(&common.counts),
            specs: Arc::clone(&common.specs),
        })
    }

    pub(crate) async fn run(mut self) {
        self.feed(vec![Input::Bus { connected: true }]).await;
        loop {
            let sleep_time = self.sleep_time();
            let inputs = tokio::select! {
                order = self.orders.next() => match order {
                    Some(order) => self.order(&order),
                    None => return,
                },
                Some(_) = self.resyncs.next() => vec![Input::FullReportRequested],
                Ok(()) = self.connected.changed() => vec![Input::Bus { connected: *self.connected.borrow_and_update() }],
                () = tokio::time::sleep(sleep_time) => self.due(),
            };
            self.feed(inputs).await;
        }
    }

    fn sleep_time(&self) -> Duration {
        let wake = self.core.wake_at().into_iter().chain(self.engine.next()).min();
        wake.map_or(LONGEST_SLEEP, |wake| self.clock.until(wake)).min(LONGEST_SLEEP)
    }

    fn order(&self, message: &Message) -> Vec<Input> {
        self.counts.orders.fetch_add(1, Ordering::Relaxed);
        self.counts.order_bytes.fetch_add(message.payload.len() as u64, Ordering::Relaxed);
        let reply = message.reply.clone().unwrap_or_default();
        match message.decode::<OrderMessage>() {
            Ok(message) => {
                self.counts.wholes.fetch_add(u64::from(matches!(message, OrderMessage::Whole(_))), Ordering::Relaxed);
                vec![Input::Order { message: self.specs.share(message), reply }]
            }
            Err(_) => {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                Vec::new()
            }
        }
    }

    /// Actions that ended at the same time become one batch of inputs.
    fn due(&mut self) -> Vec<Input> {
        let mut inputs = self.engine.ended(self.clock.now());
        for input in &inputs {
            let Input::ActionDone { action, .. } = input else { continue };
            let makes = matches!(action, Action::Create { .. } | Action::Replace { .. });
            let removes = matches!(action, Action::Remove { .. } | Action::Replace { .. });
            self.counts.made.fetch_add(u64::from(makes), Ordering::Relaxed);
            self.counts.removed.fetch_add(u64::from(removes), Ordering::Relaxed);
        }
        if inputs.is_empty() {
            inputs.push(Input::Tick);
        }
        inputs
    }

    async fn feed(&mut self, mut inputs: Vec<Input>) {
        while !inputs.is_empty() {
            let now = self.clock.now();
            for effect in self.core.on_all(std::mem::take(&mut inputs), now) {
                inputs.extend(self.perform(effect, now).await);
            }
        }
    }

    /// Performs an effect; returns the input that follows immediately.
    async fn perform(&mut self, effect: Effect, now: Timestamp) -> Option<Input> {
        match effect {
            Effect::Persist { id, ledger: _ } => Some(Input::Persisted { id, result: Ok(()) }),
            Effect::Reply { inbox, reply } => {
                let sent = self.bus.publish(&inbox, &reply).await;
                self.counts.failures.fetch_add(u64::from(sent.is_err()), Ordering::Relaxed);
                None
            }
            Effect::Perform { instance, action } => {
                let creates = matches!(action, Action::Create { .. } | Action::Replace { .. });
                self.counts.begun.fetch_add(u64::from(creates), Ordering::Relaxed);
                self.engine.begin(instance, action, now + self.start_after);
                None
            }
            Effect::Fetch { image } => Some(Input::Fetched { image, result: Ok(()) }),
            Effect::Check { id, started_at, kind, .. } => {
                Some(Input::Checked { id, started_at, kind, result: CheckResult::Passed })
            }
            Effect::TakeInventory => Some(Input::Inventory(self.engine.inventory())),
            Effect::Publish(report) => {
                self.counts.reports.fetch_add(1, Ordering::Relaxed);
                let sent = self.bus.publish(&self.reports, &report).await;
                self.counts.failures.fetch_add(u64::from(sent.is_err()), Ordering::Relaxed);
                None
            }
        }
    }
}
