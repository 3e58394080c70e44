//! What only a leader has, and the order in which it works: input, alarms, plans, commits, orders.
//!
//! [`Leading`] is the leader at work on one input. Its methods live in the files that answer their questions: commands,
//! planning, nodes; here is what binds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use contract::event::Kind;
use contract::fence::Term;
use contract::name::{GroupName, NodeName};
use contract::progress::Progress;
use contract::report::{EngineState, NodeFacts};
use contract::spec::PodSpec;
use contract::store::Stores;
use contract::switches::Switches;
use contract::time::Timestamp;

use super::commands::limits::StoreSize;
use super::commit::durability::Known;
use super::commit::{OrderChange, Outbox};
use super::dispatch::desired::assignments;
use super::dispatch::node_queue::{Desk, SpecDigests};
use super::dispatch::window::Line;
use super::events::conditions::Conditions;
use super::events::dedup::Journal;
use super::io::{Effect, Mutant, Settings};
use super::observe::losses::Losses;
use super::observe::reports::Ears;
use super::reconcile::coalesce::ComingUp;
use super::reconcile::rate_limit::Pace;
use super::reconcile::removal::nodes_of_removed;
use super::state::State;
use super::state::load::Stored;
use super::state::quarantine::{Object, attempt};
use super::timers::{Alarm, Alarms};
use super::{commands, events, observe, reconcile};

/// One group of the slow sweep is planned so often, whatever happens.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(2);

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
    pub(super) spared: Arc<BTreeSet<GroupName>>,
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

    /// Everything an input leaves to do.
    pub(super) fn work(&mut self) {
        for alarm in self.lead.alarms.take_due(self.now) {
            self.ring_guarded(alarm);
        }
        // A node that obeyed a leader of an older state would refuse the newer one when that is put back.
        if self.lead.swaps || self.lead.behind {
            return self.commit();
        }
        reconcile::ports::grant_ports(self);
        self.plan_dirty();
        reconcile::dependencies::plan_dependencies(self);
        commands::nodes::finish_removals(self);
        events::conditions::send_conditions(self);
        self.commit();
        self.send_orders();
    }

    pub(super) fn ring(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Node(node) => self.judge_node(&node),
            Alarm::Group(group) => drop(self.lead.dirty.insert(group)),
            Alarm::ComingUp(group) => reconcile::coalesce::look_at_coming(self, group),
            Alarm::Dependency(name) => reconcile::dependencies::wake_dependency(self, name),
            Alarm::Order(node) => self.wake_desk(&node),
            // Whoever waits for others' answers is told by what follows every input.
            Alarm::Line => {}
            Alarm::Waiting => self.lead.dirty.extend(self.lead.waiting.iter().cloned()),
            Alarm::Condition(concern) => events::conditions::look(self, concern),
            Alarm::Losses => observe::losses::judge_losses(self),
            Alarm::Sweep => self.sweep(),
            Alarm::History => observe::history::store_history(self),
            Alarm::Commit => {
                self.effects.extend(self.lead.outbox.again().map(Effect::Commit));
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
    pub(super) fn begin(&mut self, known: &Progress) {
        observe::older_store::compare_progress(self, known);
        let reported: Vec<_> = self.ears.reports().map(|(_, report)| report.head.progress.clone()).collect();
        reported.iter().for_each(|progress| observe::older_store::compare_progress(self, progress));
        for name in self.state.groups.keys().cloned().collect::<Vec<_>>() {
            if let Err(panic) = attempt(|| self.seat_group(&name)) {
                self.set_aside(&Object::Group(name), &panic);
            }
        }
        reconcile::dependencies::seat_dependencies(self);
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
        reconcile::dependencies::begin_dependencies(self);
        commands::restore::drop_restored_parts(self);
        observe::history::note_all_history(self);
        events::incident::note_all_missed(self);
        events::conditions::note_all_conditions(self);
        let message = format!("{} leads, term {}", self.settings.name, self.lead.term);
        self.tell(vec![Effect::Record(events::event(Kind::Leader, message, self.now))]);
        self.lead.alarms.set(Alarm::Sweep, Some(self.now + SWEEP_EVERY));
    }
}
