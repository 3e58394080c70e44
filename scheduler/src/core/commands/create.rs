//! Creates groups: as a new group, in place of one that is being removed, or by adopting the containers of an orphan.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::command::{Operation, Refusal, Removal};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::query::Liveness;
use contract::record::{GroupRecord, Instance, OperationRecord};
use contract::spec::PodGroupSpec;
use planner::ports;

use crate::core::commit::Bundle;
use crate::core::io::Write;
use crate::core::leader::Leading;
use crate::core::reconcile::removal::Keep;
use crate::core::state::revisions::Origin;
use crate::core::state::{self, Group};
use crate::core::{observe, reconcile};

use super::admission::{Admission, malformed};
use super::{limits, policies, strategy};

/// A new group that passed all checks.
#[derive(Debug)]
pub(in crate::core) struct Created {
    pub(super) name: GroupName,
    pub(in crate::core) record: GroupRecord,
    /// Its instances are those of the group whose containers were left behind.
    pub(in crate::core) adopts: bool,
}

impl Admission<'_> {
    /// A new group.
    pub(in crate::core) fn created(&self, spec: PodGroupSpec) -> Result<Created, Refusal> {
        // The apiserver checked; a command may come from elsewhere or from another version.
        spec.validate().map_err(|flaws| malformed(&flaws))?;
        let unnamed = |error: contract::name::Error| Refusal::Malformed { reason: format!("Name: {error}") };
        let name: GroupName = spec.name.parse().map_err(unnamed)?;
        let before = self.state.groups.get(&name).map(|group| &group.record);
        // A refusal must not quote the spec of another namespace.
        let before = before.filter(|before| before.spec.namespace == spec.namespace);
        self.permitted(&spec, before.into_iter().flat_map(policies::running_specs))?;
        self.within_quota(&name, &spec)?;
        let spec = spec.for_creation(self.now);
        let (record, adopts) = match self.state.groups.get(&name) {
            // Its containers have the environment of their namespace.
            Some(orphan) if orphan.is_orphan() && orphan.record.spec.namespace != spec.namespace => {
                return Err(Refusal::GroupExists);
            }
            Some(orphan) if orphan.is_orphan() => (self.adopting(&name, spec, orphan)?, true),
            Some(removed) if removed.is_removing() => {
                self.must_be_free(&name, removed)?;
                (self.fresh(&name, spec, removed.record.spec.version.saturating_add(1)), false)
            }
            Some(_) => return Err(Refusal::GroupExists),
            None if self.state.spared().contains(&name) => return Err(Refusal::GroupExists),
            None if self.state.dependencies.is_derived(&name) => return Err(Refusal::GroupExists),
            None => {
                self.apart_from_dependencies(&spec)?;
                (self.fresh(&name, spec, 0), false)
            }
        };
        limits::judge(&record)?;
        Ok(Created { name, record, adopts })
    }

    /// The name of a group that is being removed is free immediately after a removal in the background, but not while a node may
    /// still run one of its stateful instances.
    fn must_be_free(&self, name: &GroupName, removed: &Group) -> Result<(), Refusal> {
        let is_lost = |node: &NodeName| self.state.nodes.get(node).is_some_and(|host| host.liveness == Liveness::Lost);
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
        if is_free || self.assumes_finished { Ok(()) } else { Err(Refusal::GroupRemoving) }
    }

    fn fresh(&self, name: &GroupName, mut spec: PodGroupSpec, version: u32) -> GroupRecord {
        (spec.version, spec.pod.version) = (version, version);
        let taken_ports = self.taken_ports(name, &spec.pod);
        let operation = OperationRecord::new(Operation::Deploying, self.now);
        let operation = (taken_ports.is_empty() && !spec.has_strategy()).then_some(operation);
        GroupRecord { spec, operation, updated_at: self.now, taken_ports, ..GroupRecord::default() }
    }

    /// The adopted instances keep running and are updated to the new spec like any others. Instances with the same content stay
    /// as they are.
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
}

/// The numbers of stateful instances and the nodes that hold their data. A tombstone has the revision of its instance.
fn data_of(group: &Group) -> Vec<(u32, &NodeName)> {
    let is_stateful = |pod: &&Instance| group.pod(pod.version).is_some_and(|pod| pod.is_stateful());
    let numbered = (1..).zip(group.instances());
    let pods =
        numbered.flat_map(|(number, instance)| [Some(instance), instance.next.as_deref()].map(|pod| (number, pod)));
    let pods = pods.filter_map(|(number, pod)| Some((number, pod.filter(is_stateful)?)));
    pods.flat_map(|(number, pod)| pod.leaves.iter().chain(&pod.node).map(move |node| (number, node))).collect()
}

/// A new group.
pub(super) fn create_group(leading: &mut Leading<'_>, spec: PodGroupSpec, by: &str) -> Result<Bundle, Refusal> {
    let Created { name, record, adopts } = leading.admission().created(spec)?;
    let before = leading.state.groups.get(&name).filter(|_| adopts).map(|group| group.record.clone());
    let mut bundle = if adopts { Bundle::default() } else { replace_removed(leading, &name) };
    bundle.writes.extend(policies::store_default(leading));
    let copies = record.equals.last().copied();
    let changed = leading.change_record(&name, record);
    bundle.changes.extend(changed.changes.clone());
    bundle.add_writes(changed);
    if adopts {
        bundle.spared = Some(Arc::new(leading.state.untouchable()));
        bundle.writes.extend(strategy::drop_unused_rollout(leading, &name));
    }
    if let Some(before) = &before {
        bundle.add_writes(strategy::pass_new_gates(leading, &name, &before.spec));
    }
    let origin = Origin { by: by.to_owned(), copies, ..Origin::default() };
    bundle.writes.extend(state::revisions::note_revisions(leading, &name, before.as_ref(), origin));
    Ok(bundle)
}

/// Deletes what a background removal left, so that a new group can have the name.
fn replace_removed(leading: &mut Leading<'_>, name: &GroupName) -> Bundle {
    if !leading.state.groups.contains_key(name) {
        return Bundle::default();
    }
    let mut bundle = reconcile::removal::evict_all(leading, name, Keep::Nothing);
    leading.note_specs(name);
    bundle.writes.extend(state::revisions::forget_revisions(leading, name));
    leading.state.drop_group(name);
    bundle.writes.extend(observe::history::forget_history(leading, name));
    bundle.writes.push(Write::Delete { key: keys::release(name) });
    bundle
}
