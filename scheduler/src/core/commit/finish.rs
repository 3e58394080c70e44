//! Passes decisions to the outbox, and does what follows when a commit ends.

use contract::layout::{Owner, SpecRef};
use contract::name::GroupName;
use contract::spec::PodSpec;

use crate::core::commands::limits;
use crate::core::commit;
use crate::core::io::{CommitResult, Effect, Mutant, Write};
use crate::core::leader::Leading;
use crate::core::state::{Group, Warning};
use crate::core::timers::Timer;

use super::{Bundle, Released, durability, unstorable};

impl Leading<'_> {
    /// Makes a decision: its effects leave when it is committed.
    pub(in crate::core) fn decide(&mut self, mut bundle: Bundle) {
        for change in &bundle.changes {
            self.lead.dispatch.expect(change);
        }
        bundle.writes.extend(self.spec_writes());
        bundle.effects.extend(self.lead.event_dedup.operations(self.state, &bundle.writes, self.now));
        if self.has_mutant(Mutant::EffectsBeforeCommit) {
            let (effects, changes) = (std::mem::take(&mut bundle.effects), std::mem::take(&mut bundle.changes));
            let (switches, spared, decided) = (bundle.switches.take(), bundle.spared.take(), bundle.decided.take());
            self.release(Released { effects, changes, switches, spared, decided, step_down: None });
        }
        self.lead.outbox.push(bundle);
    }

    /// Performs effects when everything decided so far is committed.
    pub(in crate::core) fn emit(&mut self, effects: Vec<Effect>) {
        if !effects.is_empty() && !self.lead.outbox.is_full() {
            self.decide(Bundle { effects, ..Bundle::default() });
        }
    }

    /// The next decision changes the record or the revisions of a group: notes the pod specs that are stored of it.
    pub(in crate::core) fn note_specs(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name) else { return };
        let specs = || group.specs().cloned().collect();
        self.lead.respecified.entry(name.clone()).or_insert_with(specs);
    }

    /// Finds the groups whose pod specs are stored under other digests than this version computes.
    pub(in crate::core) fn note_redigested(&mut self) {
        let stored = &*self.stored;
        let is_stored = |name: &GroupName, pod| stored.contains_key(&Owner::Group(name).key(&SpecRef::to(pod).digest));
        let redigested =
            self.state.groups.iter().filter(|(name, group)| !group.specs().all(|pod| is_stored(name, pod)));
        self.lead.redigested = redigested.map(|(name, _)| name.clone()).collect();
    }

    /// The writes that store the pod specs of the noted groups and delete unused ones.
    fn spec_writes(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        for (name, before) in std::mem::take(&mut self.lead.respecified) {
            let after: Vec<&PodSpec> = self.state.groups.get(&name).into_iter().flat_map(Group::specs).collect();
            let before: Vec<&PodSpec> = before.iter().collect();
            writes.extend(commit::spec_writes(Owner::Group(&name), &before, &after));
        }
        writes
    }

    pub(in crate::core) fn commit(&mut self) {
        let (released, commit) = self.lead.outbox.start(self.lead.leadership.term());
        for part in released {
            self.release(part);
        }
        self.effects.extend(commit.map(Effect::Commit));
    }

    /// A commit ended.
    pub(in crate::core) fn committed(&mut self, id: u64, result: CommitResult) {
        if self.lead.outbox.in_flight() != Some(id) {
            return;
        }
        match result {
            CommitResult::Stored => {
                let Some((writes, released)) = self.lead.outbox.stored(id) else { return };
                self.lead.timers.set(Timer::Commit, None);
                self.state.warnings.remove(&Warning::StoreFull);
                self.remember(writes);
                for part in released {
                    self.release(part);
                }
            }
            CommitResult::Full => {
                self.state.warnings.insert(Warning::StoreFull, limits::NO_SPACE.to_owned());
                self.lead.timers.set(Timer::Commit, Some(self.now + commit::FULL_AGAIN_AFTER));
            }
            CommitResult::Unknown => self.lead.timers.set(Timer::Commit, Some(self.now + commit::AGAIN_AFTER)),
            CommitResult::Invalid { reason } => {
                self.lead.timers.set(Timer::Commit, None);
                if let Some(bundle) = self.lead.outbox.refused(id) {
                    unstorable::unstorable(self, bundle, &reason);
                }
            }
            CommitResult::WentBack => {
                let reason = "etcd came back with an older state and lacks commits of this leader";
                self.lead.leadership.resign(reason);
            }
            CommitResult::Denied => {
                let reason = "etcd refuses the credentials of this scheduler (permission denied or not authenticated)";
                self.lead.leadership.resign(reason);
            }
            CommitResult::Fenced => self.lead.leadership.resign("a write was fenced: another scheduler leads"),
        }
    }

    /// Folds own writes into the stored view, so that it is current when leadership ends. The watch may have delivered them
    /// already.
    fn remember(&mut self, writes: Vec<Write>) {
        for write in writes {
            let key = commit::key(&write).to_owned();
            let value = match write {
                Write::Put { value, .. } => Some(value),
                Write::Delete { .. } => None,
            };
            if self.mirrored.get(&key) == Some(&value) {
                self.mirrored.remove(&key);
            }
            match value {
                Some(value) => drop(self.stored.insert(key, value)),
                None => drop(self.stored.remove(&key)),
            }
        }
    }

    fn release(&mut self, Released { effects, changes, switches, spared, decided, step_down }: Released) {
        if let Some(reason) = step_down {
            self.lead.leadership.step_down(reason);
        }
        if let Some(decided) = decided {
            durability::note_stored(self, decided);
        }
        self.effects.extend(effects);
        for change in changes {
            self.lead.dispatch.deliver(&change);
        }
        if let Some(spared) = spared {
            self.lead.dispatch.set_spared(spared);
        }
        if let Some(switches) = switches {
            self.lead.dispatch.set_switches(switches);
        }
    }
}
