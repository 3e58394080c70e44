//! The scheduler's decisions: a value that is fed inputs and answers with effects.
//!
//! A follower folds the stored state and every report; a leader also decides. `Elected` brings everything stored,
//! outcomes included (`contract::keys::STATE` and `contract::keys::OUTCOMES`): a command seen again is recognised by them.

mod admission;
mod alarms;
mod assignments;
mod bulk;
mod clocks;
mod coming_up;
mod commands;
mod commit;
mod conditions;
mod dependencies;
mod drifts;
pub mod dry_run;
mod duplicate_agents;
mod events;
mod fleet;
mod foreign_store;
mod fullness;
mod groups;
mod history;
mod hosts;
mod intents;
pub mod io;
mod journal;
mod known;
mod leader;
mod load;
mod losses;
mod milestones;
mod mirror;
mod moves;
mod node_views;
mod nodes;
mod orders;
mod pace;
mod planning;
mod ports;
mod quarantine;
mod queries;
mod rehearsals;
mod releases;
mod removal;
mod reports;
mod respec;
mod restores;
mod revisions;
mod rewound;
mod rollouts;
mod scene;
mod sending;
mod staging;
mod state;
mod strategy;
mod surplus;
mod swap;
mod switches;
#[cfg(test)]
mod tests;
mod texts;
mod told;
mod unstorable;
mod vacancy;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use contract::event::Kind;
use contract::fence::Term;
use contract::name::{GroupName, NodeName};
use contract::notice::DeadLetter;
use contract::progress::Progress;
use contract::query::{QuarantinedKind, Query, Reply};
use contract::record::Cursor;
use contract::report::{EngineState, NodeFacts, ReportMessage};
use contract::time::Timestamp;
use planner::liveness::{self, Heartbeats, LivenessTimeouts};

use self::alarms::Alarm;
use self::assignments::assignments;
use self::commit::Outbox;
use self::fullness::StoreSize;
use self::io::{Effect, Inbox, Input, Mutant, Settings};
use self::leader::{Leader, Leading};
use self::load::Stored;
use self::quarantine::{Object, attempt};
use self::queries::{Answered, Library};
use self::removal::nodes_of_removed;
use self::reports::Ears;
use self::state::{State, Warning};

/// The core.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    role: Role,
    state: State,
    /// What is stored, as far as this process was told.
    stored: Stored,
    /// What the watch reported while this process leads and that differs from what it stored: it counts once it follows.
    mirrored: BTreeMap<String, Option<Vec<u8>>>,
    /// Keys of `stored` that were converted from schema 1 and are not stored themselves.
    converted: BTreeSet<String>,
    ears: Ears,
    /// The latest time seen: time does not go back in here, whatever a clock says.
    now: Timestamp,
    /// Since when this process listens.
    listening_since: Option<Timestamp>,
    /// Since when the bus is there without a break; none while it is away.
    bus_since: Option<Timestamp>,
    /// The last term led and how far its orders were counted: a fence is never used twice.
    counted: (Term, u64),
    /// The highest term above its own that a leadership of this process heard of and ended for.
    overtaken: Term,
    /// The commits that the last leadership of this process knew to be stored.
    progress: Progress,
    disagreements: u64,
    unreadable: u64,
    /// Queries that panicked.
    failed_queries: u64,
    /// Bytes of etcd's database in use when it was last sampled.
    store_size: StoreSize,
    /// More inputs are at hand: the work that follows from this one is done with theirs.
    gathers: bool,
}

#[derive(Debug)]
enum Role {
    Follower,
    Leader(Box<Leader>),
}

impl Core {
    /// A follower that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            role: Role::Follower,
            state: State::default(),
            stored: Stored::new(),
            mirrored: BTreeMap::new(),
            converted: BTreeSet::new(),
            ears: Ears::default(),
            now: Timestamp::NEVER,
            listening_since: None,
            bus_since: Some(Timestamp::NEVER),
            counted: (Term(0), 0),
            overtaken: Term(0),
            progress: Progress::default(),
            disagreements: 0,
            unreadable: 0,
            failed_queries: 0,
            store_size: StoreSize::default(),
            gathers: false,
        }
    }

    /// Takes an input and says what to do, in the order to do it.
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
            Input::Clock { ahead_millis } => return self.lead(|leading| leading.judge_clock(ahead_millis)),
            Input::StoredProgress(progress) => {
                return self.lead(|leading| leading.resign_over_another_state(&progress));
            }
            Input::StoreSize { in_use, allocated } => return self.store_size(StoreSize { in_use, allocated }),
            Input::Tick => return self.lead(|_| {}),
        }
        Vec::new()
    }

    /// Takes one of many inputs that are at hand. What follows from it, plans, commits and orders, is left to the
    /// [`Core::on`] of the last: a leader that is behind with hearing plans once for all of them.
    pub fn on_one_of_many(&mut self, input: Input, now: Timestamp) -> Vec<Effect> {
        self.gathers = true;
        let effects = self.on(input, now);
        self.gathers = false;
        effects
    }

    /// When the core wants [`Input::Tick`] if nothing else happens before.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let Role::Leader(lead) = &self.role else { return None };
        if lead.swaps {
            return lead.alarms.next();
        }
        // What a stopped engine has marked waits for its start, however long.
        let idle = lead.dirty.is_empty() && self.state.dependencies.is_settled();
        if idle || lead.behind || self.state.is_held_back() { lead.alarms.next() } else { Some(self.now) }
    }

    /// The term while this process leads.
    pub fn term(&self) -> Option<Term> {
        self.leader().map(|lead| lead.term)
    }
    fn leader(&self) -> Option<&Leader> {
        match &self.role {
            Role::Follower => None,
            Role::Leader(lead) => Some(lead),
        }
    }
    /// How far which command stream is in effect: a new leader reads on from here.
    pub fn cursor(&self) -> &Cursor {
        &self.state.cursor
    }
    /// Orders an agent found to differ under one fence; anything but 0 is a bug.
    pub fn disagreements(&self) -> u64 {
        self.disagreements
    }
    /// Nodes that obey another store than this one.
    pub fn foreign_store(&self) -> usize {
        self.state.foreign_store.len()
    }
    /// Stored values nobody could read.
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
            ears: &mut self.ears,
            lead,
            disagreements: &mut self.disagreements,
            bus_since: self.bus_since,
            store_size: self.store_size,
            now: self.now,
            effects: Vec::new(),
        };
        act(&mut leading);
        if leading.lead.resigned.is_none() && leading.lead.leaves.is_none() && !self.gathers {
            leading.work();
        }
        let mut effects = leading.effects;
        self.overtaken = self.overtaken.max(lead.overtaken);
        if let Some(reason) = lead.leaves.take().filter(|_| lead.resigned.is_none()) {
            self.follow();
            effects.push(Effect::StepDown { reason });
            return effects;
        }
        let Some(reason) = lead.resigned.take() else { return effects };
        self.follow();
        vec![Effect::StepDown { reason }]
    }

    /// Makes the state anew from what is stored and reported; the values that cannot be read.
    fn rebuild(&mut self) -> Vec<DeadLetter> {
        let (state, unread) = load::load(&self.stored, self.settings.quota_cores, self.now);
        let before = std::mem::replace(&mut self.state, state);
        self.state.inherit_history(before);
        self.unreadable += unread.len() as u64;
        self.hear_again();
        unread
    }

    /// Reports know better than records what a node has.
    fn hear_again(&mut self) {
        let fresh = self.settings.suspect_after;
        for (node, report) in self.ears.reports() {
            let heard_at = self.ears.get(node).and_then(|ear| ear.heard_at);
            let is_heard = heard_at.is_some_and(|at| self.now.since(at) < fresh);
            // Who has no record and is not heard was removed.
            if is_heard || self.state.records.contains_key(node) {
                self.state.put_host(node, &report.head.facts, report.head.engine);
            }
        }
    }

    /// Leads no more: whatever was not stored is forgotten.
    fn follow(&mut self) {
        if let Role::Leader(lead) = &self.role {
            self.counted = (lead.term, lead.highest_generation());
            // No node obeyed what was committed to an older state: the newer state lacks those commits when it is put back.
            if !lead.behind {
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
        let unfinished = staging::recover(&mut self.stored);
        let unread = self.rebuild();
        let mut effects: Vec<Effect> = unread.iter().cloned().map(Effect::Bury).collect();
        let floor = if self.counted.0 == term { self.counted.1 } else { 0 };
        if let Some(reason) = &self.state.no_cursor {
            // Without it every command of the stream would take effect once more.
            let reason = format!("the cursor of the command stream cannot be read: {reason}");
            effects.push(Effect::StepDown { reason });
            return effects;
        }
        if let Some(reason) = self.state.unsound.clone() {
            effects.push(Effect::StepDown { reason });
            return effects;
        }
        let progress = self.state.progress.clone().unwrap_or_else(|| Progress::since(term));
        let progress = progress.of_store(&self.state.store.stores);
        let outbox = Outbox::over(&self.stored, unfinished, term, progress);
        let mut leader = Leader::new(term, floor, &self.state, outbox, self.now);
        leader.overtaken = self.overtaken;
        self.role = Role::Leader(Box::new(leader));
        let restore = self.state.restore.clone();
        let known = self.progress.clone();
        effects.extend(self.lead(|leading| match &restore {
            Some(restore) => leading.swap(restore),
            None => {
                leading.begin(&known);
                leading.quarantine_unread(unread);
                leading.warn_of_unread();
            }
        }));
        effects
    }

    fn report(&mut self, message: ReportMessage) -> Vec<Effect> {
        if let Some(words) = self.turned_away(&message) {
            let node = message.stamp().node.clone();
            let told: Vec<Effect> = words.map(|words| events::of_node(&node, words, self.now)).into_iter().collect();
            return self.lead(|leading| leading.tell(told));
        }
        if let Role::Leader(lead) = &self.role
            && !lead.swaps
        {
            return self.lead(|leading| leading.report(message));
        }
        let node = message.stamp().node.clone();
        let Ok(folded) = attempt(|| self.ears.fold(message, self.now)) else {
            self.ears.discard(&node);
            return Vec::new();
        };
        if folded.heard {
            self.ears.listen(self.now, self.settings.suspect_after);
        }
        self.state.note_told(&node, &folded.pods);
        if let Some(report) = self.ears.get(&node).and_then(|ear| ear.report.as_ref()) {
            self.state.put_host(&node, &report.head.facts, report.head.engine);
        }
        if folded.ask { vec![Effect::AskWhole { node }] } else { Vec::new() }
    }

    fn query(&mut self, query: Query, inbox: Inbox) -> Vec<Effect> {
        let term = self.term();
        if term.is_none() {
            self.judge_all();
        }
        let asks_for_callbacks = matches!(query, Query::Callbacks);
        let refreshed = if let Query::Group { name, refresh: true } = &query { Some(name.clone()) } else { None };
        let library = Library { settings: &self.settings, term, state: &self.state, ears: &self.ears, now: self.now };
        let Ok(answered) = attempt(|| library.answer(query)) else {
            // A query changes nothing: it is not answered, and the client gets an error at its deadline.
            self.failed_queries += 1;
            return Vec::new();
        };
        // What a full store does not take may have to be decided anew.
        let is_stuck = self.state.warnings.contains_key(&Warning::StoreFull);
        let stale = term.is_none() || is_stuck || (asks_for_callbacks && self.is_doubtful());
        let answer = match answered {
            Answered::Now(answer) => Effect::Answer { inbox, reply: Box::new(Reply::new(stale, answer)) },
            Answered::Later(dry_run) => Effect::Plan { inbox, stale, dry_run },
        };
        match self.role {
            Role::Follower => vec![answer],
            Role::Leader(_) if is_stuck => vec![answer],
            // What is known may not be stored yet: the answer leaves with the commit it depends on.
            Role::Leader(_) => self.lead(|leading| {
                leading.tell(vec![answer]);
                if let Some(name) = refreshed {
                    leading.look_anew(name);
                }
            }),
        }
    }

    /// Whether the store may lack what it once held. A notifier drops the notices of callbacks that a leader does not know.
    fn is_doubtful(&self) -> bool {
        let is_replaced = self.leader().is_some_and(|lead| lead.behind || lead.swaps);
        is_replaced || !self.state.foreign_store.is_empty() || self.state.callbacks_unread
    }

    /// A standby has no alarms: it judges the nodes when it is asked.
    fn judge_all(&mut self) {
        let limits = LivenessTimeouts {
            suspect_after: self.settings.suspect_after,
            lost_after: self.settings.lost_after,
            grace: self.settings.failover_grace,
        };
        let listening_since = self.listening_since.unwrap_or(self.now);
        let names: Vec<NodeName> = self.state.hosts.keys().cloned().collect();
        for name in names {
            let heard_at = self.ears.get(&name).and_then(|ear| ear.heard_at);
            let found_lost = self.state.records.get(&name).is_some_and(|record| record.lost);
            let deaf_until = self.ears.deaf_until;
            let hearing =
                Heartbeats { last_report: heard_at, was_lost: found_lost, listening_since, blind_until: deaf_until };
            if let Some(liveness) = self.state.hosts.hear(&name) {
                *liveness = liveness::check(hearing, &limits, self.now).liveness;
            }
        }
    }
}

impl Leading<'_> {
    /// Puts the stored instances of a group on the desks of their nodes.
    fn seat_group(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name) else { return };
        for change in assignments(name, group).all() {
            self.lead.put_on_desk(&change);
        }
        for node in group.slots().iter().filter_map(|slot| slot.leaves.as_ref()) {
            // A node that must let go of something must report that it did.
            self.lead.desk(node);
        }
    }

    /// The first moment of a leadership: every node gets its order, every group is looked at. `known` are the commits this
    /// process has known of before.
    fn begin(&mut self, known: &Progress) {
        self.compare_progress(known);
        let reported: Vec<_> = self.ears.reports().map(|(_, report)| report.head.progress.clone()).collect();
        reported.iter().for_each(|progress| self.compare_progress(progress));
        for name in self.state.groups.keys().cloned().collect::<Vec<_>>() {
            if let Err(panic) = attempt(|| self.seat_group(&name)) {
                self.set_aside(&Object::Group(name), &panic);
            }
        }
        self.seat_dependencies();
        self.note_redigested();
        for node in
            self.lead.desks.keys().filter(|node| !self.state.hosts.contains_key(*node)).cloned().collect::<Vec<_>>()
        {
            // Its record could not be read: it is unknown until it reports, and lost if it never does.
            self.state.put_host(&node, &NodeFacts::default(), EngineState::Up);
        }
        let nodes: Vec<_> = self.state.hosts.keys().cloned().collect();
        for node in &nodes {
            let report = self.ears.get(node).and_then(|ear| ear.report.as_ref());
            self.lead.desk(node).begin(report.map(|report| &report.head));
            self.lead.line.insert(node.clone());
            if report.is_none() {
                self.effects.push(Effect::AskWhole { node: node.clone() });
            }
            self.judge_node(node);
            if self.has_mutant(Mutant::ForgetsCordons)
                && let Some(host) = self.state.hosts.get_mut(node)
            {
                host.cordon = None;
            }
        }
        for (name, group) in &mut self.state.groups {
            self.lead.dirty.insert(name.clone());
            if group.is_removing() {
                group.draining = nodes_of_removed(group, &nodes);
            }
        }
        self.begin_dependencies();
        self.drop_restored_parts();
        self.note_all_history();
        self.note_all_missed();
        self.note_all_conditions();
        let message = format!("{} leads, term {}", self.settings.name, self.lead.term);
        self.tell(vec![Effect::Record(events::event(Kind::Leader, message, self.now))]);
        self.lead.alarms.set(Alarm::Sweep, Some(self.now + leader::SWEEP_EVERY));
    }
}
