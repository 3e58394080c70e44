//! Every stream port has one owner, which keeps it until it is removed, whichever scheduler leads.
//!
//! Read from the records, without the code under test: a group that does not wait owns every port of its current version and of
//! the versions it may return to.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::Operation;
use contract::name::GroupName;
use contract::ports;
use contract::record::GroupRecord;
use contract::time::Timestamp;

use crate::checks::instances::StoredGroup;
use crate::checks::invariants::{Invariant, Violation};

/// Identifies a group; a later group may have the same name.
type Life = (GroupName, Timestamp);

#[derive(Debug, Default)]
pub struct StreamPorts {
    owners: BTreeMap<u16, Life>,
}

impl StreamPorts {
    pub fn check(&mut self, stored: &BTreeMap<GroupName, StoredGroup>) -> Result<(), Violation> {
        let broken = |detail: String| Err(Violation { invariant: Invariant::PortsHaveOneOwner, detail });
        let mut owners: BTreeMap<u16, Life> = BTreeMap::new();
        for (name, StoredGroup { record, instances, .. }) in present(stored) {
            for port in declared(record).into_iter().filter(|_| record.taken_ports.is_empty()) {
                let life = (name.clone(), record.spec.created_at);
                if let Some((other, _)) = owners.insert(port, life) {
                    return broken(format!("{port} belongs to {other} and to {name}"));
                }
            }
            if !record.taken_ports.is_empty() && !instances.is_empty() {
                return broken(format!("{name} waits for {:?} and is placed", record.taken_ports));
            }
        }
        for (port, (name, since)) in &self.owners {
            let lives = |record: &GroupRecord| record.spec.created_at == *since && declared(record).contains(port);
            if present(stored).any(|(group, stored)| group == name && lives(&stored.record))
                && owners.get(port) != Some(&(name.clone(), *since))
            {
                return broken(format!("{port} was taken from {name}, now {:?}", owners.get(port)));
            }
        }
        self.owners = owners;
        Ok(())
    }

    /// Groups that wait for ports that are free: the leader would never deploy them.
    pub fn forgotten(&self, stored: &BTreeMap<GroupName, StoredGroup>) -> Vec<String> {
        let waits_for_nothing = |(name, StoredGroup { record, .. }): (&GroupName, &StoredGroup)| {
            let free = declared(record).iter().all(|port| !self.owners.contains_key(port));
            (!record.taken_ports.is_empty() && free).then(|| format!("{name} waits for ports that are free"))
        };
        present(stored).filter_map(waits_for_nothing).collect()
    }
}

fn declared(record: &GroupRecord) -> BTreeSet<u16> {
    let pods = record.former.values().chain([&record.spec.pod]);
    pods.flat_map(|pod| ports::declared(&pod.annotation)).map(|port| port.srcport).collect()
}

/// Groups that are not being removed.
fn present(stored: &BTreeMap<GroupName, StoredGroup>) -> impl Iterator<Item = (&GroupName, &StoredGroup)> {
    let removing = |record: &GroupRecord| record.operation.as_ref().is_some_and(|o| o.kind == Operation::Removing);
    stored.iter().filter(move |(_, stored)| !removing(&stored.record))
}
