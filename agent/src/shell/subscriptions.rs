//! Hears the bus: orders, requests for the whole report, questions about containers, and whether it is there at all.

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
use contract::subjects::{self, DeadLetterKind};
use fabric::clock::Clock;
use fabric::nats::{Bus, Error, Message, Subscription};
use tokio::sync::{Semaphore, mpsc};
use tracing::{error, warn};

use super::publisher::Publisher;
use crate::core::io::Input;
use crate::docker::Engine;
use crate::engine_health::EngineHealth;

/// Questions answered at a time; more wait, and their askers' deadlines pass.
const QUESTIONS: usize = 16;

/// Who listens, and what answers need.
pub struct Subscriptions {
    /// The bus.
    pub bus: Bus,
    /// Whose ears.
    pub owner: Owner,
    /// What the node is, for answers.
    pub facts: NodeFacts,
    /// The engine, for answers.
    pub engine: Arc<Engine>,
    /// Whether the engine can be asked.
    pub health: EngineHealth,
    /// For orders nobody can read.
    pub publisher: Publisher,
    /// Time of dead letters.
    pub clock: Clock,
}

/// Subscribes to everything addressed to this node and starts to listen.
pub async fn listen(subscriptions: Subscriptions, inputs: &mpsc::Sender<Input>) -> Result<(), Error> {
    let node = &subscriptions.owner.node;
    let orders = subscriptions.bus.subscribe(&subjects::order(node)).await?;
    let resyncs = subscriptions.bus.subscribe(&subjects::resync(node)).await?;
    let questions = subscriptions.bus.subscribe(&subjects::inspect(node)).await?;
    let connected = subscriptions.bus.connected();
    let subscriptions = Arc::new(subscriptions);
    fabric::tasks::spawn("orders", hear_orders(Arc::clone(&subscriptions), orders, inputs.clone()));
    fabric::tasks::spawn("resyncs", hear_resyncs(resyncs, inputs.clone()));
    fabric::tasks::spawn("questions", hear_questions(subscriptions, questions));
    fabric::tasks::spawn("bus state", hear_bus(connected, inputs.clone()));
    Ok(())
}

async fn hear_orders(subscriptions: Arc<Subscriptions>, mut orders: Subscription, inputs: mpsc::Sender<Input>) {
    while let Some(message) = orders.next().await {
        let reply = message.reply.clone().unwrap_or_default();
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

async fn hear_resyncs(mut resyncs: Subscription, inputs: mpsc::Sender<Input>) {
    while resyncs.next().await.is_some() {
        if inputs.send(Input::FullReportRequested).await.is_err() {
            return;
        }
    }
}

async fn hear_bus(mut connected: tokio::sync::watch::Receiver<bool>, inputs: mpsc::Sender<Input>) {
    loop {
        let now = *connected.borrow_and_update();
        if inputs.send(Input::Bus { connected: now }).await.is_err() || connected.changed().await.is_err() {
            return;
        }
    }
}

async fn hear_questions(subscriptions: Arc<Subscriptions>, mut questions: Subscription) {
    let places = Arc::new(Semaphore::new(QUESTIONS));
    while let Some(message) = questions.next().await {
        let Some(inbox) = message.reply.clone() else { continue };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let subscriptions = Arc::clone(&subscriptions);
        fabric::tasks::spawn("question", async move {
            let _place = place;
            let reply = match message.decode::<InspectRequest>() {
                Ok(request) => subscriptions.inspect(&request).await,
                Err(reason) => {
                    subscriptions.bury(DeadLetterKind::Question, &message, reason);
                    InspectReply::default()
                }
            };
            if let Err(reason) = subscriptions.bus.answer(&inbox, &reply).await {
                warn!(%reason, "a question could not be answered");
            }
        });
    }
}

impl Subscriptions {
    fn refuse(&self, message: &Message, reply: String, reason: String) {
        self.bury(DeadLetterKind::Order, message, reason.clone());
        self.publisher.reply(reply, OrderReply::Failed { reason });
    }

    fn bury(&self, kind: DeadLetterKind, message: &Message, reason: String) {
        error!(%reason, subject = message.subject, bytes = message.payload.len(), "a message could not be read");
        self.publisher.bury(kind, DeadLetter::new(&message.subject, reason, &message.payload, self.clock.now()));
    }

    /// The engine's view of the pods asked for; nothing at once when the engine cannot be asked, because the asker
    /// has a view of its own to fall back to.
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
                    warn!(%reason, %group, "a question could not be answered in full");
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
