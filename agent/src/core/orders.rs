//! How an order becomes the order obeyed: judged by its fence, put on disk, then acknowledged and worked on.
//!
//! One write is under way at a time. What arrives meanwhile waits in one place, where a newer order takes the place
//! of an older one; the older one's sender is told so and sends again what it still wants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use contract::digest::Digest;
use contract::fence::Fence;
use contract::order::{Order, OrderMessage, OrderReply};
use contract::pod_id::PodId;
use contract::progress::Progress;
use contract::time::Timestamp;
use planner::fence::{Judgement, is_behind, is_foreign, judge};
use tracing::{error, info, warn};

use super::io::{Effect, Inbox, Ledger, Mutant};
use super::order_diff::{Touched, adopt, touched_between, touched_by};
use super::{Core, Sight};

/// An order that makes more pods than this is told of with what becomes of them.
const FEW: usize = 8;

/// Until a memory that could not be written is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(5);

/// Where orders and writes wait.
#[derive(Debug, Default)]
pub(super) struct Intake {
    last_id: u64,
    writing: Option<Writing>,
    waiting: Option<(OrderMessage, Inbox)>,
    /// Something remembered is not on disk.
    memory_changed: bool,
    /// No write of memory alone before this: the last one failed.
    write_after: Timestamp,
    /// Orders counted by what became of them.
    pub(super) tally: Tally,
}

/// Orders counted by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Obeyed and on disk.
    pub accepted: u64,
    /// From a leader that was overtaken.
    pub stale: u64,
    /// Two orders under one fence.
    pub conflict: u64,
    /// Could not be kept or make no sense.
    pub failed: u64,
    /// Meant for another agent of this name.
    pub astray: u64,
}

#[derive(Debug)]
struct Writing {
    id: u64,
    order: Option<Kept>,
}

/// An order on its way to the disk.
#[derive(Debug)]
struct Kept {
    order: Arc<Order>,
    /// Of the order, read once: it takes a look at everything in it.
    digest: Digest,
    inbox: Inbox,
    /// When each pod it asks to start or restart was asked.
    asked: BTreeMap<PodId, Timestamp>,
    /// The pods it may change, of those there are; none when it may change any.
    touched: Touched,
    /// Pods outside of it that the engine was asked to make.
    coming: BTreeSet<PodId>,
}

impl Intake {
    /// Something remembered changed.
    pub(super) fn remember(&mut self) {
        self.memory_changed = true;
    }

    /// When a write that failed is tried again.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        (self.memory_changed && self.writing.is_none()).then_some(self.write_after)
    }
}

impl Core {
    /// An order arrived.
    pub(super) fn order_arrived(&mut self, message: OrderMessage, reply: Inbox, now: Timestamp, out: &mut Vec<Effect>) {
        if self.is_for_another(&message) {
            // No answer: the one it is meant for gives it.
            warn!(fence = %message.fence(), agent = message.agent(), "an order for another agent of this name is left alone");
            self.intake.tally.astray += 1;
            return;
        }
        self.last_word = now;
        self.unheard = None;
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

    /// Whether the scheduler listens to another agent under this node's name.
    fn is_for_another(&self, message: &OrderMessage) -> bool {
        let (meant, own) = (message.agent(), self.settings.identity.as_str());
        !meant.is_empty() && !own.is_empty() && meant != own
    }

    /// A write ended.
    pub(super) fn written(&mut self, id: u64, result: Result<(), String>, now: Timestamp, out: &mut Vec<Effect>) {
        match self.intake.writing.take() {
            Some(writing) if writing.id == id => match (writing.order, result) {
                (Some(kept), Ok(())) => self.obey(kept, now, out),
                (None, Ok(())) => {}
                (kept, Err(reason)) => self.not_written(kept.map(|kept| kept.inbox), reason, now, out),
            },
            // The answer to a write of an earlier run, or a second answer: it says nothing about the present one.
            other => self.intake.writing = other,
        }
        if self.intake.writing.is_none()
            && let Some((message, reply)) = self.intake.waiting.take()
        {
            self.judge_order(message, reply, now, out);
        }
    }

    /// Writes what is remembered, unless a write is under way.
    pub(super) fn flush_memory(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.settings.mutant == Some(Mutant::NoLedger) {
            self.intake.memory_changed = false;
        }
        if self.intake.memory_changed && self.intake.writing.is_none() && now >= self.intake.write_after {
            let ledger = self.ledger.clone();
            self.write(ledger, None, out);
        }
    }

    fn not_written(&mut self, inbox: Option<Inbox>, reason: String, now: Timestamp, out: &mut Vec<Effect>) {
        error!(%reason, "the ledger could not be written");
        self.intake.memory_changed = true;
        self.intake.write_after = now + WRITE_AGAIN;
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
            warn!(%fence, %have, "refused an order of another store, which knows nothing of what runs here");
            self.intake.tally.stale += 1;
            return out.push(Effect::Reply { inbox, reply: OrderReply::Foreign { have, stores, progress } });
        }
        // A lower fence is refused below, as every order of a leader that was overtaken.
        if !is_foreign && fence > obeyed.fence && is_behind(&obeyed.progress, message.progress()) {
            let (have, stores, progress) = (obeyed.fence, obeyed.stores.clone(), obeyed.progress.clone());
            warn!(%fence, %have, "refused an order of an older state of the store, which lacks what this node was ordered since");
            self.intake.tally.stale += 1;
            return out.push(Effect::Reply { inbox, reply: OrderReply::Foreign { have, stores, progress } });
        }
        // Who runs nothing has nothing to lose: it may change hands, and the other store's terms mean nothing any more.
        let have = if is_foreign { Fence::default() } else { obeyed.fence };
        let same = fence == have && self.order_digest == promised_digest(&message);
        let judgement = match self.settings.mutant {
            Some(Mutant::NoFence) => Judgement::Accept,
            Some(
                Mutant::NoLedger
                | Mutant::ForgetsRestarts
                | Mutant::AcknowledgesFirst
                | Mutant::AnyBase
                | Mutant::ListsOnce
                | Mutant::WorksTwice
                | Mutant::PanicsOnPurpose,
            )
            | None => judge(have, fence, same),
        };
        let reply = match judgement {
            Judgement::Accept => match self.resulting_order(message) {
                Ok((order, digest, touched)) => {
                    let asked = self.asked_anew(&order, touched.as_ref(), now);
                    let coming = self.coming_beside(&order, touched.as_ref());
                    return self.keep(Kept { order: Arc::new(order), digest, inbox, asked, touched, coming }, now, out);
                }
                Err(reply) => reply,
            },
            Judgement::Repeat => OrderReply::Accepted { fence, digest: self.order_digest },
            Judgement::Stale => {
                warn!(%fence, %have, "a stale order was refused");
                self.intake.tally.stale += 1;
                OrderReply::Stale { have }
            }
            Judgement::Conflict => {
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
                // Whom it was meant for is no part of what is obeyed.
                (Order { agent: String::new(), ..order }, digest, None)
            }
            OrderMessage::Delta(delta) if self.settings.mutant == Some(Mutant::AnyBase) => {
                let mut order = Order { fence: delta.fence, ..(*self.ledger.order).clone() };
                delta.pods.apply(&mut order.pods);
                delta.specs.apply(&mut order.specs);
                let order = Order { spared: delta.spared, switches: delta.switches, ..order };
                let digest = order.digest();
                (order, digest, None)
            }
            OrderMessage::Delta(delta) => {
                let order = self.ledger.order.changed_by(self.order_digest, &delta);
                let order = order.ok_or(OrderReply::NeedWhole { have })?;
                let touched = touched_by(&delta, &order);
                (order, delta.digest, Some(touched))
            }
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
                error!(fence = %order.fence, %reason, "an order was refused");
                Err(OrderReply::Failed { reason })
            }
        }
    }

    fn keep(&mut self, kept: Kept, now: Timestamp, out: &mut Vec<Effect>) {
        if self.settings.mutant == Some(Mutant::NoLedger) {
            return self.obey(kept, now, out);
        }
        let mut ledger = self.ledger.clone();
        adopt(&mut ledger, &kept.order, &kept.asked, kept.touched.as_ref());
        ledger.coming.clone_from(&kept.coming);
        if self.settings.mutant == Some(Mutant::AcknowledgesFirst) {
            self.obey(kept, now, out);
            return self.write(ledger, None, out);
        }
        self.write(ledger, Some(kept), out);
    }

    /// The pods that leave the order, or left it before, while the engine may still make them.
    fn coming_beside(&self, order: &Order, touched: Option<&BTreeSet<PodId>>) -> BTreeSet<PodId> {
        // A change names whom it takes away; a whole order is compared with the one before.
        let before = self.ledger.order.pods.keys().filter(|_| touched.is_none());
        let leaving = before.chain(touched.into_iter().flatten());
        let is_making = |pod: &PodId| self.cache.state(&pod.key()).is_some_and(|state| state.is_making(pod));
        let may_come = |pod: &PodId| is_making(pod) || self.in_flight.contains(pod);
        let outside = leaving.chain(&self.ledger.coming).filter(|pod| !order.pods.contains_key(*pod));
        outside.filter(|pod| may_come(pod)).cloned().collect()
    }

    /// The pods `order` asks to start or restart once more, and when: at the last start of any of their containers, for
    /// the engine's clock need not be ours. Never, when there was nothing to restart.
    fn asked_anew(
        &self,
        order: &Order,
        touched: Option<&BTreeSet<PodId>>,
        now: Timestamp,
    ) -> BTreeMap<PodId, Timestamp> {
        let mut asked = BTreeMap::new();
        let some = touched.into_iter().flatten().filter_map(|pod| order.pods.get_key_value(pod));
        for (pod, after) in order.pods.iter().filter(|_| touched.is_none()).chain(some) {
            let Some(before) = self.ledger.order.pods.get(pod) else { continue };
            if after.starts_requested > before.starts_requested || after.restarts_requested > before.restarts_requested
            {
                let key = pod.key();
                let own = self.cache.containers(&key).filter(|seen| seen.identity.pod == *pod);
                let last_start = own.map(|seen| seen.started_at).max().unwrap_or(Timestamp::NEVER);
                let made = self.ledger.memory.get(pod).is_some_and(|memory| memory.created);
                // Who has not looked at the containers yet has only its own clock.
                let asked_at = if last_start.happened() { last_start } else { now };
                asked.insert(pod.clone(), if made { asked_at } else { Timestamp::NEVER });
            }
        }
        asked
    }

    fn write(&mut self, mut ledger: Ledger, order: Option<Kept>, out: &mut Vec<Effect>) {
        if self.settings.mutant == Some(Mutant::ForgetsRestarts) {
            for memory in Arc::make_mut(&mut ledger.memory).values_mut().filter(|memory| memory.asked_at.happened()) {
                (memory.restarts_done, memory.renewed) = Default::default();
                memory.asked_at = Timestamp::from_millis(i64::MAX);
            }
        }
        self.intake.last_id += 1;
        let id = self.intake.last_id;
        self.intake.memory_changed = false;
        self.intake.writing = Some(Writing { id, order });
        out.push(Effect::Persist { id, ledger: Box::new(ledger) });
    }

    /// Forgets pods that are neither ordered nor there.
    fn forget_what_is_gone(&mut self) {
        let Ledger { order, memory, .. } = &mut self.ledger;
        if !memory.values().any(|memory| !memory.live.updated.is_empty()) {
            // Of what left the order nothing else was kept.
            return;
        }
        let cache = &self.cache;
        let stands = |pod: &PodId| cache.containers(&pod.key()).any(|seen| seen.identity.pod == *pod);
        let is_blind = !matches!(self.sight, Sight::Clear { .. });
        Arc::make_mut(memory).retain(|pod, _| is_blind || order.pods.contains_key(pod) || stands(pod));
    }

    /// The order is on disk: from now on it is the one that counts.
    fn obey(&mut self, kept: Kept, now: Timestamp, out: &mut Vec<Effect>) {
        let (order, before) = (Arc::clone(&kept.order), Arc::clone(&self.ledger.order));
        let first = before.fence == Fence::default();
        let touched = kept.touched.clone().unwrap_or_else(|| touched_between(&before, &order));
        for pod in touched.iter().filter(|pod| !order.pods.contains_key(*pod)) {
            if let Some(spec) = before.spec_of(pod) {
                self.graces.insert(pod.clone(), spec.kill_grace());
            }
        }
        touched.iter().for_each(|pod| self.cache.mark(&pod.key()));
        if first || order.spared != before.spared {
            // What was left alone may have to go now.
            self.cache.mark_all();
        }
        if order.switches != before.switches {
            // What was held back may be done now.
            order.pods.keys().for_each(|pod| self.cache.mark(&pod.key()));
        }
        adopt(&mut self.ledger, &kept.order, &kept.asked, kept.touched.as_ref());
        let Kept { digest, inbox, coming, .. } = kept;
        self.ledger.coming = coming;
        self.images.keep_those_of(&self.ledger.order);
        self.forget_what_is_gone();
        self.order_digest = digest;
        let is_made = |pod: &PodId| order.pods.contains_key(pod) && !before.pods.contains_key(pod);
        if touched.len() > FEW && touched.iter().all(is_made) {
            self.reporter.head_changed_in_passing(now);
        } else {
            self.reporter.head_changed();
        }
        self.intake.tally.accepted += 1;
        let fence = self.ledger.order.fence;
        info!(%fence, pods = self.ledger.order.pods.len(), "order accepted");
        out.push(Effect::Reply { inbox, reply: OrderReply::Accepted { fence, digest: self.order_digest } });
    }
}

/// Digest the message says its order has.
fn promised_digest(message: &OrderMessage) -> Digest {
    match message {
        OrderMessage::Whole(order) => order.digest(),
        OrderMessage::Delta(delta) => delta.digest,
    }
}
