//! Reads the command stream: refuses a command with a reason, or applies it.
//!
//! The effect, the outcome and the cursor are one bundle and therefore one transaction. So a command takes effect exactly once,
//! also after a failover, and a repeated command gets the outcome of the first.

use contract::access::audit::Chain;
use contract::backup::Step;
use contract::callback_url;
use contract::command::{Command, Decision, Outcome, Refusal, Verb};
use contract::keys;
use contract::name::{CommandId, GroupName};
use contract::notice::DeadLetter;
use contract::record::{Cursor, GroupRecord};

use crate::core::commit::{self, AuditChange, AuditEdit, Bundle};
use crate::core::events::command::CommandEvent;
use crate::core::io::{Delivery, Effect, Inbox, Mutant, Write};
use crate::core::leader::Leading;
use crate::core::state::Warning;
use crate::core::state::quarantine::{Object, Scope, attempt};
use crate::core::state::revisions::Origin;
use crate::core::{observe, reconcile};

use super::admission::Admission;
use super::rollout::{self, Gate};
use super::{
    access, cluster, create, dependencies, evacuate, join, limits, nodes, policies, restore, scale, spec, strategy,
};

/// Callbacks at most: every notice is sent to each of them.
const MOST_CALLBACKS: usize = 64;
/// Id in the outcome of a message that names no command.
const UNREADABLE: &str = "malformed";

impl Leading<'_> {
    /// The next message of the command stream.
    pub(in crate::core) fn command(&mut self, delivery: Delivery) {
        if self.lead.leadership.is_restoring() {
            // It waits in the stream: the next leader reads on from the cursor, which stays where it is.
            return;
        }
        let Delivery { stream, sequence, stored_at, reply, command } = delivery;
        let cursor = self.state.store.cursor();
        let seen = cursor.stream == stream && sequence <= cursor.sequence;
        if seen && !self.has_mutant(Mutant::NoDeduplication) {
            return self.answer_again(command.ok().map(|command| command.id), reply);
        }
        if observe::older_store::waits_for_recovery(self, stored_at) {
            // The command waits in the stream and the cursor stays before it: the leader after the restore runs it. Only a
            // restore runs now.
            match command {
                Ok(command) if matches!(command.verb, Verb::Restore { .. }) => self.execute(command, reply),
                Ok(_) | Err(_) => {}
            }
            return;
        }
        self.state.store.advance(Cursor { stream, sequence, stored_at });
        match command {
            Ok(command) => self.execute(command, reply),
            Err(letter) => self.refuse_unreadable(letter, reply),
        }
    }

    /// A message that was applied before: repeats the outcome if it is still known.
    fn answer_again(&mut self, id: Option<CommandId>, reply: Option<Inbox>) {
        let outcome = id.and_then(|id| self.state.outcomes.get(&id).cloned());
        self.emit(resolve(reply, outcome));
    }

    fn refuse_unreadable(&mut self, letter: DeadLetter, reply: Option<Inbox>) {
        let decision = Decision::Refused(Refusal::Malformed { reason: letter.reason.clone() });
        let named = id_of(&letter);
        // The outcome of this id stays, even if another message uses the id.
        let known = named.as_ref().and_then(|id| self.state.outcomes.get(id)).cloned();
        let is_new = named.is_some() && known.is_none();
        let refused = |id| Outcome { id, at: self.now, decision, digest: None, principal: None };
        let outcome = known.or_else(|| named.or_else(|| UNREADABLE.parse().ok()).map(refused));
        let mut writes = vec![self.cursor_write()];
        if let Some(outcome) = outcome.as_ref().filter(|_| is_new) {
            writes.extend(self.keep_outcome(outcome));
        }
        let record = outcome.as_ref().map(|outcome| access::unreadable(outcome.id.clone(), &letter, self.now));
        let audit = record.map(|record| AuditChange { chain: Chain::Commands, edit: AuditEdit::Append(record) });
        let mut effects = vec![Effect::Bury(letter)];
        effects.extend(resolve(reply, outcome));
        self.decide(Bundle { writes, effects, audit, ..Bundle::default() });
    }

    /// Notes what became of a command; the writes that store it and make room for it.
    fn keep_outcome(&mut self, outcome: &Outcome) -> Vec<Write> {
        self.state.outcomes.insert(outcome.clone());
        let forgotten = self.state.outcomes.forget_surplus(self.settings.most_outcomes);
        let mut writes: Vec<Write> = forgotten.iter().map(|id| Write::Delete { key: keys::outcome(id) }).collect();
        writes.push(expiring(commit::put(keys::outcome(&outcome.id), outcome)));
        writes
    }

    fn execute(&mut self, mut command: Command, reply: Option<Inbox>) {
        if let Some(outcome) =
            self.state.outcomes.get(&command.id).filter(|_| !self.has_mutant(Mutant::NoDeduplication))
        {
            let effects = resolve(reply, Some(outcome.clone()));
            let writes = vec![self.cursor_write()];
            return self.decide(Bundle { writes, effects, ..Bundle::default() });
        }
        let is_report = matches!(command.verb, Verb::ReportRefused { .. });
        let has_event = !is_report && !matches!(command.verb, Verb::Restore { step: Step::Stage { .. } });
        let chain = if is_report { Chain::Refused } else { Chain::Commands };
        let scope = Scope::of(&command.verb);
        let client = access::identify(self, &command);
        let mut audited = access::audited(self, &command, client.as_ref().ok());
        if let Some(name) = client.as_ref().ok().and_then(access::Client::proven_name) {
            name.clone_into(&mut command.by);
        }
        let principal = client.as_ref().ok().and_then(|client| access::owner(&command, client));
        let asked = CommandEvent::of(&command, self.now);
        let allowed = client.and_then(|client| access::authorize(self, &command.verb, &client.principal));
        let (mut bundle, decision) = match attempt(|| allowed.and_then(|()| self.apply(command.verb, &command.by))) {
            Ok(Ok(bundle)) => (bundle, Decision::Accepted),
            Ok(Err(refusal)) => (Bundle::default(), Decision::Refused(refusal)),
            Err(panic) => (Bundle::default(), Decision::Refused(self.undo_panic(scope, &panic))),
        };
        bundle.command = Some((command.id.clone(), reply.clone()));
        if let (Some(audited), Decision::Refused(refusal)) = (&mut audited, &decision) {
            audited.refused = Some(access::shortened(refusal.to_string()));
        }
        bundle.audit = audited.map(|record| AuditChange { chain, edit: AuditEdit::Append(Box::new(record)) });
        let outcome = Outcome { id: command.id, at: self.now, decision, digest: command.digest, principal };
        bundle.writes.extend(self.keep_outcome(&outcome));
        bundle.writes.push(self.cursor_write());
        bundle.effects.extend(has_event.then(|| asked.with_outcome(&outcome.decision)));
        bundle.effects.extend(resolve(reply, Some(outcome)));
        self.decide(bundle);
    }

    /// Restores what a command may have changed before it panicked.
    fn undo_panic(&mut self, scope: Scope, panic: &str) -> Refusal {
        self.restore_scope(scope);
        // Commands about objects change some of it too: the removal of a node deletes its key.
        self.restore_scope(Scope::Cluster);
        let reason = format!("the scheduler panicked while it applied the command: {panic}; please report this");
        Refusal::Unfit { reason }
    }

    fn apply(&mut self, verb: Verb, by: &str) -> Result<Bundle, Refusal> {
        let refuses = self.state.cluster.switches().refuses_changes() && !verb.passes_read_only();
        if refuses && !self.has_mutant(Mutant::IgnoresSwitches) {
            return Err(Refusal::ReadOnly);
        }
        limits::check_store_size(self, &verb)?;
        match verb {
            Verb::CreateGroup { spec } => create::create_group(self, *spec, by),
            Verb::RemoveGroup { name, removal } => reconcile::removal::remove_group(self, &name, removal),
            Verb::Replica { name, num_instances, restart_policy } => {
                scale::replica(self, &name, num_instances, restart_policy)
            }
            Verb::PatchSpec { name, pod, cause } => {
                spec::patch_spec(self, &name, *pod, Origin { by: by.to_owned(), cause, ..Origin::default() })
            }
            Verb::PatchStrategy { name, fields } => strategy::patch_strategy(self, &name, &fields),
            Verb::Rollout { name, release, action } => rollout::rollout(self, &name, release, action, by),
            Verb::SetGate { name, instance, gate, is_true, version } => {
                rollout::set_gate(self, &name, &Gate { instance, name: gate, is_true, version })
            }
            Verb::Drained { name, instance } => rollout::drained(self, &name, instance),
            Verb::Operate { name, act, instance } => scale::operate(self, &name, act, instance),
            Verb::Drift { drift, group } => evacuate::drift(self, &drift, group.as_ref()),
            Verb::Evacuate { node } => evacuate::evacuate(self, node),
            Verb::Node { node, change } => nodes::change_node(self, &node, change, by),
            Verb::CreateDependency { pod } => dependencies::create_dependency(self, *pod),
            Verb::UpdateDependency { pod } => dependencies::update_dependency(self, *pod),
            Verb::RemoveDependency { name, force } => dependencies::remove_dependency(self, &name, force),
            Verb::AddCallback { url } => self.add_callback(url),
            Verb::RemoveCallback { url } => self.remove_callback(&url),
            Verb::Configure { readonly, maintenance } => Ok(cluster::configure(self, readonly, maintenance)),
            Verb::RunEngine { running } => Ok(cluster::run_engine(self, running)),
            Verb::Guard { working } => Ok(cluster::guard(self, working)),
            Verb::SetConstraint { constraint } => cluster::set_constraint(self, constraint),
            Verb::RemoveConstraint { kind } => cluster::remove_constraint(self, &kind),
            Verb::SetPolicy { namespace, policy } => policies::set_policy(self, &namespace, *policy),
            Verb::RemovePolicy { namespace } => policies::remove_policy(self, &namespace),
            Verb::CreateToken { token } => access::create_token(self, *token, by),
            Verb::RevokeToken { id } => access::revoke_token(self, &id),
            Verb::CreateJoinToken { token } => join::create_token(self, *token, by),
            Verb::RevokeJoinToken { id } => join::revoke_token(self, &id),
            Verb::Join { join } => join::join(self, *join),
            Verb::ReportRefused { .. } => Ok(Bundle::default()),
            Verb::EnforceAccess { enforced } => access::enforce(self, enforced),
            Verb::Restore { step } => restore::restore(self, step),
        }
    }

    fn add_callback(&mut self, url: String) -> Result<Bundle, Refusal> {
        if self.state.cluster.callbacks().contains(&url) {
            return Ok(Bundle::default());
        }
        if let Err(flaw) = callback_url::check(&url) {
            return Err(Refusal::Unfit { reason: format!("callback url not valid: {flaw}") });
        }
        if self.state.cluster.callbacks().len() >= MOST_CALLBACKS {
            return Err(Refusal::Limit { what: "callbacks".to_owned(), limit: MOST_CALLBACKS as u64 });
        }
        self.state.cluster.add_callback(url);
        Ok(self.callbacks_bundle())
    }

    fn remove_callback(&mut self, url: &str) -> Result<Bundle, Refusal> {
        // Users see stored users and passwords masked, and delete what they see.
        let is_meant = |stored: &&String| *stored == url || callback_url::without_userinfo(stored) == url;
        let stored = self.state.cluster.callbacks().iter().find(is_meant).cloned().ok_or(Refusal::CallbackUnknown)?;
        self.state.cluster.remove_callback(&stored);
        Ok(self.callbacks_bundle())
    }

    fn callbacks_bundle(&mut self) -> Bundle {
        self.state.end_warning(Warning::CallbacksUnread);
        let write = commit::put(keys::CALLBACKS.to_owned(), &self.state.cluster.callbacks_record());
        Bundle { writes: vec![write], ..Bundle::default() }
    }

    fn cursor_write(&self) -> Write {
        commit::put(keys::CURSOR.to_owned(), self.state.store.cursor())
    }
}

/// The id of a command that cannot be read. It is the first field, so it survives truncation.
fn id_of(letter: &DeadLetter) -> Option<CommandId> {
    letter.payload.strip_prefix("{\"id\":\"")?.split('"').next()?.parse().ok()
}

pub(in crate::core) fn resolve(reply: Option<Inbox>, outcome: Option<Outcome>) -> Vec<Effect> {
    reply.zip(outcome).map(|(inbox, outcome)| Effect::Resolve { inbox, outcome }).into_iter().collect()
}

pub(in crate::core) fn expiring(write: Write) -> Write {
    match write {
        Write::Put { key, value, .. } => Write::Put { key, value, expires: true },
        Write::Delete { key } => Write::Delete { key },
    }
}

impl Leading<'_> {
    pub(in crate::core) fn admission(&self) -> Admission<'_> {
        Admission { state: self.state, settings: self.settings, now: self.now, assumes_finished: false }
    }

    /// Changes a record and marks its group. The orders change for pods that already run.
    pub(in crate::core) fn change_record(&mut self, name: &GroupName, record: GroupRecord) -> Bundle {
        self.end_quarantine(&Object::Group(name.clone()), "a command changed it");
        let before = self.state.assignments(name);
        let writes = vec![reconcile::apply::set_record(self, name, record)];
        let changes = before.changes_to(&self.state.assignments(name));
        self.lead.queue.mark(name.clone());
        Bundle { writes, changes, ..Bundle::default() }
    }
}
