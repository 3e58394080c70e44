//! Moves instances off a node, for the commands `drift` and `evacuate`.
//!
//! One instance follows another, each when the previous one is ready or has timed out. An instance that fits on no other node
//! stays and keeps running; the reason is shown at the instance, not at the group. The move is not remembered as a
//! constraint: later placements may use the node again.

use contract::command::{Drift, Operation};
use contract::name::NodeName;
use contract::record::{OperationRecord, Presence};
use contract::state::TargetState;

use super::reservations::{ExtraConstraint, PlacementRequest};
use super::{Planning, forget_pod};
use crate::placement::NodePreference;

impl Planning<'_> {
    /// The first queued move takes the lock when it is free.
    pub(super) fn start_next_move(&mut self) {
        if self.record.operation.is_some() {
            return;
        }
        let Some(instance) = self.record.drifts.first().map(|drift| drift.instance) else { return };
        let all = u32::try_from(self.plan.instances.len()).unwrap_or(u32::MAX);
        let operation = OperationRecord {
            kind: Operation::Drifting,
            since: self.now,
            next: instance.unwrap_or(1),
            last: instance.unwrap_or(all),
        };
        self.record.to_mut().operation = Some(operation);
    }

    /// Moves the next instance when the previous one is done.
    pub(super) fn run_move(&mut self) {
        let Some(drift) = self.record.drifts.first().cloned() else { return };
        if !self.may_proceed() {
            return;
        }
        while let Some((operation, index)) = self.next_instance() {
            self.advance();
            if !self.move_instance(index, &drift) {
                continue;
            }
            self.plan.instances[index].since = self.now.max(operation.since);
            if !self.is_done_waiting(index) {
                return;
            }
        }
    }

    /// Moves one instance if the command applies to it; false if it stays.
    fn move_instance(&mut self, index: usize, drift: &Drift) -> bool {
        self.move_surge(index, drift);
        let instance = &self.plan.instances[index];
        if instance.presence != Presence::Pod || (!drift.force && self.revision(instance.version).pod.is_stateful()) {
            return false;
        }
        let is_there = instance.node.as_ref() == Some(&drift.from);
        if !is_there && instance.leaves.as_ref() != Some(&drift.from) {
            return false;
        }
        let elsewhere = is_there || drift.to.as_ref().is_some_and(|to| instance.node.as_ref() != Some(to));
        let sent = elsewhere && drift.to.as_ref() != Some(&drift.from) && self.place_elsewhere(index, drift, is_there);
        self.skip_lost_node(index, drift) || sent
    }

    fn place_elsewhere(&mut self, index: usize, drift: &Drift, is_there: bool) -> bool {
        let instance = &self.plan.instances[index];
        let (old, version, unit_constraint) = (instance.node.clone(), instance.version, self.unit_constraint(instance));
        let revision = self.revision(version).clone();
        if let Some(old) = &old {
            self.reservations.release(old, revision.need);
            self.reservations.uncount(old);
        }
        let also = drift
            .to
            .as_ref()
            .map_or_else(|| format!("constraint:node!={}", drift.from), |to| format!("constraint:node=={to}"));
        match self.reservations.place(
            &PlacementRequest { version, extra: ExtraConstraint::Expression(also), unit_constraint },
            &revision,
            NodePreference::default(),
        ) {
            Ok(node) => {
                // An instance that is still moving was never ordered on the new node, so its pod name is unused.
                let drift = if is_there { self.next_drift(index) } else { self.plan.instances[index].drift };
                let instance = &mut self.plan.instances[index];
                instance.drift = drift;
                forget_pod(instance);
                instance.reserved_addresses.clear();
                self.move_to(index, node);
                self.plan.instances[index].why.clear();
                self.touched.insert(index);
                true
            }
            Err(unplaceable) => {
                if let Some(old) = &old {
                    self.reservations.keep(old, revision.need);
                }
                let why = format!("it stays on {}: {}", drift.from, unplaceable.sentence());
                self.plan.instances[index].not_moved = why;
                self.plan.unplaced = Some(unplaceable);
                false
            }
        }
    }

    /// With `force`, an instance does not wait for the lost node that it leaves.
    fn skip_lost_node(&mut self, index: usize, drift: &Drift) -> bool {
        let instance = &self.plan.instances[index];
        let waits = |left: &NodeName| *left == drift.from && drift.force && self.is_lost(left);
        let abandons = instance.leaves.as_ref().is_some_and(waits) && instance.target == TargetState::Run;
        if abandons {
            self.plan.instances[index].leaves = None;
            self.touched.insert(index);
        }
        abandons
    }
}
