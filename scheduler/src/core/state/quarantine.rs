//! Quarantines one object when work on it panics or the store refuses its records; everything else is reconciled as usual.
//!
//! A quarantined object stays as it is stored, and its nodes keep their order: agents restart containers by their policy, and
//! nothing is moved, updated or removed. The quarantine is not stored. The next leader meets the same error once and quarantines
//! the object again. It ends when the cause is gone: a command changes the object, or a retry succeeds.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use contract::command::Verb;
use contract::event::{Event, Kind};
use contract::keys::{self, Key};
use contract::layout;
use contract::name::{GroupName, NodeName};
use contract::notice::DeadLetter;
use contract::query::{QuarantinedKind, QuarantinedView};
use contract::time::Timestamp;

use crate::core::commit::Bundle;
use crate::core::events;
use crate::core::events::conditions::ConditionKey;
use crate::core::io::{Effect, Write};
use crate::core::leader::Leading;
use crate::core::reconcile::removal::nodes_of_removed;
use crate::core::timers::Timer;

use super::State;
use super::load::{self, Stored};

/// A quarantined group or dependency pod is reconciled again after this time, in case the cause was not its own.
const RETRY_AFTER: Duration = Duration::from_secs(300);
/// The same reason for the same object is reported once in this time.
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Objects that a view names; the metric counts all of them.
const MOST_SHOWN: usize = 100;

/// What can be quarantined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) enum Object {
    Group(GroupName),
    Dependency(GroupName),
    /// Nothing is placed on it, and its instances stay where they are, until one of its reports can be processed.
    Node(NodeName),
}

impl Object {
    /// The object that a stored key belongs to.
    pub(in crate::core) fn of_key(key: &str) -> Option<Self> {
        match keys::parse(key) {
            Key::Group(name)
            | Key::GroupSpec(name, _)
            | Key::Placement(name, _)
            | Key::Release(name)
            | Key::Revision(name, _)
            | Key::FormerPlacement(name)
            | Key::FormerRevisions(name)
            | Key::History(name, _) => Some(Self::Group(name)),
            Key::Dependency(name) | Key::DependencySpec(name, _) | Key::Pairs(name, _) | Key::FormerPairs(name) => {
                Some(Self::Dependency(name))
            }
            Key::Node(name) | Key::NodeIntent(name) => Some(Self::Node(name)),
            Key::Outcome(_)
            | Key::Cursor
            | Key::Store
            | Key::Progress
            | Key::Staged(_)
            | Key::StagedReady
            | Key::Restore
            | Key::RestorePart(..)
            | Key::Callbacks
            | Key::AccessMode
            | Key::Token(_)
            | Key::JoinToken(_)
            | Key::NodeKey(_)
            | Key::AuditHead
            | Key::Engine
            | Key::Constraints
            | Key::Policy(_)
            | Key::Unknown => None,
        }
    }
    /// The object of a timer.
    fn of_timer(timer: &Timer) -> Option<Self> {
        match timer {
            Timer::Group(name) | Timer::Coalesced(name) | Timer::Condition(ConditionKey::Instance(name, ..)) => {
                Some(Self::Group(name.clone()))
            }
            Timer::Dependency(name) => Some(Self::Dependency(name.clone())),
            Timer::Node(node) | Timer::Order(node) | Timer::Condition(ConditionKey::Engine(node)) => {
                Some(Self::Node(node.clone()))
            }
            Timer::Window | Timer::Losses | Timer::Unschedulable | Timer::Sweep | Timer::History | Timer::Commit => {
                None
            }
        }
    }
    pub(super) fn kind(&self) -> QuarantinedKind {
        match self {
            Self::Group(_) => QuarantinedKind::Group,
            Self::Dependency(_) => QuarantinedKind::Dependency,
            Self::Node(_) => QuarantinedKind::Node,
        }
    }
    fn name(&self) -> &str {
        match self {
            Self::Group(name) | Self::Dependency(name) => name.as_str(),
            Self::Node(name) => name.as_str(),
        }
    }
}

/// The quarantined objects.
#[derive(Debug, Default)]
pub(in crate::core) struct Quarantine {
    objects: BTreeMap<Object, Quarantined>,
    /// The last event about an object; kept for a while after the quarantine ends.
    reported: BTreeMap<Object, Reported>,
}

/// The events about one object. An object that enters and leaves quarantine repeatedly is reported once in
/// [`REPORT_AGAIN_AFTER`], and the last event says that it is quarantined.
#[derive(Debug)]
struct Reported {
    reason: String,
    at: Timestamp,
    ended_at: Option<Timestamp>,
    /// The last event was the end.
    is_over: bool,
}

#[derive(Debug)]
struct Quarantined {
    reason: String,
    since: Timestamp,
    retry_at: Timestamp,
}

impl Quarantine {
    /// Until when the object must not be reconciled.
    pub(in crate::core) fn holds_back(&self, object: &Object, now: Timestamp) -> Option<Timestamp> {
        let retry_at = self.objects.get(object).map(|quarantined| quarantined.retry_at);
        retry_at.filter(|at| now < *at)
    }
    pub(in crate::core) fn contains(&self, object: &Object) -> bool {
        self.objects.contains_key(object)
    }
    /// Why the group is not reconciled.
    pub(in crate::core) fn reason_of_group(&self, name: &GroupName) -> Option<String> {
        // Nearly always empty, and a list of groups calls this for each of them.
        let quarantined = if self.objects.is_empty() { None } else { self.objects.get(&Object::Group(name.clone())) };
        quarantined.map(|quarantined| format!("quarantined: {}", quarantined.reason))
    }
    pub(in crate::core) fn count(&self, kind: QuarantinedKind) -> usize {
        self.objects.keys().filter(|object| object.kind() == kind).count()
    }
    pub(in crate::core) fn views(&self) -> Vec<QuarantinedView> {
        let view = |(object, quarantined): (&Object, &Quarantined)| QuarantinedView {
            kind: object.kind(),
            name: object.name().to_owned(),
            reason: quarantined.reason.clone(),
            since: quarantined.since,
        };
        self.objects.iter().take(MOST_SHOWN).map(view).collect()
    }
}

/// What a command may have changed in memory before it panicked.
#[derive(Debug, Clone)]
pub(in crate::core) enum Scope {
    Objects(Vec<Object>),
    /// The groups with an instance on the node, and the node.
    NodeAndItsGroups(NodeName),
    /// Callbacks, switches, constraints, policies and access.
    Cluster,
}

impl Scope {
    pub(in crate::core) fn of(verb: &Verb) -> Self {
        let group = |name: &GroupName| Self::Objects(vec![Object::Group(name.clone())]);
        let dependency = |name: &GroupName| Self::Objects(vec![Object::Dependency(name.clone())]);
        let named =
            |text: &str, object: fn(GroupName) -> Object| Self::Objects(text.parse().map(object).into_iter().collect());
        match verb {
            Verb::CreateGroup { spec } => named(&spec.name, Object::Group),
            Verb::RemoveGroup { name, .. }
            | Verb::Replica { name, .. }
            | Verb::PatchSpec { name, .. }
            | Verb::PatchStrategy { name, .. }
            | Verb::Rollout { name, .. }
            | Verb::SetGate { name, .. }
            | Verb::Drained { name, .. }
            | Verb::Operate { name, .. } => group(name),
            Verb::Drift { drift, .. } => Self::NodeAndItsGroups(drift.from.clone()),
            Verb::Evacuate { node } | Verb::Node { node, .. } => Self::NodeAndItsGroups(node.clone()),
            Verb::CreateDependency { pod } | Verb::UpdateDependency { pod } => named(&pod.name, Object::Dependency),
            Verb::RemoveDependency { name, .. } => dependency(name),
            Verb::AddCallback { .. }
            | Verb::RemoveCallback { .. }
            | Verb::Configure { .. }
            | Verb::RunEngine { .. }
            | Verb::Guard { .. }
            | Verb::SetConstraint { .. }
            | Verb::RemoveConstraint { .. }
            | Verb::SetPolicy { .. }
            | Verb::RemovePolicy { .. }
            | Verb::CreateToken { .. }
            | Verb::ReportRefused { .. }
            | Verb::RevokeToken { .. }
            | Verb::CreateJoinToken { .. }
            | Verb::RevokeJoinToken { .. }
            | Verb::Join { .. }
            | Verb::EnforceAccess { .. }
            | Verb::Restore { .. } => Self::Cluster,
        }
    }
}

/// Runs one step; a panic in it is an error with the panic's message.
pub(in crate::core) fn attempt<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    // The caller restores what the step may have left half changed.
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| bounded(message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

impl Leading<'_> {
    /// Works on one object; a panic quarantines it. Returns whether the step ended without one.
    pub(in crate::core) fn guarded(&mut self, object: &Object, step: impl FnOnce(&mut Self)) -> bool {
        match attempt(|| step(self)) {
            Ok(()) => true,
            Err(panic) => {
                self.quarantine(object, format!("reconciling it panicked: {panic}"));
                false
            }
        }
    }

    /// Reconciles one object, unless it is quarantined; a success ends a quarantine whose retry was due.
    pub(in crate::core) fn reconcile(&mut self, object: &Object, step: impl FnOnce(&mut Self)) {
        if let Some(retry_at) = self.state.quarantine.holds_back(object, self.now) {
            return self.retry_at(object, retry_at);
        }
        if self.is_unread(object) {
            return;
        }
        if self.guarded(object, step) {
            self.end_quarantine(object, "reconciling it succeeded");
        }
    }

    /// Whether a stored value of the object cannot be read, so that nothing is known of it but its name.
    pub(in crate::core) fn is_unread(&self, object: &Object) -> bool {
        match object {
            Object::Group(name) => self.state.spared.contains(name),
            Object::Dependency(name) => self.state.dependencies.is_spared(name),
            Object::Node(_) => false,
        }
    }

    /// Quarantines the objects whose stored values cannot be read. A command that removes them ends it.
    pub(in crate::core) fn quarantine_unread(&mut self, unread: Vec<DeadLetter>) {
        for letter in unread {
            if let Some(object) = Object::of_key(&letter.subject).filter(|object| self.is_unread(object)) {
                self.note_quarantined(&object, format!("{} cannot be read: {}", letter.subject, letter.reason));
            }
        }
    }

    /// Deletes everything that is stored of an object whose values cannot be read; its containers go with the next orders.
    pub(in crate::core) fn remove_unread(&mut self, object: &Object) -> Bundle {
        let keys = self.stored.keys().filter(|key| Object::of_key(key).as_ref() == Some(object));
        let writes = keys.map(|key| Write::Delete { key: key.clone() }).collect();
        match object {
            Object::Group(name) => {
                self.state.spared.remove(name);
                self.state.histories.forget(name);
            }
            Object::Dependency(name) => self.state.dependencies.end_sparing(name),
            Object::Node(_) => {}
        }
        self.end_quarantine(object, "a command removed it");
        Bundle { writes, spared: Some(Arc::new(self.state.untouchable())), ..Bundle::default() }
    }

    fn retry_at(&mut self, object: &Object, at: Timestamp) {
        match object {
            Object::Group(name) => self.lead.timers.set(Timer::Group(name.clone()), Some(at)),
            Object::Dependency(name) => self.lead.timers.set(Timer::Dependency(name.clone()), Some(at)),
            Object::Node(_) => {}
        }
    }

    /// Handles a timer; a panic quarantines the object of the timer.
    pub(in crate::core) fn fire_guarded(&mut self, timer: Timer) {
        match Object::of_timer(&timer) {
            Some(object) => drop(self.guarded(&object, |leading| leading.fire(timer))),
            None => self.fire(timer),
        }
    }

    /// Stops reconciling an object, which is as stored from now on.
    pub(in crate::core) fn quarantine(&mut self, object: &Object, reason: String) {
        self.restore_object(object);
        self.note_quarantined(object, reason);
    }

    fn note_quarantined(&mut self, object: &Object, reason: String) {
        let reason = bounded(reason);
        let retry_at = self.now + RETRY_AFTER;
        self.retry_at(object, retry_at);
        let known = self.state.quarantine.objects.get(object);
        let since = known.map_or(self.now, |known| known.since);
        let quarantined = Quarantined { reason: reason.clone(), since, retry_at };
        self.state.quarantine.objects.insert(object.clone(), quarantined);
        let (now, reported) = (self.now, &mut self.state.quarantine.reported);
        let is_recent = |at: Timestamp| now.since(at) < REPORT_AGAIN_AFTER;
        reported.retain(|_, last| is_recent(last.at));
        let last = reported.get(object);
        if last.is_some_and(|last| last.reason == reason && !last.is_over) {
            return;
        }
        let ended_at = last.and_then(|last| last.ended_at);
        reported.insert(object.clone(), Reported { reason: reason.clone(), at: now, ended_at, is_over: false });
        self.emit(vec![self.quarantine_event(object, format!("quarantined: {reason}"))]);
    }

    /// The cause of a quarantine is gone: the object is reconciled again.
    pub(in crate::core) fn end_quarantine(&mut self, object: &Object, why: &str) {
        if self.state.quarantine.objects.is_empty() || self.state.quarantine.objects.remove(object).is_none() {
            return;
        }
        let (now, last) = (self.now, self.state.quarantine.reported.get_mut(object));
        if let Some(last) = last {
            if last.ended_at.is_some_and(|at| now.since(at) < REPORT_AGAIN_AFTER) {
                return;
            }
            (last.ended_at, last.is_over) = (Some(now), true);
        }
        self.emit(vec![self.quarantine_event(object, format!("no longer quarantined: {why}"))]);
    }

    fn quarantine_event(&self, object: &Object, message: String) -> Effect {
        let event = events::event(Kind::Quarantined, message, self.now);
        Effect::Record(match object {
            Object::Group(name) | Object::Dependency(name) => Event { group: Some(name.clone()), ..event },
            Object::Node(node) => Event { node: Some(node.clone()), ..event },
        })
    }

    /// Undoes what a command that panicked left half changed.
    pub(in crate::core) fn restore_scope(&mut self, scope: Scope) {
        let objects = match scope {
            Scope::Objects(objects) => objects,
            Scope::NodeAndItsGroups(node) => {
                let groups = self.state.groups_on(&node).into_iter().map(Object::Group);
                groups.chain([Object::Node(node)]).collect()
            }
            Scope::Cluster => return self.restore_cluster(),
        };
        for object in &objects {
            self.restore_object(object);
        }
    }

    /// Makes what memory holds of an object equal to what is stored or on its way into the store.
    fn restore_object(&mut self, object: &Object) {
        let stored = self.latest(|key| Object::of_key(key).as_ref() == Some(object));
        let restored = attempt(|| match object {
            Object::Group(name) => self.restore_group(name, &stored),
            Object::Dependency(name) => self.state.reload_dependency(name, &stored, self.settings.quota_cores),
            Object::Node(node) => self.restore_node(node, &stored),
        });
        if restored.is_ok() {
            return;
        }
        // Not even its stored state can be worked with: its containers are left alone as if its record could not be read.
        self.purge(object);
        self.spare_after_commit();
    }

    fn purge(&mut self, object: &Object) {
        match object {
            Object::Group(name) => {
                self.state.purge_group(name);
                self.state.spared.insert(name.clone());
            }
            Object::Dependency(name) => {
                self.state.purge_dependency(name);
                self.state.dependencies.spare(name.clone());
            }
            Object::Node(_) => {}
        }
    }

    /// Quarantines an object whose orders cannot be computed at the start of a leadership. Without them agents would remove its
    /// containers, so the next orders spare it.
    pub(in crate::core) fn quarantine_at_start(&mut self, object: &Object, panic: &str) {
        self.purge(object);
        self.note_quarantined(object, format!("its orders cannot be made, reading them panicked: {panic}"));
        self.lead.dispatch.set_spared(Arc::new(self.state.untouchable()));
    }

    fn restore_group(&mut self, name: &GroupName, stored: &Stored) {
        self.lead.specs.forget(name);
        self.state.reload_group(name, stored, self.settings.quota_cores);
        let nodes: Vec<NodeName> = self.state.nodes.keys().cloned().collect();
        if let Some(group) = self.state.groups.get_mut(name).filter(|group| group.is_removing()) {
            group.unconfirmed_nodes = nodes_of_removed(group, &nodes);
        }
    }

    fn restore_node(&mut self, node: &NodeName, stored: &Stored) {
        self.reports.discard(node);
        for key in stored.keys() {
            drop(load::refresh(self.state, key, stored, self.settings.quota_cores));
        }
        self.judge_node(node);
    }

    /// Reads everything again that belongs to no object: what is stored, and what only memory has.
    fn restore_cluster(&mut self) {
        let stored = self.latest(is_of_cluster);
        let single = [keys::CALLBACKS, keys::ENGINE, keys::CONSTRAINTS, keys::ACCESS_MODE].map(str::to_owned);
        let policies = self.state.policies.rows().into_iter().map(|row| keys::policy(&row.namespace));
        let tokens = self.state.access.tokens().map(|token| keys::token(&token.id));
        let join_tokens = self.state.joins.tokens().map(|token| keys::join_token(&token.id));
        let node_keys = self.state.joins.nodes().map(keys::node_key);
        let known = single.into_iter().chain(policies).chain(tokens).chain(join_tokens).chain(node_keys);
        for key in known.chain(stored.keys().cloned()).collect::<BTreeSet<String>>() {
            drop(load::refresh(self.state, &key, &stored, self.settings.quota_cores));
        }
    }

    /// The chosen keys with the values that are stored, or will be when every decision made so far is.
    fn latest(&self, choose: impl Fn(&str) -> bool) -> Stored {
        // Outcomes, of which there may be many, belong to no object.
        let chosen = layout::under(keys::STATE, self.stored).filter(|(key, _)| choose(key));
        let mut latest: Stored = chosen.map(|(key, value)| (key.clone(), value.clone())).collect();
        self.lead.outbox.overlay(&mut latest, choose);
        latest
    }
}

/// Whether the key holds what [`Scope::Cluster`] restores. Cursor, store and progress are no decisions of a command.
fn is_of_cluster(key: &str) -> bool {
    match keys::parse(key) {
        Key::Callbacks
        | Key::Engine
        | Key::Constraints
        | Key::Policy(_)
        | Key::AccessMode
        | Key::Token(_)
        | Key::JoinToken(_)
        | Key::NodeKey(_) => true,
        Key::Group(_)
        | Key::GroupSpec(..)
        | Key::Placement(..)
        | Key::Release(_)
        | Key::Revision(..)
        | Key::FormerPlacement(_)
        | Key::FormerRevisions(_)
        | Key::History(..)
        | Key::Dependency(_)
        | Key::DependencySpec(..)
        | Key::Pairs(..)
        | Key::FormerPairs(_)
        | Key::Node(_)
        | Key::NodeIntent(_)
        | Key::Outcome(_)
        | Key::Cursor
        | Key::Store
        | Key::Progress
        | Key::Staged(_)
        | Key::StagedReady
        | Key::Restore
        | Key::RestorePart(..)
        | Key::AuditHead
        | Key::Unknown => false,
    }
}

impl State {
    /// Reads a group again from its stored keys.
    fn reload_group(&mut self, name: &GroupName, stored: &Stored, quota_cores: u32) {
        self.purge_group(name);
        drop(load::refresh(self, &keys::group(name), stored, quota_cores));
    }

    /// Forgets a group without relying on any index that a panic may have left wrong.
    pub(super) fn purge_group(&mut self, name: &GroupName) {
        self.groups.remove(name);
        self.claims.cancel(name);
        for pods in self.assigned.values_mut() {
            pods.retain(|pod, _| pod.group != *name);
        }
        self.dependencies.forget_uses(name);
        self.count_used();
    }

    fn reload_dependency(&mut self, name: &GroupName, stored: &Stored, quota_cores: u32) {
        self.purge_dependency(name);
        drop(load::refresh(self, &keys::dependency(name), stored, quota_cores));
    }

    /// Forgets a dependency pod without relying on any index that a panic may have left wrong.
    pub(super) fn purge_dependency(&mut self, name: &GroupName) {
        self.dependencies.purge(name);
        self.count_used();
    }

    /// Counts what is used on every node from what is placed there.
    fn count_used(&mut self) {
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            let used = self.used_on(&node);
            if let Some(host) = self.nodes.get_mut(&node) {
                host.used = used;
            }
        }
    }
}

/// The text, cut to the length that a stored error may have.
pub(in crate::core) fn bounded(text: String) -> String {
    match layout::short(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(cut) => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_a_short_one_is_kept() {
        let long = bounded("é".repeat(1_000));
        assert!(long.len() <= layout::LONGEST_REASON && long.ends_with("é…"), "{}", long.len());
        assert_eq!(bounded("x".repeat(layout::LONGEST_REASON)), "x".repeat(layout::LONGEST_REASON));
    }
}
