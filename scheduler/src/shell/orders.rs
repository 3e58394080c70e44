//! The order lane: many nodes at once, each with a deadline. A slow node delays nobody else.

use std::time::Duration;

use contract::compact::Texts;
use contract::fence::Fence;
use contract::name::NodeName;
use contract::order::{OrderMessage, OrderReply};
use contract::subjects;
use fabric::nats::Bus;
use fabric::tasks::{Scoped, spawn_scoped};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::core::io::Input;
use crate::metrics::Metrics;

/// An agent answers once the order is on its disk. One that is busy for longer says in its report what it obeys, which is an
/// answer too. Longer would send less to nodes that are very busy, and notice a lost order as late for all others.
const DEADLINE: Duration = Duration::from_secs(3);
/// Orders under way at once.
const AT_ONCE: usize = 256;
/// Orders that wait: one per node of a large cluster, as after a takeover. What does not fit is answered as unanswered,
/// and the core sends it again later.
const QUEUE: usize = 16_384;

/// The loop's end of the lane.
pub(super) struct Lane {
    sender: mpsc::Sender<(NodeName, OrderMessage)>,
    pub(super) replies: mpsc::Receiver<Input>,
}

pub(super) fn start(bus: Bus, metrics: Metrics) -> (Lane, Scoped) {
    let (sender, orders) = mpsc::channel(QUEUE);
    let (reply_sender, replies) = mpsc::channel(AT_ONCE);
    (Lane { sender, replies }, spawn_scoped("orders", run(bus, metrics, orders, reply_sender)))
}

/// What the core is told when an order could not be sent.
pub(super) fn unanswered(node: NodeName, message: &OrderMessage) -> Input {
    Input::OrderReplied { node, fence: message.fence(), reply: None }
}

impl Lane {
    pub(super) fn hand_over(&self, node: NodeName, message: OrderMessage) -> Option<Input> {
        let refused = self.sender.try_send((node, message)).err()?;
        let (node, message) = refused.into_inner();
        Some(unanswered(node, &message))
    }
}

async fn run(
    bus: Bus,
    metrics: Metrics,
    mut orders: mpsc::Receiver<(NodeName, OrderMessage)>,
    replies: mpsc::Sender<Input>,
) {
    let mut under_way = FuturesUnordered::new();
    let mut texts = Texts::default();
    loop {
        tokio::select! {
            order = orders.recv(), if under_way.len() < AT_ONCE => match order {
                Some((node, message)) => {
                    let (fence, text) = (message.fence(), texts.of(&message));
                    under_way.push(send(&bus, &metrics, node, fence, text));
                }
                None => return,
            },
            Some(reply) = under_way.next() => {
                if replies.send(reply).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn send(
    bus: &Bus,
    metrics: &Metrics,
    node: NodeName,
    fence: Fence,
    text: Result<Box<RawValue>, serde_json::Error>,
) -> Input {
    metrics.orders.inc();
    let reply = match text {
        Ok(text) => ask(bus, &node, &text).await,
        Err(error) => Err(error.to_string()),
    };
    let reply = match reply {
        Ok(reply) => {
            count(&reply, metrics);
            Some(reply)
        }
        Err(error) => {
            tracing::debug!(%node, %fence, %error, "order not answered");
            metrics.unanswered_orders.inc();
            None
        }
    };
    Input::OrderReplied { node, fence, reply }
}

async fn ask(bus: &Bus, node: &NodeName, text: &RawValue) -> Result<OrderReply, String> {
    bus.request(&subjects::order(node), text, DEADLINE).await.map_err(|error| error.to_string())
}

fn count(reply: &OrderReply, metrics: &Metrics) {
    match reply {
        OrderReply::Stale { have } => {
            metrics.stale_replies.inc();
            tracing::warn!(%have, "a node obeys a later leader");
        }
        OrderReply::Foreign { have, .. } => {
            metrics.stale_replies.inc();
            tracing::error!(
                %have,
                "a node obeys another store, or a later state of this one: etcd was wiped or came back with an older state; \
                 restore a backup with deployctl restore"
            );
        }
        OrderReply::Accepted { .. }
        | OrderReply::NeedWhole { .. }
        | OrderReply::Conflict { .. }
        | OrderReply::Failed { .. } => {}
    }
}
