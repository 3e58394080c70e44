//! Gives stream ports to groups that waited for them.
//!
//! Taking a claim away needs no write of its own: it goes with the group's record. A waiting group that gets its ports is
//! deployed as if it had just been created.

use contract::command::Operation;
use contract::keys;
use contract::ports;
use contract::query::PortClaim;
use contract::record::{GroupRecord, OperationRecord};
use planner::ports::Claim;

use super::commit::{self, Bundle};
use super::leader::Leading;
use super::state::State;

/// What a record says about ports; none when the group goes away and has given them back.
pub(super) fn claim(record: &GroupRecord) -> Option<Claim> {
    let removing = record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Removing);
    (!removing).then(|| Claim {
        since: record.spec.created_at,
        ports: ports::declared(&record.spec.pod.annotation),
        waits: !record.taken_ports.is_empty(),
    })
}

impl State {
    /// Every port that is taken.
    pub(super) fn port_claims(&self) -> Vec<PortClaim> {
        let shown = |(port, name): (&ports::StreamPort, &contract::name::GroupName)| {
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
            let Some(group) = self.state.groups.get(&name) else { continue };
            let operation = Some(OperationRecord { kind: Operation::Deploying, since: self.now });
            let record =
                GroupRecord { operation, updated_at: self.now, taken_ports: Vec::new(), ..group.record.clone() };
            let writes = vec![commit::put(keys::group(&name), &record)];
            self.state.put_group(&name, record, self.settings.quota_cores);
            self.lead.dirty.insert(name);
            self.decide(Bundle { writes, ..Bundle::default() });
        }
    }
}
