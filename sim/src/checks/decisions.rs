//! Whether what a leader decided was right, given what stands on the nodes while it is stored.

use contract::name::NodeName;
use contract::record::Filling;
use contract::rollout::StrategyType;
use contract::time::Timestamp;

use crate::checks::budgets::Sight;
use crate::checks::checker::{UNDER_WAY, Watch, index_of};
use crate::checks::commit_changes::{Change, Stride, has_of};
use crate::checks::counters;
use crate::checks::invariants::{Invariant, Violation};
use crate::checks::rollouts;
use crate::world::Nodes;
use crate::world::scheduler_process::settings;

impl Watch {
    /// Looks at what the last commit changed, and at what stands on the nodes meanwhile.
    pub fn decided(&mut self, nodes: &Nodes<'_>, now: Timestamp) {
        let changes = self.model.take_changes();
        if changes.iter().any(|change| change.is.record.spec.has_strategy()) {
            self.service.look(nodes, now);
        }
        for change in changes {
            for stride in change.strides().filter(|stride| !stride.is_promoted()) {
                self.moved(&change, &stride, now);
                self.arrived(&change, &stride, nodes, now);
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
            self.released(&change, nodes, now);
            self.note_lock(&change, now);
        }
        let stored = &self.model.stored;
        self.locks.retain(|group, _| stored.contains_key(group));
        self.turns.forget(|key| !stored.contains_key(&key.group));
    }

    fn released(&mut self, change: &Change, nodes: &Nodes<'_>, now: Timestamp) {
        let is_excused = |node: &NodeName| self.lost.contains(node, now) || self.model.shaken.contains(node);
        let is_suspect = |node: &NodeName| self.may_be_suspect(node, now);
        let sight = Sight { nodes, service: &self.service, is_excused: &is_excused, is_suspect: &is_suspect, now };
        if let Some(Violation { invariant, detail }) = rollouts::check(change, &sight) {
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
    fn moved(&mut self, change: &Change, stride: &Stride<'_>, now: Timestamp) {
        let Some(from) = stride.left() else { return };
        let lost = self.lost.contains(from, now);
        if lost {
            self.excused.insert(stride.instance.clone());
        }
        if change.is_stateful(stride) && stride.was.leaves.is_none() && !change.drifts(true) {
            self.broken(Invariant::StatefulStays, format!("{stride:?}"));
        }
        let wanted = change.is_another(stride)
            || change.drifts(false)
            || stride.was.version != stride.is.version
            || stride.was.unit != stride.is.unit
            || stride.is.filling == Filling::Retired;
        let Some(node) = index_of(from) else { return };
        // What was published only just now may still be under way to the leader.
        let mut ago = self.heard.get(&node).into_iter().flatten().map(|at| now.since(*at));
        let heard = ago.find(|ago| *ago > UNDER_WAY && *ago + UNDER_WAY < self.lost_after);
        let failed = stride.failed() || self.model.shaken.contains(from);
        // While nothing can be stored a node may be lost and come back: nobody is told of either.
        let failed = failed || now.since(self.decided_since) >= self.lost_after;
        if let Some(ago) = heard.filter(|_| !failed && !wanted) {
            let detail = format!("{} left {from}, which was heard {ago:?} ago", stride.instance);
            self.broken(Invariant::NothingMovesByFailover, detail);
        }
    }

    /// Whoever is to be ordered somewhere now has been let go of by the node it leaves.
    fn arrived(&mut self, change: &Change, stride: &Stride<'_>, nodes: &Nodes<'_>, now: Timestamp) {
        let Some(left) = stride.free_of().filter(|left| !self.may_be_lost(left, now)) else { return };
        // What comes where everything old has to go first is looked at with that. Who surges, or goes to another unit, is
        // there before it is gone here; between two commits its second pod may have come and taken over.
        let is_surge = change.is.record.spec.strategy_type() == StrategyType::RollingUpdate
            && stride.was.version != stride.is.version;
        // The strategy may be another one since, and the pod that took over renewed where it is.
        let took_over = stride.was.next.as_deref().is_some_and(|next| next.node == stride.is.node);
        let is_surge = is_surge || took_over;
        let is_elsewhere = stride.was.filling == Filling::Retired || stride.was.unit != stride.is.unit;
        let is_released = (is_surge || is_elsewhere) && !change.is_stateful(stride);
        let failed =
            is_released || stride.was.leaves.is_none() && (stride.failed() || self.model.shaken.contains(left));
        if let Some(still) = has_of(nodes, left, stride).filter(|_| !failed) {
            let detail = format!("{} is ordered to {:?} and {left} has {still}", stride.instance, stride.is.node);
            self.broken(Invariant::NotBeforeLetGo, format!("{detail}; {:?}", change.is.record.operation));
        }
    }
}
