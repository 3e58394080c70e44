//! Answers where the release of a group stands: what is done, what is under way, what it waits for and what would help.
//!
//! A group without a strategy is answered for as well: its serial upgrade is a release of one unit without groups.

use std::collections::BTreeMap;

use contract::name::GroupName;
use contract::record::{Filling, Slot};
use contract::report::PodFacts;
use contract::rollout::StrategyType;
use contract::rollout_view::{RolloutInstance, RolloutPhase, RolloutPod, RolloutStatus, RolloutUnit, RolloutView};
use contract::state::TargetState;
use contract::time::Timestamp;
use planner::group::dry_run::warning_text;
use planner::group::{GroupFacts, limits, plan_group, readiness};
use planner::rollout::availability::is_available;
use planner::rollout::controller::{self, RolloutReport, RolloutState};
use planner::rollout::limits::RolloutLimits;
use planner::rollout::moment::Moment;

use super::planning::Sight;
use super::queries::Library;
use super::state::{Group, pod_id};

mod budgets;
mod cuts;
mod words;

/// A release as it is looked at.
struct Look<'a> {
    group: &'a Group,
    /// None where there is no conductor.
    report: Option<&'a RolloutReport>,
    release: Option<&'a RolloutState>,
    units: Vec<String>,
    instances: &'a [RolloutInstance],
    /// What the planner keeps to.
    budget: RolloutLimits,
    is_running: bool,
    /// An earlier revision completed that undo would go back to.
    can_undo: bool,
}

impl Library<'_> {
    /// Where the release of a group stands.
    pub(super) fn rollout(&self, name: &GroupName) -> Option<RolloutView> {
        let group = self.state.groups.get(name).filter(|group| group.is_present())?;
        let instances = self.with_facts(name, group, |facts| self.instances(name, group, facts));
        // A standby has made no plan, and an engine that is stopped makes none: asking the planner changes nothing.
        let report = || self.with_facts(name, group, |facts| plan_group(facts, self.now).report);
        let report = group.report.clone().or_else(report);
        let target = group.record.spec.version;
        let look = Look {
            group,
            report: report.as_ref(),
            release: group.release.as_ref().filter(|release| release.target == target),
            units: units(group),
            instances: &instances,
            budget: self.with_facts(name, group, |facts| limits(facts, self.now)),
            is_running: self.state.engine.running,
            can_undo: self.admission().way_back(name, None).is_ok_and(|back| !back.is_present),
        };
        Some(RolloutView { name: name.to_string(), ..look.view(instances.clone()) })
    }

    fn instances(&self, name: &GroupName, group: &Group, facts: &GroupFacts<'_>) -> Vec<RolloutInstance> {
        let sight = Sight::of(self.ears, name, group);
        let spec = &group.record.spec;
        let min_ready = spec.min_ready();
        let pod = |slot: &Slot, seen: Option<&PodFacts>| {
            let ready = readiness(facts, slot, seen, self.now);
            let gates = spec.readiness_gates.iter();
            let is_true = |gate: &String| slot.draining.is_none() && slot.gates.contains_key(gate);
            let containers = seen.map(|seen| seen.containers.as_slice()).unwrap_or_default();
            RolloutPod {
                revision: slot.version,
                node: slot.node.clone(),
                ready: ready.ready,
                available: is_available(ready, min_ready, self.now.into()),
                draining: slot.draining.is_some(),
                gates: gates.map(|gate| (gate.clone(), is_true(gate))).collect(),
                ips: containers.iter().map(|container| container.ip.clone()).collect(),
                node_ports: containers.iter().map(|container| container.node_port).collect(),
                containers: containers.iter().map(|container| container.id.clone()).collect(),
                why: if ready.ready { String::new() } else { words::why(slot, seen, spec, self.now) },
            }
        };
        let shown = group.slots().iter().enumerate().filter(|(_, slot)| slot.filling != Filling::Nothing);
        let shown = shown.map(|(index, slot)| {
            let look = |seen: &[Option<&'_ PodFacts>]| seen.get(index).copied().flatten().cloned();
            let (own, beside) = (look(&sight.seen), look(&sight.beside));
            let own = (slot.filling == Filling::Pod).then(|| pod(slot, own.as_ref()));
            let beside = slot.next.as_deref().map(|next| pod(next, beside.as_ref()));
            RolloutInstance {
                instance: pod_id(name, index, slot).instance,
                unit: slot.unit.clone(),
                pods: own.into_iter().chain(beside).collect(),
            }
        });
        shown.collect()
    }
}

/// The names of a group's units, in the order its release counts them.
fn units(group: &Group) -> Vec<String> {
    let allotted = group.release.as_ref().map(|release| release.allotment.units.clone()).unwrap_or_default();
    if !allotted.is_empty() {
        return allotted;
    }
    let declared = group.record.spec.topology.as_ref().map(|topology| topology.values.clone()).unwrap_or_default();
    if declared.is_empty() { vec![String::new()] } else { declared }
}

impl Look<'_> {
    /// The present revision is a copy of an earlier one. A group that adopted containers has equals too, and goes nowhere back.
    fn is_copy(&self) -> bool {
        let present = self.group.record.spec.version;
        let known = self.group.past.revisions.iter().find(|revision| revision.number == present);
        known.is_some_and(|revision| revision.copies.is_some())
    }

    fn view(&self, instances: Vec<RolloutInstance>) -> RolloutView {
        let record = &self.group.record;
        let (phase, status) = (self.phase(), self.status());
        let limits = self.limits();
        RolloutView {
            name: String::new(),
            release: record.spec.version,
            strategy: record.spec.strategy_type(),
            is_rollback: self.is_copy(),
            phase,
            status,
            message: self.message(status),
            since: self.since(),
            replicas: record.spec.num_instances,
            min_available: limits.min_available,
            max_total: limits.max_total,
            group: self.release.map_or(0, |release| release.batch),
            groups: self.cuts(),
            units: self.unit_views(),
            waits_for: self.waits_for(),
            is_paused: record.spec.paused,
            is_frozen: self.group.release.as_ref().is_some_and(|release| release.is_frozen),
            warnings: self
                .report
                .map(|report| report.warnings.iter().map(|it| warning_text(*it, &self.units)).collect())
                .unwrap_or_default(),
            instances,
        }
    }

    fn has_strategy(&self) -> bool {
        self.group.record.spec.has_strategy()
    }

    fn phase(&self) -> RolloutPhase {
        let record = &self.group.record;
        match self.release.map(|release| release.phase) {
            Some(phase) => phase,
            None if self.has_strategy() => RolloutPhase::Idle,
            None if record.proven == Some(record.spec.version) => RolloutPhase::Completed,
            None => RolloutPhase::Running,
        }
    }

    /// A rollout that completed and lost instances since is not shown as complete.
    fn status(&self) -> RolloutStatus {
        match self.planned_stand() {
            RolloutStatus::Complete if !self.unavailable().is_empty() => RolloutStatus::Degraded,
            status => status,
        }
    }

    fn planned_stand(&self) -> RolloutStatus {
        let record = &self.group.record;
        match self.report.map(|report| report.status) {
            Some(controller::RolloutStatus::Progressing) => RolloutStatus::Progressing,
            Some(controller::RolloutStatus::Complete) => RolloutStatus::Complete,
            Some(controller::RolloutStatus::Stuck) => RolloutStatus::Stuck,
            Some(controller::RolloutStatus::Held(_)) => RolloutStatus::Held,
            Some(controller::RolloutStatus::WaitingForConfirm { .. }) => RolloutStatus::WaitingForConfirm,
            Some(controller::RolloutStatus::Paused) => RolloutStatus::Paused,
            Some(controller::RolloutStatus::Frozen) => RolloutStatus::Frozen,
            Some(controller::RolloutStatus::Aborted) => RolloutStatus::Aborted,
            None if record.proven == Some(record.spec.version) => RolloutStatus::Complete,
            None if record.operation.is_none() && !record.last_error.is_empty() => RolloutStatus::Held,
            None => RolloutStatus::Progressing,
        }
    }

    fn since(&self) -> Timestamp {
        let failure = self.release.and_then(|release| release.failure.as_ref()).map(|failure| failure.since);
        let progress = self.release.and_then(|release| release.progress.as_ref()).map(|progress| progress.last_update);
        failure.or(progress).map_or(self.group.record.updated_at, timestamp)
    }

    fn unit_views(&self) -> Vec<RolloutUnit> {
        let Some(report) = self.report else { return vec![self.serial_unit()] };
        let named = self.units.iter().zip(&report.units);
        let view = |(name, unit): (&String, &planner::rollout::controller::UnitCount)| RolloutUnit {
            name: name.clone(),
            target: unit.target,
            committed: unit.committed,
            updated: unit.updated,
            updated_available: unit.updated_available,
            available: unit.available,
            unplaced: unit.unplaced,
        };
        named.map(view).collect()
    }

    fn serial_unit(&self) -> RolloutUnit {
        let count = |is_so: &dyn Fn(&RolloutPod) -> bool| {
            let pods = self.instances.iter().flat_map(|instance| &instance.pods);
            i64::try_from(pods.filter(|pod| is_so(pod)).count()).unwrap_or(i64::MAX)
        };
        let updated = count(&|pod| self.is_updated(pod.revision));
        RolloutUnit {
            name: String::new(),
            target: self.group.record.spec.num_instances,
            committed: updated,
            updated,
            updated_available: count(&|pod| self.is_updated(pod.revision) && pod.available),
            available: count(&|pod| pod.available),
            unplaced: count(&|pod| pod.node.is_none()),
        }
    }

    fn is_updated(&self, revision: u32) -> bool {
        let record = &self.group.record;
        revision == record.spec.version || record.equals.contains(&revision)
    }

    fn waits_for(&self) -> Vec<u32> {
        if let Some(report) = self.report {
            return report.waits_for.clone();
        }
        if self.phase() == RolloutPhase::Completed {
            return Vec::new();
        }
        self.unavailable()
    }

    /// Instances without an available pod at the target revision, except stopped ones and those that the rollout skipped.
    pub(super) fn unavailable(&self) -> Vec<u32> {
        let is_stopped = |number: u32| {
            let index = usize::try_from(number).unwrap_or(0).saturating_sub(1);
            self.group.slots().get(index).is_some_and(|slot| slot.target == TargetState::Stop)
        };
        let is_skipped = |number: u32| self.release.is_some_and(|release| release.excused.contains_key(&number));
        let is_done = |it: &RolloutInstance| it.pods.iter().any(|pod| self.is_updated(pod.revision) && pod.available);
        let lacking = self.instances.iter().filter(|it| !is_done(it) && !is_stopped(it.instance));
        lacking.map(|it| it.instance).filter(|number| !is_skipped(*number)).collect()
    }

    fn strategy(&self) -> StrategyType {
        self.group.record.spec.strategy_type()
    }

    /// What pods of each unit make, by their names; those without any left out.
    fn by_unit(&self, counts: &[i64]) -> BTreeMap<String, i64> {
        self.units.iter().cloned().zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
    }
}

fn timestamp(moment: Moment) -> Timestamp {
    Timestamp::from_millis(moment.as_nanos() / 1_000_000)
}
