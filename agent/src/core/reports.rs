//! Builds the node's report: a whole report, a delta or a heartbeat, whichever is smallest.
//!
//! Every change raises the sequence number, published or not: a scheduler that missed one sees the gap and requests the
//! whole report. All changes of one input travel in one delta. "Pending" facts of new pods wait up to 1 s for their results:
//! they would double the reports while a cluster fills.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::delta::Changes;
use contract::digest::Digest;
use contract::pod_id::{InstanceKey, PodId};
use contract::report::{Heartbeat, PodFacts, Report, ReportDelta, ReportHead, ReportMessage, Stamp};
use contract::state::RunState;
use contract::time::Timestamp;

use super::instance_range;

/// Longest deferral; most containers are created within it.
const DEFERRAL: Duration = Duration::from_secs(1);

/// The current report and its unpublished changes.
#[derive(Debug)]
pub(super) struct Reporter {
    facts: BTreeMap<PodId, PodFacts>,
    digest: Digest,
    sequence: u64,
    unpublished: Changes<PodId, PodFacts>,
    head_changed: bool,
    whole_due: bool,
    /// Since when a deferrable change waits.
    deferred_since: Option<Timestamp>,
    /// A change must be published now.
    is_urgent: bool,
    published_at: Timestamp,
}

impl Reporter {
    pub(super) fn new() -> Self {
        Self {
            facts: BTreeMap::new(),
            digest: Digest::default(),
            sequence: 0,
            unpublished: Changes::default(),
            head_changed: true,
            whole_due: true,
            deferred_since: None,
            is_urgent: true,
            published_at: Timestamp::NEVER,
        }
    }

    /// The reported facts of `pod`.
    pub(super) fn get(&self, pod: &PodId) -> Option<&PodFacts> {
        self.facts.get(pod)
    }

    /// The reported pods of one instance.
    pub(super) fn pods_of(&self, key: &InstanceKey) -> impl Iterator<Item = &PodId> {
        self.facts.range(instance_range(key)).map(|(pod, _)| pod)
    }

    /// Sets the facts of `pod`; a different `updated_at` alone is no change.
    pub(super) fn set(&mut self, pod: &PodId, facts: Option<PodFacts>, now: Timestamp) {
        let before = self.facts.get(pod);
        let facts = facts.map(|facts| PodFacts { updated_at: before.map_or(now, |before| before.updated_at), ..facts });
        if before == facts.as_ref() {
            return;
        }
        let is_pending = |facts: &PodFacts| facts.state == RunState::Pending && facts.last_error.is_empty();
        if before.is_none() && facts.as_ref().is_some_and(is_pending) {
            self.deferred_since.get_or_insert(now);
        } else {
            self.is_urgent = true;
        }
        let facts = facts.map(|facts| PodFacts { updated_at: now, ..facts });
        if let Some(before) = before {
            self.digest = self.digest.without(before.digest(pod));
        }
        match facts {
            Some(facts) => {
                self.digest = self.digest.with(facts.digest(pod));
                self.unpublished.gone.remove(pod);
                self.unpublished.put.insert(pod.clone(), facts.clone());
                self.facts.insert(pod.clone(), facts);
            }
            None => {
                self.unpublished.put.remove(pod);
                self.unpublished.gone.insert(pod.clone());
                self.facts.remove(pod);
            }
        }
    }

    /// The order or the state of the engine changed.
    pub(super) fn head_changed(&mut self) {
        self.head_changed = true;
        self.is_urgent = true;
    }

    /// As `head_changed`, deferrable: the order only creates many pods.
    pub(super) fn head_changed_deferrable(&mut self, now: Timestamp) {
        self.head_changed = true;
        self.deferred_since.get_or_insert(now);
    }

    /// The next message is a whole report.
    pub(super) fn request_whole(&mut self) {
        self.whole_due = true;
    }

    pub(super) fn is_due(&self, heartbeat_due: bool, now: Timestamp) -> bool {
        heartbeat_due || self.whole_due || self.is_urgent || self.deferred_until().is_some_and(|until| until <= now)
    }

    /// When deferred changes are published.
    pub(super) fn deferred_until(&self) -> Option<Timestamp> {
        self.deferred_since.map(|since| since + DEFERRAL)
    }

    /// The message to publish; sets the sequence number of `head`.
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
            self.published_at = now;
        }
        message
    }

    /// Numbers the changes without publishing them; the next message will be whole.
    pub(super) fn withhold(&mut self) {
        if self.advance().is_some() {
            self.whole_due = true;
        }
    }

    /// When the last message was published.
    pub(super) fn published_at(&self) -> Timestamp {
        self.published_at
    }

    fn advance(&mut self) -> Option<Changes<PodId, PodFacts>> {
        let pods = std::mem::take(&mut self.unpublished);
        self.deferred_since = None;
        self.is_urgent = false;
        if pods.is_empty() && !std::mem::take(&mut self.head_changed) {
            return None;
        }
        self.head_changed = false;
        self.sequence += 1;
        Some(pods)
    }
}
