//! Gives stream ports to groups that waited for them.
//!
//! Taking a claim away needs no write of its own: it goes with the group's record. A waiting group that gets its ports is
//! deployed as if it had just been created. The surprise: a group also has the ports of the versions it is leaving, until
//! none of its instances may go back to them.

use contract::command::Operation;
use contract::name::GroupName;
use contract::ports;
use contract::query::PortClaim;
use contract::record::{GroupRecord, OperationRecord};
use planner::ports::GroupClaim;

use super::commit::Bundle;
use super::leader::Leading;
use super::quarantine::Object;
use super::state::{State, is_removal};

/// What a record says about ports; none when the group goes away and has given them back.
pub(super) fn claim(record: &GroupRecord) -> Option<GroupClaim> {
    let mut ports = ports::declared(&record.spec.pod.annotation);
    for port in record.former.values().rev().flat_map(|pod| ports::declared(&pod.annotation)) {
        // An instance may still use it, and who goes back to that version must find it.
        if ports.iter().all(|own| (own.srcport, &own.proto) != (port.srcport, &port.proto)) {
            ports.push(port);
        }
    }
    let claim = GroupClaim { since: record.spec.created_at, ports, waits: !record.taken_ports.is_empty() };
    (!is_removal(record)).then_some(claim)
}

impl State {
    /// Every port that is taken.
    pub(super) fn port_claims(&self) -> Vec<PortClaim> {
        let shown = |(port, name): (&ports::StreamPort, &GroupName)| {
            let namespace = self.groups.get(name)?.record.spec.namespace.clone();
            Some(PortClaim { port: port.clone(), namespace, group: name.clone() })
        };
        self.claims.owned().filter_map(shown).collect()
    }
}

impl Leading<'_> {
    /// Ports may have become free: who waited for them is deployed.
    pub(super) fn grant_ports(&mut self) {
        if !std::mem::take(&mut self.lead.ports_freed) {
            return;
        }
        for name in self.state.claims.grants() {
            self.guarded(&Object::Group(name.clone()), |leading| leading.grant_ports_of(name));
        }
    }

    fn grant_ports_of(&mut self, name: GroupName) {
        let Some(group) = self.state.groups.get(&name) else { return };
        let operation = OperationRecord::new(Operation::Deploying, self.now);
        let operation = (!group.record.spec.has_strategy()).then_some(operation);
        let record = GroupRecord { operation, updated_at: self.now, taken_ports: Vec::new(), ..group.record.clone() };
        let writes = vec![self.set_record(&name, record)];
        self.lead.dirty.insert(name);
        self.decide(Bundle { writes, ..Bundle::default() });
    }
}
