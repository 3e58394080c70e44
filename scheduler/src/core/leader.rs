//! The leader's loop: observe → commands → reconcile → commit → dispatch.
//!
//! [`Leader`] is the state that only a leader has, [`Leading`] the leader at work on one input. An input is observed or applied
//! as a command (`Core::on`); [`Leading::work`] does what follows from it.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::event::Kind;
use contract::name::GroupName;
use contract::progress::Progress;
use contract::report::{EngineState, NodeFacts};
use contract::time::Timestamp;

use super::commands::limits::StoreSize;
use super::commit::Outbox;
use super::commit::durability::CommitTimes;
use super::commit::specs::SpecChanges;
use super::dispatch::desired::assignments;
use super::dispatch::dispatcher::Dispatcher;
use super::events::conditions::Conditions;
use super::events::dedup::EventDedup;
use super::io::{Effect, Mutant, Settings};
use super::leadership::Leadership;
use super::observe::listening::Listening;
use super::observe::losses::Losses;
use super::observe::reports::ReportCache;
use super::reconcile::queue::Queue;
use super::reconcile::removal::nodes_of_removed;
use super::state::State;
use super::state::load::Stored;
use super::state::quarantine::{Object, attempt};
use super::timers::{Timer, Timers};
use super::{commands, events, observe, reconcile};

/// The interval of the slow sweep, which reconciles one group each time.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(2);

/// What only a leader has.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) leadership: Leadership,
    pub(super) listening: Listening,
    pub(super) dispatch: Dispatcher,
    pub(super) outbox: Outbox,
    pub(super) specs: SpecChanges,
    pub(super) timers: Timers,
    pub(super) queue: Queue,
    pub(super) event_dedup: EventDedup,
    /// Problems that persist.
    pub(super) conditions: Conditions,
    /// Nodes that went silent.
    pub(super) losses: Losses,
    /// Since when decisions are known to be stored.
    pub(super) commit_times: CommitTimes,
}

impl Leader {
    pub(super) fn new(leadership: Leadership, floor: u64, state: &State, outbox: Outbox, now: Timestamp) -> Self {
        Self {
            leadership,
            listening: Listening::start(now),
            dispatch: Dispatcher::new(floor, state),
            outbox,
            specs: SpecChanges::default(),
            timers: Timers::default(),
            queue: Queue::new(),
            event_dedup: EventDedup::new(state),
            conditions: Conditions::default(),
            losses: Losses::default(),
            commit_times: CommitTimes::of_stored(state, now),
        }
    }
}

/// A leader at work on one input.
pub(super) struct Leading<'a> {
    pub(super) settings: &'a Settings,
    pub(super) state: &'a mut State,
    pub(super) stored: &'a mut Stored,
    pub(super) mirrored: &'a mut BTreeMap<String, Option<Vec<u8>>>,
    pub(super) reports: &'a mut ReportCache,
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
        self.settings.faults.has(mutant)
    }

    /// The second half of the loop, after an input was observed or applied as a command: reconcile → commit → dispatch.
    pub(super) fn work(&mut self) {
        for timer in self.lead.timers.take_due(self.now) {
            self.fire_guarded(timer);
        }
        // An agent that applied orders of an older state would refuse the newer state when a restore brings it back.
        if !self.lead.leadership.may_reconcile() {
            return self.commit();
        }
        self.reconcile_marked();
        self.commit();
        self.send_orders();
    }

    fn reconcile_marked(&mut self) {
        reconcile::ports::grant_ports(self);
        self.reconcile_groups();
        reconcile::dependencies::reconcile_dependencies(self);
        commands::nodes::forget_removed_nodes(self);
        events::conditions::send_reports(self);
    }

    pub(super) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Node(node) => self.judge_node(&node),
            Timer::Group(group) => self.lead.queue.mark(group),
            Timer::Coalesced(group) => reconcile::coalesce::check_coalesced(self, group),
            Timer::Dependency(name) => self.state.dependencies.mark(name),
            Timer::Order(node) => self.check_queue(&node),
            // The order leaves in `send_orders`, which follows every input.
            Timer::Window => {}
            Timer::Unschedulable => self.lead.queue.mark_all_unschedulable(),
            Timer::Condition(key) => events::conditions::check(self, key),
            Timer::Losses => observe::losses::check_losses(self),
            Timer::Sweep => self.sweep(),
            Timer::History => observe::history::store_history(self),
            Timer::Commit => {
                self.effects.extend(self.lead.outbox.again().map(Effect::Commit));
            }
        }
    }

    /// Puts the stored instances of a group into the queues of their nodes.
    fn queue_orders_of(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name) else { return };
        for change in assignments(name, group).all() {
            self.lead.dispatch.change(&change);
        }
        for node in group.instances().iter().filter_map(|instance| instance.leaves.as_ref()) {
            // A node that an instance leaves must confirm it, so it needs an order although no pod is placed there.
            self.lead.dispatch.queue(node);
        }
    }

    /// Starts a leadership: every node gets its order and every group is reconciled. `known` are the commits that this process
    /// knew of before.
    pub(super) fn begin(&mut self, known: &Progress) {
        observe::pending::forget_pending(self);
        observe::older_store::compare_progress(self, known);
        let reported: Vec<_> = self.reports.all().map(|(_, report)| report.head.progress.clone()).collect();
        reported.iter().for_each(|progress| observe::older_store::compare_progress(self, progress));
        for name in self.state.groups.keys().cloned().collect::<Vec<_>>() {
            if let Err(panic) = attempt(|| self.queue_orders_of(&name)) {
                self.quarantine_at_start(&Object::Group(name), &panic);
            }
        }
        reconcile::dependencies::queue_orders(self);
        self.note_redigested();
        for node in self
            .lead
            .dispatch
            .queues()
            .map(|(node, _)| node)
            .filter(|node| !self.state.nodes.contains_key(*node))
            .cloned()
            .collect::<Vec<_>>()
        {
            // Its record could not be read: it is unknown until it reports, and lost if it never does.
            self.state.put_node(&node, &NodeFacts::default(), EngineState::Up);
        }
        let nodes: Vec<_> = self.state.nodes.keys().cloned().collect();
        for node in &nodes {
            let report = self.reports.get(node).and_then(|observed| observed.report.as_ref());
            self.lead.dispatch.queue(node).begin(report.map(|report| &report.head));
            self.lead.dispatch.schedule(node.clone());
            if report.is_none() {
                self.effects.push(Effect::AskWhole { node: node.clone() });
            }
            self.judge_node(node);
            if self.has_mutant(Mutant::ForgetsCordons)
                && let Some(host) = self.state.nodes.get_mut(node)
            {
                host.cordon = None;
            }
        }
        for (name, group) in &mut self.state.groups {
            self.lead.queue.mark(name.clone());
            if group.is_removing() {
                group.unconfirmed_nodes = nodes_of_removed(group, &nodes);
            }
        }
        reconcile::dependencies::begin_dependencies(self);
        commands::restore::drop_restored_parts(self);
        observe::history::note_all_history(self);
        events::incident::note_all_missed(self);
        events::conditions::note_all_conditions(self);
        let message = format!("{} leads, term {}", self.settings.name, self.lead.leadership.term());
        self.emit(vec![Effect::Record(events::event(Kind::Leader, message, self.now))]);
        self.lead.timers.set(Timer::Sweep, Some(self.now + SWEEP_EVERY));
    }
}
