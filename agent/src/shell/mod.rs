//! The loop that owns the core, and the tasks around it that own nothing.
//!
//! Every task turns what it hears into an `Input` on one bounded queue; the loop feeds the core and hands each effect
//! to whoever can perform it. Nothing in the loop waits for the engine, the disk or the bus, so a heartbeat is never
//! late because one of them is slow.

pub mod disk;
pub mod executor;
pub mod publisher;
pub mod subscriptions;

use std::time::Duration;

use contract::report::EngineState;
use contract::time::Timestamp;
use fabric::admin::Readiness;
use fabric::clock::Clock;
use fabric::shutdown::Shutdown;
use tokio::sync::mpsc;

use crate::core::Core;
use crate::core::io::{Effect, Input};
use crate::metrics::Metrics;
use disk::Disk;
use executor::Executor;
use publisher::Publisher;

/// Inputs that wait for the loop. When it is full the tasks wait with what they hold: orders stay in the bus client,
/// looks in the engine's event stream.
pub const INPUTS: usize = 1024;
/// Inputs that wait are taken together up to so many: one report tells of all of them.
const TOGETHER: usize = 64;
/// Longest sleep of the loop; the core always wants a heartbeat before.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Everything the loop needs.
pub struct Shell {
    /// The mind.
    pub core: Core,
    /// Time.
    pub clock: Clock,
    /// What happens.
    pub inputs: mpsc::Receiver<Input>,
    /// The engine's side.
    pub executor: Executor,
    /// The bus's side.
    pub publisher: Publisher,
    /// The ledger's side.
    pub disk: Disk,
    /// Figures.
    pub metrics: Metrics,
    /// Whether the node can do its work.
    pub readiness: Readiness,
}

impl Shell {
    /// Runs until shutdown. Containers keep running.
    pub async fn run(mut self, shutdown: Shutdown) {
        let (mut connected, mut engine) = (true, EngineState::Up);
        loop {
            let nap = self.nap();
            let input = tokio::select! {
                Some(input) = self.inputs.recv() => input,
                () = tokio::time::sleep(nap) => Input::Tick,
                () = self.readiness.asked() => continue,
                () = shutdown.wait() => return,
            };
            let mut inputs = vec![input];
            while inputs.len() < TOGETHER
                && let Ok(input) = self.inputs.try_recv()
            {
                inputs.push(input);
            }
            for input in &inputs {
                match input {
                    Input::Bus { connected: now } => connected = *now,
                    Input::Engine(state) => engine = *state,
                    Input::Order { .. }
                    | Input::Persisted { .. }
                    | Input::Inventory(_)
                    | Input::Inspected { .. }
                    | Input::ActionDone { .. }
                    | Input::Fetched { .. }
                    | Input::FullReportRequested
                    | Input::Tick => {}
                }
            }
            for effect in self.core.on_all(inputs, self.clock.now()) {
                self.perform(effect);
            }
            self.show(connected, engine);
        }
    }

    fn nap(&self) -> Duration {
        let until = |wake: Timestamp| self.clock.until(wake);
        self.core.wake_at().map_or(LONGEST_SLEEP, until).min(LONGEST_SLEEP)
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Persist { id, ledger } => self.disk.write(id, ledger),
            Effect::Reply { inbox, reply } => self.publisher.reply(inbox, reply),
            Effect::Publish(report) => self.publisher.report(report),
            Effect::Perform { instance, action } => self.executor.perform(instance, action),
            Effect::Fetch { image } => self.executor.fetch(image),
            Effect::TakeInventory => self.executor.inventory(),
        }
    }

    fn show(&self, connected: bool, engine: EngineState) {
        self.metrics.orders(self.core.tally());
        self.metrics.engine(engine);
        self.metrics.containers(self.core.containers());
        self.readiness.set(match (connected, engine, self.core.is_settled()) {
            (false, _, _) => Err("the bus cannot be reached".to_owned()),
            (true, EngineState::Hung, _) => Err("the engine does not answer in time".to_owned()),
            (true, EngineState::Down, _) => Err("the engine cannot be reached".to_owned()),
            (true, EngineState::Up, false) => Err("the containers are being looked at".to_owned()),
            (true, EngineState::Up, true) => Ok(()),
        });
    }
}
