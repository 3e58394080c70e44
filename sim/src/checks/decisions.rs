//! Checks the decisions of a commit against what runs on the nodes.

use contract::name::NodeName;
use contract::record::Presence;
use contract::rollout::StrategyType;
use contract::time::Timestamp;

use crate::checks::budgets::Context;
use crate::checks::checker::{Checker, IN_FLIGHT, index_of};
use crate::checks::commit_changes::{Change, Transition, has_of};
use crate::checks::counters;
use crate::checks::invariants::{Invariant, Violation};
use crate::checks::rollouts;
use crate::world::GroundTruth;
use crate::world::scheduler_process::settings;

impl Checker {
    pub fn check_decisions(&mut self, truth: &GroundTruth<'_>, now: Timestamp) {
        let changes = self.model.take_changes();
        if changes.iter().any(|change| change.is.record.spec.has_strategy()) {
            self.serving.look(truth, now);
        }
        for change in changes {
            for transition in change.transitions().filter(|transition| !transition.is_promoted()) {
                self.check_move(&change, &transition, now);
                self.check_arrival(&change, &transition, truth, now);
            }
            if let Some(wrong) = counters::decreased(&change) {
                self.broken(Invariant::CountsGrow, wrong);
            }
            if let Some(wrong) = self.model.cordons.placed_on_cordoned(&change) {
                self.broken(Invariant::CordonsHold, wrong);
            }
            let tampered = |node: &NodeName| self.lost.contains(node, now) || self.model.faulty_nodes.contains(node);
            let wrong = self.one_at_a_time.observe(&change, settings(0, None).health_poll, tampered);
            if let Some(wrong) = wrong.filter(|_| self.model.switches.engine.guarding) {
                self.broken(Invariant::OneAtATime, wrong);
            }
            self.check_rollout(&change, truth, now);
            self.note_lock(&change, now);
        }
        let stored = &self.model.stored;
        self.locks.retain(|group, _| stored.contains_key(group));
        self.one_at_a_time.forget(|key| !stored.contains_key(&key.group));
    }

    fn check_rollout(&mut self, change: &Change, truth: &GroundTruth<'_>, now: Timestamp) {
        let is_excused = |node: &NodeName| self.lost.contains(node, now) || self.model.faulty_nodes.contains(node);
        let is_suspect = |node: &NodeName| self.may_be_suspect(node, now);
        let context = Context { truth, serving: &self.serving, is_excused: &is_excused, is_suspect: &is_suspect, now };
        if let Some(Violation { invariant, detail }) = rollouts::check(change, &context) {
            self.broken(invariant, detail);
        }
    }

    fn note_lock(&mut self, change: &Change, now: Timestamp) {
        match &change.is.record.operation {
            Some(held) => match self.locks.get_mut(&change.group).filter(|(known, _)| known.since == held.since) {
                Some(_) => {}
                None => drop(self.locks.insert(change.group.clone(), (held.clone(), now))),
            },
            None => drop(self.locks.remove(&change.group)),
        }
    }

    /// An instance may leave a node because it failed there, because a command moves it, or because the node is lost.
    fn check_move(&mut self, change: &Change, transition: &Transition<'_>, now: Timestamp) {
        let Some(from) = transition.left() else { return };
        let lost = self.lost.contains(from, now);
        if lost {
            self.excused.insert(transition.instance.clone());
        }
        if change.is_stateful(transition) && transition.was.leaves.is_none() && !change.drifts(true) {
            self.broken(Invariant::StatefulStays, format!("{transition:?}"));
        }
        let wanted = change.is_another(transition)
            || change.drifts(false)
            || transition.was.version != transition.is.version
            || transition.was.unit != transition.is.unit
            || transition.is.presence == Presence::Vacant;
        let Some(node) = index_of(from) else { return };
        // Reports of the last 17 s may not have reached the leader yet.
        let mut ago = self.reports_published.get(&node).into_iter().flatten().map(|at| now.since(*at));
        let heard = ago.find(|ago| *ago > IN_FLIGHT && *ago + IN_FLIGHT < self.lost_after);
        let failed = transition.failed() || self.model.faulty_nodes.contains(from);
        // While the store refuses writes, a node may be lost and return, and neither is stored.
        let failed = failed || now.since(self.decided_since) >= self.lost_after;
        if let Some(ago) = heard.filter(|_| !failed && !wanted) {
            let detail = format!("{} left {from}, which was heard {ago:?} ago", transition.instance);
            self.broken(Invariant::NothingMovesByFailover, detail);
        }
    }

    /// Before an instance is ordered elsewhere, its former node must have removed it.
    fn check_arrival(&mut self, change: &Change, transition: &Transition<'_>, truth: &GroundTruth<'_>, now: Timestamp) {
        let Some(left) = transition.must_have_left().filter(|left| !self.may_be_lost(left, now)) else { return };
        // `budgets` checks Recreate. A surge pod, and a pod that moves to another unit, starts before the old pod stops; between two commits
        // it may have replaced the old pod.
        let is_surge = change.is.record.spec.strategy_type() == StrategyType::RollingUpdate
            && transition.was.version != transition.is.version;
        // The strategy may have changed since, and the surge pod may have been updated in place.
        let took_over = transition.was.next.as_deref().is_some_and(|next| next.node == transition.is.node);
        let is_surge = is_surge || took_over;
        let is_elsewhere = transition.was.presence == Presence::Vacant || transition.was.unit != transition.is.unit;
        let is_released = (is_surge || is_elsewhere) && !change.is_stateful(transition);
        let failed = is_released
            || transition.was.leaves.is_none() && (transition.failed() || self.model.faulty_nodes.contains(left));
        if let Some(still) = has_of(truth, left, transition).filter(|_| !failed) {
            let detail =
                format!("{} is ordered to {:?} and {left} has {still}", transition.instance, transition.is.node);
            self.broken(Invariant::MovesAfterRemoval, format!("{detail}; {:?}", change.is.record.operation));
        }
    }
}
