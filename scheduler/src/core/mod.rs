//! The scheduler's decisions: a value that takes inputs and returns effects.
//!
//! A follower folds the stored state and every report; a leader also decides. `Elected` carries everything that is stored,
//! including the outcomes (`contract::keys::STATE` and `contract::keys::OUTCOMES`), by which a repeated command is recognised.
//!
//! The leader's loop runs through the folders: `observe` folds a report, `commands` changes records, `reconcile` plans, `commit`
//! stores and `dispatch` sends orders. `state` holds what they share, `events` explains, `queries` answers.

mod commands;
mod commit;
mod dispatch;
mod events;
pub mod io;
mod leader;
mod leadership;
pub mod mutants;
mod observe;
pub mod queries;
mod reconcile;
mod state;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::{BTreeMap, BTreeSet};

use contract::fence::Term;
use contract::name::NodeName;
use contract::notice::DeadLetter;
use contract::progress::Progress;
use contract::query::{QuarantinedKind, Query, Reply};
use contract::record::Cursor;
use contract::report::ReportMessage;
use contract::time::Timestamp;
use planner::liveness::{self, Heartbeats, LivenessTimeouts};

use self::commands::limits::StoreSize;
use self::commit::{AuditChange, AuditEdit, Bundle, Outbox};
use self::io::{Effect, Inbox, Input, Settings};
use self::leader::{Leader, Leading};
use self::leadership::{Ending, Leadership};
use self::observe::reports::ReportCache;
use self::queries::{Answered, Queries};
use self::state::load::Stored;
use self::state::quarantine::{Object, attempt};
use self::state::{State, Warning};

/// The core.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    role: Role,
    state: State,
    /// The keys and values in etcd, as far as this process knows.
    stored: Stored,
    /// Changes that the watch reported while this process leads and that it did not write; applied when it follows again.
    mirrored: BTreeMap<String, Option<Vec<u8>>>,
    /// Keys of `stored` that were converted from schema 1 and are not stored themselves.
    converted: BTreeSet<String>,
    reports: ReportCache,
    /// The latest time seen. It never decreases, even if the clock does.
    now: Timestamp,
    /// When this process started to receive reports.
    listening_since: Option<Timestamp>,
    /// When NATS was last connected; none while disconnected.
    bus_since: Option<Timestamp>,
    /// The last own term and the highest generation of its orders, so that no fence is used twice.
    counted: (Term, u64),
    /// The commits that the last leadership of this process knew to be stored.
    progress: Progress,
    disagreements: u64,
    unreadable: u64,
    /// Queries that panicked.
    failed_queries: u64,
    /// Bytes of etcd's database in use when it was last sampled.
    store_size: StoreSize,
    /// More inputs wait: reconcile, commit and dispatch run after the last of them.
    is_batching: bool,
}

#[derive(Debug)]
enum Role {
    Follower,
    Leader(Box<Leader>),
}

impl Core {
    /// A follower without any state.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            role: Role::Follower,
            state: State::default(),
            stored: Stored::new(),
            mirrored: BTreeMap::new(),
            converted: BTreeSet::new(),
            reports: ReportCache::default(),
            now: Timestamp::NEVER,
            listening_since: None,
            bus_since: Some(Timestamp::NEVER),
            counted: (Term(0), 0),
            progress: Progress::default(),
            disagreements: 0,
            unreadable: 0,
            failed_queries: 0,
            store_size: StoreSize::default(),
            is_batching: false,
        }
    }

    /// Takes an input and returns the effects to perform, in this order.
    pub fn on(&mut self, input: Input, now: Timestamp) -> Vec<Effect> {
        self.now = self.now.max(now);
        self.listening_since.get_or_insert(self.now);
        match input {
            Input::Mirror(mirror) => self.mirror(mirror),
            Input::Elected { term, stored } => return self.elected(term, stored),
            Input::Deposed => self.follow(),
            Input::Command(delivery) => return self.lead(|leading| leading.command(delivery)),
            Input::Report(message) => return self.report(message),
            Input::Query { query, reply } => return self.query(query, reply),
            Input::Committed { id, result } => return self.lead(|leading| leading.committed(id, result)),
            Input::OrderReplied { node, fence, reply } => {
                return self.lead(|leading| {
                    leading.guarded(&Object::Node(node.clone()), |leading| {
                        leading.order_replied(&node, fence, reply.as_ref());
                    });
                });
            }
            Input::Bus { connected } => {
                self.bus_since = connected.then_some(self.now);
                return self.lead(|leading| leading.lead.losses.forget());
            }
            Input::Clock { ahead_millis } => {
                return self.lead(|leading| observe::clocks::check_clock(leading, ahead_millis));
            }
            Input::StoredProgress(progress) => {
                return self.lead(|leading| observe::older_store::resign_if_replaced(leading, &progress));
            }
            Input::DropAudit { chain, up_to, hash, signature } => {
                return self.lead(|leading| {
                    let edit = AuditEdit::Drop { up_to, hash, signature };
                    let audit = Some(AuditChange { chain, edit });
                    leading.decide(Bundle { audit, ..Bundle::default() });
                });
            }
            Input::StoreSize { in_use, allocated } => return self.store_size(StoreSize { in_use, allocated }),
            Input::Tick => return self.lead(|_| {}),
        }
        Vec::new()
    }

    /// Takes one of several inputs that are available. Plans, commits and orders are left to the [`Core::on`] of the last one,
    /// so that a leader with a backlog of reports plans once for all of them.
    pub fn on_one_of_many(&mut self, input: Input, now: Timestamp) -> Vec<Effect> {
        self.is_batching = true;
        let effects = self.on(input, now);
        self.is_batching = false;
        effects
    }

    /// When the core wants [`Input::Tick`] if nothing else happens before.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let Role::Leader(lead) = &self.role else { return None };
        if lead.leadership.is_restoring() {
            return lead.timers.next();
        }
        // While scheduling is off, marked groups wait until a user turns it on.
        let idle = lead.queue.is_empty() && self.state.dependencies.is_settled();
        if idle || lead.leadership.is_store_behind() || self.state.cluster.is_paused() {
            lead.timers.next()
        } else {
            Some(self.now)
        }
    }

    /// The term while this process leads.
    pub fn term(&self) -> Option<Term> {
        self.leader().map(|lead| lead.leadership.term())
    }
    fn leader(&self) -> Option<&Leader> {
        match &self.role {
            Role::Follower => None,
            Role::Leader(lead) => Some(lead),
        }
    }
    /// The last command in effect; a new leader continues after it.
    pub fn cursor(&self) -> &Cursor {
        self.state.store.cursor()
    }
    /// Orders an agent found to differ under one fence; anything but 0 is a bug.
    pub fn disagreements(&self) -> u64 {
        self.disagreements
    }
    /// Nodes that belong to another store.
    pub fn foreign_store(&self) -> usize {
        self.state.nodes.foreign_count()
    }
    /// Stored values that cannot be read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
    /// Queries that were not answered because answering them panicked; anything but 0 is a bug.
    pub fn failed_queries(&self) -> u64 {
        self.failed_queries
    }
    /// Quarantined objects of one kind.
    pub fn quarantined(&self, kind: QuarantinedKind) -> usize {
        self.state.quarantine.count(kind)
    }

    /// Lets the leader do something and everything that follows from it; a follower does nothing.
    fn lead(&mut self, act: impl FnOnce(&mut Leading<'_>)) -> Vec<Effect> {
        let Role::Leader(lead) = &mut self.role else { return Vec::new() };
        let mut leading = Leading {
            settings: &self.settings,
            state: &mut self.state,
            stored: &mut self.stored,
            mirrored: &mut self.mirrored,
            reports: &mut self.reports,
            lead,
            disagreements: &mut self.disagreements,
            bus_since: self.bus_since,
            store_size: self.store_size,
            now: self.now,
            effects: Vec::new(),
        };
        act(&mut leading);
        if !leading.lead.leadership.is_ending() && !self.is_batching {
            leading.work();
        }
        let mut effects = leading.effects;
        let reason = match lead.leadership.take_ending() {
            None => return effects,
            Some(Ending::StepDown { reason }) => reason,
            Some(Ending::Resignation { reason }) => {
                effects.clear();
                reason
            }
        };
        self.follow();
        effects.push(Effect::StepDown { reason });
        effects
    }

    /// Builds the state from what is stored and reported. Returns the values that cannot be read.
    fn rebuild(&mut self) -> Vec<DeadLetter> {
        let (state, unread) = state::load::load(&self.stored, self.settings.quota_cores, self.now);
        let before = std::mem::replace(&mut self.state, state);
        self.state.inherit_history(before);
        self.unreadable += unread.len() as u64;
        self.refold_reports();
        unread
    }

    /// Overrides stored facts of nodes with fresher reports.
    fn refold_reports(&mut self) {
        let fresh = self.settings.suspect_after;
        for (node, report) in self.reports.all() {
            let heard_at = self.reports.get(node).and_then(|observed| observed.heard_at);
            let is_heard = heard_at.is_some_and(|at| self.now.since(at) < fresh);
            // A node without a record that does not report was removed.
            if is_heard || self.state.nodes.record(node).is_some() {
                self.state.put_node(node, &report.head.facts, report.head.engine);
            }
        }
    }

    /// Stops leading and forgets every decision that was not committed.
    fn follow(&mut self) {
        if let Role::Leader(lead) = &self.role {
            self.counted = (lead.leadership.term(), lead.dispatch.highest_generation());
            // No node obeyed what was committed to an older state: the newer state lacks those commits when it is put back.
            if !lead.leadership.is_store_behind() {
                self.progress.clone_from(lead.outbox.progress());
            }
            self.role = Role::Follower;
            for (key, value) in std::mem::take(&mut self.mirrored) {
                match value {
                    Some(value) => drop(self.stored.insert(key, value)),
                    None => drop(self.stored.remove(&key)),
                }
            }
            self.rebuild();
        }
    }

    fn elected(&mut self, term: Term, stored: Vec<(String, Vec<u8>)>) -> Vec<Effect> {
        self.follow();
        self.stored = stored.into_iter().collect();
        self.converted.clear();
        let unfinished = commit::staging::recover(&mut self.stored);
        let unread = self.rebuild();
        let mut effects: Vec<Effect> = unread.iter().cloned().map(Effect::Bury).collect();
        let floor = if self.counted.0 == term { self.counted.1 } else { 0 };
        if let Some(reason) = self.state.store.obstacle() {
            effects.push(Effect::StepDown { reason });
            return effects;
        }
        let outbox = Outbox::over(&self.stored, unfinished, term, self.state.store.progress(term));
        let restore = self.state.store.restore().cloned();
        let leadership = Leadership::new(term, restore.is_some());
        let leader = Leader::new(leadership, floor, &self.state, outbox, self.now);
        self.role = Role::Leader(Box::new(leader));
        let known = self.progress.clone();
        effects.extend(self.lead(|leading| match &restore {
            Some(restore) => commands::restore::put_in_place(leading, restore),
            None => {
                leading.begin(&known);
                leading.quarantine_unread(unread);
                commands::cluster::warn_of_unread(leading);
                // First: a namespace that becomes trusted would look like one of an older version.
                commands::access::choose_mode(leading);
                commands::policies::trust_existing(leading);
            }
        }));
        effects
    }

    fn report(&mut self, message: ReportMessage) -> Vec<Effect> {
        if let Some(text) = self.is_from_duplicate_agent(&message) {
            let node = message.stamp().node.clone();
            let events: Vec<Effect> = text.map(|text| events::of_node(&node, text, self.now)).into_iter().collect();
            return self.lead(|leading| leading.emit(events));
        }
        if let Role::Leader(lead) = &self.role
            && !lead.leadership.is_restoring()
        {
            return self.lead(|leading| leading.report(message));
        }
        let node = message.stamp().node.clone();
        let Ok(folded) = attempt(|| self.reports.fold(message, self.now)) else {
            self.reports.discard(&node);
            return Vec::new();
        };
        if folded.is_current {
            self.reports.listen(self.now, self.settings.suspect_after);
        }
        self.state.note_reported_history(&node, &folded.pods);
        if let Some(report) = self.reports.get(&node).and_then(|observed| observed.report.as_ref()) {
            self.state.put_node(&node, &report.head.facts, report.head.engine);
        }
        if folded.needs_whole { vec![Effect::AskWhole { node }] } else { Vec::new() }
    }

    fn query(&mut self, query: Query, inbox: Inbox) -> Vec<Effect> {
        let term = self.term();
        if term.is_none() {
            self.judge_all();
        }
        let asks_for_callbacks = matches!(query, Query::Callbacks);
        let refreshed = if let Query::Group { name, refresh: true } = &query { Some(name.clone()) } else { None };
        let queries =
            Queries { settings: &self.settings, term, state: &self.state, reports: &self.reports, now: self.now };
        let Ok(answered) = attempt(|| queries.answer(query)) else {
            // A query changes nothing: it is not answered, and the client gets an error at its deadline.
            self.failed_queries += 1;
            return Vec::new();
        };
        // A full store refuses writes, so a decision in memory may be lost and made again.
        let is_stuck = self.state.warns_of(Warning::StoreFull);
        let stale = term.is_none() || is_stuck || (asks_for_callbacks && self.may_be_incomplete());
        let answer = match answered {
            Answered::Now(answer) => {
                let former_callbacks = asks_for_callbacks.then(|| self.state.access.former_callbacks());
                Effect::Answer { inbox, reply: Box::new(Reply { former_callbacks, ..Reply::new(stale, answer) }) }
            }
            Answered::Later(dry_run) => Effect::Plan { inbox, stale, dry_run },
        };
        match self.role {
            Role::Follower => vec![answer],
            Role::Leader(_) if is_stuck => vec![answer],
            // What is known may not be stored yet: the answer leaves with the commit it depends on.
            Role::Leader(_) => self.lead(|leading| {
                leading.emit(vec![answer]);
                if let Some(name) = refreshed {
                    leading.refresh_group_view(name);
                }
            }),
        }
    }

    /// Whether the store may lack what it once held. A notifier drops the notices of callbacks that a leader does not know.
    fn may_be_incomplete(&self) -> bool {
        let is_replaced = self.leader().is_some_and(|lead| !lead.leadership.may_reconcile());
        is_replaced || self.state.nodes.foreign_count() > 0 || self.state.cluster.are_callbacks_unread()
    }

    /// A standby has no timers: it judges liveness when a query arrives.
    fn judge_all(&mut self) {
        let limits = LivenessTimeouts {
            suspect_after: self.settings.suspect_after,
            lost_after: self.settings.lost_after,
            grace: self.settings.failover_grace,
        };
        let listening_since = self.listening_since.unwrap_or(self.now);
        let names: Vec<NodeName> = self.state.nodes.keys().cloned().collect();
        for name in names {
            let heard_at = self.reports.get(&name).and_then(|observed| observed.heard_at);
            let found_lost = self.state.nodes.was_lost(&name);
            let blind_until = self.reports.blind_until;
            let hearing = Heartbeats { last_report: heard_at, was_lost: found_lost, listening_since, blind_until };
            if let Some(liveness) = self.state.nodes.hear(&name) {
                *liveness = liveness::check(hearing, &limits, self.now).liveness;
            }
        }
    }
}
