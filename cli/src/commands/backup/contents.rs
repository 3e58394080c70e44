//! What a backup holds, in numbers a person can check.

use std::fmt;

use contract::backup::Entry;
use contract::command::{Operation, Removal};
use contract::keys::{self, Key};
use contract::record::GroupRecord;
use serde_json::Value;

/// How much there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Groups that exist to users.
    pub(super) groups: u64,
    /// Instances they want.
    pub(super) instances: u64,
    /// Records of any kind.
    pub(super) records: u64,
}

impl Contents {
    /// Counts one more entry.
    pub(super) fn count(&mut self, entry: &Entry) {
        self.records += 1;
        let Key::Group(_) = keys::parse(&entry.key) else { return };
        let value = entry.value().unwrap_or_default();
        // Of a group whose record cannot be read it is still known that it is there. The pod specs do not matter here: a backup
        // of schema 1 holds them in the record, a later one refers to them.
        let Ok(record) = serde_json::from_slice::<GroupRecord<Value>>(&value) else {
            self.groups += 1;
            return;
        };
        let leaves = record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Removing);
        if !leaves && record.removal != Removal::Orphan {
            self.groups += 1;
            self.instances += u64::try_from(record.spec.num_instances).unwrap_or(0);
        }
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} PodGroups with {} instances ({} records)", self.groups, self.instances, self.records)
    }
}
