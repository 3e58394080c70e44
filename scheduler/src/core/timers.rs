//! Timers of the leader: one time per subject, the earliest first.

use std::collections::{BTreeMap, BTreeSet};

use contract::name::{GroupName, NodeName};
use contract::time::Timestamp;

use super::events::conditions::ConditionKey;

/// What to check when the time has come.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Whether a node still reports.
    Node(NodeName),
    /// A group whose plan has a `wake_at`.
    Group(GroupName),
    /// A group that starts and whose reports are coalesced.
    Coalesced(GroupName),
    /// A dependency pod whose plan has a `wake_at`.
    Dependency(GroupName),
    /// A node's order that was not answered.
    Order(NodeName),
    /// The orders that wait for others to be answered.
    Window,
    /// A condition that may have to be reported.
    Condition(ConditionKey),
    /// The nodes that went silent.
    Losses,
    /// The groups that wait for a place.
    Unschedulable,
    /// The next group of the slow sweep.
    Sweep,
    /// Pages of history that changed.
    History,
    /// The commit that may or may not be stored.
    Commit,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(Timestamp, Timer)>,
    by_subject: BTreeMap<Timer, Timestamp>,
}

impl Timers {
    /// Sets, moves or clears the timer of a subject.
    pub(super) fn set(&mut self, timer: Timer, at: Option<Timestamp>) {
        if let Some(before) = self.by_subject.remove(&timer) {
            self.by_time.remove(&(before, timer.clone()));
        }
        if let Some(at) = at {
            self.by_time.insert((at, timer.clone()));
            self.by_subject.insert(timer, at);
        }
    }
    /// Sets the timer unless it is set already.
    pub(super) fn set_once(&mut self, timer: Timer, at: Timestamp) {
        if !self.by_subject.contains_key(&timer) {
            self.set(timer, Some(at));
        }
    }
    /// Sets the timer to `at` unless it is set to an earlier time.
    pub(super) fn set_earlier(&mut self, timer: Timer, at: Timestamp) {
        if self.by_subject.get(&timer).is_none_or(|before| *before > at) {
            self.set(timer, Some(at));
        }
    }
    /// Takes the timers that are due. A timer that is set while they fire waits for the next input even if it is due, so a
    /// subject that is always due cannot starve the others.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<Timer> {
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<Timer> = due.map(|(_, timer)| timer.clone()).collect();
        for timer in &due {
            self.set(timer.clone(), None);
        }
        due
    }
    /// The earliest time.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }
}
