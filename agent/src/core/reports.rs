//! Keeps what this node tells the schedulers, and turns changes of it into the smallest message that tells them.
//!
//! Every change raises the sequence number, published or not: a scheduler that missed one sees the gap and asks for
//! the whole. All changes of one input travel in one delta. That many pods are about to be made is nothing anybody waits for, and
//! is told with what becomes of them: it would be half of everything that is reported while a cluster is filled.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::delta::Changes;
use contract::digest::Digest;
use contract::pod_id::{InstanceKey, PodId};
use contract::report::{Heartbeat, PodFacts, Report, ReportDelta, ReportHead, ReportMessage, Stamp};
use contract::state::RunState;
use contract::time::Timestamp;

use super::instance_range;

/// What nobody waits for is told after so long: most containers are made within it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The report as it stands and what was not told yet.
#[derive(Debug)]
pub(super) struct Reporter {
    facts: BTreeMap<PodId, PodFacts>,
    digest: Digest,
    sequence: u64,
    untold: Changes<PodId, PodFacts>,
    head_changed: bool,
    whole_due: bool,
    /// Since when there is something untold that can wait.
    can_wait_since: Option<Timestamp>,
    /// Something untold cannot wait.
    presses: bool,
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
            can_wait_since: None,
            presses: true,
            told_at: Timestamp::NEVER,
        }
    }

    /// What was last told of `pod`.
    pub(super) fn get(&self, pod: &PodId) -> Option<&PodFacts> {
        self.facts.get(pod)
    }

    /// The pods of one lane that are in the report.
    pub(super) fn pods_of(&self, key: &InstanceKey) -> impl Iterator<Item = &PodId> {
        self.facts.range(instance_range(key)).map(|(pod, _)| pod)
    }

    /// Notes what `pod` looks like now; facts equal but for their time are no change.
    pub(super) fn set(&mut self, pod: &PodId, facts: Option<PodFacts>, now: Timestamp) {
        let before = self.facts.get(pod);
        let facts = facts.map(|facts| PodFacts { updated_at: before.map_or(now, |before| before.updated_at), ..facts });
        if before == facts.as_ref() {
            return;
        }
        let is_to_be_made = |facts: &PodFacts| facts.state == RunState::Pending && facts.last_error.is_empty();
        if before.is_none() && facts.as_ref().is_some_and(is_to_be_made) {
            self.can_wait_since.get_or_insert(now);
        } else {
            self.presses = true;
        }
        let facts = facts.map(|facts| PodFacts { updated_at: now, ..facts });
        if let Some(before) = before {
            self.digest = self.digest.without(before.digest(pod));
        }
        match facts {
            Some(facts) => {
                self.digest = self.digest.with(facts.digest(pod));
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
        self.presses = true;
    }

    /// The node obeys an order that only makes pods, and many: nobody waits to hear of that before they are made.
    pub(super) fn head_changed_in_passing(&mut self, now: Timestamp) {
        self.head_changed = true;
        self.can_wait_since.get_or_insert(now);
    }

    /// The next message must be whole.
    pub(super) fn ask_whole(&mut self) {
        self.whole_due = true;
    }

    /// Whether there is something to publish.
    pub(super) fn is_due(&self, heartbeat_due: bool, now: Timestamp) -> bool {
        heartbeat_due || self.whole_due || self.presses || self.waits_until().is_some_and(|until| until <= now)
    }

    /// When what can wait has waited long enough.
    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        self.can_wait_since.map(|since| since + PATIENCE)
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
        self.can_wait_since = None;
        self.presses = false;
        if pods.is_empty() && !std::mem::take(&mut self.head_changed) {
            return None;
        }
        self.head_changed = false;
        self.sequence += 1;
        Some(pods)
    }
}
