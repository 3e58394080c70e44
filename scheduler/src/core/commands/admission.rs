//! Decides whether a group may be made, resized or told otherwise how to change, and what its record is then.
//!
//! Nothing is changed here: a command puts the record in place, and a question about what a spec would do asks the same way.
//! The surprise: a name may be taken by a group users do not see. One that goes away in the background leaves its name at
//! once, and the next group counts versions on from it so that no container's name comes twice; one whose containers were
//! left behind is adopted.

use std::collections::BTreeSet;

use contract::command::{Operation, Refusal, Removal};
use contract::name::{GroupName, NodeName};
use contract::ports::declared;
use contract::query::Liveness;
use contract::record::{GroupRecord, OperationRecord, Slot};
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::time::Timestamp;
use contract::validate::{Flaw, sentence};
use planner::ports;

use crate::core::io::{Mutant, Settings};
use crate::core::state::quarantine::Object;
use crate::core::state::{Group, State};

use super::limits;

/// The numbers of instances with data, and the nodes that have it. A tombstone has the version of the instance that it stands for.
fn data_of(group: &Group) -> Vec<(u32, &NodeName)> {
    let is_stateful = |pod: &&Slot| group.pod(pod.version).is_some_and(|pod| pod.is_stateful());
    let numbered = (1..).zip(group.slots());
    let pods = numbered.flat_map(|(number, slot)| [Some(slot), slot.next.as_deref()].map(|pod| (number, pod)));
    let pods = pods.filter_map(|(number, pod)| Some((number, pod.filter(is_stateful)?)));
    pods.flat_map(|(number, pod)| pod.leaves.iter().chain(&pod.node).map(move |node| (number, node))).collect()
}

/// What is decided from.
#[derive(Clone, Copy)]
pub(in crate::core) struct Admission<'a> {
    pub(in crate::core) state: &'a State,
    pub(in crate::core) settings: &'a Settings,
    pub(in crate::core) now: Timestamp,
}

/// A group that may be made.
#[derive(Debug)]
pub(in crate::core) struct Created {
    pub(in crate::core) name: GroupName,
    pub(in crate::core) record: GroupRecord,
    /// Its instances are those of the group whose containers were left behind.
    pub(in crate::core) adopts: bool,
}

impl<'a> Admission<'a> {
    /// A new group.
    pub(in crate::core) fn created(&self, spec: PodGroupSpec) -> Result<Created, Refusal> {
        // The apiserver checked; a command may come from elsewhere or from another version.
        spec.validate().map_err(|flaws| malformed(&flaws))?;
        let unnamed = |error: contract::name::Error| Refusal::Malformed { reason: format!("Name: {error}") };
        let name: GroupName = spec.name.parse().map_err(unnamed)?;
        let spec = spec.for_creation(self.now);
        let (record, adopts) = match self.state.groups.get(&name) {
            Some(orphan) if orphan.is_orphan() => (self.adopting(&name, spec, orphan)?, true),
            Some(removed) if removed.is_removing() => {
                self.must_be_free(&name, removed)?;
                (self.fresh(&name, spec, removed.record.spec.version.saturating_add(1)), false)
            }
            Some(_) => return Err(Refusal::GroupExists),
            None if self.state.spared.contains(&name) => return Err(Refusal::GroupExists),
            None if self.state.dependencies.is_derived(&name) => return Err(Refusal::GroupExists),
            None => (self.fresh(&name, spec, 0), false),
        };
        limits::judge(&record)?;
        Ok(Created { name, record, adopts })
    }

    /// The name of a group that is being removed: free at once after a removal in the background, but never while one of its
    /// nodes may still run an instance with data.
    fn must_be_free(&self, name: &GroupName, removed: &Group) -> Result<(), Refusal> {
        let is_lost = |node: &NodeName| self.state.hosts.get(node).is_some_and(|host| host.liveness == Liveness::Lost);
        let held = data_of(removed);
        let silent = held.iter().find(|(_, node)| is_lost(node));
        if let Some((instance, node)) = silent {
            let reason = format!(
                "instance {instance} of the removed PodGroup {name} may still run on {node}, which is lost: the name is free when \
                 the node returns, or after `deployctl node remove {node} --force`"
            );
            return Err(Refusal::NodeBusy { reason });
        }
        let is_free = removed.record.removal == Removal::Background && held.is_empty();
        if is_free { Ok(()) } else { Err(Refusal::GroupRemoving) }
    }

    fn fresh(&self, name: &GroupName, mut spec: PodGroupSpec, version: u32) -> GroupRecord {
        (spec.version, spec.pod.version) = (version, version);
        let taken_ports = self.taken_ports(name, &spec.pod);
        let operation = OperationRecord::new(Operation::Deploying, self.now);
        let operation = (taken_ports.is_empty() && !spec.has_strategy()).then_some(operation);
        GroupRecord { spec, operation, updated_at: self.now, taken_ports, ..GroupRecord::default() }
    }

    /// The instances go on as they are and come to the new spec as to any other; those that run just that are left alone.
    fn adopting(&self, name: &GroupName, mut spec: PodGroupSpec, orphan: &Group) -> Result<GroupRecord, Refusal> {
        let version = orphan.record.spec.version.saturating_add(1);
        if !orphan.record.taken_ports.is_empty() {
            // It waited for ports and ran nothing.
            return Ok(self.fresh(name, spec, version));
        }
        let taken = self.taken_ports(name, &spec.pod);
        if !taken.is_empty() {
            return Err(Refusal::Unfit { reason: ports::sentence(name.as_str(), &taken) });
        }
        (spec.version, spec.pod.version) = (version, version);
        let GroupRecord { spec: before, mut former, proven, .. } = orphan.record.clone();
        former.insert(before.version, before.pod);
        let same = former.iter().filter(|(_, pod)| pod.asks_the_same(&spec.pod)).map(|(version, _)| *version);
        let equals: BTreeSet<u32> = same.collect();
        let operation = OperationRecord::new(Operation::Upgrading, self.now);
        let operation = (!spec.has_strategy()).then_some(operation);
        Ok(GroupRecord { spec, operation, updated_at: self.now, former, proven, equals, ..GroupRecord::default() })
    }

    /// Another number of instances, or another restart policy; none when nothing changes.
    pub(in crate::core) fn resized(
        &self,
        group: &Group,
        wanted: u32,
        policy: Option<RestartPolicy>,
    ) -> Result<Option<GroupRecord>, Refusal> {
        let mut record = self.unlocked_record(group)?;
        let spec = &mut record.spec;
        let most = spec.most_instances();
        if i64::from(wanted) > most {
            return Err(Refusal::Limit { what: "NumInstances".to_owned(), limit: most.unsigned_abs() });
        }
        let policy = policy.unwrap_or(spec.restart_policy);
        let (same_number, same_policy) = (spec.num_instances == i64::from(wanted), spec.restart_policy == policy);
        if same_number && same_policy {
            return Ok(None);
        }
        spec.num_instances = i64::from(wanted);
        spec.restart_policy = policy;
        spec.updated_at = self.now;
        let takes_the_lock = !same_number && !spec.has_strategy();
        record.updated_at = self.now;
        record.last_error.clear();
        if takes_the_lock {
            record.operation = Some(OperationRecord::new(Operation::Scheduling, self.now));
        }
        Ok(Some(record))
    }

    /// The record of a group that exists and that no operation holds.
    pub(in crate::core) fn unlocked(&self, name: &GroupName) -> Result<GroupRecord, Refusal> {
        self.unlocked_record(self.present(name)?)
    }

    /// A group that may be removed. Its first deployment does not stand in the way, as it did not in the original.
    pub(in crate::core) fn removable(&self, name: &GroupName) -> Result<GroupRecord, Refusal> {
        match self.unlocked(name) {
            Err(Refusal::Locked { operation: Operation::Deploying }) => Ok(self.present(name)?.record.clone()),
            other => other,
        }
    }

    fn unlocked_record(&self, group: &Group) -> Result<GroupRecord, Refusal> {
        match self.lock(group) {
            Some(operation) => Err(Refusal::Locked { operation }),
            None => Ok(group.record.clone()),
        }
    }

    /// The operation that holds the group's lock. The operation of a quarantined group cannot end, so it holds nothing.
    pub(in crate::core) fn lock(&self, group: &Group) -> Option<Operation> {
        let operation = group.record.operation.as_ref()?;
        let name = group.record.spec.name.parse().ok().map(Object::Group);
        let is_quarantined = name.is_some_and(|name| self.state.quarantine.contains(&name));
        (!is_quarantined).then_some(operation.kind)
    }

    /// A group that exists to users.
    pub(in crate::core) fn present(&self, name: &GroupName) -> Result<&'a Group, Refusal> {
        self.state.groups.get(name).filter(|group| group.is_present()).ok_or(Refusal::GroupUnknown)
    }

    /// Those of the ports a spec declares that another group has.
    pub(in crate::core) fn taken_ports(&self, name: &GroupName, pod: &PodSpec) -> Vec<u16> {
        if self.settings.mutant == Some(Mutant::NoPortClaims) {
            return Vec::new();
        }
        self.state.claims.taken(name, &declared(&pod.annotation))
    }
}

pub(in crate::core) fn malformed(flaws: &[Flaw]) -> Refusal {
    Refusal::Malformed { reason: sentence(flaws) }
}
