//! Turns the plan of a group into one bundle: writes, order changes and events.
//!
//! `conclude` is called once per plan. It changes the state in memory at once; the writes, the orders and the events leave when
//! the bundle is committed.

use contract::command::Operation;
use contract::name::GroupName;
use contract::record::GroupRecord;
use contract::time::Timestamp;
use contract::{keys, layout};
use planner::group::GroupPlan;

use crate::core::commit::{self, Bundle};
use crate::core::io::{Mutant, Write};
use crate::core::leader::Leading;
use crate::core::state::revisions::Origin;
use crate::core::{events, state};

pub(super) fn conclude(leading: &mut Leading<'_>, name: &GroupName, mut plan: GroupPlan) {
    leading.lead.queue.set_unschedulable(name, plan.waiting);
    let effects = events::incident::events_of_plan(leading, name, &plan);
    let mut bundle = Bundle { effects, ..Bundle::default() };
    let is_news = plan.record.is_some() || plan.release.is_some();
    let group = leading.state.groups.get(name).filter(|_| is_news);
    let record_before = group.map(|group| group.record.clone());
    let origin = taken_back(record_before.as_ref(), plan.record.as_ref());
    if let Some(group) = leading.state.groups.get_mut(name) {
        group.report = plan.report.take();
    }
    if plan.record.is_some() || plan.store {
        let may_differ =
            plan.store || plan.record.as_ref().is_some_and(|record| orders_otherwise(leading, name, record));
        let before = may_differ.then(|| leading.state.assignments(name));
        if let Some(record) = plan.record {
            if record.operation.is_none() && !record.drifts.is_empty() {
                // The lock is free for a move that waits in the record.
                leading.lead.queue.mark(name.clone());
            }
            bundle.writes.push(set_record(leading, name, record));
        }
        if plan.store {
            bundle.put_instances(name, &plan.instances);
            leading.retry_unschedulable();
        }
        leading.state.set_instances(name, plan.instances);
        bundle.changes = before.map(|before| before.changes_to(&leading.state.assignments(name))).unwrap_or_default();
        bundle.decided = commit::durability::decided_now(leading, name);
    } else if leading.state.groups.get(name).is_some_and(|group| group.instances() != plan.instances) {
        leading.state.set_instances(name, plan.instances);
    }
    if let Some((release, group)) = plan.release.zip(leading.state.groups.get_mut(name)) {
        if !(plan.store && leading.settings.faults.has(Mutant::ForgetsRollouts)) {
            bundle.writes.push(commit::put(keys::release(name), &release));
        }
        group.release = Some(release);
    }
    if is_news {
        bundle.writes.extend(state::revisions::note_revisions(leading, name, record_before.as_ref(), origin));
    }
    if !bundle.writes.is_empty() || !bundle.complete.is_empty() || !bundle.effects.is_empty() {
        leading.decide(bundle);
    }
}

/// Whether the same instances mean other orders with this record.
fn orders_otherwise(leading: &Leading<'_>, name: &GroupName, after: &GroupRecord) -> bool {
    let Some(before) = leading.state.groups.get(name).map(|group| &group.record) else { return true };
    let ordered = |record: &GroupRecord| GroupRecord {
        operation: record.operation.clone().filter(|operation| operation.kind == Operation::Removing),
        updated_at: Timestamp::NEVER,
        proven: None,
        last_error: String::new(),
        ..record.clone()
    };
    ordered(before) != ordered(after)
}

/// Changes a group's record; the write that stores it. Ports it does not claim any longer are free.
pub(in crate::core) fn set_record(leading: &mut Leading<'_>, name: &GroupName, record: GroupRecord) -> Write {
    let write = commit::put_entry(layout::put_group(name, &record));
    leading.note_specs_of(name, &record);
    let before = leading.state.claims().of(name).cloned();
    leading.state.set_record(name, record, leading.settings.quota_cores);
    if before.as_ref() != leading.state.claims().of(name) {
        leading.lead.queue.note_ports_freed();
    }
    write
}

/// The origin of the revision that a plan creates by itself: the rollback of a failed one.
fn taken_back(before: Option<&GroupRecord>, after: Option<&GroupRecord>) -> Origin {
    let is_next = |after: &&GroupRecord| before.is_some_and(|before| before.spec.version != after.spec.version);
    let Some(after) = after.filter(is_next) else { return Origin::default() };
    // The newest of the versions that count as the new one is the one it copies.
    let copies = after.equals.last().copied();
    Origin { by: String::new(), cause: after.last_error.clone(), copies, takes_back: true }
}
