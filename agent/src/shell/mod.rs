//! The main loop, which owns the core, and the tasks around it.
//!
//! Tasks send `Input`s through one bounded queue; the loop feeds the core and passes each effect to the executor, the
//! publisher or the disk. The loop never waits for Docker, the disk or the bus, so they cannot delay a heartbeat.

pub mod disk;
pub mod executor;
pub mod prober;
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
use prober::{CheckTarget, Prober};
use publisher::Publisher;

/// Queue of inputs. When it is full the tasks wait: orders stay in the NATS client, events in Docker's event stream.
pub const INPUTS: usize = 1024;
/// Most inputs handled together, with one report.
const BATCH: usize = 64;
/// Longest sleep of the loop; a heartbeat is always due earlier.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

pub struct Shell {
    pub core: Core,
    pub clock: Clock,
    pub inputs: mpsc::Receiver<Input>,
    pub executor: Executor,
    pub prober: Prober,
    pub publisher: Publisher,
    pub disk: Disk,
    pub metrics: Metrics,
    pub readiness: Readiness,
}

impl Shell {
    /// Runs until shutdown. Containers keep running.
    pub async fn run(mut self, shutdown: Shutdown) {
        let (mut connected, mut engine) = (true, EngineState::Up);
        loop {
            let sleep = self.until_wake();
            let input = tokio::select! {
                Some(input) = self.inputs.recv() => input,
                () = tokio::time::sleep(sleep) => Input::Tick,
                () = self.readiness.asked() => continue,
                () = shutdown.wait() => return,
            };
            let mut inputs = vec![input];
            while inputs.len() < BATCH
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
                    | Input::Checked { .. }
                    | Input::Fetched { .. }
                    | Input::FullReportRequested
                    | Input::Tick => {}
                }
            }
            for effect in self.core.on_all(inputs, self.clock.now()) {
                self.perform(effect);
            }
            self.update_metrics(connected, engine);
        }
    }

    fn until_wake(&self) -> Duration {
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
            Effect::Check { id, started_at, kind, probe, ip, within } => {
                self.prober.check(CheckTarget { id, started_at, kind, ip }, probe, within);
            }
            Effect::TakeInventory => self.executor.inventory(),
        }
    }

    fn update_metrics(&self, connected: bool, engine: EngineState) {
        self.metrics.orders(self.core.tally());
        self.metrics.engine(engine);
        self.metrics.containers(self.core.containers());
        self.readiness.set(match (connected, engine, self.core.is_settled()) {
            (false, _, _) => Err("no connection to NATS".to_owned()),
            (true, EngineState::Hung, _) => Err("the engine does not answer in time".to_owned()),
            (true, EngineState::Down, _) => Err("the engine cannot be reached".to_owned()),
            (true, EngineState::Up, false) => Err("waiting for the first inventory".to_owned()),
            (true, EngineState::Up, true) => Ok(()),
        });
    }
}
