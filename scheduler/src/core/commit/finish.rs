//! Passes decisions to the outbox, and does what follows when a commit ends.

use contract::keys;

use crate::core::commands::limits;
use crate::core::commit;
use crate::core::events;
use crate::core::io::{CommitResult, Effect, Mutant, Write};
use crate::core::leader::Leading;
use crate::core::state::Warning;
use crate::core::timers::Timer;

use super::{Bundle, Released, durability, unstorable};

impl Leading<'_> {
    /// Makes a decision: its effects leave when it is committed.
    pub(in crate::core) fn decide(&mut self, mut bundle: Bundle) {
        for change in &bundle.changes {
            self.lead.dispatch.expect(change);
        }
        bundle.writes.extend(self.take_spec_writes());
        bundle.effects.extend(self.lead.event_dedup.operations(self.state, &bundle.writes, self.now));
        events::note_namespaces(&mut bundle.effects, self.state);
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
                self.state.end_warning(Warning::StoreFull);
                self.remember(writes);
                for part in released {
                    self.release(part);
                }
            }
            CommitResult::Full => {
                self.state.warn(Warning::StoreFull, limits::NO_SPACE);
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
        for write in writes.into_iter().filter(|write| !keys::is_audit_record(write.key())) {
            let key = write.key().to_owned();
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
