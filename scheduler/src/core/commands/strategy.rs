//! Decides whether a patch of the rollout fields (strategy, gates, drain) is allowed and what the record becomes.
//!
//! Named fields are merged into the spec, `null` removes a field, and the revision stays, so no instance changes. Readiness
//! gates apply only to pods that are created with them. A serial upgrade and a rollout with a strategy store their progress in
//! different places, so a group can switch between them only while nothing is in progress.

use contract::command::{Operation, Refusal};
use contract::keys;
use contract::name::GroupName;
use contract::record::{GroupRecord, Instance, Presence};
use contract::spec::PodGroupSpec;
use contract::time::Timestamp;
use contract::validate::{Flaw, sentence};
use serde_json::{Map, Value};

use crate::core::commit::Bundle;
use crate::core::io::Write;
use crate::core::leader::Leading;
use crate::core::state::Group;

use super::admission::Admission;

impl Admission<'_> {
    /// The group with these fields changed; none when nothing changes.
    fn with_strategy_fields(&self, group: &Group, fields: &Map<String, Value>) -> Result<Option<GroupRecord>, Refusal> {
        let spec = group.record.spec.with_rollout_fields(fields).map_err(|flaws| unfit(&flaws))?;
        self.with_strategy(group, spec)
    }

    /// The group with the rollout fields of another spec; none when they are equal.
    pub(in crate::core) fn with_strategy_of(
        &self,
        group: &Group,
        other: &PodGroupSpec,
    ) -> Result<Option<GroupRecord>, Refusal> {
        self.with_strategy(group, group.record.spec.with_rollout_fields_of(other))
    }

    fn with_strategy(&self, group: &Group, spec: PodGroupSpec) -> Result<Option<GroupRecord>, Refusal> {
        if spec == group.record.spec {
            return Ok(None);
        }
        spec.validate_settings().map_err(|flaws| unfit(&flaws))?;
        if spec.has_strategy() != group.record.spec.has_strategy() {
            busy(group).map_or(Ok(()), |reason| Err(Refusal::Unfit { reason }))?;
        }
        let spec = PodGroupSpec { updated_at: self.now, ..spec };
        Ok(Some(GroupRecord { spec, updated_at: self.now, ..group.record.clone() }))
    }
}

fn unfit(flaws: &[Flaw]) -> Refusal {
    Refusal::Unfit { reason: sentence(flaws) }
}

/// The instances after gates were added; none when nothing changes. Existing pods were created without these gates and would be
/// unready until a client sets them, so for existing pods the new gates are true until a client sets them to false.
pub(in crate::core) fn past_new_gates(group: &Group, before: &PodGroupSpec) -> Option<Vec<Instance>> {
    let gates = group.record.spec.readiness_gates.iter();
    let added: Vec<&String> = gates.filter(|gate| !before.readiness_gates.contains(*gate)).collect();
    let mut instances = group.instances().to_vec();
    for instance in &mut instances {
        instance.next.as_deref_mut().into_iter().for_each(|next| pass(next, &added));
        pass(instance, &added);
    }
    (instances != group.instances()).then_some(instances)
}

fn pass(pod: &mut Instance, gates: &[&String]) {
    let is_made = pod.presence == Presence::Pod && pod.node.is_some() && pod.leaves.is_none();
    for gate in gates.iter().filter(|_| is_made) {
        pod.gates.entry((*gate).clone()).or_insert(Timestamp::NEVER);
    }
}

/// Why a group cannot switch between Serial and another strategy now, and the remedy.
fn busy(group: &Group) -> Option<String> {
    let record = &group.record;
    let present = record.spec.version;
    let is_behind = |instance: &Instance| instance.version != present && !record.equals.contains(&instance.version);
    let numbers = |is_so: &dyn Fn(&Instance) -> bool| {
        let found = (1..)
            .zip(group.instances())
            .filter(|(_, instance)| is_so(instance))
            .map(|(number, _): (u32, _)| number.to_string());
        found.collect::<Vec<_>>().join(", ")
    };
    let holes = numbers(&|instance| instance.presence == Presence::Free);
    let is_open = group.release.as_ref().is_some_and(|release| release.target != present || release.is_open());
    let is_led = record.operation.as_ref().is_some_and(|operation| match operation.kind {
        Operation::Deploying | Operation::Scheduling | Operation::Upgrading => true,
        Operation::Drifting
        | Operation::Starting
        | Operation::Stopping
        | Operation::Restarting
        | Operation::Removing => false,
    });
    let mixed = group.instances().iter().flat_map(Instance::pods).any(is_behind);
    let doubled =
        group.instances().iter().any(|instance| instance.next.is_some() || instance.presence == Presence::Vacant);
    if is_led || doubled || (record.spec.has_strategy() && is_open) {
        return Some(format!(
            "the rollout to revision {present} is in progress: wait until it ends or abort it, then change the strategy"
        ));
    }
    if mixed {
        return Some(format!(
            "instances run other revisions than {present}: undo or apply the spec again, then change the strategy"
        ));
    }
    (!holes.is_empty() && record.spec.has_strategy()).then(|| {
        let what = if holes.contains(',') { "instances" } else { "instance" };
        let (are, all) = if holes.contains(',') { ("are", "they exist") } else { ("is", "it exists") };
        format!(
            "{what} {holes} {are} missing and Serial needs numbers without gaps: scale out until {all}, then change the strategy"
        )
    })
}

/// Changes the strategy and the other rollout fields of a group.
pub(super) fn patch_strategy(
    leading: &mut Leading<'_>,
    name: &GroupName,
    fields: &Map<String, Value>,
) -> Result<Bundle, Refusal> {
    let group = leading.admission().present(name)?;
    let before = group.record.spec.clone();
    let Some(record) = leading.admission().with_strategy_fields(group, fields)? else { return Ok(Bundle::default()) };
    let mut bundle = leading.change_record(name, record);
    bundle.add_writes(pass_new_gates(leading, name, &before));
    bundle.writes.extend(drop_unused_rollout(leading, name));
    Ok(bundle)
}

/// Existing pods do not wait for gates that were added.
pub(super) fn pass_new_gates(leading: &mut Leading<'_>, name: &GroupName, before: &PodGroupSpec) -> Bundle {
    let mut bundle = Bundle::default();
    let Some(instances) = leading.state.groups.get(name).and_then(|group| past_new_gates(group, before)) else {
        return bundle;
    };
    bundle.put_instances(name, &instances);
    leading.state.set_instances(name, instances);
    bundle
}

/// A serial upgrade does not use the rollout record, and a later rollout starts from the instances.
pub(super) fn drop_unused_rollout(leading: &mut Leading<'_>, name: &GroupName) -> Option<Write> {
    let group = leading.state.groups.get_mut(name).filter(|group| !group.record.spec.has_strategy())?;
    group.release.take().map(|_| Write::Delete { key: keys::release(name) })
}
