//! Detects a store that came back with an older state, for example from an older copy of etcd's files.
//!
//! Agents know commits that the older store lacks (`contract::progress`) and refuse its orders. The leader then decides nothing,
//! because a decision could stop or duplicate what those commits started. Commands that JetStream stored before this leadership
//! come after the older cursor, so the leader applies them again. New commands wait in the stream, because the restore replaces
//! everything that is stored.

use contract::event::Kind;
use contract::progress::Progress;

use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::state::Warning;
use crate::core::{Core, events};

/// Shown by `deployctl status` and in the event.
const WARNING: &str = "etcd came back with an older state than the nodes know: nothing is stopped and nothing is decided until \
     a backup is restored (deployctl restore); see \"etcd was restored from an older copy\" in docs/operations.md";

/// A node, or this process, knows of these commits: if the store lacks one of them, it came back with an older state.
pub(in crate::core) fn compare_progress(leading: &mut Leading<'_>, known: &Progress) {
    // Commits of later leaders mean that this one was deposed.
    if leading.lead.leadership.is_store_behind()
        || leading.lead.outbox.progress().covers_before(known, leading.lead.leadership.term())
    {
        return;
    }
    leading.lead.leadership.note_store_behind();
    leading.state.warn(Warning::StoreBehind, WARNING);
    leading.emit(vec![Effect::Record(events::event(Kind::Leader, WARNING.to_owned(), leading.now))]);
}

/// `stored` are the commits in the store. If this leader over an older state does not know all of them, the store was replaced
/// again, and the next leader loads it. The election key may be in both states, so this leader may not notice otherwise.
pub(in crate::core) fn resign_if_replaced(leading: &mut Leading<'_>, stored: &Progress) {
    if leading.lead.leadership.is_store_behind()
        && !leading.lead.outbox.begun(leading.lead.leadership.term()).covers(stored)
    {
        leading.lead.leadership.resign("etcd holds another state than this leader has loaded");
    }
}

/// Whether a command that JetStream stored at this time, in nanoseconds, is newer than a leadership over an older state.
pub(in crate::core) fn waits_for_recovery(leading: &Leading<'_>, stored_at: Option<i64>) -> bool {
    let is_new = |nanos: i64| nanos / 1_000_000 >= leading.lead.listening.since().as_millis();
    leading.lead.leadership.is_store_behind() && stored_at.is_none_or(is_new)
}

impl Core {
    /// Whether this process leads over a store that came back with an older state.
    pub fn is_behind(&self) -> bool {
        self.leader().is_some_and(|lead| lead.leadership.is_store_behind())
    }
}
