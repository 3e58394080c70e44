//! Performs actions, pulls and inventories, and watches Docker for changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use contract::pod_id::{InstanceKey, PodId};
use contract::policy::Hardening;
use contract::report::EngineState;
use contract::spec::PodSpec;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::container::{Host, Plan, plan};
use crate::core::io::{Action, ActionFailure, ContainerSeen, Input};
use crate::docker::Engine;
use crate::engine_health::EngineHealth;
use crate::metrics::Metrics;
use crate::policy::NodePolicy;

/// Interval of pings while the engine is up: with three timeouts a hang is detected within 11 s.
const PROBE: Duration = Duration::from_secs(2);
/// Interval of pings while the engine is hung or down.
const PROBE_AGAIN: Duration = Duration::from_millis(500);
/// Deadline of a ping.
const PROBE_LIMIT: Duration = Duration::from_secs(3);
/// Pause before a retry of the event stream or an inventory.
const RETRY: Duration = Duration::from_secs(1);
/// Interval of the search for unused networks.
const SWEEP: Duration = Duration::from_secs(5);
/// How long an unused network is kept: a container that is removed and created again finds its network and address.
const UNUSED: Duration = Duration::from_secs(15);
/// Queue of containers to inspect. When it is full the event stream waits; the periodic inventory finds events that Docker
/// drops meanwhile.
const INSPECTIONS: usize = 1024;

#[derive(Debug)]
pub struct Executor {
    engine: Arc<Engine>,
    node: Arc<ContainerRules>,
    inputs: mpsc::Sender<Input>,
    metrics: Metrics,
    inventory: Option<JoinHandle<()>>,
}

impl Executor {
    pub fn new(engine: Arc<Engine>, node: ContainerRules, inputs: mpsc::Sender<Input>, metrics: Metrics) -> Self {
        Self { engine, node: Arc::new(node), inputs, metrics, inventory: None }
    }

    /// Starts an action. At most one task per instance, because the core has one action per instance in progress.
    pub fn perform(&self, instance: InstanceKey, action: Action) {
        let (engine, node) = (Arc::clone(&self.engine), Arc::clone(&self.node));
        let (inputs, metrics) = (self.inputs.clone(), self.metrics.clone());
        fabric::tasks::spawn("action", async move {
            let result = perform(&engine, &node, &action).await;
            metrics.action_done(&action, &result);
            // Fails only when the process ends.
            inputs.send(Input::ActionDone { instance, action, result }).await.ok();
        });
    }

    /// Pulls an image unless it is present. At most one task per image, because the core requests each once.
    pub fn fetch(&self, image: String) {
        let (engine, inputs, metrics) = (Arc::clone(&self.engine), self.inputs.clone(), self.metrics.clone());
        fabric::tasks::spawn("fetch", async move {
            let result = engine.fetch(&image).await.map_err(ActionFailure::from);
            metrics.fetched(&result);
            inputs.send(Input::Fetched { image, result }).await.ok();
        });
    }

    /// Starts an inventory and cancels an unfinished one.
    pub fn inventory(&mut self) {
        if let Some(before) = self.inventory.take() {
            before.abort();
        }
        let (engine, inputs) = (Arc::clone(&self.engine), self.inputs.clone());
        self.inventory = Some(fabric::tasks::spawn("inventory", async move {
            loop {
                match engine.inventory().await {
                    Ok(found) => return drop(inputs.send(Input::Inventory(found)).await),
                    Err(reason) => warn!(%reason, "could not list the containers"),
                }
                tokio::time::sleep(RETRY).await;
            }
        }));
    }
}

/// What this node adds to every container, and what it refuses.
#[derive(Debug)]
pub struct ContainerRules {
    pub host: Host,
    pub policy: NodePolicy,
}

impl ContainerRules {
    /// The container of a pod under the policies; a refusal names rule, field and remedy.
    fn plan(
        &self,
        pod: &PodId,
        spec: &PodSpec,
        index: usize,
        hardening: Option<&Hardening>,
    ) -> Result<Plan, ActionFailure> {
        let planned = plan(&self.host, pod, spec, index).map_err(|error| ActionFailure::Refused(error.to_string()))?;
        self.policy.check(pod, spec).map_err(ActionFailure::Refused)?;
        let restraints = self.policy.restrain(hardening, spec).map_err(ActionFailure::Refused)?;
        Ok(planned.restrained(restraints))
    }
}

async fn perform(
    engine: &Engine,
    node: &ContainerRules,
    action: &Action,
) -> Result<Option<ContainerSeen>, ActionFailure> {
    let result = match action {
        Action::Create { pod, index, spec, address, hardening } => {
            let planned = node.plan(pod, spec, *index, hardening.as_ref())?;
            engine.create(&Plan { address: address.clone(), ..planned }).await
        }
        Action::Replace { old, grace, pod, index, spec, address, hardening } => {
            let planned = node.plan(pod, spec, *index, hardening.as_ref())?;
            engine.replace(old, *grace, &Plan { address: address.clone(), ..planned }).await
        }
        Action::Update { id, pod, index, spec } => match plan(&node.host, pod, spec, *index) {
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

/// Watches Docker: its state and events, and inspects the containers of the events.
pub fn watch(
    engine: &Arc<Engine>,
    health: EngineHealth,
    states: mpsc::Receiver<EngineState>,
    since: i64,
    inputs: &mpsc::Sender<Input>,
) {
    let (changed, ids) = mpsc::channel(INSPECTIONS);
    fabric::tasks::spawn("probe", probe(Arc::clone(engine), health));
    fabric::tasks::spawn("engine state", forward_states(states, inputs.clone()));
    fabric::tasks::spawn("engine events", follow_events(Arc::clone(engine), since, changed));
    fabric::tasks::spawn("inspections", inspect_changed(Arc::clone(engine), ids, inputs.clone()));
    fabric::tasks::spawn("unused networks", sweep(Arc::clone(engine)));
}

/// Removes networks that no container uses any more.
async fn sweep(engine: Arc<Engine>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if let Err(reason) = engine.remove_unused_networks(UNUSED).await {
            debug!(%reason, "could not search for unused networks; retrying in 5 s");
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

async fn forward_states(mut states: mpsc::Receiver<EngineState>, inputs: mpsc::Sender<Input>) {
    while let Some(state) = states.recv().await {
        if inputs.send(Input::Engine(state)).await.is_err() {
            return;
        }
    }
}

async fn follow_events(engine: Arc<Engine>, since: i64, changed: mpsc::Sender<String>) {
    let mut since = Some(since);
    while !changed.is_closed() {
        if let Err(reason) = engine.watch(&mut since, &changed).await {
            debug!(%reason, "the event stream broke; reconnecting");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// One inspection at a time, so that two of one container cannot overtake each other.
async fn inspect_changed(engine: Arc<Engine>, mut ids: mpsc::Receiver<String>, inputs: mpsc::Sender<Input>) {
    let mut batch = Vec::new();
    while ids.recv_many(&mut batch, INSPECTIONS).await > 0 {
        for id in batch.drain(..).collect::<BTreeSet<String>>() {
            if engine.is_in_progress(&id) {
                continue;
            }
            match engine.seen(&id).await {
                Ok(seen) => {
                    if inputs.send(Input::Inspected { id, seen }).await.is_err() {
                        return;
                    }
                }
                Err(reason) => debug!(%id, %reason, "could not inspect the container; the next inventory will"),
            }
        }
    }
}
