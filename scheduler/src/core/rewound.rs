//! A store that came back with an older state, for example from an older copy of etcd's files.
//!
//! Nodes know commits that such a store lacks (`contract::progress`). They refuse its orders; the leader decides nothing, because
//! whatever it decides could stop or duplicate what those commits started. Commands are still taken: the ones of the last
//! minutes are in the stream, behind the older cursor, and bring back what they asked for once a restore ends this.

use contract::event::Kind;
use contract::progress::Progress;

use super::io::Effect;
use super::leader::Leading;
use super::state::Warning;
use super::{Core, events};

/// What `deployctl status` and the event say.
const WARNING: &str = "etcd came back with an older state than the nodes know: nothing is stopped and nothing is decided until \
     a backup is restored (deployctl restore); see \"etcd was restored from an older copy\" in docs/operations.md";

impl Leading<'_> {
    /// A node, or this process, knows of these commits: if the store lacks one of them, it came back with an older state.
    pub(super) fn compare_progress(&mut self, known: &Progress) {
        // Commits of later leaders mean that this one was deposed.
        if self.lead.behind || self.lead.outbox.progress().covers_before(known, self.lead.term) {
            return;
        }
        self.lead.behind = true;
        self.state.warnings.insert(Warning::StoreBehind, WARNING.to_owned());
        self.tell(vec![Effect::Record(events::event(Kind::Leader, WARNING.to_owned(), self.now))]);
    }
}

impl Core {
    /// Whether this process leads over a store that came back with an older state.
    pub fn is_behind(&self) -> bool {
        self.leader().is_some_and(|lead| lead.behind)
    }
}
