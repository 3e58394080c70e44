//! What follows from hearing a node, and from not hearing it.
//!
//! The surprise: when nobody at all is heard it is the leader who is cut off, so nobody is called lost meanwhile, and the
//! silence of each node counts from the first report after that.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::query::Liveness;
use contract::record::NodeRecord;
use contract::report::{EngineState, ReportMessage};
use contract::time::Timestamp;
use planner::liveness::{self, Heartbeats, LivenessCheck, LivenessTimeouts};

use super::alarms::Alarm;
use super::commit::{self, Bundle};
use super::conditions::Concern;
use super::events;
use super::io::{Effect, Mutant};
use super::leader::Leading;
use super::quarantine::Object;

/// While nobody is heard, nodes that would be lost are looked at again so often.
const DEAF_CHECK: Duration = Duration::from_secs(5);

impl Leading<'_> {
    /// A node reported.
    pub(super) fn report(&mut self, message: ReportMessage) {
        let node = message.stamp().node.clone();
        let object = Object::Node(node.clone());
        if self.guarded(&object, |leading| leading.take_report(&node, message)) {
            return self.end_quarantine(&object, "its report was processed");
        }
        // The node is alive although its report cannot be processed: its instances stay there.
        self.ears.hear(&node, self.now);
    }

    fn take_report(&mut self, node: &NodeName, message: ReportMessage) {
        let folded = self.ears.fold(message, self.now);
        if folded.ask {
            self.effects.push(Effect::AskWhole { node: node.clone() });
        }
        if !folded.heard {
            return;
        }
        let facts = self.ears.get(node).and_then(|ear| ear.report.as_ref()).map(|report| &report.head.facts);
        let zone = facts.and_then(|facts| facts.labels.get("zone"));
        self.panic_on_purpose_in("report", zone.map_or("", String::as_str));
        if let Some(progress) =
            self.ears.get(node).and_then(|ear| ear.report.as_ref()).map(|report| &report.head.progress)
            && !self.lead.outbox.progress().covers(progress)
        {
            let progress = progress.clone();
            self.compare_progress(&progress);
        }
        self.note_hearing();
        self.stays_after_all(node);
        for change in &folded.pods {
            self.guarded(&Object::Group(change.pod.group.clone()), |leading| {
                let change = std::slice::from_ref(change);
                leading.note_happenings(node, change);
                leading.note_history(node, change);
                leading.note_missed(node, change);
            });
        }
        self.update_host(node);
        self.judge_node(node);
        self.look(Concern::Engine(node.clone()));
        for change in &folded.pods {
            // What follows from one pod depends on its group's spec: a panic is the group's, not the node's.
            let object = Object::Group(change.pod.group.clone());
            if self.state.quarantine.holds_back(&object, self.now).is_some() {
                continue;
            }
            self.guarded(&object, |leading| {
                leading.note_condition(node, change);
                leading.dependency_reported(node, &change.pod);
                leading.pod_reported(change);
            });
        }
        self.register(node);
        self.check_order(node);
        self.look_at_vacancies(node);
    }

    fn note_hearing(&mut self) {
        let deaf = self.now.since(self.lead.anybody_heard_at) >= self.settings.suspect_after;
        if deaf && !self.has_mutant(Mutant::NoFailoverGrace) {
            self.lead.listening_since = self.now;
        }
        self.lead.anybody_heard_at = self.now;
        self.ears.listen(self.now, self.settings.suspect_after);
    }

    fn update_host(&mut self, node: &NodeName) {
        let Some(report) = self.ears.get(node).and_then(|ear| ear.report.as_ref()) else { return };
        let engine_before = self.state.hosts.get(node).map(|host| host.engine);
        let engine = report.head.engine;
        if !self.state.put_host(node, &report.head.facts, engine) {
            return;
        }
        self.room_appeared();
        if engine_before != Some(engine) {
            self.lead.dirty.extend(self.state.groups_on(node));
            self.engine_changed(node, engine_before, engine);
        }
    }

    /// Somebody wants the group looked at: it is planned, and its nodes tell everything they have.
    pub(super) fn look_anew(&mut self, name: GroupName) {
        let Some(group) = self.state.groups.get(&name).filter(|group| group.is_present()) else { return };
        let nodes: BTreeSet<NodeName> = group.placed(&name).map(|(node, _, _)| node.clone()).collect();
        for node in nodes {
            if self.ears.may_ask(&node, self.now) {
                self.effects.push(Effect::AskWhole { node });
            }
        }
        self.lead.dirty.insert(name);
    }

    /// Judges whether a node is alive and does what follows when that changed.
    pub(super) fn judge_node(&mut self, node: &NodeName) {
        let judgement = self.judgement(node);
        match judgement.recheck_at {
            // With each report it is later; whoever looks at the earlier time finds that, and nothing is moved before.
            Some(at) => self.lead.alarms.set_earlier(Alarm::Node(node.clone()), at),
            None => self.lead.alarms.set(Alarm::Node(node.clone()), None),
        }
        let Some(liveness) = self.state.hosts.hear(node) else { return };
        let before = std::mem::replace(liveness, judgement.liveness);
        if before == judgement.liveness {
            return;
        }
        self.lead.dirty.extend(self.state.groups_on(node));
        self.wake_dependencies_on(node);
        match judgement.liveness {
            Liveness::Alive => {
                self.room_appeared();
                self.lead.line.insert(node.clone());
                self.heard_again(node, before);
            }
            Liveness::Lost => self.lost(node),
            Liveness::Suspect => self.suspect(node, before),
            Liveness::Unknown => {}
        }
    }

    fn heard_again(&mut self, node: &NodeName, before: Liveness) {
        self.came_back(node);
        let message = match before {
            Liveness::Suspect => "heard again",
            Liveness::Lost => "came back; it was lost",
            // Found by a new leader, or new: that is told when it registers.
            Liveness::Alive | Liveness::Unknown => return,
        };
        self.tell(vec![events::of_node(node, message, self.now)]);
    }

    fn suspect(&mut self, node: &NodeName, before: Liveness) {
        // Whom this leader has not heard itself may have been silent for long.
        if before == Liveness::Alive {
            let silence = events::shown(self.settings.suspect_after);
            self.tell(vec![events::of_node(node, format!("not heard for {silence}: suspect"), self.now)]);
            self.went_silent(node);
        }
    }

    fn engine_changed(&mut self, node: &NodeName, before: Option<EngineState>, engine: EngineState) {
        let message = match (before, engine) {
            (None, EngineState::Up) => None,
            (Some(_), EngineState::Up) => Some("its engine answers again"),
            (_, EngineState::Hung) => Some("its engine does not answer"),
            (_, EngineState::Down) => Some("its engine cannot be reached"),
        };
        self.tell(message.map(|message| events::of_node(node, message, self.now)).into_iter().collect());
    }

    fn judgement(&self, node: &NodeName) -> LivenessCheck {
        let settings = self.settings;
        let mut limits = LivenessTimeouts {
            suspect_after: settings.suspect_after,
            lost_after: settings.lost_after,
            grace: settings.failover_grace,
        };
        let heard_at = self.ears.get(node).and_then(|ear| ear.heard_at);
        let found_lost = self.state.records.get(node).is_some_and(|record| record.lost);
        let (listening_since, deaf_until) = (self.lead.listening_since, self.ears.deaf_until);
        let hearing =
            Heartbeats { last_report: heard_at, was_lost: found_lost, listening_since, blind_until: deaf_until };
        if self.has_mutant(Mutant::NoFailoverGrace) {
            limits.grace = Duration::ZERO;
            let deaf_until = Timestamp::NEVER;
            let hearing = Heartbeats { was_lost: found_lost || heard_at.is_none(), blind_until: deaf_until, ..hearing };
            return liveness::check(hearing, &limits, self.now);
        }
        let judgement = liveness::check(hearing, &limits, self.now);
        let deaf = self.now.since(self.lead.anybody_heard_at) >= settings.suspect_after;
        let was_lost = self.state.hosts.get(node).is_some_and(|host| host.liveness == Liveness::Lost);
        let has_told = self.ears.get(node).is_some_and(|ear| ear.report.is_some());
        if judgement.liveness == Liveness::Alive && !has_told {
            // It is there, and nobody knows yet what it has: that is not the same as having nothing.
            let liveness = if found_lost || was_lost { Liveness::Lost } else { Liveness::Unknown };
            return LivenessCheck { liveness, ..judgement };
        }
        let is_outdated = self.ears.get(node).is_some_and(|ear| ear.is_outdated);
        let was_suspect = self.state.hosts.get(node).is_some_and(|host| host.liveness == Liveness::Suspect);
        if judgement.liveness == Liveness::Alive && was_suspect && is_outdated {
            // It is back and something happened there meanwhile: nobody acts on what it said before, its answer is under way.
            return LivenessCheck { liveness: Liveness::Suspect, ..judgement };
        }
        if judgement.liveness == Liveness::Lost && deaf && !found_lost && !was_lost {
            return LivenessCheck { liveness: Liveness::Suspect, recheck_at: Some(self.now + DEAF_CHECK) };
        }
        judgement
    }

    fn lost(&mut self, node: &NodeName) {
        let seen = self.ears.get(node).and_then(|ear| ear.report.as_ref());
        let groups = seen.into_iter().flat_map(|report| report.pods.keys().map(|pod| pod.group.clone()));
        self.lead.dirty.extend(groups.filter(|group| self.state.groups.contains_key(group)));
        self.lead.dirty.extend(self.lead.draining.get(node).into_iter().flatten().cloned());
        if let Some(record) = self.state.records.get_mut(node).filter(|record| !record.lost) {
            record.lost = true;
            let writes = vec![commit::put(keys::node(node), &*record)];
            let effects = vec![events::of_node(node, "lost: what has no state of its own moves elsewhere", self.now)];
            self.decide(Bundle { writes, effects, ..Bundle::default() });
        }
    }

    /// Keeps the node's record true: new nodes, changed facts, nodes that came back.
    fn register(&mut self, node: &NodeName) {
        let Some(host) = self.state.hosts.get(node) else { return };
        let Some(ear) = self.ears.get(node) else { return };
        let Some(own) = ear.report.as_ref().map(|report| &report.head.facts) else { return };
        let is_known = |record: &NodeRecord| !record.lost && record.facts == *own && record.identity == ear.identity;
        if host.liveness != Liveness::Alive || self.state.records.get(node).is_some_and(is_known) {
            return;
        }
        let before = self.state.records.get(node);
        let engine_reported_at = before.map_or(Timestamp::NEVER, |record| record.engine_reported_at);
        let (facts, identity) = (own.clone(), ear.identity.clone());
        let record = NodeRecord { facts, lost: false, identity, engine_reported_at };
        let writes = vec![commit::put(keys::node(node), &record)];
        let new = self.state.records.insert(node.clone(), record).is_none();
        let effects = new.then(|| events::of_node(node, "joined", self.now)).into_iter().collect();
        self.decide(Bundle { writes, effects, ..Bundle::default() });
    }

    /// The node is heard: it gets an order it did not answer for, or its order again if it obeys another one.
    fn check_order(&mut self, node: &NodeName) {
        let Some(ear) = self.ears.get(node) else { return };
        let Some(report) = &ear.report else { return };
        let now = self.now;
        let known = self.lead.desks.contains_key(node);
        let desk = self.lead.desk(node);
        if !known {
            desk.begin(Some(&report.head));
        }
        desk.heard(now);
        let answered = desk.answered_by(&report.head, now);
        desk.check(&report.head, ear.told_at, ear.renewed_at(), now);
        desk.note_obeyed(&report.head);
        if answered {
            return self.settled(node);
        }
        if !desk.is_settled() {
            let at = desk.not_before();
            self.lead.line.insert(node.clone());
            if at > now {
                self.lead.alarms.set(Alarm::Order(node.clone()), Some(at));
            }
        }
    }
}
