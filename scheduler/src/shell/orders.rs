//! Sends orders to up to [`MAX_IN_FLIGHT`] nodes concurrently, each with a deadline, so that a slow node does not delay the others.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::compact::Texts;
use contract::fence::Fence;
use contract::name::NodeName;
use contract::order::{OrderMessage, OrderReply};
use contract::subjects;
use fabric::nats::Bus;
use fabric::signing::{OrderKeys, OrderSigner};
use fabric::tasks::{Scoped, spawn_scoped};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Context;
use super::claims::{self, Prover};
use crate::core::io::Input;
use crate::metrics::Metrics;

/// An agent replies when the order is on its disk. When it takes longer, its next report shows which order it applied, and the
/// core takes that as the reply. A longer deadline would repeat fewer orders to busy nodes, but detect lost orders later.
const DEADLINE: Duration = Duration::from_secs(3);
const MAX_IN_FLIGHT: usize = 256;
/// Orders that wait: one per node of a large cluster, as after a takeover. When full, the core counts the order as unanswered and
/// sends it again later.
const QUEUE: usize = 16_384;

pub(super) struct OrderQueue {
    sender: mpsc::Sender<(NodeName, OrderMessage)>,
    pub(super) replies: mpsc::Receiver<Input>,
}

pub(super) fn start(context: &Context) -> (OrderQueue, Scoped) {
    let (sender, orders) = mpsc::channel(QUEUE);
    let (reply_sender, replies) = mpsc::channel(MAX_IN_FLIGHT);
    let Context { bus, signer, order_keys, metrics, .. } = context.clone();
    let sending = run(Sender { bus, signer, order_keys, metrics }, orders, reply_sender);
    (OrderQueue { sender, replies }, spawn_scoped("orders", sending))
}

/// The input for the core when an order could not be sent.
pub(super) fn unanswered(node: NodeName, message: &OrderMessage) -> Input {
    Input::OrderReplied { node, fence: message.fence(), reply: None }
}

impl OrderQueue {
    pub(super) fn try_send(&self, node: NodeName, message: OrderMessage) -> Option<Input> {
        let refused = self.sender.try_send((node, message)).err()?;
        let (node, message) = refused.into_inner();
        Some(unanswered(node, &message))
    }
}

/// Signs and sends one order after the other.
struct Sender {
    bus: Bus,
    signer: Option<Arc<OrderSigner>>,
    order_keys: Option<Arc<OrderKeys>>,
    metrics: Metrics,
}

async fn run(sender: Sender, mut orders: mpsc::Receiver<(NodeName, OrderMessage)>, replies: mpsc::Sender<Input>) {
    let mut in_flight = FuturesUnordered::new();
    let mut texts = Texts::default();
    let mut prover = Prover::new(sender.signer.clone());
    loop {
        tokio::select! {
            order = orders.recv(), if in_flight.len() < MAX_IN_FLIGHT => match order {
                Some((node, message)) => {
                    let message = prover.prove(message);
                    let (fence, text) = (message.fence(), texts.of(&message));
                    in_flight.push(sender.send(node, fence, text));
                }
                None => return,
            },
            Some(reply) = in_flight.next() => {
                if replies.send(reply).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Sender {
    async fn send(&self, node: NodeName, fence: Fence, text: Result<Box<RawValue>, serde_json::Error>) -> Input {
        self.metrics.orders.inc();
        let reply = match text {
            Ok(text) => self.request(&node, &text).await,
            Err(error) => Err(error.to_string()),
        };
        let reply = match reply {
            Ok(reply) => {
                count(&node, &reply, &self.metrics);
                Some(claims::checked_reply(self.order_keys.as_deref(), reply))
            }
            Err(error) => {
                tracing::debug!(%node, %fence, %error, "the node did not reply to the order in time");
                self.metrics.unanswered_orders.inc();
                None
            }
        };
        Input::OrderReplied { node, fence, reply }
    }

    async fn request(&self, node: &NodeName, text: &RawValue) -> Result<OrderReply, String> {
        let payload = Bytes::copy_from_slice(text.get().as_bytes());
        let header = self.signer.as_ref().map(|signer| (subjects::SIGNATURE_HEADER, signer.header(node, &payload)));
        let subject = subjects::order(node);
        self.bus.request_bytes(&subject, payload, header, DEADLINE).await.map_err(|error| error.to_string())
    }
}

fn count(node: &NodeName, reply: &OrderReply, metrics: &Metrics) {
    match reply {
        OrderReply::Stale { have } => {
            metrics.stale_replies.inc();
            tracing::warn!(%node, %have, "the node refused an order: it follows a later leader");
        }
        OrderReply::Foreign { have, .. } => {
            metrics.stale_replies.inc();
            tracing::error!(
                %node,
                %have,
                "the node belongs to another store, or to a later state of this one: etcd was wiped or came back with an older \
                 state; restore a backup with deployctl restore"
            );
        }
        OrderReply::Failed { reason } => tracing::warn!(%node, reason, "the node rejected an order"),
        OrderReply::Accepted { .. } | OrderReply::NeedWhole { .. } | OrderReply::Conflict { .. } => {}
    }
}
