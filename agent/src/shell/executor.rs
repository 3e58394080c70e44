//! Performs steps and inventories, and watches the engine for what happens by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use contract::pod_id::InstanceKey;
use contract::report::EngineState;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::container::{Host, Plan, plan};
use crate::core::io::{Action, ActionFailure, ContainerSeen, Input};
use crate::docker::Engine;
use crate::engine_health::EngineHealth;
use crate::metrics::Metrics;

/// Between two signs of life asked of an engine that is up: with three timeouts a hang shows within 11 s.
const PROBE: Duration = Duration::from_secs(2);
/// Between two tries of an engine that is away.
const PROBE_AGAIN: Duration = Duration::from_millis(500);
/// Bound of one sign of life.
const PROBE_LIMIT: Duration = Duration::from_secs(3);
/// Before the event stream or a failed inventory is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two looks for networks that no container uses.
const SWEEP: Duration = Duration::from_secs(5);
/// What a network is kept without a container: one that is replaced step by step finds its network and address again.
const UNUSED: Duration = Duration::from_secs(15);
/// Container ids that wait to be looked at. When full the event stream waits; what the engine then drops, the
/// periodic reread finds.
const LOOKS: usize = 1024;

/// The agent's hands.
#[derive(Debug)]
pub struct Executor {
    engine: Arc<Engine>,
    host: Host,
    inputs: mpsc::Sender<Input>,
    metrics: Metrics,
    inventory: Option<JoinHandle<()>>,
}

impl Executor {
    /// Hands on `engine`; what they find goes to `inputs`.
    pub fn new(engine: Arc<Engine>, host: Host, inputs: mpsc::Sender<Input>, metrics: Metrics) -> Self {
        Self { engine, host, inputs, metrics, inventory: None }
    }

    /// Begins a step. One task per lane at most, because the core has one step per lane under way.
    pub fn perform(&self, instance: InstanceKey, action: Action) {
        let (engine, host) = (Arc::clone(&self.engine), self.host.clone());
        let (inputs, metrics) = (self.inputs.clone(), self.metrics.clone());
        fabric::tasks::spawn("step", async move {
            let result = perform(&engine, &host, &action).await;
            metrics.action_done(&action, &result);
            // The loop is gone only when the process ends.
            inputs.send(Input::ActionDone { instance, action, result }).await.ok();
        });
    }

    /// Begins to see to it that an image is here. One task per image at most, because the core asks for each once.
    pub fn fetch(&self, image: String) {
        let (engine, inputs, metrics) = (Arc::clone(&self.engine), self.inputs.clone(), self.metrics.clone());
        fabric::tasks::spawn("fetch", async move {
            let result = engine.fetch(&image).await.map_err(ActionFailure::from);
            metrics.fetched(&result);
            inputs.send(Input::Fetched { image, result }).await.ok();
        });
    }

    /// Begins an inventory; one that is still being taken is given up, because the core asked anew.
    pub fn inventory(&mut self) {
        if let Some(before) = self.inventory.take() {
            before.abort();
        }
        let (engine, inputs) = (Arc::clone(&self.engine), self.inputs.clone());
        self.inventory = Some(fabric::tasks::spawn("inventory", async move {
            loop {
                match engine.inventory().await {
                    Ok(found) => return drop(inputs.send(Input::Inventory(found)).await),
                    Err(reason) => warn!(%reason, "the containers could not be listed"),
                }
                tokio::time::sleep(AGAIN).await;
            }
        }));
    }
}

async fn perform(engine: &Engine, host: &Host, action: &Action) -> Result<Option<ContainerSeen>, ActionFailure> {
    let result = match action {
        Action::Create { pod, index, spec, address } => match plan(host, pod, spec, *index) {
            Ok(plan) => engine.create(&Plan { address: address.clone(), ..plan }).await,
            Err(reason) => return Err(ActionFailure::Refused(reason.to_string())),
        },
        Action::Replace { old, grace, pod, index, spec, address } => match plan(host, pod, spec, *index) {
            Ok(plan) => engine.replace(old, *grace, &Plan { address: address.clone(), ..plan }).await,
            Err(reason) => return Err(ActionFailure::Refused(reason.to_string())),
        },
        Action::Update { id, pod, index, spec } => match plan(host, pod, spec, *index) {
            Ok(plan) => engine.update(id, &plan).await,
            Err(reason) => return Err(ActionFailure::Refused(reason.to_string())),
        },
        Action::ReadEnd { id } => engine.read_end(id).await,
        Action::Start { id } => engine.start(id).await,
        Action::Stop { id, grace } => engine.stop(id, *grace).await,
        Action::Remove { id, grace } => engine.remove(id, *grace).await.map(|()| None),
    };
    result.map_err(ActionFailure::from)
}

/// Starts to watch the engine: its state, its events, and what each event happened to.
pub fn watch(
    engine: &Arc<Engine>,
    health: EngineHealth,
    states: mpsc::Receiver<EngineState>,
    since: i64,
    inputs: &mpsc::Sender<Input>,
) {
    let (changed, ids) = mpsc::channel(LOOKS);
    fabric::tasks::spawn("probe", probe(Arc::clone(engine), health));
    fabric::tasks::spawn("engine state", tell(states, inputs.clone()));
    fabric::tasks::spawn("engine events", follow(Arc::clone(engine), since, changed));
    fabric::tasks::spawn("engine looks", look(Arc::clone(engine), ids, inputs.clone()));
    fabric::tasks::spawn("unused networks", sweep(Arc::clone(engine)));
}

/// Removes networks that no container uses any more.
async fn sweep(engine: Arc<Engine>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if let Err(reason) = engine.remove_unused_networks(UNUSED).await {
            debug!(%reason, "unused networks could not be looked for; the next round will");
        }
    }
}

async fn probe(engine: Arc<Engine>, health: EngineHealth) {
    loop {
        let answered = engine.ping(PROBE_LIMIT).await.is_ok();
        let pause = if answered && health.state() == EngineState::Up { PROBE } else { PROBE_AGAIN };
        tokio::time::sleep(pause).await;
    }
}

async fn tell(mut states: mpsc::Receiver<EngineState>, inputs: mpsc::Sender<Input>) {
    while let Some(state) = states.recv().await {
        if inputs.send(Input::Engine(state)).await.is_err() {
            return;
        }
    }
}

async fn follow(engine: Arc<Engine>, since: i64, changed: mpsc::Sender<String>) {
    let mut since = Some(since);
    while !changed.is_closed() {
        if let Err(reason) = engine.watch(&mut since, &changed).await {
            debug!(%reason, "the event stream broke");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Looks one after the other, so that two looks at one container cannot overtake each other.
async fn look(engine: Arc<Engine>, mut ids: mpsc::Receiver<String>, inputs: mpsc::Sender<Input>) {
    let mut batch = Vec::new();
    while ids.recv_many(&mut batch, LOOKS).await > 0 {
        for id in batch.drain(..).collect::<BTreeSet<String>>() {
            if engine.is_at_work_on(&id) {
                continue;
            }
            match engine.look(&id).await {
                Ok(seen) => {
                    if inputs.send(Input::Inspected { id, seen }).await.is_err() {
                        return;
                    }
                }
                Err(reason) => debug!(%id, %reason, "could not look; the next reread will"),
            }
        }
    }
}
