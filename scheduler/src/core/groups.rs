//! Decides what a command means for one group: whether it may be done now, and how the group's record changes.
//!
//! A command only changes the record; the instances follow when the group is planned, at once or when the engine starts.
//! The surprise: a patch that finds no room or no free port is accepted and changes nothing but the group's last error,
//! because that is where the original's clients look for it.

use std::collections::BTreeMap;

use contract::command::{Act, Operation, Refusal};
use contract::keys;
use contract::name::GroupName;
use contract::ports::declared;
use contract::record::{GroupRecord, OperationRecord};
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::validate::{Flaw, MOST_INSTANCES, sentence};
use planner::capacity;
use planner::placement::Need;
use planner::ports;

use super::commit::{self, Bundle};
use super::io::{Mutant, Write};
use super::leader::Leading;
use super::state::Group;

/// What users are told when a patch does not fit; the words are the original's.
const NO_RESOURCES: &str = "No resources available to scheduler container";
/// Bytes of a group's record at most: with its placement it must fit one transaction, and a rollback adds one more spec.
const LARGEST_RECORD: usize = 640 * 1024;

impl Leading<'_> {
    /// A new group.
    pub(super) fn create_group(&mut self, spec: PodGroupSpec) -> Result<Bundle, Refusal> {
        // The apiserver checked; a command may come from elsewhere or from another version.
        spec.validate().map_err(|flaws| malformed(&flaws))?;
        let unnamed = |error: contract::name::Error| Refusal::Malformed { reason: format!("Name: {error}") };
        let name: GroupName = spec.name.parse().map_err(unnamed)?;
        match self.state.groups.get(&name) {
            Some(group) if group.is_removing() => return Err(Refusal::GroupRemoving),
            Some(_) => return Err(Refusal::GroupExists),
            None if self.state.spared.contains(&name) => return Err(Refusal::GroupExists),
            None if self.state.dependencies.is_derived(&name) => return Err(Refusal::GroupExists),
            None => {}
        }
        let spec = spec.for_creation(self.now);
        let taken_ports = self.taken_ports(&name, &spec.pod);
        let operation = OperationRecord::new(Operation::Deploying, self.now);
        let operation = taken_ports.is_empty().then_some(operation);
        let record = GroupRecord { spec, operation, updated_at: self.now, taken_ports, ..GroupRecord::default() };
        Ok(self.change_record(&name, record))
    }

    /// The group goes; its instances leave their nodes with its next plan.
    pub(super) fn remove_group(&mut self, name: &GroupName) -> Result<Bundle, Refusal> {
        let record = self.unlocked(name)?;
        self.lead.waiting.remove(name);
        Ok(self.change_record(name, begun(record, OperationRecord::new(Operation::Removing, self.now))))
    }

    /// Another number of instances, or another restart policy.
    pub(super) fn replica(
        &mut self,
        name: &GroupName,
        wanted: u32,
        policy: Option<RestartPolicy>,
    ) -> Result<Bundle, Refusal> {
        let mut record = self.unlocked(name)?;
        if i64::from(wanted) > MOST_INSTANCES {
            return Err(Refusal::Limit { what: "NumInstances".to_owned(), limit: MOST_INSTANCES.unsigned_abs() });
        }
        let spec = &mut record.spec;
        let policy = policy.unwrap_or(spec.restart_policy);
        let (same_number, same_policy) = (spec.num_instances == i64::from(wanted), spec.restart_policy == policy);
        if same_number && same_policy {
            return Ok(Bundle::default());
        }
        spec.num_instances = i64::from(wanted);
        spec.restart_policy = policy;
        spec.updated_at = self.now;
        record.updated_at = self.now;
        record.last_error.clear();
        if !same_number {
            record.operation = Some(OperationRecord::new(Operation::Scheduling, self.now));
        }
        Ok(self.change_record(name, record))
    }

    /// Another pod spec; admitted during an upgrade, whose rest it replaces.
    pub(super) fn patch_spec(&mut self, name: &GroupName, patch: PodSpec) -> Result<Bundle, Refusal> {
        let group = self.present(name)?;
        match &group.record.operation {
            Some(operation) if operation.kind != Operation::Upgrading => {
                return Err(Refusal::Locked { operation: operation.kind });
            }
            Some(_) | None => {}
        }
        let record = group.record.clone();
        let sent = patch.version;
        let pod = record.spec.pod.patched(patch, self.now);
        pod.validate().map_err(|flaws| malformed(&flaws))?;
        if !self.fits(group, &pod) {
            return Ok(self.note_error(name, record, NO_RESOURCES.to_owned()));
        }
        let taken = self.taken_ports(name, &pod);
        let waits = !record.taken_ports.is_empty();
        if !taken.is_empty() && !waits {
            return Ok(self.note_error(name, record, ports::sentence(name.as_str(), &taken)));
        }
        let mut next = if waits { self.reclaimed(record, pod, taken) } else { self.upgraded(record, pod) };
        if self.has_mutant(Mutant::ClientsVersion) {
            (next.spec.version, next.spec.pod.version) = (sent, sent);
        }
        if size(&commit::put(keys::group(name), &next)) > LARGEST_RECORD {
            let what = "bytes of a PodGroup's specs while it is upgraded".to_owned();
            return Err(Refusal::Limit { what, limit: LARGEST_RECORD as u64 });
        }
        Ok(self.change_record(name, next))
    }

    /// The next version, while instances of others run.
    fn upgraded(&self, record: GroupRecord, pod: PodSpec) -> GroupRecord {
        let mut record = begun(record, OperationRecord::new(Operation::Upgrading, self.now));
        let former = std::mem::replace(&mut record.spec.pod, pod);
        record.former.insert(record.spec.version, former);
        record.equals.clear();
        record.spec.version += 1;
        record.spec.pod.version = record.spec.version;
        record.spec.updated_at = self.now;
        record
    }

    /// The next version of a group that waits for ports: nothing runs, so it is as if it had been created with it.
    fn reclaimed(&self, record: GroupRecord, pod: PodSpec, taken_ports: Vec<u16>) -> GroupRecord {
        let operation = taken_ports.is_empty().then(|| OperationRecord::new(Operation::Deploying, self.now));
        GroupRecord { operation, taken_ports, former: BTreeMap::new(), ..self.upgraded(record, pod) }
    }

    /// Starts, stops or restarts instances.
    pub(super) fn operate(&mut self, name: &GroupName, act: Act, instance: u32) -> Result<Bundle, Refusal> {
        let record = self.unlocked(name)?;
        let instances = u32::try_from(record.spec.num_instances).unwrap_or(0);
        let kind = match act {
            Act::Start => Operation::Starting,
            Act::Stop => Operation::Stopping,
            Act::Restart => Operation::Restarting,
            Act::Nothing => return Ok(Bundle::default()),
        };
        let (next, last) = if instance == 0 { (1, instances) } else { (instance, instance) };
        if last == 0 || last > instances {
            return Ok(Bundle::default());
        }
        Ok(self.change_record(name, begun(record, OperationRecord { kind, since: self.now, next, last })))
    }

    /// The record of a group that exists and that no operation holds.
    pub(super) fn unlocked(&self, name: &GroupName) -> Result<GroupRecord, Refusal> {
        let group = self.present(name)?;
        match &group.record.operation {
            Some(operation) => Err(Refusal::Locked { operation: operation.kind }),
            None => Ok(group.record.clone()),
        }
    }

    /// A group that exists to users.
    fn present(&self, name: &GroupName) -> Result<&Group, Refusal> {
        self.state.groups.get(name).filter(|group| !group.is_removing()).ok_or(Refusal::GroupUnknown)
    }

    /// Those of the ports a spec declares that another group has.
    fn taken_ports(&self, name: &GroupName, pod: &PodSpec) -> Vec<u16> {
        if self.has_mutant(Mutant::NoPortClaims) {
            return Vec::new();
        }
        self.state.claims.taken(name, &declared(&pod.annotation))
    }

    /// Whether the nodes have room for every instance of the group made anew from `pod`.
    fn fits(&self, group: &Group, pod: &PodSpec) -> bool {
        let present = group.slots().iter().filter_map(|slot| Some((slot.node.as_ref()?, group.need(slot.version))));
        let instances = u64::try_from(group.record.spec.num_instances).unwrap_or(0);
        capacity::fits(&self.state.hosts, present, Need::of(pod, self.settings.quota_cores), instances)
    }

    /// Puts a record in place and marks its group; nodes learn of what changes for what they run.
    fn change_record(&mut self, name: &GroupName, record: GroupRecord) -> Bundle {
        let before = self.state.assignments(name);
        let writes = vec![self.set_record(name, record)];
        let changes = before.changes_to(&self.state.assignments(name));
        self.lead.dirty.insert(name.clone());
        Bundle { writes, changes, ..Bundle::default() }
    }

    /// An operation that cannot begin leaves nothing but its reason.
    fn note_error(&mut self, name: &GroupName, record: GroupRecord, last_error: String) -> Bundle {
        let record = GroupRecord { last_error, updated_at: self.now, ..record };
        Bundle { writes: vec![self.set_record(name, record)], ..Bundle::default() }
    }
}

/// The record with an operation that begins now: what went wrong before is forgotten.
fn begun(record: GroupRecord, operation: OperationRecord) -> GroupRecord {
    let updated_at = operation.since;
    GroupRecord { operation: Some(operation), updated_at, last_error: String::new(), ..record }
}

fn malformed(flaws: &[Flaw]) -> Refusal {
    Refusal::Malformed { reason: sentence(flaws) }
}

fn size(write: &Write) -> usize {
    match write {
        Write::Put { value, .. } => value.len(),
        Write::Delete { .. } => 0,
    }
}
