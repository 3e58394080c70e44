//! When to look at what again: one time per subject, the earliest first.

use std::collections::{BTreeMap, BTreeSet};

use contract::name::{GroupName, NodeName};
use contract::time::Timestamp;

use super::events::conditions::Concern;

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// Whether a node is still heard.
    Node(NodeName),
    /// A group whose plan waits for a time.
    Group(GroupName),
    /// A group that is coming up, and may not get on.
    ComingUp(GroupName),
    /// A dependency pod whose plan waits for a time.
    Dependency(GroupName),
    /// A node's order that was not answered.
    Order(NodeName),
    /// The orders that wait for others to be answered.
    Line,
    /// Something that stands and may have to be told.
    Condition(Concern),
    /// The nodes that went silent.
    Losses,
    /// The groups that wait for a place.
    Waiting,
    /// The next group of the slow sweep.
    Sweep,
    /// Pages of history that changed.
    History,
    /// The commit that may or may not be stored.
    Commit,
}

/// The alarms that are set.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    by_time: BTreeSet<(Timestamp, Alarm)>,
    by_subject: BTreeMap<Alarm, Timestamp>,
}

impl Alarms {
    /// Sets, moves or clears the alarm of a subject.
    pub(super) fn set(&mut self, alarm: Alarm, at: Option<Timestamp>) {
        if let Some(before) = self.by_subject.remove(&alarm) {
            self.by_time.remove(&(before, alarm.clone()));
        }
        if let Some(at) = at {
            self.by_time.insert((at, alarm.clone()));
            self.by_subject.insert(alarm, at);
        }
    }
    /// Sets the alarm unless it is set already.
    pub(super) fn set_once(&mut self, alarm: Alarm, at: Timestamp) {
        if !self.by_subject.contains_key(&alarm) {
            self.set(alarm, Some(at));
        }
    }
    /// Sets the alarm to `at` unless it is set to an earlier time.
    pub(super) fn set_earlier(&mut self, alarm: Alarm, at: Timestamp) {
        if self.by_subject.get(&alarm).is_none_or(|before| *before > at) {
            self.set(alarm, Some(at));
        }
    }
    /// Takes the alarms whose time has come. What is set while they ring waits for the next look, even when it is due: a
    /// subject that is always due must not keep the leader from everything else.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<Alarm> {
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<Alarm> = due.map(|(_, alarm)| alarm.clone()).collect();
        for alarm in &due {
            self.set(alarm.clone(), None);
        }
        due
    }
    /// The earliest time.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }
}
