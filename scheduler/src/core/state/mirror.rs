//! Follows the store: etcd's watch delivers every change to a standby, and changes by other writers to a leader.

use std::time::Duration;

use contract::command::Outcome;
use contract::{keys, layout};

use crate::core::io::Mirror;
use crate::core::{Core, Role};

use super::load::{self, Stored};

/// etcd keeps an outcome for at least this time.
const OUTCOMES_KEPT: Duration = Duration::from_secs(60 * 60);

impl Core {
    pub(in crate::core) fn mirror(&mut self, mirror: Mirror) {
        if let Role::Leader(_) = self.role {
            return self.mirror_while_leading(mirror);
        }
        let changed = match mirror {
            Mirror::Reset(pairs) => {
                self.stored.clear();
                self.converted.clear();
                pairs.into_iter().for_each(|(key, value)| drop(self.store_mirrored(key, value)));
                return drop(self.rebuild());
            }
            Mirror::Put(key, value) => {
                let mut changed = self.drop_former(&key);
                changed.extend(self.store_mirrored(key, value));
                changed
            }
            Mirror::Delete(key) => {
                let mut changed = self.drop_former(&key);
                self.stored.remove(&key);
                changed.push(key);
                changed
            }
        };
        changed.iter().for_each(|key| self.refresh(key));
    }

    /// Stores a mirrored value in the present schema; the keys it has there. A standby of this build may follow a leader that
    /// still writes schema 1.
    fn store_mirrored(&mut self, key: String, value: Vec<u8>) -> Vec<String> {
        let Some(entries) = layout::from_schema_1(&key, &value) else {
            self.converted.remove(&key);
            self.stored.insert(key.clone(), value);
            return vec![key];
        };
        let keys: Vec<String> = entries.iter().map(|(key, _)| key.clone()).collect();
        self.converted.extend(keys.iter().cloned());
        self.stored.extend(entries);
        keys
    }

    /// A leader is the one writer, and the watch may lag behind its commits: what it mirrors counts once this process follows.
    /// Only the end of an outcome's lease is news.
    fn mirror_while_leading(&mut self, mirror: Mirror) {
        match mirror {
            Mirror::Put(key, value) => self.note_mirrored(key, Some(value)),
            Mirror::Delete(key) => self.note_gone(key, true),
            Mirror::Reset(pairs) => {
                let listed: Stored = pairs.into_iter().collect();
                let gone: Vec<String> = self.stored.keys().filter(|key| !listed.contains_key(*key)).cloned().collect();
                gone.into_iter().for_each(|key| self.note_gone(key, false));
                listed.into_iter().for_each(|(key, value)| self.note_mirrored(key, Some(value)));
            }
        }
    }

    /// A key is deleted, or is missing in a listing, which may be older than an outcome that was just stored.
    fn note_gone(&mut self, key: String, is_deleted: bool) {
        let keys::Key::Outcome(id) = keys::parse(&key) else { return self.note_mirrored(key, None) };
        let is_old = |outcome: &Outcome| self.now.since(outcome.at) >= OUTCOMES_KEPT;
        if is_deleted || self.state.outcomes.get(&id).is_none_or(is_old) {
            self.state.outcomes.remove(&id);
            self.stored.remove(&key);
            self.mirrored.remove(&key);
        }
    }

    fn note_mirrored(&mut self, key: String, value: Option<Vec<u8>>) {
        if self.stored.get(&key) == value.as_ref() {
            self.mirrored.remove(&key);
        } else {
            self.mirrored.insert(key, value);
        }
    }

    /// A key changed under a standby.
    fn refresh(&mut self, key: &str) {
        let result = load::refresh(&mut self.state, key, &self.stored, self.settings.quota_cores);
        self.unreadable += u64::from(result.is_err());
        self.note_removed(key);
        if let keys::Key::Node(node) | keys::Key::NodeIntent(node) = keys::parse(key)
            && let Some(report) = self.reports.get(&node).and_then(|observed| observed.report.as_ref())
        {
            self.state.put_node(&node, &report.head.facts, report.head.engine);
        }
    }

    /// An older leader changed a value of schema 1: forgets what it was converted to before.
    fn drop_former(&mut self, key: &str) -> Vec<String> {
        let Some(prefix) = layout::prefix_of_schema_1(key) else { return Vec::new() };
        let converted = layout::under(&prefix, &self.stored).map(|(key, _)| key);
        let former: Vec<String> = converted.filter(|key| self.converted.contains(*key)).cloned().collect();
        former.iter().for_each(|key| drop(self.stored.remove(key)));
        former
    }
}
