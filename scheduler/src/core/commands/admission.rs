//! Decides whether a command on a group is allowed and what its record becomes; changes nothing.
//!
//! The handlers of commands use it, and so does a dry run. A name may be taken by a group that users do not see: a group removed
//! in the background frees its name immediately, and the next group continues its revision numbers so that no container name
//! repeats; an orphan is adopted.

use contract::command::{Operation, Refusal};
use contract::name::GroupName;
use contract::ports::declared;
use contract::record::GroupRecord;
use contract::spec::PodSpec;
use contract::time::Timestamp;
use contract::validate::{Flaw, sentence};

use crate::core::io::{Mutant, Settings};
use crate::core::state::quarantine::Object;
use crate::core::state::{Group, State};

/// Read-only view that admission checks decide from.
#[derive(Clone, Copy)]
pub(in crate::core) struct Admission<'a> {
    pub(in crate::core) state: &'a State,
    pub(in crate::core) settings: &'a Settings,
    pub(in crate::core) now: Timestamp,
    /// For a plan: operations in progress count as finished, so that none refuses it.
    pub(in crate::core) assumes_finished: bool,
}

impl<'a> Admission<'a> {
    /// The record of a group that exists and that no operation holds.
    pub(super) fn unlocked(&self, name: &GroupName) -> Result<GroupRecord, Refusal> {
        self.unlocked_record(self.present(name)?)
    }

    /// A group that may be removed, also during its first deployment, as in the original.
    pub(in crate::core) fn removable(&self, name: &GroupName) -> Result<GroupRecord, Refusal> {
        match self.unlocked(name) {
            Err(Refusal::Locked { operation: Operation::Deploying }) => Ok(self.present(name)?.record.clone()),
            other => other,
        }
    }

    pub(super) fn unlocked_record(&self, group: &Group) -> Result<GroupRecord, Refusal> {
        match self.lock(group) {
            Some(operation) => Err(Refusal::Locked { operation }),
            None => Ok(group.record.clone()),
        }
    }

    /// The operation that holds the group's lock. The operation of a quarantined group cannot end, so it holds nothing.
    pub(super) fn lock(&self, group: &Group) -> Option<Operation> {
        let operation = group.record.operation.as_ref().filter(|_| !self.assumes_finished)?;
        let name = group.record.spec.name.parse().ok().map(Object::Group);
        let is_quarantined = name.is_some_and(|name| self.state.quarantine.contains(&name));
        (!is_quarantined).then_some(operation.kind)
    }

    /// A group that exists to users.
    pub(super) fn present(&self, name: &GroupName) -> Result<&'a Group, Refusal> {
        self.state.groups.get(name).filter(|group| group.is_present()).ok_or(Refusal::GroupUnknown)
    }

    /// Those of the ports a spec declares that another group has.
    pub(super) fn taken_ports(&self, name: &GroupName, pod: &PodSpec) -> Vec<u16> {
        if self.settings.faults.has(Mutant::NoPortClaims) {
            return Vec::new();
        }
        self.state.claims().taken(name, &declared(&pod.annotation))
    }
}

pub(in crate::core) fn malformed(flaws: &[Flaw]) -> Refusal {
    Refusal::Malformed { reason: sentence(flaws) }
}
