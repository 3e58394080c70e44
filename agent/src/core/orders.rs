//! Accepts orders: checks the fence, writes the ledger, then acknowledges and reconciles.
//!
//! One write is in progress at a time. One order may wait for it; a newer order replaces the waiting one, whose sender gets
//! `Failed` and sends again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use contract::digest::Digest;
use contract::fence::Fence;
use contract::order::{Order, OrderMessage, OrderReply};
use contract::pod_id::PodId;
use contract::progress::Progress;
use contract::time::Timestamp;
use planner::fence::{self, FenceCheck, is_behind, is_foreign};
use tracing::{error, info, warn};

use super::io::{Effect, Inbox, Ledger, Mutant};
use super::order_diff::{Touched, adopt, touched_between, touched_by};
use super::{Core, Inventory};

/// The report of an order that creates more pods than this is deferred until their first results.
const FEW: usize = 8;

/// Pause after a failed write of the ledger.
const WRITE_RETRY: Duration = Duration::from_secs(5);

/// Orders and ledger writes in progress.
#[derive(Debug, Default)]
pub(super) struct Intake {
    last_id: u64,
    writing: Option<Writing>,
    waiting: Option<(OrderMessage, Inbox)>,
    /// The ledger on disk is outdated.
    ledger_is_dirty: bool,
    /// No write before this time unless an order arrives: the last one failed.
    write_after: Timestamp,
    pub(super) tally: Tally,
}

/// Number of orders by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub accepted: u64,
    /// From a deposed leader, or refused for another store.
    pub stale: u64,
    /// Two different orders with one fence.
    pub conflict: u64,
    /// Could not be stored, or inconsistent.
    pub failed: u64,
    /// Addressed to another agent of this name.
    pub astray: u64,
}

#[derive(Debug)]
struct Writing {
    id: u64,
    order: Option<NewOrder>,
}

/// An order being written.
#[derive(Debug)]
struct NewOrder {
    order: Arc<Order>,
    /// Computed once, because it hashes the whole order.
    digest: Digest,
    inbox: Inbox,
    /// New starts and restarts, with their reference times.
    requests: BTreeMap<PodId, Timestamp>,
    touched: Touched,
    /// Pods outside the order whose creation may be in flight.
    coming: BTreeSet<PodId>,
}

impl Intake {
    /// Marks the ledger as changed.
    pub(super) fn ledger_changed(&mut self) {
        self.ledger_is_dirty = true;
    }

    /// When to retry a failed write.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        (self.ledger_is_dirty && self.writing.is_none()).then_some(self.write_after)
    }
}

impl Core {
    pub(super) fn order_arrived(&mut self, message: OrderMessage, reply: Inbox, now: Timestamp, out: &mut Vec<Effect>) {
        if self.is_for_another(&message) {
            // No reply: the other agent replies.
            warn!(fence = %message.fence(), agent = message.agent(), "ignored an order for another agent of this name");
            self.intake.tally.astray += 1;
            return;
        }
        self.last_contact = now;
        self.unanswered_heartbeats = None;
        if self.intake.writing.is_none() {
            return self.judge_order(message, reply, now, out);
        }
        let overtaken = match &self.intake.waiting {
            Some((waiting, _)) if waiting.fence() > message.fence() => Some(reply),
            Some(_) | None => self.intake.waiting.replace((message, reply)).map(|(_, inbox)| inbox),
        };
        if let Some(inbox) = overtaken {
            let reason = "overtaken by a newer order while the disk was busy".to_owned();
            out.push(Effect::Reply { inbox, reply: OrderReply::Failed { reason } });
        }
    }

    /// Whether the order names another agent with this node's name.
    fn is_for_another(&self, message: &OrderMessage) -> bool {
        let (meant, own) = (message.agent(), self.settings.identity.as_str());
        !meant.is_empty() && !own.is_empty() && meant != own
    }

    pub(super) fn written(&mut self, id: u64, result: Result<(), String>, now: Timestamp, out: &mut Vec<Effect>) {
        match self.intake.writing.take() {
            Some(writing) if writing.id == id => match (writing.order, result) {
                (Some(new), Ok(())) => self.obey(new, now, out),
                (None, Ok(())) => {}
                (new, Err(reason)) => self.write_failed(new.map(|new| new.inbox), reason, now, out),
            },
            // The result of another write.
            other => self.intake.writing = other,
        }
        if self.intake.writing.is_none()
            && let Some((message, reply)) = self.intake.waiting.take()
        {
            self.judge_order(message, reply, now, out);
        }
    }

    /// Writes a changed ledger, unless a write is in progress.
    pub(super) fn flush_memory(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.settings.faults.has(Mutant::NoLedger) {
            self.intake.ledger_is_dirty = false;
        }
        if self.intake.ledger_is_dirty && self.intake.writing.is_none() && now >= self.intake.write_after {
            let ledger = self.ledger.clone();
            self.write(ledger, None, out);
        }
    }

    fn write_failed(&mut self, inbox: Option<Inbox>, reason: String, now: Timestamp, out: &mut Vec<Effect>) {
        error!(%reason, "could not write the ledger");
        self.intake.ledger_is_dirty = true;
        self.intake.write_after = now + WRITE_RETRY;
        if let Some(inbox) = inbox {
            self.intake.tally.failed += 1;
            out.push(Effect::Reply { inbox, reply: OrderReply::Failed { reason } });
        }
    }

    fn judge_order(&mut self, message: OrderMessage, inbox: Inbox, now: Timestamp, out: &mut Vec<Effect>) {
        let obeyed = &self.ledger.order;
        let fence = message.fence();
        let is_foreign = is_foreign(&obeyed.stores, message.stores());
        if is_foreign && (!obeyed.pods.is_empty() || !obeyed.spared.is_empty()) {
            let (have, stores, progress) = (obeyed.fence, obeyed.stores.clone(), Progress::default());
            warn!(%fence, %have, "refused an order of another store that does not know the pods on this node");
            self.intake.tally.stale += 1;
            return out.push(Effect::Reply { inbox, reply: OrderReply::Foreign { have, stores, progress } });
        }
        // A lower fence is refused below as stale.
        if !is_foreign && fence > obeyed.fence && is_behind(&obeyed.progress, message.progress()) {
            let (have, stores, progress) = (obeyed.fence, obeyed.stores.clone(), obeyed.progress.clone());
            warn!(%fence, %have, "refused an order of a rewound store that lacks newer orders of this node");
            self.intake.tally.stale += 1;
            return out.push(Effect::Reply { inbox, reply: OrderReply::Foreign { have, stores, progress } });
        }
        // A node without pods may change to another store; the terms of the old store do not count there.
        let have = if is_foreign { Fence::default() } else { obeyed.fence };
        let same = fence == have && self.order_digest == promised_digest(&message);
        let judgement = if self.settings.faults.has(Mutant::NoFence) {
            FenceCheck::Accept
        } else {
            fence::check(have, fence, same)
        };
        let reply = match judgement {
            FenceCheck::Accept => match self.resulting_order(message) {
                Ok((order, digest, touched)) => {
                    let requests = self.new_requests(&order, touched.as_ref(), now);
                    let coming = self.in_flight_outside(&order, touched.as_ref());
                    return self.store_order(
                        NewOrder { order: Arc::new(order), digest, inbox, requests, touched, coming },
                        now,
                        out,
                    );
                }
                Err(reply) => reply,
            },
            FenceCheck::Repeat => OrderReply::Accepted { fence, digest: self.order_digest },
            FenceCheck::Stale => {
                warn!(%fence, %have, "refused a stale order");
                self.intake.tally.stale += 1;
                OrderReply::Stale { have }
            }
            FenceCheck::Conflict => {
                error!(%fence, "two different orders carry the same fence");
                self.intake.tally.conflict += 1;
                OrderReply::Conflict { have }
            }
        };
        out.push(Effect::Reply { inbox, reply });
    }

    fn resulting_order(&mut self, message: OrderMessage) -> Result<(Order, Digest, Touched), OrderReply> {
        let have = self.ledger.order.fence;
        let (order, digest, touched) = match message {
            OrderMessage::Whole(order) => {
                let digest = order.digest();
                // The addressee is not part of the desired state.
                (Order { agent: String::new(), ..order }, digest, None)
            }
            OrderMessage::Delta(delta) => match self.settings.faults.misapplied(&self.ledger.order, &delta) {
                Some(order) => {
                    let digest = order.digest();
                    (order, digest, None)
                }
                None => {
                    let order = self.ledger.order.changed_by(self.order_digest, &delta);
                    let order = order.ok_or(OrderReply::NeedWhole { have })?;
                    let touched = touched_by(&delta, &order);
                    (order, delta.digest, Some(touched))
                }
            },
        };
        let lacks = |pod: &&PodId| order.pods.contains_key(*pod) && order.spec_of(pod).is_none();
        let lacking = match &touched {
            Some(touched) => touched.iter().find(lacks),
            None => order.pods.keys().find(lacks),
        };
        match lacking {
            None => Ok((order, digest, touched)),
            Some(pod) => {
                self.intake.tally.failed += 1;
                let reason = format!("the order names pod {pod} and holds no spec for it");
                error!(fence = %order.fence, %reason, "refused an inconsistent order");
                Err(OrderReply::Failed { reason })
            }
        }
    }

    fn store_order(&mut self, new: NewOrder, now: Timestamp, out: &mut Vec<Effect>) {
        if self.settings.faults.has(Mutant::NoLedger) {
            return self.obey(new, now, out);
        }
        let mut ledger = self.ledger.clone();
        adopt(&mut ledger, &new.order, &new.requests, new.touched.as_ref());
        ledger.coming.clone_from(&new.coming);
        if self.settings.faults.has(Mutant::AcknowledgesBeforeStoring) {
            self.obey(new, now, out);
            return self.write(ledger, None, out);
        }
        self.write(ledger, Some(new), out);
    }

    /// Pods outside `order` whose creation may be in flight.
    fn in_flight_outside(&self, order: &Order, touched: Option<&BTreeSet<PodId>>) -> BTreeSet<PodId> {
        // A delta names the pods it removes; a whole order is compared with the one before.
        let before = self.ledger.order.pods.keys().filter(|_| touched.is_none());
        let leaving = before.chain(touched.into_iter().flatten());
        let is_creating = |pod: &PodId| self.cache.state(&pod.key()).is_some_and(|state| state.is_creating(pod));
        let may_come = |pod: &PodId| is_creating(pod) || self.in_flight.contains(pod);
        let outside = leaving.chain(&self.ledger.coming).filter(|pod| !order.pods.contains_key(*pod));
        outside.filter(|pod| may_come(pod)).cloned().collect()
    }

    /// Pods for which `order` requests a further start or restart, with the reference time: the last start of their
    /// containers by Docker's clock, which may differ from the agent's. Never, when no container existed.
    fn new_requests(
        &self,
        order: &Order,
        touched: Option<&BTreeSet<PodId>>,
        now: Timestamp,
    ) -> BTreeMap<PodId, Timestamp> {
        let mut requests = BTreeMap::new();
        let some = touched.into_iter().flatten().filter_map(|pod| order.pods.get_key_value(pod));
        for (pod, after) in order.pods.iter().filter(|_| touched.is_none()).chain(some) {
            let Some(before) = self.ledger.order.pods.get(pod) else { continue };
            if after.starts_requested > before.starts_requested || after.restarts_requested > before.restarts_requested
            {
                let key = pod.key();
                let own = self.cache.containers(&key).filter(|seen| seen.identity.pod == *pod);
                let last_start = own.map(|seen| seen.started_at).max().unwrap_or(Timestamp::NEVER);
                let created = self.ledger.memory.get(pod).is_some_and(|memory| memory.created);
                // Before the first inventory only the agent's clock is known.
                let requested_at = if last_start.happened() { last_start } else { now };
                requests.insert(pod.clone(), if created { requested_at } else { Timestamp::NEVER });
            }
        }
        requests
    }

    fn write(&mut self, mut ledger: Ledger, order: Option<NewOrder>, out: &mut Vec<Effect>) {
        self.settings.faults.forget_restarts(&mut ledger);
        self.intake.last_id += 1;
        let id = self.intake.last_id;
        self.intake.ledger_is_dirty = false;
        self.intake.writing = Some(Writing { id, order });
        out.push(Effect::Persist { id, ledger: Box::new(ledger) });
    }

    /// Forgets pods that are neither ordered nor present.
    fn forget_absent_pods(&mut self) {
        let Ledger { order, memory, .. } = &mut self.ledger;
        if !memory.values().any(|memory| !memory.live.updated.is_empty()) {
            // Only updated containers are remembered after their pod left the order.
            return;
        }
        let cache = &self.cache;
        let is_present = |pod: &PodId| cache.containers(&pod.key()).any(|seen| seen.identity.pod == *pod);
        let is_outdated = !matches!(self.inventory, Inventory::Current { .. });
        Arc::make_mut(memory).retain(|pod, _| is_outdated || order.pods.contains_key(pod) || is_present(pod));
    }

    /// Makes an order current that is on disk.
    fn obey(&mut self, new: NewOrder, now: Timestamp, out: &mut Vec<Effect>) {
        let (order, before) = (Arc::clone(&new.order), Arc::clone(&self.ledger.order));
        let first = before.fence == Fence::default();
        let touched = new.touched.clone().unwrap_or_else(|| touched_between(&before, &order));
        for pod in touched.iter().filter(|pod| !order.pods.contains_key(*pod)) {
            if let Some(spec) = before.spec_of(pod) {
                self.graces.insert(pod.clone(), spec.kill_grace());
            }
        }
        touched.iter().for_each(|pod| self.cache.mark(&pod.key()));
        if first || order.spared != before.spared {
            // Containers that were spared may have to be removed now.
            self.cache.mark_all();
        }
        if order.switches != before.switches {
            // A switch may allow actions that were held back.
            order.pods.keys().for_each(|pod| self.cache.mark(&pod.key()));
        }
        adopt(&mut self.ledger, &new.order, &new.requests, new.touched.as_ref());
        let NewOrder { digest, inbox, coming, .. } = new;
        self.ledger.coming = coming;
        self.images.retain_for(&self.ledger.order);
        self.forget_absent_pods();
        self.order_digest = digest;
        let is_new = |pod: &PodId| order.pods.contains_key(pod) && !before.pods.contains_key(pod);
        if touched.len() > FEW && touched.iter().all(is_new) {
            self.reporter.head_changed_deferrable(now);
        } else {
            self.reporter.head_changed();
        }
        self.intake.tally.accepted += 1;
        let fence = self.ledger.order.fence;
        info!(%fence, pods = self.ledger.order.pods.len(), "accepted an order");
        out.push(Effect::Reply { inbox, reply: OrderReply::Accepted { fence, digest: self.order_digest } });
    }
}

/// The digest that the order has once applied.
fn promised_digest(message: &OrderMessage) -> Digest {
    match message {
        OrderMessage::Whole(order) => order.digest(),
        OrderMessage::Delta(delta) => delta.digest,
    }
}
