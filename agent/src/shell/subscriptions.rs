//! Subscriptions on the bus: orders, requests for a whole report, inspect requests, sessions, and the state of the connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::docker_inspect::{ContainerDetail, NodeDetail};
use contract::labels::{self, Owner};
use contract::name::GroupName;
use contract::notice::DeadLetter;
use contract::order::{OrderMessage, OrderReply};
use contract::pod_id::PodId;
use contract::query::{InspectReply, InspectRequest};
use contract::report::{EngineState, NodeFacts};
use contract::session::{SessionRefusal, SessionReply, SessionRequest};
use contract::subjects::{self, DeadLetterKind};
use fabric::clock::Clock;
use fabric::nats::{Bus, Error, Message, Subscription};
use fabric::signing::{OrderKeys, Rejected};
use tokio::sync::{Semaphore, mpsc};
use tracing::{error, warn};

use super::publisher::Publisher;
use crate::core::io::Input;
use crate::docker::Engine;
use crate::engine_health::EngineHealth;
use crate::metrics::Metrics;
use crate::sessions::{MOST_SESSIONS, Sessions};

/// Concurrent inspect requests; more wait until their senders time out.
const INSPECTIONS: usize = 16;
/// Concurrent requests of sessions: each may have a read that waits and one that repeats it. More wait until their senders time
/// out.
const SESSION_REQUESTS: usize = 2 * MOST_SESSIONS;

pub struct Subscriptions {
    pub bus: Bus,
    pub owner: Owner,
    pub facts: NodeFacts,
    pub engine: Arc<Engine>,
    pub health: EngineHealth,
    pub publisher: Publisher,
    /// Stamps dead letters.
    pub clock: Clock,
    /// Keys of the schedulers; none obeys every order.
    pub order_keys: Option<OrderKeys>,
    pub metrics: Metrics,
}

/// Subscribes to all subjects of this node.
pub async fn start(subscriptions: Subscriptions, inputs: &mpsc::Sender<Input>) -> Result<(), Error> {
    let node = &subscriptions.owner.node;
    let orders = subscriptions.bus.subscribe(&subjects::order(node)).await?;
    let resyncs = subscriptions.bus.subscribe(&subjects::resync(node)).await?;
    let inspections = subscriptions.bus.subscribe(&subjects::inspect(node)).await?;
    let sessions = subscriptions.bus.subscribe(&subjects::session(node)).await?;
    let connected = subscriptions.bus.connected();
    let subscriptions = Arc::new(subscriptions);
    fabric::tasks::spawn("orders", receive_orders(Arc::clone(&subscriptions), orders, inputs.clone()));
    fabric::tasks::spawn("resyncs", receive_resyncs(resyncs, inputs.clone()));
    fabric::tasks::spawn("inspections", answer_inspections(Arc::clone(&subscriptions), inspections));
    fabric::tasks::spawn("sessions", answer_sessions(subscriptions, sessions));
    fabric::tasks::spawn("bus state", watch_connection(connected, inputs.clone()));
    Ok(())
}

async fn receive_orders(subscriptions: Arc<Subscriptions>, mut orders: Subscription, inputs: mpsc::Sender<Input>) {
    while let Some(message) = orders.next().await {
        let reply = message.reply.clone().unwrap_or_default();
        // First of all: nothing in an order counts before its signature does.
        if let Err(reason) = subscriptions.check_signature(&message) {
            warn!(%reason, "rejected an order");
            subscriptions.metrics.order_rejected();
            subscriptions.publisher.reply(reply, OrderReply::Failed { reason: reason.to_string() });
            continue;
        }
        match message.decode::<OrderMessage>() {
            Ok(order) => {
                if inputs.send(Input::Order { message: order, reply }).await.is_err() {
                    return;
                }
            }
            Err(reason) => subscriptions.refuse(&message, reply, reason),
        }
    }
}

async fn receive_resyncs(mut resyncs: Subscription, inputs: mpsc::Sender<Input>) {
    while resyncs.next().await.is_some() {
        if inputs.send(Input::FullReportRequested).await.is_err() {
            return;
        }
    }
}

async fn watch_connection(mut connected: tokio::sync::watch::Receiver<bool>, inputs: mpsc::Sender<Input>) {
    loop {
        let now = *connected.borrow_and_update();
        if inputs.send(Input::Bus { connected: now }).await.is_err() || connected.changed().await.is_err() {
            return;
        }
    }
}

async fn answer_inspections(subscriptions: Arc<Subscriptions>, mut inspections: Subscription) {
    let permits = Arc::new(Semaphore::new(INSPECTIONS));
    while let Some(message) = inspections.next().await {
        let Some(inbox) = message.reply.clone() else { continue };
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let subscriptions = Arc::clone(&subscriptions);
        fabric::tasks::spawn("inspection", async move {
            let _permit = permit;
            let reply = match message.decode::<InspectRequest>() {
                Ok(request) => subscriptions.inspect(&request).await,
                Err(reason) => {
                    subscriptions.dead_letter(DeadLetterKind::Question, &message, reason);
                    InspectReply::default()
                }
            };
            if let Err(reason) = subscriptions.bus.answer(&inbox, &reply).await {
                warn!(%reason, "could not answer an inspect request");
            }
        });
    }
}

async fn answer_sessions(subscriptions: Arc<Subscriptions>, mut requests: Subscription) {
    let permits = Arc::new(Semaphore::new(SESSION_REQUESTS));
    let sessions = Sessions::new(Arc::clone(&subscriptions.engine), subscriptions.metrics.clone(), subscriptions.clock);
    let _sweeper = fabric::tasks::spawn_scoped("idle sessions", sessions.clone().sweep());
    while let Some(message) = requests.next().await {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let (subscriptions, sessions) = (Arc::clone(&subscriptions), sessions.clone());
        fabric::tasks::spawn("session request", async move {
            let _permit = permit;
            let reply = match message.decode::<SessionRequest>() {
                Ok(request) => sessions.answer(request).await,
                Err(reason) => {
                    subscriptions.dead_letter(DeadLetterKind::Question, &message, reason);
                    Some(SessionReply::Refused(SessionRefusal::Unsupported))
                }
            };
            if let (Some(inbox), Some(reply)) = (&message.reply, reply)
                && let Err(reason) = subscriptions.bus.answer(inbox, &reply).await
            {
                warn!(%reason, "could not answer a request of a session");
            }
        });
    }
}

impl Subscriptions {
    fn check_signature(&self, message: &Message) -> Result<(), Rejected> {
        let header = message.header(subjects::SIGNATURE_HEADER);
        let check = |keys: &OrderKeys| keys.check(&self.owner.node, header, &message.payload);
        self.order_keys.as_ref().map_or(Ok(()), check)
    }

    fn refuse(&self, message: &Message, reply: String, reason: String) {
        self.dead_letter(DeadLetterKind::Order, message, reason.clone());
        self.publisher.reply(reply, OrderReply::Failed { reason });
    }

    fn dead_letter(&self, kind: DeadLetterKind, message: &Message, reason: String) {
        error!(%reason, subject = message.subject, bytes = message.payload.len(), "cannot decode a message");
        self.publisher.dead_letter(kind, DeadLetter::new(&message.subject, reason, &message.payload, self.clock.now()));
    }

    /// Docker's view of the requested pods. Empty without delay when the engine is not up: the apiserver can build an answer
    /// without it.
    async fn inspect(&self, request: &InspectRequest) -> InspectReply {
        if self.health.state() != EngineState::Up {
            return InspectReply::default();
        }
        let wanted: BTreeSet<&PodId> = request.pods.iter().collect();
        let groups: BTreeSet<&GroupName> = wanted.iter().map(|pod| &pod.group).collect();
        let mut found: BTreeMap<PodId, BTreeMap<usize, ContainerDetail>> = BTreeMap::new();
        for group in groups {
            let details = match self.engine.details(group.as_str()).await {
                Ok(details) => details,
                Err(reason) => {
                    warn!(%reason, %group, "could not inspect all containers");
                    continue;
                }
            };
            for detail in details {
                let texts = detail.config.labels.as_ref();
                let get = |key: &str| texts.and_then(|texts| texts.get(key)).map(String::as_str);
                let Some(identity) = labels::identify(&self.owner, get) else { continue };
                if wanted.contains(&identity.pod) {
                    let detail = ContainerDetail { node: self.node_detail(), ..detail };
                    found.entry(identity.pod).or_default().insert(identity.index, detail);
                }
            }
        }
        InspectReply {
            pods: found.into_iter().map(|(pod, by_index)| (pod, by_index.into_values().collect())).collect(),
        }
    }

    fn node_detail(&self) -> NodeDetail {
        NodeDetail {
            name: self.owner.node.to_string(),
            id: self.owner.node.to_string(),
            addr: self.facts.address.clone(),
            ip: self.facts.ip.clone(),
            cpus: i64::from(self.facts.cores),
            memory: i64::try_from(self.facts.memory).unwrap_or(i64::MAX),
            labels: self.facts.labels.clone(),
        }
    }
}
