//! The outcomes of recent commands, by which a repeated command is recognised.

use std::collections::BTreeMap;

use contract::command::Outcome;
use contract::name::CommandId;
use contract::time::Timestamp;

/// Outcomes that make room for one new.
const FORGOTTEN_AT_ONCE: usize = 2;

/// One pass over all outcomes finds the oldest hundredth of them.
const OLDEST_FRACTION: usize = 100;

/// What became of recent commands. Each is known until its etcd lease ends: no clock of ours decides that, because a clock that is
/// ahead would let a repeated command run twice. Clients that send commands without end must not fill the store, so there is a
/// limit too, and the oldest make room.
#[derive(Debug, Default)]
pub(in crate::core) struct Outcomes {
    by_id: BTreeMap<CommandId, Outcome>,
    /// The oldest when there were last too many, the oldest of them at the end.
    oldest: Vec<CommandId>,
}

impl Outcomes {
    /// Drops a few of the oldest outcomes while there are more than `most`. Returns them.
    pub(in crate::core) fn forget_surplus(&mut self, most: usize) -> Vec<CommandId> {
        let mut forgotten = Vec::new();
        while self.by_id.len() > most && forgotten.len() < FORGOTTEN_AT_ONCE {
            let Some(id) = self.oldest.pop() else {
                self.find_oldest();
                continue;
            };
            if self.by_id.remove(&id).is_some() {
                forgotten.push(id);
            }
        }
        forgotten
    }

    /// Reads all outcomes, so one call finds many.
    fn find_oldest(&mut self) {
        let mut by_age: Vec<(Timestamp, &CommandId)> =
            self.by_id.values().map(|outcome| (outcome.at, &outcome.id)).collect();
        let found = by_age.len().div_ceil(OLDEST_FRACTION);
        if let Some(last) = found.checked_sub(1) {
            by_age.select_nth_unstable(last);
        }
        by_age.truncate(found);
        by_age.sort_unstable_by(|one, other| other.cmp(one));
        self.oldest = by_age.into_iter().map(|(_, id)| id.clone()).collect();
    }
    pub(in crate::core) fn get(&self, id: &CommandId) -> Option<&Outcome> {
        self.by_id.get(id)
    }
    pub(in crate::core) fn insert(&mut self, outcome: Outcome) {
        self.by_id.insert(outcome.id.clone(), outcome);
    }
    pub(super) fn remove(&mut self, id: &CommandId) {
        self.by_id.remove(id);
    }
}
