//! Records the last accepted state of each object: the expected end of the test with a thousand requests.
//!
//! It knows what a 202 means and nothing about how it is done. Requests go out one after the other, so the order of the answers
//! is the order of the changes.

use std::collections::{BTreeMap, BTreeSet};

/// What becomes true when a request is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AcceptedChange {
    Create {
        name: String,
        count: u32,
        memory: i64,
    },
    Scale {
        name: String,
        count: u32,
    },
    Upgrade {
        name: String,
        memory: i64,
    },
    /// Whether to stop or start an instance; `None` leaves it as it is. Instance 0 is all of them.
    Target {
        name: String,
        instance: u32,
        stopped: Option<bool>,
    },
    Remove(String),
    CreateDependency {
        name: String,
        memory: i64,
    },
    /// Removed as soon as no instance uses it.
    RemoveUnusedDependency(String),
    /// Removed at once.
    RemoveDependency(String),
}

/// A group's expected final state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpectedGroup {
    pub(super) version: u32,
    pub(super) count: u32,
    pub(super) memory: i64,
    pub(super) stopped: BTreeSet<u32>,
}

/// A dependency pod's expected final state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedDependency {
    /// Beside every instance that needs it.
    Everywhere { memory: i64 },
    /// Only where it is still used, or not at all.
    OnlyWhereUsed,
}

/// Everything that was accepted.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) groups: BTreeMap<String, ExpectedGroup>,
    pub(super) dependencies: BTreeMap<String, ExpectedDependency>,
}

impl Expected {
    /// Records an accepted change.
    pub(super) fn accepted(&mut self, change: AcceptedChange) {
        match change {
            AcceptedChange::Create { name, count, memory } => {
                let wanted = ExpectedGroup { version: 0, count, memory, stopped: BTreeSet::new() };
                assert_eq!(self.groups.insert(name.clone(), wanted), None, "{name} was created twice");
            }
            AcceptedChange::Remove(name) => {
                assert!(self.groups.remove(&name).is_some(), "{name} was not there and yet removed");
            }
            AcceptedChange::Scale { name, count } => {
                let group = self.group(&name);
                group.count = count;
                group.stopped.retain(|instance| *instance <= count);
            }
            AcceptedChange::Upgrade { name, memory } => {
                let group = self.group(&name);
                group.version += 1;
                group.memory = if memory == 0 { group.memory } else { memory };
            }
            AcceptedChange::Target { name, instance, stopped } => self.group(&name).target(instance, stopped),
            AcceptedChange::CreateDependency { name, memory } => {
                self.dependencies.insert(name, ExpectedDependency::Everywhere { memory });
            }
            AcceptedChange::RemoveUnusedDependency(name) => {
                self.dependencies.insert(name, ExpectedDependency::OnlyWhereUsed);
            }
            AcceptedChange::RemoveDependency(name) => {
                self.dependencies.remove(&name);
            }
        }
    }

    fn group(&mut self, name: &str) -> &mut ExpectedGroup {
        self.groups.get_mut(name).unwrap_or_else(|| panic!("{name} does not exist and yet was changed"))
    }
}

impl ExpectedGroup {
    fn target(&mut self, instance: u32, stopped: Option<bool>) {
        let Some(stopped) = stopped else { return };
        let meant: Vec<u32> = (1..=self.count).filter(|number| instance == 0 || instance == *number).collect();
        for number in meant {
            if stopped {
                self.stopped.insert(number);
            } else {
                self.stopped.remove(&number);
            }
        }
    }

    /// The instances that must run.
    pub(super) fn running(&self) -> Vec<u32> {
        (1..=self.count).filter(|number| !self.stopped.contains(number)).collect()
    }
}
