//! Scales groups, and starts, stops and restarts their instances.

use contract::command::{Act, Operation, Refusal};
use contract::name::GroupName;
use contract::record::{GroupRecord, OperationRecord};
use contract::state::RestartPolicy;

use crate::core::commit::Bundle;
use crate::core::leader::Leading;
use crate::core::state::Group;

use super::admission::Admission;

impl Admission<'_> {
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
        let grows = i64::from(wanted) > spec.num_instances;
        spec.num_instances = i64::from(wanted);
        if grows && let Ok(name) = spec.name.parse() {
            self.within_quota(&name, spec)?;
        }
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
}

/// Another number of instances, or another restart policy.
pub(super) fn replica(
    leading: &mut Leading<'_>,
    name: &GroupName,
    wanted: u32,
    policy: Option<RestartPolicy>,
) -> Result<Bundle, Refusal> {
    let record = leading.admission().resized(leading.admission().present(name)?, wanted, policy)?;
    Ok(record.map(|record| leading.change_record(name, record)).unwrap_or_default())
}

/// Starts, stops or restarts instances.
pub(super) fn operate(leading: &mut Leading<'_>, name: &GroupName, act: Act, instance: u32) -> Result<Bundle, Refusal> {
    let record = leading.admission().unlocked(name)?;
    let instances = leading.admission().present(name)?.highest_number();
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
    let operation = OperationRecord { kind, since: leading.now, next, last };
    let last_error = String::new();
    let record = GroupRecord { operation: Some(operation), updated_at: leading.now, last_error, ..record };
    Ok(leading.change_record(name, record))
}
