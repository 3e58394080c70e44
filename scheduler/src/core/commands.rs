//! Decides what becomes of a command: refused with a reason, or in effect.
//!
//! The effect, the outcome and the cursor are one bundle and so one transaction: a command takes effect exactly once
//! whoever leads, and a command seen again is answered with what became of it the first time.

use contract::command::{Command, Operation, Outcome, Refusal, Verb, Verdict};
use contract::keys;
use contract::name::{CommandId, GroupName};
use contract::notice::DeadLetter;
use contract::ports;
use contract::record::{CallbacksRecord, Cursor, GroupRecord, OperationRecord};
use contract::spec::PodGroupSpec;
use contract::state::RestartPolicy;
use contract::validate::{MOST_INSTANCES, sentence};

use super::commit::{self, Bundle};
use super::io::{Delivery, Effect, Inbox, Mutant, Write};
use super::leader::Leading;
use super::planning::assignments;

/// Callbacks at most: every notice is sent to each of them.
const MOST_CALLBACKS: usize = 64;
/// Id in the outcome of a message that names no command.
const UNREADABLE: &str = "malformed";

impl Leading<'_> {
    /// The next message of the command stream.
    pub(super) fn command(&mut self, delivery: Delivery) {
        let Delivery { stream, sequence, reply, command } = delivery;
        let cursor = &self.state.cursor;
        let seen = cursor.stream == stream && sequence <= cursor.sequence;
        if seen && !self.has_mutant(Mutant::NoDeduplication) {
            return self.repeat(command.ok().map(|command| command.id), reply);
        }
        self.state.cursor = Cursor { stream, sequence };
        self.state.outcomes.forget_old(self.now);
        match command {
            Ok(command) => self.obey(command, reply),
            Err(letter) => self.bury(letter, reply),
        }
    }

    /// A message that was in effect before: whoever waits is told the outcome again if it is known.
    fn repeat(&mut self, id: Option<CommandId>, reply: Option<Inbox>) {
        let outcome = id.and_then(|id| self.state.outcomes.get(&id).cloned());
        self.tell(resolve(reply, outcome));
    }

    fn bury(&mut self, letter: DeadLetter, reply: Option<Inbox>) {
        let verdict = Verdict::Refused(Refusal::Malformed { reason: letter.reason.clone() });
        let id: Option<CommandId> = UNREADABLE.parse().ok();
        let outcome = id.map(|id| Outcome { id, at: self.now, verdict });
        let mut effects = vec![Effect::Bury(letter)];
        effects.extend(resolve(reply, outcome));
        let writes = vec![self.cursor_write()];
        self.decide(Bundle { writes, effects, ..Bundle::default() });
    }

    fn obey(&mut self, command: Command, reply: Option<Inbox>) {
        if let Some(outcome) =
            self.state.outcomes.get(&command.id).filter(|_| !self.has_mutant(Mutant::NoDeduplication))
        {
            let effects = resolve(reply, Some(outcome.clone()));
            let writes = vec![self.cursor_write()];
            return self.decide(Bundle { writes, effects, ..Bundle::default() });
        }
        let (mut bundle, verdict) = match self.apply(command.verb) {
            Ok(bundle) => (bundle, Verdict::Accepted),
            Err(refusal) => (Bundle::default(), Verdict::Refused(refusal)),
        };
        let outcome = Outcome { id: command.id, at: self.now, verdict };
        self.state.outcomes.insert(outcome.clone());
        bundle.writes.push(expiring(commit::put(keys::outcome(&outcome.id), &outcome)));
        bundle.writes.push(self.cursor_write());
        bundle.effects.extend(resolve(reply, Some(outcome)));
        self.decide(bundle);
    }

    fn apply(&mut self, verb: Verb) -> Result<Bundle, Refusal> {
        let refuses = self.state.engine.refuses_changes() && !verb.passes_read_only();
        if refuses && !self.has_mutant(Mutant::NoBrakes) {
            return Err(Refusal::ReadOnly);
        }
        match verb {
            Verb::CreateGroup { spec } => self.create_group(*spec),
            Verb::RemoveGroup { name } => self.remove_group(&name),
            Verb::Replica { name, num_instances, restart_policy } => self.replica(&name, num_instances, restart_policy),
            Verb::AddCallback { url } => self.add_callback(url),
            Verb::RemoveCallback { url } => self.remove_callback(&url),
            Verb::Configure { readonly, maintenance } => Ok(self.configure(readonly, maintenance)),
            Verb::RunEngine { running } => Ok(self.run_engine(running)),
            Verb::Guard { working } => Ok(self.guard(working)),
            Verb::SetConstraint { constraint } => self.set_constraint(constraint),
            Verb::RemoveConstraint { kind } => self.remove_constraint(&kind),
        }
    }

    fn create_group(&mut self, spec: PodGroupSpec) -> Result<Bundle, Refusal> {
        // The apiserver checked; a command may come from elsewhere or from another version.
        spec.validate().map_err(|flaws| Refusal::Malformed { reason: sentence(&flaws) })?;
        let malformed = |error: contract::name::Error| Refusal::Malformed { reason: format!("Name: {error}") };
        let name: GroupName = spec.name.parse().map_err(malformed)?;
        match self.state.groups.get(&name) {
            Some(group) if group.is_removing() => return Err(Refusal::GroupRemoving),
            Some(_) => return Err(Refusal::GroupExists),
            None if self.state.spared.contains(&name) => return Err(Refusal::GroupExists),
            None => {}
        }
        let spec = spec.for_creation(self.now);
        let mut taken_ports = self.state.claims.taken(&ports::declared(&spec.pod.annotation));
        if self.has_mutant(Mutant::NoPortClaims) {
            taken_ports.clear();
        }
        let operation = OperationRecord { kind: Operation::Deploying, since: self.now };
        let operation = taken_ports.is_empty().then_some(operation);
        let record = GroupRecord { spec, operation, updated_at: self.now, taken_ports };
        let writes = vec![commit::put(keys::group(&name), &record)];
        self.state.put_group(&name, record, self.settings.quota_cores);
        self.lead.dirty.insert(name);
        Ok(Bundle { writes, ..Bundle::default() })
    }

    fn remove_group(&mut self, name: &GroupName) -> Result<Bundle, Refusal> {
        let mut record = self.unlocked(name)?;
        record.operation = Some(OperationRecord { kind: Operation::Removing, since: self.now });
        record.updated_at = self.now;
        let writes = vec![commit::put(keys::group(name), &record)];
        self.state.put_group(name, record, self.settings.quota_cores);
        self.lead.waiting.remove(name);
        // Its instances leave their nodes with its next plan: at once, or when the engine starts.
        self.lead.dirty.insert(name.clone());
        self.lead.ports_freed = true;
        Ok(Bundle { writes, ..Bundle::default() })
    }

    fn replica(&mut self, name: &GroupName, wanted: u32, policy: Option<RestartPolicy>) -> Result<Bundle, Refusal> {
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
        if !same_number {
            record.operation = Some(OperationRecord { kind: Operation::Scheduling, since: self.now });
        }
        let writes = vec![commit::put(keys::group(name), &record)];
        let before = self.state.groups.get(name).map(|group| assignments(name, group)).unwrap_or_default();
        self.state.put_group(name, record, self.settings.quota_cores);
        let after = self.state.groups.get(name).map(|group| assignments(name, group));
        self.lead.dirty.insert(name.clone());
        Ok(Bundle { writes, changes: before.changes_to(after.as_ref()), ..Bundle::default() })
    }

    /// The record of a group that exists and that no operation holds.
    fn unlocked(&self, name: &GroupName) -> Result<GroupRecord, Refusal> {
        let group = self.state.groups.get(name).filter(|group| !group.is_removing()).ok_or(Refusal::GroupUnknown)?;
        match &group.record.operation {
            Some(operation) => Err(Refusal::Locked { operation: operation.kind }),
            None => Ok(group.record.clone()),
        }
    }

    fn add_callback(&mut self, url: String) -> Result<Bundle, Refusal> {
        if self.state.callbacks.contains(&url) {
            return Ok(Bundle::default());
        }
        if self.state.callbacks.len() >= MOST_CALLBACKS {
            return Err(Refusal::Limit { what: "callbacks".to_owned(), limit: MOST_CALLBACKS as u64 });
        }
        self.state.callbacks.insert(url);
        Ok(self.callbacks_bundle())
    }

    fn remove_callback(&mut self, url: &str) -> Result<Bundle, Refusal> {
        if !self.state.callbacks.remove(url) {
            return Err(Refusal::CallbackUnknown);
        }
        Ok(self.callbacks_bundle())
    }

    fn callbacks_bundle(&self) -> Bundle {
        let record = CallbacksRecord { urls: self.state.callbacks.clone() };
        Bundle { writes: vec![commit::put(keys::CALLBACKS.to_owned(), &record)], ..Bundle::default() }
    }

    fn cursor_write(&self) -> Write {
        commit::put(keys::CURSOR.to_owned(), &self.state.cursor)
    }
}

fn resolve(reply: Option<Inbox>, outcome: Option<Outcome>) -> Vec<Effect> {
    reply.zip(outcome).map(|(inbox, outcome)| Effect::Resolve { inbox, outcome }).into_iter().collect()
}

fn expiring(write: Write) -> Write {
    match write {
        Write::Put { key, value, .. } => Write::Put { key, value, expires: true },
        Write::Delete { key } => Write::Delete { key },
    }
}
