//! Does what commands ask of one group: makes it, changes its record, and notes the revision that follows.
//!
//! A command only changes the record; the instances follow when the group is planned, at once or when the engine starts.
//! What may be done and what the record is then is decided in `admission`, `respec` and `strategy`.

use std::sync::Arc;

use contract::command::{Act, Operation, Refusal};
use contract::keys;
use contract::name::GroupName;
use contract::record::{GroupRecord, OperationRecord};
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use serde_json::{Map, Value};

use crate::core::commit::Bundle;
use crate::core::io::Write;
use crate::core::leader::Leading;
use crate::core::reconcile::removal::Keep;
use crate::core::state::quarantine::Object;
use crate::core::state::revisions::Origin;

use super::admission::{Admission, Created};
use super::spec::Respec;
use super::strategy::past_new_gates;

impl Leading<'_> {
    pub(in crate::core) fn admission(&self) -> Admission<'_> {
        Admission { state: self.state, settings: self.settings, now: self.now }
    }

    /// A new group.
    pub(in crate::core) fn create_group(&mut self, spec: PodGroupSpec, by: &str) -> Result<Bundle, Refusal> {
        let Created { name, record, adopts } = self.admission().created(spec)?;
        let before = self.state.groups.get(&name).filter(|_| adopts).map(|group| group.record.clone());
        let mut bundle = if adopts { Bundle::default() } else { self.succeeded(&name) };
        let copies = record.equals.last().copied();
        let changed = self.change_record(&name, record);
        bundle.changes.extend(changed.changes.clone());
        bundle.add_writes(changed);
        if adopts {
            bundle.spared = Some(Arc::new(self.state.untouchable()));
            bundle.writes.extend(self.drop_useless_release(&name));
        }
        if let Some(before) = &before {
            bundle.add_writes(self.pass_new_gates(&name, &before.spec));
        }
        let origin = Origin { by: by.to_owned(), copies, ..Origin::default() };
        bundle.writes.extend(self.note_revisions(&name, before.as_ref(), origin));
        Ok(bundle)
    }

    /// Whatever is left of a group that goes in the background makes place for the next of its name.
    fn succeeded(&mut self, name: &GroupName) -> Bundle {
        if !self.state.groups.contains_key(name) {
            return Bundle::default();
        }
        let mut bundle = self.vacated_bundle(name, Keep::Nothing);
        self.note_specs(name);
        bundle.writes.extend(self.forget_revisions(name));
        self.state.drop_group(name);
        bundle.writes.extend(self.forget_history(name));
        bundle.writes.push(Write::Delete { key: keys::release(name) });
        bundle
    }

    /// Another number of instances, or another restart policy.
    pub(in crate::core) fn replica(
        &mut self,
        name: &GroupName,
        wanted: u32,
        policy: Option<RestartPolicy>,
    ) -> Result<Bundle, Refusal> {
        let record = self.admission().resized(self.admission().present(name)?, wanted, policy)?;
        Ok(record.map(|record| self.change_record(name, record)).unwrap_or_default())
    }

    /// Another pod spec; admitted during an upgrade or a release, whose rest it replaces.
    pub(in crate::core) fn patch_spec(
        &mut self,
        name: &GroupName,
        patch: PodSpec,
        origin: Origin,
    ) -> Result<Bundle, Refusal> {
        let image = patch.images().next().unwrap_or_default().to_owned();
        let respec = self.admission().patched(name, self.admission().present(name)?, patch)?;
        let bundle = self.respecify(name, respec, origin);
        self.panic_on_purpose_in("command", &image);
        Ok(bundle)
    }

    /// Puts another pod spec in place, or notes why not.
    pub(in crate::core) fn respecify(&mut self, name: &GroupName, respec: Respec, origin: Origin) -> Bundle {
        let Some(before) = self.state.groups.get(name).map(|group| group.record.clone()) else {
            return Bundle::default();
        };
        match respec {
            Respec::Next(record) => {
                let mut bundle = self.change_record(name, *record);
                bundle.writes.extend(self.note_revisions(name, Some(&before), origin));
                bundle
            }
            Respec::Not(last_error) => {
                let record = GroupRecord { last_error, updated_at: self.now, ..before };
                Bundle { writes: vec![self.set_record(name, record)], ..Bundle::default() }
            }
        }
    }

    /// Another way to be changed.
    pub(in crate::core) fn patch_strategy(
        &mut self,
        name: &GroupName,
        fields: &Map<String, Value>,
    ) -> Result<Bundle, Refusal> {
        let group = self.admission().present(name)?;
        let before = group.record.spec.clone();
        let Some(record) = self.admission().restrategised(group, fields)? else { return Ok(Bundle::default()) };
        let mut bundle = self.change_record(name, record);
        bundle.add_writes(self.pass_new_gates(name, &before));
        bundle.writes.extend(self.drop_useless_release(name));
        Ok(bundle)
    }

    /// Whoever is there already does not wait for gates that were added.
    fn pass_new_gates(&mut self, name: &GroupName, before: &PodGroupSpec) -> Bundle {
        let mut bundle = Bundle::default();
        let Some(slots) = self.state.groups.get(name).and_then(|group| past_new_gates(group, before)) else {
            return bundle;
        };
        bundle.put_slots(name, &slots);
        self.state.set_slots(name, slots);
        bundle
    }

    /// The serial upgrade has no use for a release, and whoever conducts again starts from the slots.
    fn drop_useless_release(&mut self, name: &GroupName) -> Option<Write> {
        let group = self.state.groups.get_mut(name).filter(|group| !group.record.spec.has_strategy())?;
        group.release.take().map(|_| Write::Delete { key: keys::release(name) })
    }

    /// Starts, stops or restarts instances.
    pub(in crate::core) fn operate(&mut self, name: &GroupName, act: Act, instance: u32) -> Result<Bundle, Refusal> {
        let record = self.admission().unlocked(name)?;
        let instances = self.admission().present(name)?.highest_number();
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
        let operation = OperationRecord { kind, since: self.now, next, last };
        let last_error = String::new();
        let record = GroupRecord { operation: Some(operation), updated_at: self.now, last_error, ..record };
        Ok(self.change_record(name, record))
    }

    /// Puts a record in place and marks its group; nodes learn of what changes for what they run.
    pub(in crate::core) fn change_record(&mut self, name: &GroupName, record: GroupRecord) -> Bundle {
        self.end_quarantine(&Object::Group(name.clone()), "a command changed it");
        let before = self.state.assignments(name);
        let writes = vec![self.set_record(name, record)];
        let changes = before.changes_to(&self.state.assignments(name));
        self.lead.dirty.insert(name.clone());
        Bundle { writes, changes, ..Bundle::default() }
    }
}
