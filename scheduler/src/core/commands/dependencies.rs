//! Commands about dependency pods.
//!
//! They change only the record; `reconcile` does the rest. A removal without force keeps a pod that is in use, and an update of
//! the spec cancels the removal.

use contract::command::Refusal;
use contract::name::GroupName;
use contract::record::DependencyRecord;
use contract::spec::PodSpec;
use contract::time::Timestamp;
use contract::validate::sentence;

use crate::core::commit::Bundle;
use crate::core::leader::Leading;
use crate::core::state::dependencies::{Dependency, record_writes};
use crate::core::state::quarantine::Object;

use super::policies;

/// Makes a dependency pod known.
pub(super) fn create_dependency(leading: &mut Leading<'_>, pod: PodSpec) -> Result<Bundle, Refusal> {
    let name = checked(&pod)?;
    leading.admission().permitted_dependency(&pod)?;
    let known = &leading.state.dependencies;
    if known.get(&name).is_some() || known.is_spared(&name) {
        return Err(Refusal::DependencyExists);
    }
    leading.admission().apart_from_namespaces(&name)?;
    let annotation = if pod.annotation.trim().is_empty() { "{}".to_owned() } else { pod.annotation };
    let (version, created_at, updated_at) = (0, Timestamp::NEVER, Timestamp::NEVER);
    let spec = PodSpec { annotation, version, created_at, updated_at, ..pod };
    let record = DependencyRecord { spec, former: Default::default(), delete_when_unused: false, removing_since: None };
    let marker = policies::store_default(leading);
    let mut bundle = want(leading, &name, record);
    bundle.writes.extend(marker);
    Ok(bundle)
}

/// Gives a dependency pod another spec, and keeps it if it was about to go.
pub(super) fn update_dependency(leading: &mut Leading<'_>, pod: PodSpec) -> Result<Bundle, Refusal> {
    let name = checked(&pod)?;
    let before = wanted(leading, &name)?;
    let spec = before.spec.patched(pod, leading.now);
    leading.admission().permitted_dependency(&spec)?;
    let mut record = DependencyRecord { delete_when_unused: false, ..before.clone() };
    if !spec.asks_the_same(&before.spec) {
        record.former.insert(before.spec.version, std::mem::replace(&mut record.spec, spec));
    }
    if record == *before {
        return Ok(Bundle::default());
    }
    Ok(want(leading, &name, record))
}

/// Removes a dependency pod: now, or when no group needs it any more.
pub(super) fn remove_dependency(leading: &mut Leading<'_>, name: &GroupName, force: bool) -> Result<Bundle, Refusal> {
    let unread = Object::Dependency(name.clone());
    if leading.is_unread(&unread) {
        let reason = "its record cannot be read, so the PodGroups that need it are not known: remove it with force";
        return match force {
            true => Ok(leading.remove_unread(&unread)),
            false => Err(Refusal::Unfit { reason: reason.to_owned() }),
        };
    }
    let before = wanted(leading, name)?;
    let removing_since = force.then_some(leading.now);
    let record = DependencyRecord { delete_when_unused: true, removing_since, ..before.clone() };
    if record == *before {
        return Ok(Bundle::default());
    }
    Ok(want(leading, name, record))
}

fn wanted<'a>(leading: &'a Leading<'_>, name: &GroupName) -> Result<&'a DependencyRecord, Refusal> {
    let entry = leading.state.dependencies.get(name).filter(|entry| !entry.is_removing());
    entry.map(|entry| &entry.record).ok_or(Refusal::DependencyUnknown)
}

fn want(leading: &mut Leading<'_>, name: &GroupName, record: DependencyRecord) -> Bundle {
    leading.end_quarantine(&Object::Dependency(name.clone()), "a command changed it");
    let before = leading.state.dependencies.get(name).map(|entry| entry.record.clone());
    let writes = record_writes(name, before.as_ref(), Some(&record));
    let entry = match leading.state.dependencies.get(name) {
        Some(entry) => Dependency { record, ..entry.clone() },
        None => Dependency::new(record, Vec::new()),
    };
    leading.state.set_dependency(name, entry, leading.settings.quota_cores);
    Bundle { writes, ..Bundle::default() }
}

/// The name of a pod spec that is sound. The apiserver checked; a command may come from elsewhere.
fn checked(pod: &PodSpec) -> Result<GroupName, Refusal> {
    pod.validate().map_err(|flaws| Refusal::Malformed { reason: sentence(&flaws) })?;
    pod.name.parse().map_err(|error| Refusal::Malformed { reason: format!("Name: {error}") })
}
