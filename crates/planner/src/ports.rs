//! Decides which group owns which stream port.
//!
//! A group gets all its ports or none. The first claim wins until that group is removed; a later group waits and reserves
//! nothing, so two groups never wait for each other. Everything follows from the stored records: every leader finds the same
//! owners. Records older than claims may contain a port twice; then the older group owns it, and the younger one gets it when
//! the older is removed.

use std::collections::{BTreeMap, BTreeSet};

use contract::name::GroupName;
use contract::ports::StreamPort;
use contract::time::Timestamp;

/// The ports of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupClaim {
    /// When the group was created: the oldest waiting group is served first.
    pub since: Timestamp,
    /// The ports it declares.
    pub ports: Vec<StreamPort>,
    /// They were taken when it claimed them: it owns none of them yet.
    pub waits: bool,
}

/// All claims of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortClaims {
    by_group: BTreeMap<GroupName, GroupClaim>,
    /// Groups that hold a port; more than one only in records older than claims.
    holders: BTreeMap<u16, BTreeSet<(Timestamp, GroupName)>>,
    waiting: BTreeSet<(Timestamp, GroupName)>,
}

impl PortClaims {
    /// Replaces a group's claim.
    pub fn set(&mut self, name: &GroupName, claim: GroupClaim) {
        self.cancel(name);
        if claim.ports.is_empty() {
            return;
        }
        let entry = (claim.since, name.clone());
        if claim.waits {
            self.waiting.insert(entry);
        } else {
            for port in &claim.ports {
                self.holders.entry(port.srcport).or_default().insert(entry.clone());
            }
        }
        self.by_group.insert(name.clone(), claim);
    }

    pub fn cancel(&mut self, name: &GroupName) {
        let Some(claim) = self.by_group.remove(name) else { return };
        let entry = (claim.since, name.clone());
        self.waiting.remove(&entry);
        for port in &claim.ports {
            if let Some(holders) = self.holders.get_mut(&port.srcport) {
                holders.remove(&entry);
                if holders.is_empty() {
                    self.holders.remove(&port.srcport);
                }
            }
        }
    }

    pub fn owner(&self, srcport: u16) -> Option<&GroupName> {
        self.holders.get(&srcport)?.first().map(|(_, name)| name)
    }

    pub fn of(&self, name: &GroupName) -> Option<&GroupClaim> {
        self.by_group.get(name)
    }

    /// Those of `ports` that another group than `name` holds.
    pub fn taken(&self, name: &GroupName, ports: &[StreamPort]) -> Vec<u16> {
        let others = |port: &u16| self.holders.get(port).into_iter().flatten().any(|(_, holder)| holder != name);
        let mut seen = BTreeSet::new();
        ports.iter().map(|port| port.srcport).filter(|port| seen.insert(*port)).filter(others).collect()
    }

    /// Every port with its owner, sorted by number: one for each protocol.
    pub fn owned(&self) -> impl Iterator<Item = (&StreamPort, &GroupName)> {
        self.holders.keys().flat_map(|srcport| {
            let owner = self.owner(*srcport).and_then(|name| Some((name, self.by_group.get(name)?)));
            let ports = owner.into_iter().flat_map(|(name, claim)| claim.ports.iter().map(move |port| (port, name)));
            ports.filter(|(port, _)| port.srcport == *srcport)
        })
    }

    /// The waiting groups that get all their ports now, the oldest first; no group gets a part.
    pub fn grants(&self) -> Vec<GroupName> {
        let mut given: BTreeSet<u16> = BTreeSet::new();
        let mut granted = Vec::new();
        for (_, name) in &self.waiting {
            let Some(claim) = self.by_group.get(name) else { continue };
            let free = |port: &StreamPort| !self.holders.contains_key(&port.srcport) && !given.contains(&port.srcport);
            if claim.ports.iter().all(free) {
                given.extend(claim.ports.iter().map(|port| port.srcport));
                granted.push(name.clone());
            }
        }
        granted
    }
}

/// The error of a group that waits for ports; the text is the original's.
pub fn sentence(name: &str, taken: &[u16]) -> String {
    let ports: Vec<String> = taken.iter().map(u16::to_string).collect();
    format!("Cannot start podgroup {name}, some ports like [{}] were alerady in used!", ports.join(" "))
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
