//! Handles reports and decides which nodes are alive, suspect or lost.
//!
//! If no node reports at all, the leader itself is cut off. It then declares no node lost, and the silence of each node counts
//! from the first report afterwards.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::query::Liveness;
use contract::record::NodeRecord;
use contract::report::{EngineState, ReportMessage};
use contract::time::Timestamp;
use planner::liveness::{self, Heartbeats, LivenessCheck, LivenessTimeouts};

use crate::core::commit::{self, Bundle};
use crate::core::events::conditions::ConditionKey;
use crate::core::io::{Effect, Mutant};
use crate::core::leader::Leading;
use crate::core::state::quarantine::Object;
use crate::core::timers::Timer;
use crate::core::{commands, events, reconcile};

use super::{history, losses, older_store, pending};

/// Interval of liveness checks while no node reports.
const DEAF_CHECK: Duration = Duration::from_secs(5);

impl Leading<'_> {
    /// A node reported.
    pub(in crate::core) fn report(&mut self, message: ReportMessage) {
        let node = message.stamp().node.clone();
        if !pending::is_accepted(self.settings, self.state, &node) {
            return pending::note_pending(self, message);
        }
        let object = Object::Node(node.clone());
        if self.guarded(&object, |leading| leading.take_report(&node, message)) {
            return self.end_quarantine(&object, "its report was processed");
        }
        // The node is alive although its report cannot be processed: its instances stay there.
        self.reports.hear(&node, self.now);
    }

    fn take_report(&mut self, node: &NodeName, message: ReportMessage) {
        let folded = self.reports.fold(message, self.now);
        if folded.needs_whole {
            self.effects.push(Effect::AskWhole { node: node.clone() });
        }
        if !folded.is_current {
            return;
        }
        let facts =
            self.reports.get(node).and_then(|observed| observed.report.as_ref()).map(|report| &report.head.facts);
        let zone = facts.and_then(|facts| facts.labels.get("zone"));
        self.settings.faults.panic_in("report", zone.map_or("", String::as_str));
        if let Some(progress) =
            self.reports.get(node).and_then(|observed| observed.report.as_ref()).map(|report| &report.head.progress)
            && !self.lead.outbox.progress().covers(progress)
        {
            let progress = progress.clone();
            older_store::compare_progress(self, &progress);
        }
        self.note_alive();
        commands::nodes::cancel_removal(self, node);
        for change in &folded.pods {
            self.guarded(&Object::Group(change.pod.group.clone()), |leading| {
                let change = std::slice::from_ref(change);
                events::incident::report_changes(leading, node, change);
                history::note_history(leading, node, change);
                events::incident::note_missed(leading, node, change);
            });
        }
        self.update_candidate(node);
        self.judge_node(node);
        events::conditions::check(self, ConditionKey::Engine(node.clone()));
        for change in &folded.pods {
            // What follows from one pod depends on its group's spec: a panic is the group's, not the node's.
            let object = Object::Group(change.pod.group.clone());
            if self.state.quarantine.holds_back(&object, self.now).is_some() {
                continue;
            }
            self.guarded(&object, |leading| {
                events::conditions::note_condition(leading, node, change);
                reconcile::dependencies::dependency_reported(leading, node, &change.pod);
                reconcile::coalesce::pod_reported(leading, change);
            });
        }
        self.register(node);
        self.check_order(node);
        reconcile::input::recheck_waiting(self, node);
    }

    fn note_alive(&mut self) {
        let deaf = self.lead.listening.is_cut_off(self.now, self.settings.suspect_after);
        if deaf && !self.has_mutant(Mutant::NoFailoverGrace) {
            self.lead.listening.restart(self.now);
        }
        self.lead.listening.note_report(self.now);
        self.reports.listen(self.now, self.settings.suspect_after);
    }

    fn update_candidate(&mut self, node: &NodeName) {
        let Some(report) = self.reports.get(node).and_then(|observed| observed.report.as_ref()) else { return };
        let engine_before = self.state.nodes.get(node).map(|host| host.engine);
        let engine = report.head.engine;
        if !self.state.put_node(node, &report.head.facts, engine) {
            return;
        }
        self.retry_unschedulable();
        if engine_before != Some(engine) {
            self.lead.queue.mark_all(self.state.groups_on(node));
            self.engine_changed(node, engine_before, engine);
        }
    }

    /// A user requests fresh data of a group: it is reconciled, and its nodes send whole reports.
    pub(in crate::core) fn refresh_group_view(&mut self, name: GroupName) {
        let Some(group) = self.state.groups.get(&name).filter(|group| group.is_present()) else { return };
        let nodes: BTreeSet<NodeName> = group.placed(&name).map(|(node, _, _)| node.clone()).collect();
        for node in nodes {
            if self.reports.may_ask(&node, self.now) {
                self.effects.push(Effect::AskWhole { node });
            }
        }
        self.lead.queue.mark(name);
    }

    /// Judges whether a node is alive and does what follows when that changed.
    pub(in crate::core) fn judge_node(&mut self, node: &NodeName) {
        let judgement = self.judgement(node);
        match judgement.recheck_at {
            // Every report moves the deadline. Moving the timer each time is expensive, so it fires early and finds the new
            // deadline.
            Some(at) => self.lead.timers.set_earlier(Timer::Node(node.clone()), at),
            None => self.lead.timers.set(Timer::Node(node.clone()), None),
        }
        let Some(liveness) = self.state.nodes.hear(node) else { return };
        let before = std::mem::replace(liveness, judgement.liveness);
        if before == judgement.liveness {
            return;
        }
        self.lead.queue.mark_all(self.state.groups_on(node));
        self.state.dependencies.mark_on(node);
        match judgement.liveness {
            Liveness::Alive => {
                self.retry_unschedulable();
                self.lead.dispatch.schedule(node.clone());
                self.heard_again(node, before);
            }
            Liveness::Lost => self.lost(node),
            Liveness::Suspect => self.suspect(node, before),
            Liveness::Unknown => {}
        }
    }

    fn heard_again(&mut self, node: &NodeName, before: Liveness) {
        losses::came_back(self, node);
        let message = match before {
            Liveness::Suspect => "reports again",
            Liveness::Lost => "came back; it was lost",
            // Found by a new leader, or new: `register` reports that.
            Liveness::Alive | Liveness::Unknown => return,
        };
        self.emit(vec![events::of_node(node, message, self.now)]);
    }

    fn suspect(&mut self, node: &NodeName, before: Liveness) {
        // A node that never reported to this leader may have been silent for long.
        if before == Liveness::Alive {
            let silence = events::shown(self.settings.suspect_after);
            self.emit(vec![events::of_node(node, format!("no heartbeat for {silence}: suspect"), self.now)]);
            losses::went_silent(self, node);
        }
    }

    fn engine_changed(&mut self, node: &NodeName, before: Option<EngineState>, engine: EngineState) {
        let message = match (before, engine) {
            (None, EngineState::Up) => None,
            (Some(_), EngineState::Up) => Some("its engine answers again"),
            (_, EngineState::Hung) => Some("its engine does not answer"),
            (_, EngineState::Down) => Some("its engine cannot be reached"),
        };
        self.emit(message.map(|message| events::of_node(node, message, self.now)).into_iter().collect());
    }

    fn judgement(&self, node: &NodeName) -> LivenessCheck {
        let settings = self.settings;
        let mut limits = LivenessTimeouts {
            suspect_after: settings.suspect_after,
            lost_after: settings.lost_after,
            grace: settings.failover_grace,
        };
        let heard_at = self.reports.get(node).and_then(|observed| observed.heard_at);
        let found_lost = self.state.nodes.was_lost(node);
        let (listening_since, blind_until) = (self.lead.listening.since(), self.reports.blind_until);
        let hearing = Heartbeats { last_report: heard_at, was_lost: found_lost, listening_since, blind_until };
        if self.has_mutant(Mutant::NoFailoverGrace) {
            limits.grace = Duration::ZERO;
            let blind_until = Timestamp::NEVER;
            let hearing = Heartbeats { was_lost: found_lost || heard_at.is_none(), blind_until, ..hearing };
            return liveness::check(hearing, &limits, self.now);
        }
        let judgement = liveness::check(hearing, &limits, self.now);
        let deaf = self.lead.listening.is_cut_off(self.now, settings.suspect_after);
        let was_lost = self.state.nodes.get(node).is_some_and(|host| host.liveness == Liveness::Lost);
        let has_told = self.reports.get(node).is_some_and(|observed| observed.report.is_some());
        if judgement.liveness == Liveness::Alive && !has_told {
            // The node is there but has not reported its pods yet, which does not mean that it has none.
            let liveness = if found_lost || was_lost { Liveness::Lost } else { Liveness::Unknown };
            return LivenessCheck { liveness, ..judgement };
        }
        let is_outdated = self.reports.get(node).is_some_and(|observed| observed.is_outdated);
        let was_suspect = self.state.nodes.get(node).is_some_and(|host| host.liveness == Liveness::Suspect);
        if judgement.liveness == Liveness::Alive && was_suspect && is_outdated {
            // The node is back but its last report is outdated: wait for the whole report, which is requested already.
            return LivenessCheck { liveness: Liveness::Suspect, ..judgement };
        }
        if judgement.liveness == Liveness::Lost && deaf && !found_lost && !was_lost {
            return LivenessCheck { liveness: Liveness::Suspect, recheck_at: Some(self.now + DEAF_CHECK) };
        }
        judgement
    }

    fn lost(&mut self, node: &NodeName) {
        let seen = self.reports.get(node).and_then(|observed| observed.report.as_ref());
        let groups = seen.into_iter().flat_map(|report| report.pods.keys().map(|pod| pod.group.clone()));
        self.lead.queue.mark_all(groups.filter(|group| self.state.groups.contains_key(group)));
        self.lead.queue.mark_waiting_on(node);
        if let Some(record) = self.state.nodes.mark_lost(node) {
            let writes = vec![commit::put(keys::node(node), record)];
            let effects = vec![events::of_node(node, "lost: its stateless instances move to other nodes", self.now)];
            self.decide(Bundle { writes, effects, ..Bundle::default() });
        }
    }

    /// Keeps the node's record true: new nodes, changed facts, nodes that came back.
    fn register(&mut self, node: &NodeName) {
        let Some(host) = self.state.nodes.get(node) else { return };
        let Some(observed) = self.reports.get(node) else { return };
        let Some(own) = observed.report.as_ref().map(|report| &report.head.facts) else { return };
        let is_known =
            |record: &NodeRecord| !record.lost && record.facts == *own && record.identity == observed.identity;
        if host.liveness != Liveness::Alive || self.state.nodes.record(node).is_some_and(is_known) {
            return;
        }
        let before = self.state.nodes.record(node);
        let engine_reported_at = before.map_or(Timestamp::NEVER, |record| record.engine_reported_at);
        let (facts, identity) = (own.clone(), observed.identity.clone());
        let record = NodeRecord { facts, lost: false, identity, engine_reported_at };
        let writes = vec![commit::put(keys::node(node), &record)];
        let new = self.state.nodes.put_record(node.clone(), record);
        let effects = new.then(|| events::of_node(node, "joined", self.now)).into_iter().collect();
        self.decide(Bundle { writes, effects, ..Bundle::default() });
    }

    /// The node reports: sends an unanswered order again, or the whole order if the agent has applied another one.
    fn check_order(&mut self, node: &NodeName) {
        let Some(observed) = self.reports.get(node) else { return };
        let Some(report) = &observed.report else { return };
        let now = self.now;
        let known = self.lead.dispatch.get(node).is_some();
        let queue = self.lead.dispatch.queue(node);
        if !known {
            queue.begin(Some(&report.head));
        }
        queue.heard(now);
        let answered = queue.answered_by(&report.head, now);
        queue.check(&report.head, observed.reported_at, observed.renewed_at(), now);
        queue.note_applied(&report.head);
        if answered {
            return self.settled(node);
        }
        if !queue.is_settled() {
            let at = queue.not_before();
            self.lead.dispatch.schedule(node.clone());
            if at > now {
                self.lead.timers.set(Timer::Order(node.clone()), Some(at));
            }
        }
    }
}
