//! Drops a decision that the store refuses because of its content, so that later decisions can be committed.
//!
//! The objects of the decision are quarantined. Later decisions about the same objects build on it and are dropped too. A
//! command among them is refused, because a client must not believe that it was stored.

use std::collections::BTreeSet;

use contract::command::{Decision, Outcome, Refusal};
use contract::event::{Event, Kind};
use contract::keys::{self, Key};

use crate::core::commands::apply::{expiring, resolve};
use crate::core::io::{Effect, Write};
use crate::core::leader::Leading;
use crate::core::state::quarantine::{Object, Scope, bounded};
use crate::core::{commit, events};

use super::Bundle;

/// The store refused this decision, and would refuse it every time.
pub(super) fn unstorable(leading: &mut Leading<'_>, bundle: Bundle, reason: &str) {
    let reason = bounded(format!("the store refused to store it: {reason}"));
    let objects: BTreeSet<Object> = objects_of(&bundle).collect();
    if is_history(&bundle) {
        // It decides nothing: the events of a few instances are not there after a restart.
        return leading.emit(vec![Effect::Record(events::event(Kind::Quarantined, reason, leading.now))]);
    }
    if leading.lead.leadership.is_restoring() || (objects.is_empty() && bundle.command.is_none()) {
        // A restore cannot be quarantined: a partial restore must not count as complete.
        leading.lead.leadership.resign(reason);
        return;
    }
    let refusal = refusing(leading, &bundle, &reason);
    let (later, touched) = give_up_later(leading, &objects);
    if let Some(refusal) = refusal {
        leading.lead.outbox.push_first(refusal);
    }
    let given_up: Vec<Bundle> = std::iter::once(bundle).chain(later).collect();
    for change in given_up.iter().flat_map(|bundle| &bundle.changes) {
        leading.lead.dispatch.expect_no_more(change);
    }
    leading.restore_scope(Scope::Cluster);
    leading.restore_scope(Scope::Objects(touched.difference(&objects).cloned().collect()));
    for object in touched.difference(&objects) {
        reconcile_again(leading, object);
    }
    for object in objects {
        leading.quarantine(&object, reason.clone());
    }
    if given_up.iter().any(|bundle| bundle.spared.is_some()) {
        leading.spare_after_commit();
    }
}

/// Takes every waiting decision about these objects back, and every one about an object of those.
fn give_up_later(leading: &mut Leading<'_>, objects: &BTreeSet<Object>) -> (Vec<Bundle>, BTreeSet<Object>) {
    const LATER: &str =
        "not stored: the store refused an earlier decision about the same object; send the command again";
    let (mut given_up, mut touched) = (Vec::new(), objects.clone());
    loop {
        let before = given_up.len();
        let mut waiting = leading.lead.outbox.take_waiting();
        for bundle in &mut waiting {
            if !objects_of(bundle).any(|object| touched.contains(&object)) {
                continue;
            }
            touched.extend(objects_of(bundle));
            let refusal = refusing(leading, bundle, LATER).unwrap_or_default();
            given_up.push(std::mem::replace(bundle, refusal));
        }
        leading.lead.outbox.put_back(waiting);
        if given_up.len() == before {
            return (given_up, touched);
        }
    }
}

/// Replaces a command's decision by its refusal; the cursor still advances past the command.
fn refusing(leading: &mut Leading<'_>, bundle: &Bundle, reason: &str) -> Option<Bundle> {
    let (id, reply) = bundle.command.clone()?;
    let decided = leading.state.outcomes.get(&id);
    let digest = decided.and_then(|outcome| outcome.digest);
    let principal = decided.and_then(|outcome| outcome.principal.clone());
    let cursor = bundle.writes.iter().find(|write| write.key() == keys::CURSOR).cloned()?;
    let decision = Decision::Refused(Refusal::Unfit { reason: reason.to_owned() });
    let outcome = Outcome { id: id.clone(), at: leading.now, decision, digest, principal };
    leading.state.outcomes.insert(outcome.clone());
    let group = objects_of(bundle).find_map(|object| match object {
        Object::Group(name) | Object::Dependency(name) => Some(name),
        Object::Node(_) => None,
    });
    let event = Event { group, ..events::event(Kind::Refused, format!("{id} refused: {reason}"), leading.now) };
    let mut effects = vec![Effect::Record(event)];
    effects.extend(resolve(reply.clone(), Some(outcome.clone())));
    let writes = vec![expiring(commit::put(keys::outcome(&id), &outcome)), cursor];
    let audit = bundle.audit.clone().map(|change| change.refused(reason));
    Some(Bundle { writes, effects, audit, command: Some((id, reply)), ..Bundle::default() })
}

fn reconcile_again(leading: &mut Leading<'_>, object: &Object) {
    match object {
        Object::Group(name) => leading.lead.queue.mark(name.clone()),
        Object::Dependency(name) => leading.state.dependencies.mark(name.clone()),
        Object::Node(_) => {}
    }
}

fn is_history(bundle: &Bundle) -> bool {
    let is_history = |write: &Write| matches!(keys::parse(write.key()), Key::History(..));
    bundle.complete.is_empty() && !bundle.writes.is_empty() && bundle.writes.iter().all(is_history)
}

/// The objects whose records a decision changes. Pages of history are facts, and depend on no decision.
fn objects_of(bundle: &Bundle) -> impl Iterator<Item = Object> + '_ {
    // Which object a prefix belongs to is read from the first key below it.
    let below = bundle.complete.iter().map(|prefix| format!("{prefix}0"));
    let keys = bundle.writes.iter().map(|write| write.key().to_owned()).chain(below);
    keys.filter(|key| !matches!(keys::parse(key), Key::History(..))).filter_map(|key| Object::of_key(&key))
}
