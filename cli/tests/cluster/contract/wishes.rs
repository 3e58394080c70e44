//! Records the last accepted state of each object: the expected end of the test with a thousand requests.
//!
//! It knows what a 202 means and nothing about how it is done. Requests go out one after the other, so the order of the answers
//! is the order of the wishes.

use std::collections::{BTreeMap, BTreeSet};

/// What becomes true when a request is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
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
    /// Stopped or not; none when nothing is asked for. Instance 0 is all of them.
    Target {
        name: String,
        instance: u32,
        stopped: Option<bool>,
    },
    Remove(String),
    /// A dependency pod with so much memory.
    Want {
        name: String,
        memory: i64,
    },
    /// It goes once nothing uses it.
    Doom(String),
    /// It goes now.
    Forget(String),
}

/// A group as it shall be in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpectedGroup {
    pub(super) version: u32,
    pub(super) count: u32,
    pub(super) memory: i64,
    pub(super) stopped: BTreeSet<u32>,
}

/// A dependency pod as it shall be in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Portal {
    /// Beside every instance that needs it.
    Wanted { memory: i64 },
    /// Only where it is still used, or not at all.
    Doomed,
}

/// Everything that was accepted.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    pub(super) groups: BTreeMap<String, ExpectedGroup>,
    pub(super) portals: BTreeMap<String, Portal>,
}

impl Wishes {
    /// Remembers an accepted wish.
    pub(super) fn accepted(&mut self, wish: Wish) {
        match wish {
            Wish::Create { name, count, memory } => {
                let wanted = ExpectedGroup { version: 0, count, memory, stopped: BTreeSet::new() };
                assert_eq!(self.groups.insert(name.clone(), wanted), None, "{name} was created twice");
            }
            Wish::Remove(name) => {
                assert!(self.groups.remove(&name).is_some(), "{name} was not there and yet removed");
            }
            Wish::Scale { name, count } => {
                let group = self.group(&name);
                group.count = count;
                group.stopped.retain(|instance| *instance <= count);
            }
            Wish::Upgrade { name, memory } => {
                let group = self.group(&name);
                group.version += 1;
                group.memory = if memory == 0 { group.memory } else { memory };
            }
            Wish::Target { name, instance, stopped } => self.group(&name).target(instance, stopped),
            Wish::Want { name, memory } => {
                self.portals.insert(name, Portal::Wanted { memory });
            }
            Wish::Doom(name) => {
                self.portals.insert(name, Portal::Doomed);
            }
            Wish::Forget(name) => {
                self.portals.remove(&name);
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

    /// The instances that shall run.
    pub(super) fn running(&self) -> Vec<u32> {
        (1..=self.count).filter(|number| !self.stopped.contains(number)).collect()
    }
}
