//! Grants stream ports to groups that wait for them.
//!
//! A claim is part of the group's record, so returning it needs no write of its own. A group that gets its ports is deployed as
//! if it had just been created. A group also keeps the ports of the revisions that it leaves, until no instance can return to
//! them.

use contract::command::Operation;
use contract::name::GroupName;
use contract::ports;
use contract::query::PortClaim;
use contract::record::{GroupRecord, OperationRecord};
use planner::ports::GroupClaim;

use crate::core::commit::Bundle;
use crate::core::leader::Leading;
use crate::core::state::quarantine::Object;
use crate::core::state::{State, is_removal};

use super::apply;

/// The ports that a record claims; none when the group is being removed and has returned them.
pub(in crate::core) fn claim(record: &GroupRecord) -> Option<GroupClaim> {
    let mut ports = ports::declared(&record.spec.pod.annotation);
    for port in record.former.values().rev().flat_map(|pod| ports::declared(&pod.annotation)) {
        // An instance may still use the port, and a rollback to that revision needs it.
        if ports.iter().all(|own| (own.srcport, &own.proto) != (port.srcport, &port.proto)) {
            ports.push(port);
        }
    }
    let claim = GroupClaim { since: record.spec.created_at, ports, waits: !record.taken_ports.is_empty() };
    (!is_removal(record)).then_some(claim)
}

impl State {
    /// Every port that is taken.
    pub(in crate::core) fn port_claims(&self) -> Vec<PortClaim> {
        let shown = |(port, name): (&ports::StreamPort, &GroupName)| {
            let namespace = self.groups.get(name)?.record.spec.namespace.clone();
            Some(PortClaim { port: port.clone(), namespace, group: name.clone() })
        };
        self.claims().owned().filter_map(shown).collect()
    }
}

/// Ports may be free now: deploys the groups that wait for them.
pub(in crate::core) fn grant_ports(leading: &mut Leading<'_>) {
    if !leading.lead.queue.take_ports_freed() {
        return;
    }
    for name in leading.state.claims().grants() {
        leading.guarded(&Object::Group(name.clone()), |leading| grant_ports_of(leading, name));
    }
}

fn grant_ports_of(leading: &mut Leading<'_>, name: GroupName) {
    let Some(group) = leading.state.groups.get(&name) else { return };
    let operation = OperationRecord::new(Operation::Deploying, leading.now);
    let operation = (!group.record.spec.has_strategy()).then_some(operation);
    let record = GroupRecord { operation, updated_at: leading.now, taken_ports: Vec::new(), ..group.record.clone() };
    let writes = vec![apply::set_record(leading, &name, record)];
    leading.lead.queue.mark(name);
    leading.decide(Bundle { writes, ..Bundle::default() });
}
