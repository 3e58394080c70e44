//! Stream ports as they are stored: one owner each, who keeps them until it goes, whoever leads.
//!
//! Read from the records alone, without the code under test: a group that waits for nothing owns every port it declares.

use std::collections::BTreeMap;

use contract::command::Operation;
use contract::keys::{self, Key};
use contract::name::GroupName;
use contract::ports;
use contract::record::{GroupRecord, PlacementRecord};
use contract::time::Timestamp;

use crate::invariants::{Invariant, Violation};
use crate::store::Store;

/// One life of a group: a name may come back.
type Life = (GroupName, Timestamp);

/// Who had which port at the last look.
#[derive(Debug, Default)]
pub struct Claims {
    owners: BTreeMap<u16, Life>,
}

impl Claims {
    /// A commit is stored.
    pub fn check(&mut self, store: &Store) -> Result<(), Violation> {
        let broken = |detail: String| Err(Violation { invariant: Invariant::PortsHaveOneOwner, detail });
        let mut owners: BTreeMap<u16, Life> = BTreeMap::new();
        let records = records(store);
        for (name, record) in &records {
            for port in ports::declared(&record.spec.pod.annotation) {
                let life = (name.clone(), record.spec.created_at);
                if record.taken_ports.is_empty()
                    && let Some((other, _)) = owners.insert(port.srcport, life)
                {
                    return broken(format!("{} belongs to {other} and to {name}", port.srcport));
                }
            }
            let placed: PlacementRecord = store.read(&keys::placement(name)).unwrap_or_default();
            if !record.taken_ports.is_empty() && !placed.slots.is_empty() {
                return broken(format!("{name} waits for {:?} and is placed", record.taken_ports));
            }
        }
        for (port, (name, since)) in &self.owners {
            let lives = records.get(name).is_some_and(|record| record.spec.created_at == *since);
            if lives && owners.get(port) != Some(&(name.clone(), *since)) {
                return broken(format!("{port} was taken from {name}, now {:?}", owners.get(port)));
            }
        }
        self.owners = owners;
        Ok(())
    }

    /// Groups that wait although all their ports are free: nobody would ever deploy them.
    pub fn forgotten(&self, store: &Store) -> Vec<String> {
        let waits_for_nothing = |(name, record): (GroupName, GroupRecord)| {
            let declared = ports::declared(&record.spec.pod.annotation);
            let free = declared.iter().all(|port| !self.owners.contains_key(&port.srcport));
            (!record.taken_ports.is_empty() && free).then(|| format!("{name} waits for ports that are free"))
        };
        records(store).into_iter().filter_map(waits_for_nothing).collect()
    }
}

/// Groups that are there and not on their way out.
fn records(store: &Store) -> BTreeMap<GroupName, GroupRecord> {
    let group = |(key, value): (&String, &Vec<u8>)| {
        let Key::Group(name) = keys::parse(key) else { return None };
        Some((name, serde_json::from_slice::<GroupRecord>(value).ok()?))
    };
    let all = store.keys().iter().filter_map(|(key, value)| group((key, value)));
    let removing = |record: &GroupRecord| record.operation.as_ref().is_some_and(|o| o.kind == Operation::Removing);
    all.filter(|(_, record)| !removing(record)).collect()
}
