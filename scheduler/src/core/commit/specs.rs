//! The pod specs that the next decision stores or deletes.
//!
//! Records refer to pod specs by digest, and each spec is stored once. Before a record changes, the specs that are stored of its
//! group are noted; the decision then stores the new ones and deletes those that no revision refers to.

use std::collections::{BTreeMap, BTreeSet};

use contract::layout::{Owner, SpecRef};
use contract::name::GroupName;
use contract::record::GroupRecord;
use contract::spec::PodSpec;

use crate::core::commit;
use crate::core::io::Write;
use crate::core::leader::Leading;
use crate::core::state::Group;

#[derive(Debug, Default)]
pub(in crate::core) struct SpecChanges {
    /// Groups whose pod specs the next decision changes, with the specs that are stored of each.
    stored: BTreeMap<GroupName, Vec<PodSpec>>,
    /// Groups whose pod specs an older version stored under other digests: the next write of the record stores them again.
    redigested: BTreeSet<GroupName>,
}

impl SpecChanges {
    /// The group was read from the store again: its changes are given up.
    pub(in crate::core) fn forget(&mut self, group: &GroupName) {
        self.stored.remove(group);
    }
}

impl Leading<'_> {
    /// The next decision changes the record or the revisions of a group: notes the pod specs that are stored of it.
    pub(in crate::core) fn note_specs(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name) else { return };
        let specs = || group.specs().cloned().collect();
        self.lead.specs.stored.entry(name.clone()).or_insert_with(specs);
    }

    /// The group gets this record with the next decision.
    pub(in crate::core) fn note_specs_of(&mut self, name: &GroupName, record: &GroupRecord) {
        if self.lead.specs.redigested.remove(name) {
            self.lead.specs.stored.insert(name.clone(), Vec::new());
        } else if self.state.groups.get(name).is_none_or(|group| !has_same_specs(&group.record, record)) {
            self.note_specs(name);
            self.lead.specs.stored.entry(name.clone()).or_default();
        }
    }

    /// Finds the groups whose pod specs are stored under other digests than this version computes.
    pub(in crate::core) fn note_redigested(&mut self) {
        let stored = &*self.stored;
        let is_stored = |name: &GroupName, pod| stored.contains_key(&Owner::Group(name).key(&SpecRef::to(pod).digest));
        let redigested =
            self.state.groups.iter().filter(|(name, group)| !group.specs().all(|pod| is_stored(name, pod)));
        self.lead.specs.redigested = redigested.map(|(name, _)| name.clone()).collect();
    }

    /// The writes that store the pod specs of the noted groups and delete unused ones.
    pub(super) fn take_spec_writes(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        for (name, before) in std::mem::take(&mut self.lead.specs.stored) {
            let after: Vec<&PodSpec> = self.state.groups.get(&name).into_iter().flat_map(Group::specs).collect();
            let before: Vec<&PodSpec> = before.iter().collect();
            writes.extend(commit::spec_writes(Owner::Group(&name), &before, &after));
        }
        writes
    }
}

/// Whether two records refer to the same pod specs.
fn has_same_specs(one: &GroupRecord, other: &GroupRecord) -> bool {
    (&one.spec.pod, &one.former) == (&other.spec.pod, &other.former)
}
