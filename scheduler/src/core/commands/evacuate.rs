//! Moves instances away from a node: decides which groups a drift or an evacuation concerns, and writes it into their records.
//!
//! A drift waits in the record for the group's lock. A node with more groups than one transaction holds needs several, and the
//! last one contains the outcome. If the leader fails in between, the command has no outcome and is applied again. That is safe:
//! groups that have the drift already or left the node are skipped.

use std::collections::BTreeSet;

use contract::command::{Drift, Refusal};
use contract::name::{GroupName, NodeName};
use contract::node::Cordon;
use contract::record::{GroupRecord, Instance};
use contract::switches::Constraint;

use crate::core::commit::{self, Bundle};
use crate::core::io::{Mutant, Write};
use crate::core::leader::Leading;
use crate::core::reconcile;
use crate::core::state::Group;

use super::{cluster, nodes};

/// Drifts of one group that wait at most.
const MOST_DRIFTS: usize = 16;

/// Instances leave a node: those of one group, or of every group there.
pub(super) fn drift(leading: &mut Leading<'_>, drift: &Drift, group: Option<&GroupName>) -> Result<Bundle, Refusal> {
    if drift.to.as_ref() == Some(&drift.from) {
        return Err(Refusal::Malformed { reason: "from node equals to target node".to_owned() });
    }
    if drift.instance == Some(0) {
        return Err(Refusal::Malformed { reason: "instances are counted from 1".to_owned() });
    }
    let records = match group {
        Some(name) => drifting_group(leading, drift, name)?,
        None => drifting_groups(leading, drift)?,
    };
    Ok(record_drifts(leading, records, Vec::new()))
}

/// Every instance leaves the node, and a soft constraint keeps new ones away.
pub(super) fn evacuate(leading: &mut Leading<'_>, node: NodeName) -> Result<Bundle, Refusal> {
    let value = node.to_string();
    let drift = Drift { from: node, to: None, force: true, instance: None };
    let records = drifting_groups(leading, &drift)?;
    let constraint = Constraint { kind: "node".to_owned(), equal: false, value, soft: true };
    let constraint = cluster::set_constraint(leading, constraint)?;
    let bundle = record_drifts(leading, records, constraint.writes);
    Ok(Bundle { effects: constraint.effects, ..bundle })
}

/// Moves the instances of a cordoned node away; stateful instances stay unless `force`.
pub(super) fn drain(
    leading: &mut Leading<'_>,
    node: &NodeName,
    force: bool,
    cordon: Cordon,
) -> Result<Bundle, Refusal> {
    let drift = Drift { from: node.clone(), to: None, force, instance: None };
    let records = drifting_groups(leading, &drift)?;
    let cordon = nodes::cordoned(leading, node, cordon);
    let bundle = record_drifts(leading, records, cordon.writes);
    Ok(Bundle { effects: cordon.effects, ..bundle })
}

/// An unknown group is no error: the original accepts any name. Neither is a locked one: lainctl waits for the moved container
/// in any case, so the drift waits for the lock.
fn drifting_group(
    leading: &Leading<'_>,
    drift: &Drift,
    name: &GroupName,
) -> Result<Vec<(GroupName, GroupRecord)>, Refusal> {
    let Some(group) = leading.state.groups.get(name).filter(|group| group.is_present()) else {
        return Ok(Vec::new());
    };
    let instances = group.highest_number();
    if let Some(instance) = drift.instance.filter(|instance| *instance > instances) {
        return Err(Refusal::InstanceUnknown { instance, instances });
    }
    let drifting = concerns(drift, group).then(|| drifting(drift, group)).transpose()?.flatten();
    Ok(drifting.map(|record| (name.clone(), record)).into_iter().collect())
}

/// Every group with an instance there, locked or not.
fn drifting_groups(leading: &Leading<'_>, drift: &Drift) -> Result<Vec<(GroupName, GroupRecord)>, Refusal> {
    let mut records = Vec::new();
    // An instance that leaves the node is not placed there any more, but may wait forever for a lost node to confirm that.
    let leaving = leading.lead.queue.waiting_on(&drift.from).cloned();
    let concerned: BTreeSet<GroupName> = leading.state.groups_on(&drift.from).into_iter().chain(leaving).collect();
    for name in concerned {
        let Some(group) = leading.state.groups.get(&name).filter(|group| concerns(drift, group)) else { continue };
        records.extend(drifting(drift, group)?.map(|record| (name, record)));
    }
    Ok(records)
}

/// Writes the records. All portions but the last are committed on their own; the outcome joins the last.
fn record_drifts(leading: &mut Leading<'_>, records: Vec<(GroupName, GroupRecord)>, mut writes: Vec<Write>) -> Bundle {
    for (name, mut record) in records {
        record.operation.take_if(|_| leading.has_mutant(Mutant::NoLock));
        writes.push(reconcile::apply::set_record(leading, &name, record));
        leading.lead.queue.mark(name);
    }
    let mut portions = commit::portions(writes);
    let writes = portions.pop().unwrap_or_default();
    for writes in portions {
        leading.decide(Bundle { writes, ..Bundle::default() });
    }
    Bundle { writes, ..Bundle::default() }
}

/// Whether the group has an instance that must leave.
fn concerns(drift: &Drift, group: &Group) -> bool {
    let there = |instance: &Instance| [&instance.node, &instance.leaves].contains(&&Some(drift.from.clone()));
    let has_there = |instance: &Instance| there(instance) || instance.next.as_deref().is_some_and(there);
    let mut instances = (1..).zip(group.instances());
    group.is_present()
        && instances
            .any(|(number, instance)| has_there(instance) && drift.instance.is_none_or(|instance| instance == number))
}

/// The record with the drift in it; none when it is there already.
fn drifting(drift: &Drift, group: &Group) -> Result<Option<GroupRecord>, Refusal> {
    if group.record.drifts.contains(drift) {
        return Ok(None);
    }
    if group.record.drifts.len() >= MOST_DRIFTS {
        return Err(Refusal::Limit { what: "drifts of a PodGroup".to_owned(), limit: MOST_DRIFTS as u64 });
    }
    let mut record = group.record.clone();
    record.drifts.push(drift.clone());
    if record.operation.is_none() {
        // A running operation keeps its error: users still need to read it.
        record.last_error.clear();
    }
    Ok(Some(record))
}
