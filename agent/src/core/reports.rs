//! Keeps what this node tells the schedulers, and turns changes of it into the smallest message that tells them.
//!
//! Every change raises the sequence number, published or not: a scheduler that missed one sees the gap and asks for
//! the whole. All changes of one input travel in one delta.

use std::collections::BTreeMap;

use contract::digest::Digest;
use contract::pod_id::{InstanceKey, PodId};
use contract::report::{Heartbeat, PodFacts, Report, ReportDelta, ReportHead, ReportMessage, Stamp};
use contract::time::Timestamp;
use contract::travel::Changes;

use super::lane_range;

/// The report as it stands and what was not told yet.
#[derive(Debug)]
pub(super) struct Reporter {
    facts: BTreeMap<PodId, PodFacts>,
    digest: Digest,
    sequence: u64,
    untold: Changes<PodId, PodFacts>,
    head_changed: bool,
    whole_due: bool,
    told_at: Timestamp,
}

impl Reporter {
    pub(super) fn new() -> Self {
        Self {
            facts: BTreeMap::new(),
            digest: Digest::default(),
            sequence: 0,
            untold: Changes::default(),
            head_changed: true,
            whole_due: true,
            told_at: Timestamp::NEVER,
        }
    }

    /// What was last told of `pod`.
    pub(super) fn get(&self, pod: &PodId) -> Option<&PodFacts> {
        self.facts.get(pod)
    }

    /// The pods of one lane that are in the report.
    pub(super) fn pods_of(&self, lane: &InstanceKey) -> impl Iterator<Item = &PodId> {
        self.facts.range(lane_range(lane)).map(|(pod, _)| pod)
    }

    /// Notes what `pod` looks like now; facts equal but for their time are no change.
    pub(super) fn set(&mut self, pod: &PodId, facts: Option<PodFacts>, now: Timestamp) {
        let before = self.facts.get(pod);
        let facts = facts.map(|facts| PodFacts { updated_at: before.map_or(now, |before| before.updated_at), ..facts });
        if before == facts.as_ref() {
            return;
        }
        let facts = facts.map(|facts| PodFacts { updated_at: now, ..facts });
        if let Some(before) = before {
            self.digest = self.digest.without(Digest::of(&(pod, before)));
        }
        match facts {
            Some(facts) => {
                self.digest = self.digest.with(Digest::of(&(pod, &facts)));
                self.untold.gone.remove(pod);
                self.untold.put.insert(pod.clone(), facts.clone());
                self.facts.insert(pod.clone(), facts);
            }
            None => {
                self.untold.put.remove(pod);
                self.untold.gone.insert(pod.clone());
                self.facts.remove(pod);
            }
        }
    }

    /// The node itself changed: order, engine.
    pub(super) fn head_changed(&mut self) {
        self.head_changed = true;
    }

    /// The next message must be whole.
    pub(super) fn ask_whole(&mut self) {
        self.whole_due = true;
    }

    /// Whether there is something to publish.
    pub(super) fn is_due(&self, heartbeat_due: bool) -> bool {
        heartbeat_due || self.whole_due || self.head_changed || !self.untold.is_empty()
    }

    /// What to publish now; `head` is the node as it stands, its sequence number is set here.
    pub(super) fn message(&mut self, head: ReportHead, heartbeat_due: bool, now: Timestamp) -> Option<ReportMessage> {
        let base = self.sequence;
        let pods = self.advance();
        let head = ReportHead { stamp: Stamp { sequence: self.sequence, ..head.stamp }, ..head };
        let message = if self.whole_due {
            Some(ReportMessage::Whole(Report { head, pods: self.facts.clone() }))
        } else if let Some(pods) = pods {
            Some(ReportMessage::Delta(ReportDelta { base, head, pods }))
        } else if heartbeat_due {
            Some(ReportMessage::Heartbeat(Heartbeat { stamp: head.stamp, digest: self.digest }))
        } else {
            None
        };
        if message.is_some() {
            self.whole_due = false;
            self.told_at = now;
        }
        message
    }

    /// Counts changes nobody can be told now; the next message will be whole.
    pub(super) fn withhold(&mut self) {
        if self.advance().is_some() {
            self.whole_due = true;
        }
    }

    /// When something was last told.
    pub(super) fn told_at(&self) -> Timestamp {
        self.told_at
    }

    fn advance(&mut self) -> Option<Changes<PodId, PodFacts>> {
        let pods = std::mem::take(&mut self.untold);
        if pods.is_empty() && !std::mem::take(&mut self.head_changed) {
            return None;
        }
        self.head_changed = false;
        self.sequence += 1;
        Some(pods)
    }
}
