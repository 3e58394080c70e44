//! Whether what a leader decided was right, given what stands on the nodes while it is stored.

use contract::name::NodeName;
use contract::record::Filling;
use contract::rollout::StrategyType;
use contract::time::Timestamp;

use crate::checks::budgets::Context;
use crate::checks::checker::{Checker, UNDER_WAY, index_of};
use crate::checks::commit_changes::{Change, Transition, has_of};
use crate::checks::counters;
use crate::checks::invariants::{Invariant, Violation};
use crate::checks::rollouts;
use crate::world::GroundTruth;
use crate::world::scheduler_process::settings;

impl Checker {
    /// Looks at what the last commit changed, and at what stands on the nodes meanwhile.
    pub fn decided(&mut self, truth: &GroundTruth<'_>, now: Timestamp) {
        let changes = self.model.take_changes();
        if changes.iter().any(|change| change.is.record.spec.has_strategy()) {
            self.service.look(truth, now);
        }
        for change in changes {
            for transition in change.transitions().filter(|transition| !transition.is_promoted()) {
                self.moved(&change, &transition, now);
                self.arrived(&change, &transition, truth, now);
            }
            if let Some(wrong) = counters::decline(&change) {
                self.broken(Invariant::CountsGrow, wrong);
            }
            if let Some(wrong) = self.model.cordons.passed_by(&change) {
                self.broken(Invariant::CordonsHold, wrong);
            }
            let tampered = |node: &NodeName| self.lost.contains(node, now) || self.model.shaken.contains(node);
            let wrong = self.turns.observe(&change, settings(0, None).health_poll, tampered);
            if let Some(wrong) = wrong.filter(|_| self.model.switches.engine.guarding) {
                self.broken(Invariant::OneAtATime, wrong);
            }
            self.released(&change, truth, now);
            self.note_lock(&change, now);
        }
        let stored = &self.model.stored;
        self.locks.retain(|group, _| stored.contains_key(group));
        self.turns.forget(|key| !stored.contains_key(&key.group));
    }

    fn released(&mut self, change: &Change, truth: &GroundTruth<'_>, now: Timestamp) {
        let is_excused = |node: &NodeName| self.lost.contains(node, now) || self.model.shaken.contains(node);
        let is_suspect = |node: &NodeName| self.may_be_suspect(node, now);
        let context = Context { truth, service: &self.service, is_excused: &is_excused, is_suspect: &is_suspect, now };
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

    /// An instance may leave a node because it failed there, because somebody wants it to, or because the node is lost.
    fn moved(&mut self, change: &Change, transition: &Transition<'_>, now: Timestamp) {
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
            || transition.is.filling == Filling::Retired;
        let Some(node) = index_of(from) else { return };
        // What was published only just now may still be under way to the leader.
        let mut ago = self.heard.get(&node).into_iter().flatten().map(|at| now.since(*at));
        let heard = ago.find(|ago| *ago > UNDER_WAY && *ago + UNDER_WAY < self.lost_after);
        let failed = transition.failed() || self.model.shaken.contains(from);
        // While nothing can be stored a node may be lost and come back: nobody is told of either.
        let failed = failed || now.since(self.decided_since) >= self.lost_after;
        if let Some(ago) = heard.filter(|_| !failed && !wanted) {
            let detail = format!("{} left {from}, which was heard {ago:?} ago", transition.instance);
            self.broken(Invariant::NothingMovesByFailover, detail);
        }
    }

    /// Whoever is to be ordered somewhere now has been let go of by the node it leaves.
    fn arrived(&mut self, change: &Change, transition: &Transition<'_>, truth: &GroundTruth<'_>, now: Timestamp) {
        let Some(left) = transition.free_of().filter(|left| !self.may_be_lost(left, now)) else { return };
        // What comes where everything old has to go first is looked at with that. Who surges, or goes to another unit, is
        // there before it is gone here; between two commits its second pod may have come and taken over.
        let is_surge = change.is.record.spec.strategy_type() == StrategyType::RollingUpdate
            && transition.was.version != transition.is.version;
        // The strategy may be another one since, and the pod that took over renewed where it is.
        let took_over = transition.was.next.as_deref().is_some_and(|next| next.node == transition.is.node);
        let is_surge = is_surge || took_over;
        let is_elsewhere = transition.was.filling == Filling::Retired || transition.was.unit != transition.is.unit;
        let is_released = (is_surge || is_elsewhere) && !change.is_stateful(transition);
        let failed =
            is_released || transition.was.leaves.is_none() && (transition.failed() || self.model.shaken.contains(left));
        if let Some(still) = has_of(truth, left, transition).filter(|_| !failed) {
            let detail =
                format!("{} is ordered to {:?} and {left} has {still}", transition.instance, transition.is.node);
            self.broken(Invariant::NotBeforeLetGo, format!("{detail}; {:?}", change.is.record.operation));
        }
    }
}
