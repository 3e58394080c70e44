//! Decides whether a group may have another pod spec, asked for or gone back to, and what its record is then.
//!
//! The surprise: a spec that finds no room or no free port is accepted and changes nothing but the group's last error,
//! because that is where the original's clients look for it.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::{Operation, Refusal};
use contract::name::GroupName;
use contract::record::{GroupRecord, OperationRecord, RevisionOutcome, RevisionRecord, Slot};
use contract::spec::PodSpec;
use planner::capacity;
use planner::group::{UpdateMethod, update_method};
use planner::placement::Need;
use planner::ports;

use super::admission::{Admission, malformed};
use super::bulk;
use super::io::Mutant;
use super::state::Group;

/// What users are told when a patch does not fit; the words are the original's.
const NO_RESOURCES: &str = "No resources available to scheduler container";
/// What becomes of a request for another pod spec.
#[derive(Debug)]
pub(super) enum Respec {
    /// The group's next version.
    Next(Box<GroupRecord>),
    /// It cannot be now, and the group says why.
    Not(String),
}

/// A revision to go back to.
#[derive(Debug)]
pub(super) struct WayBack {
    pub(super) number: u32,
    /// Its content is what the group asks for already.
    pub(super) is_present: bool,
}

impl Admission<'_> {
    /// The group as its spec patched by what a client sent.
    pub(super) fn patched(&self, name: &GroupName, group: &Group, patch: PodSpec) -> Result<Respec, Refusal> {
        self.is_changeable(group)?;
        let sent = patch.version;
        let pod = group.record.spec.pod.patched(patch, self.now);
        let mut respec = self.respec(name, group, pod)?;
        if let Respec::Next(next) = &mut respec
            && self.settings.mutant == Some(Mutant::ClientsVersion)
        {
            (next.spec.version, next.spec.pod.version) = (sent, sent);
        }
        Ok(respec)
    }

    /// The revision an undo goes back to: the one asked for, or the newest before the present one that completed.
    pub(super) fn way_back(&self, name: &GroupName, asked: Option<u32>) -> Result<WayBack, Refusal> {
        let group = self.present(name)?;
        self.is_changeable(group)?;
        let present = group.record.spec.version;
        let known = &group.past.revisions;
        let completed = |it: &&RevisionRecord| it.number != present && it.outcome == RevisionOutcome::Completed;
        let found = match asked {
            Some(asked) if asked == present => return Ok(WayBack { number: asked, is_present: true }),
            Some(asked) => known.iter().find(|revision| revision.number == asked),
            None => known.iter().rfind(completed),
        };
        let unknown = || Refusal::RevisionUnknown {
            revision: asked,
            kept: known.iter().map(|revision| revision.number).collect(),
        };
        let found = found.ok_or_else(unknown)?;
        let is_present = found.pod.asks_the_same(&group.record.spec.pod);
        Ok(WayBack { number: found.number, is_present })
    }

    /// The group with the content of an earlier revision. Instances that still run that content are left alone.
    pub(super) fn undone(&self, name: &GroupName, back: &WayBack) -> Result<Respec, Refusal> {
        let group = self.present(name)?;
        let mut known = group.past.revisions.iter();
        let Some(found) = known.find(|revision| revision.number == back.number) else {
            return Err(Refusal::RevisionUnknown { revision: Some(back.number), kept: Vec::new() });
        };
        let pod = PodSpec { updated_at: self.now, ..found.pod.clone() };
        let mut respec = self.respec(name, group, pod)?;
        if let Respec::Next(next) = &mut respec
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

    /// A group's spec may change now. A release, like an upgrade, is replaced by the next.
    fn is_changeable(&self, group: &Group) -> Result<(), Refusal> {
        match self.lock(group) {
            Some(operation) if operation != Operation::Upgrading => Err(Refusal::Locked { operation }),
            Some(_) | None => Ok(()),
        }
    }

    fn respec(&self, name: &GroupName, group: &Group, pod: PodSpec) -> Result<Respec, Refusal> {
        pod.validate().map_err(|flaws| malformed(&flaws))?;
        // A release takes nobody out before there is a place for its successor, and says what is missing where: it needs no
        // guess beforehand, which would also stand in the way of going back.
        if !group.record.spec.has_strategy() && !self.fits(group, &pod) {
            return Ok(Respec::Not(NO_RESOURCES.to_owned()));
        }
        let taken = self.taken_ports(name, &pod);
        let waits = !group.record.taken_ports.is_empty();
        if !taken.is_empty() && !waits {
            return Ok(Respec::Not(ports::sentence(name.as_str(), &taken)));
        }
        let record = group.record.clone();
        let next = if waits { self.reclaimed(record, pod, taken) } else { self.upgraded(record, pod) };
        if next.spec.has_strategy() {
            next.spec.validate().map_err(|flaws| malformed(&flaws))?;
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
        bulk::judge(&next)?;
        Ok(Respec::Next(Box::new(next)))
    }

    /// The next version, while instances of others run. A conducted group needs no lock for it.
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

    /// Whether the nodes have room for every instance of the group made anew from `pod`.
    fn fits(&self, group: &Group, pod: &PodSpec) -> bool {
        let pods = group.slots().iter().flat_map(Slot::pods);
        let present = pods.filter_map(|pod| Some((pod.node.as_ref()?, group.need(pod.version))));
        let instances = u64::try_from(group.record.spec.num_instances).unwrap_or(0);
        capacity::fits(&self.state.hosts, present, Need::of(pod, self.settings.quota_cores), instances)
    }
}
