//! What only a leader has, and the order in which it works: input, alarms, plans, commits, orders.
//!
//! [`Leading`] is the leader at work on one input. Its methods live in the files that answer their questions: commands,
//! planning, nodes; here is what binds them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use contract::fence::Term;
use contract::layout::{Owner, SpecRef};
use contract::name::{GroupName, NodeName};
use contract::spec::PodSpec;
use contract::store::Stores;
use contract::switches::Switches;
use contract::time::Timestamp;

use super::commands::limits::{self, StoreSize};
use super::commit::durability::Known;
use super::commit::{self, Bundle, OrderChange, Outbox, Released};
use super::dispatch::node_queue::{Desk, SpecDigests};
use super::dispatch::window::Line;
use super::events::conditions::Conditions;
use super::events::dedup::Journal;
use super::io::{CommitResult, Effect, Mutant, Settings, Write};
use super::observe::losses::Losses;
use super::observe::reports::Ears;
use super::reconcile::coalesce::ComingUp;
use super::reconcile::rate_limit::Pace;
use super::state::load::Stored;
use super::state::{State, Warning};
use super::timers::{Alarm, Alarms};

/// One group of the slow sweep is planned so often, whatever happens.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(2);
/// Groups without a place are tried again so long after room may have appeared: many changes, one try.
const TRY_WAITING_AFTER: Duration = Duration::from_millis(500);

/// What only a leader has.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) term: Term,
    /// Since when it listens without a break.
    pub(super) listening_since: Timestamp,
    /// When anybody was heard last.
    pub(super) anybody_heard_at: Timestamp,
    pub(super) desks: BTreeMap<NodeName, Desk>,
    spec_digests: SpecDigests,
    /// Orders of this term have been counted up to here before: by this process, when it led in the same term already.
    floor: u64,
    /// Groups and dependency pods every node leaves as they are: their record cannot be read, or nobody owns them.
    spared: Arc<BTreeSet<GroupName>>,
    /// The stored brakes, as every order carries them.
    pub(super) switches: Switches,
    /// Nodes whose desk may have something to send.
    pub(super) line: Line,
    /// Groups that wait for a node to let go of something.
    pub(super) draining: BTreeMap<NodeName, BTreeSet<GroupName>>,
    pub(super) outbox: Outbox,
    /// Groups whose pod specs the next decision changes, with the specs that are stored of each.
    pub(super) respecified: BTreeMap<GroupName, Vec<PodSpec>>,
    /// Groups whose pod specs an older version stored under other digests: they are stored anew with the next record.
    pub(super) redigested: BTreeSet<GroupName>,
    /// Changes of a node's order that are decided and not stored yet; no node has none.
    pub(super) undelivered: BTreeMap<NodeName, usize>,
    pub(super) alarms: Alarms,
    /// Groups to plan.
    pub(super) dirty: BTreeSet<GroupName>,
    /// How soon they are planned for reports.
    pub(super) pace: Pace,
    /// Groups that were coming up when they were last to be looked at.
    pub(super) coming_up: ComingUp,
    /// Groups with an instance that found no place.
    pub(super) waiting: BTreeSet<GroupName>,
    /// The group the slow sweep looked at last.
    pub(super) swept: Option<GroupName>,
    /// A group gave its stream ports back, or nobody has looked yet.
    pub(super) ports_freed: bool,
    /// What was told to people.
    pub(super) journal: Journal,
    /// What goes wrong and stays so.
    pub(super) conditions: Conditions,
    /// Nodes that went silent.
    pub(super) losses: Losses,
    /// Since when decisions are known to be stored.
    pub(super) known: Known,
    /// Why it will not lead any longer.
    pub(super) resigned: Option<String>,
    /// Why it leads no longer than this: what it said stands, unlike that of one who resigned.
    pub(super) leaves: Option<String>,
    /// It only puts a backup in place.
    pub(super) swaps: bool,
    /// The highest term above its own that nodes were heard to obey.
    pub(super) overtaken: Term,
    /// The store came back with an older state: nothing is planned until a backup is restored.
    pub(super) behind: bool,
    /// The names of its store, as every order carries them.
    stores: Arc<Stores>,
}

impl Leader {
    pub(super) fn new(term: Term, floor: u64, state: &State, outbox: Outbox, now: Timestamp) -> Self {
        Self {
            term,
            listening_since: now,
            anybody_heard_at: now,
            desks: BTreeMap::new(),
            spec_digests: SpecDigests::default(),
            floor,
            spared: Arc::new(state.untouchable()),
            switches: state.engine.switches(),
            line: Line::default(),
            draining: BTreeMap::new(),
            outbox,
            respecified: BTreeMap::new(),
            redigested: BTreeSet::new(),
            undelivered: BTreeMap::new(),
            alarms: Alarms::default(),
            dirty: BTreeSet::new(),
            pace: Pace::default(),
            coming_up: ComingUp::new(),
            waiting: BTreeSet::new(),
            swept: None,
            ports_freed: true,
            journal: Journal::new(state),
            conditions: Conditions::default(),
            losses: Losses::default(),
            known: Known::of_stored(state, now),
            resigned: None,
            leaves: None,
            swaps: state.restore.is_some(),
            overtaken: Term(0),
            behind: false,
            stores: Arc::new(state.store.stores.clone()),
        }
    }

    /// The desk of a node, a new one if there is none.
    pub(super) fn desk(&mut self, node: &NodeName) -> &mut Desk {
        self.desks
            .entry(node.clone())
            .or_insert_with(|| Desk::above(self.floor, &self.spared, self.switches).of(&self.stores))
    }
    /// Puts a stored decision on the desk of its node.
    pub(super) fn put_on_desk(&mut self, change: &OrderChange) {
        // Taken out for the moment: a desk and the digests are both of this leader.
        let mut digests = std::mem::take(&mut self.spec_digests);
        self.desk(&change.node).change(change, &mut digests);
        self.spec_digests = digests;
    }
    /// The highest count any order of this term has.
    pub(super) fn highest_generation(&self) -> u64 {
        self.desks.values().map(Desk::generation).max().unwrap_or(0).max(self.floor)
    }
}

/// A leader at work on one input.
pub(super) struct Leading<'a> {
    pub(super) settings: &'a Settings,
    pub(super) state: &'a mut State,
    pub(super) stored: &'a mut Stored,
    pub(super) mirrored: &'a mut BTreeMap<String, Option<Vec<u8>>>,
    pub(super) ears: &'a mut Ears,
    pub(super) lead: &'a mut Leader,
    pub(super) disagreements: &'a mut u64,
    /// Since when the bus is there without a break.
    pub(super) bus_since: Option<Timestamp>,
    /// The size of etcd's database when it was last sampled.
    pub(super) store_size: StoreSize,
    pub(super) now: Timestamp,
    pub(super) effects: Vec<Effect>,
}

impl Leading<'_> {
    pub(super) fn has_mutant(&self, mutant: Mutant) -> bool {
        self.settings.mutant == Some(mutant)
    }

    /// A decision was made: it is told once it is stored.
    pub(super) fn decide(&mut self, mut bundle: Bundle) {
        for change in &bundle.changes {
            *self.lead.undelivered.entry(change.node.clone()).or_default() += 1;
        }
        bundle.writes.extend(self.spec_writes());
        bundle.effects.extend(self.lead.journal.operations(self.state, &bundle.writes, self.now));
        if self.has_mutant(Mutant::EffectsBeforeCommit) {
            let (effects, changes) = (std::mem::take(&mut bundle.effects), std::mem::take(&mut bundle.changes));
            let (switches, spared, decided) = (bundle.switches.take(), bundle.spared.take(), bundle.decided.take());
            self.release(Released { effects, changes, switches, spared, decided, leaves: None });
        }
        self.lead.outbox.push(bundle);
    }

    /// The next decision changes the record or the revisions of a group: notes the pod specs that are stored of it.
    pub(super) fn note_specs(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name) else { return };
        let specs = || group.specs().cloned().collect();
        self.lead.respecified.entry(name.clone()).or_insert_with(specs);
    }

    /// Finds the groups whose pod specs are stored under other digests than this version computes.
    pub(super) fn note_redigested(&mut self) {
        let stored = &*self.stored;
        let is_stored = |name: &GroupName, pod| stored.contains_key(&Owner::Group(name).key(&SpecRef::to(pod).digest));
        let redigested =
            self.state.groups.iter().filter(|(name, group)| !group.specs().all(|pod| is_stored(name, pod)));
        self.lead.redigested = redigested.map(|(name, _)| name.clone()).collect();
    }

    /// The writes that store the pod specs of the groups that were noted, and delete those that are not used any more.
    fn spec_writes(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        for (name, before) in std::mem::take(&mut self.lead.respecified) {
            let after: Vec<&PodSpec> =
                self.state.groups.get(&name).into_iter().flat_map(super::state::Group::specs).collect();
            let before: Vec<&PodSpec> = before.iter().collect();
            writes.extend(commit::spec_writes(Owner::Group(&name), &before, &after));
        }
        writes
    }

    /// Something to tell that is true as soon as everything decided so far is stored.
    pub(super) fn tell(&mut self, effects: Vec<Effect>) {
        if !effects.is_empty() && !self.lead.outbox.is_full() {
            self.decide(Bundle { effects, ..Bundle::default() });
        }
    }

    /// Everything an input leaves to do.
    pub(super) fn work(&mut self) {
        for alarm in self.lead.alarms.take_due(self.now) {
            self.ring_guarded(alarm);
        }
        // A node that obeyed a leader of an older state would refuse the newer one when that is put back.
        if self.lead.swaps || self.lead.behind {
            return self.commit();
        }
        self.grant_ports();
        self.plan_dirty();
        self.plan_dependencies();
        self.finish_removals();
        self.send_conditions();
        self.commit();
        self.send_orders();
    }

    pub(super) fn ring(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Node(node) => self.judge_node(&node),
            Alarm::Group(group) => drop(self.lead.dirty.insert(group)),
            Alarm::ComingUp(group) => self.look_at_coming(group),
            Alarm::Dependency(name) => self.wake_dependency(name),
            Alarm::Order(node) => self.wake_desk(&node),
            // Whoever waits for others' answers is told by what follows every input.
            Alarm::Line => {}
            Alarm::Waiting => self.lead.dirty.extend(self.lead.waiting.iter().cloned()),
            Alarm::Condition(concern) => self.look(concern),
            Alarm::Losses => self.judge_losses(),
            Alarm::Sweep => self.sweep(),
            Alarm::History => self.store_history(),
            Alarm::Commit => {
                self.effects.extend(self.lead.outbox.again().map(Effect::Commit));
            }
        }
    }

    /// Room may have appeared: whoever waits for a place is tried again soon.
    pub(super) fn room_appeared(&mut self) {
        if !self.lead.waiting.is_empty() {
            self.lead.alarms.set_once(Alarm::Waiting, self.now + TRY_WAITING_AFTER);
        }
    }

    fn commit(&mut self) {
        let (released, commit) = self.lead.outbox.start(self.lead.term);
        for part in released {
            self.release(part);
        }
        self.effects.extend(commit.map(Effect::Commit));
    }

    /// Folds own writes into the stored view, so that it is right the moment leadership ends. The watch may have reported them
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

    /// A commit ended.
    pub(super) fn committed(&mut self, id: u64, result: CommitResult) {
        if self.lead.outbox.in_flight() != Some(id) {
            return;
        }
        match result {
            CommitResult::Stored => {
                let Some((writes, released)) = self.lead.outbox.stored(id) else { return };
                self.lead.alarms.set(Alarm::Commit, None);
                self.state.warnings.remove(&Warning::StoreFull);
                self.remember(writes);
                for part in released {
                    self.release(part);
                }
            }
            CommitResult::Full => {
                self.state.warnings.insert(Warning::StoreFull, limits::NO_SPACE.to_owned());
                self.lead.alarms.set(Alarm::Commit, Some(self.now + commit::FULL_AGAIN_AFTER));
            }
            CommitResult::Unknown => self.lead.alarms.set(Alarm::Commit, Some(self.now + commit::AGAIN_AFTER)),
            CommitResult::Invalid { reason } => {
                self.lead.alarms.set(Alarm::Commit, None);
                if let Some(bundle) = self.lead.outbox.refused(id) {
                    self.unstorable(bundle, &reason);
                }
            }
            CommitResult::WentBack => {
                let reason = "etcd came back with an older state and lacks commits of this leader";
                self.lead.resigned = Some(reason.to_owned());
            }
            CommitResult::Denied => {
                let reason = "etcd refuses the credentials of this scheduler (permission denied or not authenticated)";
                self.lead.resigned = Some(reason.to_owned());
            }
            CommitResult::Fenced => self.lead.resigned = Some("a write was fenced: another scheduler leads".to_owned()),
        }
    }

    fn release(&mut self, Released { effects, changes, switches, spared, decided, leaves }: Released) {
        if leaves.is_some() {
            self.lead.leaves = leaves;
        }
        if let Some(decided) = decided {
            self.note_stored(decided);
        }
        self.effects.extend(effects);
        for change in changes {
            self.hand_over(&change);
        }
        if let Some(spared) = spared {
            self.spare(spared);
        }
        if let Some(switches) = switches {
            self.brake(switches);
        }
    }

    fn hand_over(&mut self, change: &OrderChange) {
        self.lead.put_on_desk(change);
        self.lead.line.insert(change.node.clone());
        self.note_delivered(change);
    }

    /// A change of a node's order was handed over, or given up.
    pub(super) fn note_delivered(&mut self, change: &OrderChange) {
        if let Entry::Occupied(mut count) = self.lead.undelivered.entry(change.node.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Tells every node which groups to leave alone, once every decision made so far is stored.
    pub(super) fn spare_now(&mut self) {
        let spared = Some(Arc::new(self.state.untouchable()));
        self.decide(Bundle { spared, ..Bundle::default() });
    }

    /// Which groups are left alone is stored: every node hears of it.
    pub(super) fn spare(&mut self, spared: Arc<BTreeSet<GroupName>>) {
        for (node, desk) in &mut self.lead.desks {
            desk.spare(&spared);
            self.lead.line.insert(node.clone());
        }
        self.lead.spared = spared;
    }
}
