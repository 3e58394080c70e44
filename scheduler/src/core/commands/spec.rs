//! Decides whether a group may get another pod spec, by a patch or an undo, and what its record becomes.
//!
//! A spec without capacity or with a taken port is accepted but changes only the group's last error, where clients of the
//! original look for it.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::{Operation, Refusal};
use contract::name::GroupName;
use contract::record::{GroupRecord, Instance, OperationRecord, RevisionOutcome, RevisionRecord};
use contract::spec::PodSpec;
use planner::group::{UpdateMethod, update_method};
use planner::placement::Need;
use planner::{capacity, ports};

use crate::core::commit::Bundle;
use crate::core::io::Mutant;
use crate::core::leader::Leading;
use crate::core::reconcile;
use crate::core::state::revisions::Origin;
use crate::core::state::{self, Group};

use super::admission::{Admission, malformed};
use super::{limits, policies};

/// Shown when a patch does not fit; the text of the original.
const NO_RESOURCES: &str = "No resources available to scheduler container";
/// What becomes of a request for another pod spec.
#[derive(Debug)]
pub(in crate::core) enum SpecChange {
    /// The group's next version.
    Next(Box<GroupRecord>),
    /// Not possible now; the group shows the reason.
    Rejected(String),
}

/// A revision to go back to.
#[derive(Debug)]
pub(in crate::core) struct RollbackTarget {
    pub(in crate::core) number: u32,
    /// The group has this content already.
    pub(in crate::core) is_present: bool,
}

impl Admission<'_> {
    /// The group as its spec patched by what a client sent.
    pub(in crate::core) fn patched(
        &self,
        name: &GroupName,
        group: &Group,
        patch: PodSpec,
    ) -> Result<SpecChange, Refusal> {
        self.is_changeable(group)?;
        let sent = patch.version;
        let pod = group.record.spec.pod.patched(patch, self.now);
        let mut respec = self.respec(name, group, pod)?;
        if let SpecChange::Next(next) = &mut respec
            && self.settings.faults.has(Mutant::TakesClientVersion)
        {
            (next.spec.version, next.spec.pod.version) = (sent, sent);
        }
        Ok(respec)
    }

    /// The revision of an undo: the requested one, or the newest completed one before the current.
    pub(in crate::core) fn rollback_target(
        &self,
        name: &GroupName,
        asked: Option<u32>,
    ) -> Result<RollbackTarget, Refusal> {
        let group = self.present(name)?;
        self.is_changeable(group)?;
        let present = group.record.spec.version;
        let known = &group.past.revisions;
        let completed = |it: &&RevisionRecord| it.number != present && it.outcome == RevisionOutcome::Completed;
        let found = match asked {
            Some(asked) if asked == present => return Ok(RollbackTarget { number: asked, is_present: true }),
            Some(asked) => known.iter().find(|revision| revision.number == asked),
            None => known.iter().rfind(completed),
        };
        let unknown = || Refusal::RevisionUnknown {
            revision: asked,
            kept: known.iter().map(|revision| revision.number).collect(),
        };
        let found = found.ok_or_else(unknown)?;
        let is_present = found.pod.asks_the_same(&group.record.spec.pod);
        Ok(RollbackTarget { number: found.number, is_present })
    }

    /// The group with the content of an earlier revision. Instances that still run that content are left alone.
    pub(super) fn undone(&self, name: &GroupName, back: &RollbackTarget) -> Result<SpecChange, Refusal> {
        let group = self.present(name)?;
        let mut known = group.past.revisions.iter();
        let Some(found) = known.find(|revision| revision.number == back.number) else {
            return Err(Refusal::RevisionUnknown { revision: Some(back.number), kept: Vec::new() });
        };
        let pod = PodSpec { updated_at: self.now, ..found.pod.clone() };
        let mut respec = self.respec(name, group, pod)?;
        if let SpecChange::Next(next) = &mut respec
            && next.taken_ports.is_empty()
        {
            let revisions = group.past.revisions.iter().map(|revision| (revision.number, &revision.pod));
            let all = revisions.chain(next.former.iter().map(|(version, pod)| (*version, pod)));
            let same: BTreeSet<u32> =
                all.filter(|(_, pod)| pod.asks_the_same(&found.pod)).map(|(number, _)| number).collect();
            next.equals = same;
        }
        Ok(respec)
    }

    /// Whether the spec may change now. A new spec replaces a running rollout or upgrade.
    fn is_changeable(&self, group: &Group) -> Result<(), Refusal> {
        match self.lock(group) {
            Some(operation) if operation != Operation::Upgrading => Err(Refusal::Locked { operation }),
            Some(_) | None => Ok(()),
        }
    }

    fn respec(&self, name: &GroupName, group: &Group, pod: PodSpec) -> Result<SpecChange, Refusal> {
        pod.validate().map_err(|flaws| malformed(&flaws))?;
        let spec = &group.record.spec;
        // The pods of a group that was created before the rule keep their namespace.
        if pod.namespace != spec.namespace && pod.namespace != spec.pod.namespace {
            let reason =
                format!("the revision belongs to the namespace {:?}, {name} to {:?}", pod.namespace, spec.namespace);
            return Err(Refusal::Unfit { reason });
        }
        // A rollout stops no instance before its replacement has a place, and reports what is missing where. So it needs no
        // capacity check in advance, which would also block a rollback.
        if !group.record.spec.has_strategy() && !self.fits(group, &pod) {
            return Ok(SpecChange::Rejected(NO_RESOURCES.to_owned()));
        }
        let taken = self.taken_ports(name, &pod);
        let waits = !group.record.taken_ports.is_empty();
        if !taken.is_empty() && !waits {
            return Ok(SpecChange::Rejected(ports::sentence(name.as_str(), &taken)));
        }
        let record = group.record.clone();
        let next = if waits { self.reclaimed(record, pod, taken) } else { self.upgraded(record, pod) };
        self.permitted(&next.spec, policies::running_specs(&group.record))?;
        if next.spec.has_strategy() {
            next.spec.validate_settings().map_err(|flaws| malformed(&flaws))?;
        }
        if let UpdateMethod::Refused { fields } =
            update_method(next.spec.update_policy, &group.record.spec.pod, &next.spec.pod)
        {
            let fields = fields.join(", ");
            let reason = format!(
                "UpdatePolicy InPlaceOnly does not allow a change of {fields}; with InPlaceIfPossible other pods would take over"
            );
            return Err(Refusal::Unfit { reason });
        }
        limits::judge(&next)?;
        Ok(SpecChange::Next(Box::new(next)))
    }

    /// The next revision, while instances of others run. A group with a strategy needs no lock for it.
    fn upgraded(&self, record: GroupRecord, pod: PodSpec) -> GroupRecord {
        let operation = OperationRecord::new(Operation::Upgrading, self.now);
        let operation = (!record.spec.has_strategy()).then_some(operation);
        let mut record = GroupRecord { operation, updated_at: self.now, last_error: String::new(), ..record };
        let former = std::mem::replace(&mut record.spec.pod, pod);
        record.former.insert(record.spec.version, former);
        record.equals.clear();
        record.spec.version = record.spec.version.saturating_add(1);
        record.spec.pod.version = record.spec.version;
        record.spec.updated_at = self.now;
        record
    }

    /// The next version of a group that waits for ports: nothing runs, so it is as if it had been created with it.
    fn reclaimed(&self, record: GroupRecord, pod: PodSpec, taken_ports: Vec<u16>) -> GroupRecord {
        let is_deployed = taken_ports.is_empty() && !record.spec.has_strategy();
        let operation = is_deployed.then(|| OperationRecord::new(Operation::Deploying, self.now));
        GroupRecord { operation, taken_ports, former: BTreeMap::new(), ..self.upgraded(record, pod) }
    }

    /// Whether the nodes have capacity for every instance with the spec `pod`.
    fn fits(&self, group: &Group, pod: &PodSpec) -> bool {
        let pods = group.instances().iter().flat_map(Instance::pods);
        let present = pods.filter_map(|pod| Some((pod.node.as_ref()?, group.need(pod.version))));
        let instances = u64::try_from(group.record.spec.num_instances).unwrap_or(0);
        capacity::fits(&self.state.nodes, present, Need::of(pod, self.settings.quota_cores), instances)
    }
}

/// Patches the pod spec. Allowed during an upgrade or a rollout, which it replaces.
pub(super) fn patch_spec(
    leading: &mut Leading<'_>,
    name: &GroupName,
    patch: PodSpec,
    origin: Origin,
) -> Result<Bundle, Refusal> {
    let image = patch.images().next().unwrap_or_default().to_owned();
    let respec = leading.admission().patched(name, leading.admission().present(name)?, patch)?;
    let bundle = change_spec(leading, name, respec, origin);
    leading.settings.faults.panic_in("command", &image);
    Ok(bundle)
}

/// Changes the pod spec, or stores why it cannot.
pub(super) fn change_spec(leading: &mut Leading<'_>, name: &GroupName, respec: SpecChange, origin: Origin) -> Bundle {
    let Some(before) = leading.state.groups.get(name).map(|group| group.record.clone()) else {
        return Bundle::default();
    };
    match respec {
        SpecChange::Next(record) => {
            let mut bundle = leading.change_record(name, *record);
            bundle.writes.extend(state::revisions::note_revisions(leading, name, Some(&before), origin));
            bundle
        }
        SpecChange::Rejected(last_error) => {
            let record = GroupRecord { last_error, updated_at: leading.now, ..before };
            Bundle { writes: vec![reconcile::apply::set_record(leading, name, record)], ..Bundle::default() }
        }
    }
}
