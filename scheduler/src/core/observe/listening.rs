//! Since when a leader listens to reports, and when the last one arrived.
//!
//! A leader that received nothing from any node for a while has learned nothing about a single node: the bus may have been away.
//! It then counts its listening from the next report.

use std::time::Duration;

use contract::time::Timestamp;

#[derive(Debug)]
pub(in crate::core) struct Listening {
    since: Timestamp,
    /// When the last report of any node arrived.
    last_report: Timestamp,
}

impl Listening {
    pub(in crate::core) fn start(now: Timestamp) -> Self {
        Self { since: now, last_report: now }
    }

    /// Since when reports arrive without a break.
    pub(in crate::core) fn since(&self) -> Timestamp {
        self.since
    }

    /// No node reported for this time.
    pub(super) fn is_cut_off(&self, now: Timestamp, silence: Duration) -> bool {
        now.since(self.last_report) >= silence
    }

    pub(super) fn has_report_after(&self, time: Timestamp) -> bool {
        self.last_report > time
    }

    pub(super) fn note_report(&mut self, now: Timestamp) {
        self.last_report = now;
    }

    pub(super) fn restart(&mut self, now: Timestamp) {
        self.since = now;
    }
}
