//! Answers how far the rollout of a group is: done, in progress, waiting, and what would help.
//!
//! A group without a strategy gets an answer too: its serial upgrade is a rollout of one unit without batches. Earlier batches
//! are not stored. If replaying the plan from the start leads exactly to what is committed now, these were the batches;
//! otherwise something changed on the way, and the answer shows only their numbers.

use std::collections::BTreeMap;

use contract::name::GroupName;
use contract::record::{Instance, Presence};
use contract::report::PodFacts;
use contract::rollout::{Amount, StrategyType};
use contract::rollout_view::{
    RolloutGroup, RolloutInstance, RolloutPhase, RolloutPod, RolloutStatus, RolloutUnit, RolloutView,
};
use contract::state::TargetState;
use contract::time::Timestamp;
use planner::group::dry_run::warning_text;
use planner::group::{GroupFacts, limits, plan_group, readiness};
use planner::rollout::availability::is_available;
use planner::rollout::batches::{Batch, BatchSettings, UnitProgress, batch_size, batches};
use planner::rollout::controller::{self, RolloutReport, RolloutState};
use planner::rollout::limits::RolloutLimits;
use planner::rollout::moment::Moment;

use crate::core::events::rollout::kind_name;
use crate::core::reconcile::input::ReportedPods;
use crate::core::state::{Group, pod_id};

use super::Queries;
use super::rollout_message::why;

/// The rollout of one group, as an answer needs it.
pub(super) struct RolloutSnapshot<'a> {
    pub(super) group: &'a Group,
    /// None for a group without a strategy.
    pub(super) report: Option<&'a RolloutReport>,
    pub(super) release: Option<&'a RolloutState>,
    pub(super) units: Vec<String>,
    pub(super) instances: &'a [RolloutInstance],
    /// What the planner keeps to.
    pub(super) budget: RolloutLimits,
    pub(super) is_running: bool,
    /// An earlier revision completed that undo would go back to.
    pub(super) can_undo: bool,
}

impl Queries<'_> {
    pub(super) fn rollout(&self, name: &GroupName) -> Option<RolloutView> {
        let group = self.state.groups.get(name).filter(|group| group.is_present())?;
        let instances = self.with_facts(name, group, |facts| self.instances(name, group, facts));
        // A standby has made no plan, and neither does a stopped engine. Calling the planner changes nothing.
        let report = || self.with_facts(name, group, |facts| plan_group(facts, self.now).report);
        let report = group.report.clone().or_else(report);
        let target = group.record.spec.version;
        let snapshot = RolloutSnapshot {
            group,
            report: report.as_ref(),
            release: group.release.as_ref().filter(|release| release.target == target),
            units: units(group),
            instances: &instances,
            budget: self.with_facts(name, group, |facts| limits(facts, self.now)),
            is_running: self.state.cluster.switches().running,
            can_undo: self.admission().rollback_target(name, None).is_ok_and(|back| !back.is_present),
        };
        Some(RolloutView { name: name.to_string(), ..snapshot.view(instances.clone()) })
    }

    fn instances(&self, name: &GroupName, group: &Group, facts: &GroupFacts<'_>) -> Vec<RolloutInstance> {
        let sight = ReportedPods::of(self.reports, name, group);
        let spec = &group.record.spec;
        let min_ready = spec.min_ready();
        let pod = |instance: &Instance, seen: Option<&PodFacts>| {
            let ready = readiness(facts, instance, seen, self.now);
            let gates = spec.readiness_gates.iter();
            let is_true = |gate: &String| instance.draining.is_none() && instance.gates.contains_key(gate);
            let containers = seen.map(|seen| seen.containers.as_slice()).unwrap_or_default();
            RolloutPod {
                revision: instance.version,
                node: instance.node.clone(),
                ready: ready.ready,
                available: is_available(ready, min_ready, self.now.into()),
                draining: instance.draining.is_some(),
                gates: gates.map(|gate| (gate.clone(), is_true(gate))).collect(),
                ips: containers.iter().map(|container| container.ip.clone()).collect(),
                node_ports: containers.iter().map(|container| container.node_port).collect(),
                containers: containers.iter().map(|container| container.id.clone()).collect(),
                why: if ready.ready { String::new() } else { why(instance, seen, spec, self.now) },
            }
        };
        let shown = group.instances().iter().enumerate().filter(|(_, instance)| instance.presence != Presence::Free);
        let shown = shown.map(|(index, instance)| {
            let facts_of = |seen: &[Option<&'_ PodFacts>]| seen.get(index).copied().flatten().cloned();
            let (own, beside) = (facts_of(&sight.seen), facts_of(&sight.beside));
            let own = (instance.presence == Presence::Pod).then(|| pod(instance, own.as_ref()));
            let beside = instance.next.as_deref().map(|next| pod(next, beside.as_ref()));
            RolloutInstance {
                instance: pod_id(name, index, instance).instance,
                unit: instance.unit.clone(),
                pods: own.into_iter().chain(beside).collect(),
            }
        });
        shown.collect()
    }
}

/// The names of a group's units, in the order of its rollout.
fn units(group: &Group) -> Vec<String> {
    let allotted = group.release.as_ref().map(|release| release.allotment.units.clone()).unwrap_or_default();
    if !allotted.is_empty() {
        return allotted;
    }
    let declared = group.record.spec.topology.as_ref().map(|topology| topology.values.clone()).unwrap_or_default();
    if declared.is_empty() { vec![String::new()] } else { declared }
}

impl RolloutSnapshot<'_> {
    /// The present revision is a copy of an earlier one. A group that adopted containers has `equals` too, but is no rollback.
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
            groups: self.batches(),
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

    pub(super) fn has_strategy(&self) -> bool {
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
        match self.planned_status() {
            RolloutStatus::Complete if !self.unavailable().is_empty() => RolloutStatus::Degraded,
            status => status,
        }
    }

    fn planned_status(&self) -> RolloutStatus {
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

    pub(super) fn is_updated(&self, revision: u32) -> bool {
        let record = &self.group.record;
        revision == record.spec.version || record.equals.contains(&revision)
    }

    pub(super) fn waits_for(&self) -> Vec<u32> {
        if let Some(report) = self.report {
            return report.waits_for.clone();
        }
        if self.phase() == RolloutPhase::Completed {
            return Vec::new();
        }
        self.unavailable()
    }

    /// Instances without an available pod at the target revision, except stopped and skipped ones.
    pub(super) fn unavailable(&self) -> Vec<u32> {
        let is_stopped = |number: u32| {
            let index = usize::try_from(number).unwrap_or(0).saturating_sub(1);
            self.group.instances().get(index).is_some_and(|instance| instance.target == TargetState::Stop)
        };
        let is_skipped = |number: u32| self.release.is_some_and(|release| release.excused.contains_key(&number));
        let is_done = |it: &RolloutInstance| it.pods.iter().any(|pod| self.is_updated(pod.revision) && pod.available);
        let lacking = self.instances.iter().filter(|it| !is_done(it) && !is_stopped(it.instance));
        lacking.map(|it| it.instance).filter(|number| !is_skipped(*number)).collect()
    }

    fn strategy(&self) -> StrategyType {
        self.group.record.spec.strategy_type()
    }

    /// Counts by the name of their unit, without zeros.
    fn by_unit(&self, counts: &[i64]) -> BTreeMap<String, i64> {
        self.units.iter().cloned().zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
    }
}

fn timestamp(moment: Moment) -> Timestamp {
    Timestamp::from_millis(moment.as_nanos() / 1_000_000)
}

impl RolloutSnapshot<'_> {
    fn limits(&self) -> RolloutLimits {
        let replicas = self.group.record.spec.num_instances;
        match self.strategy() {
            StrategyType::Serial => in_turns(replicas, 1),
            StrategyType::Batch | StrategyType::Beta => in_turns(replicas, self.largest_batch()),
            StrategyType::RollingUpdate | StrategyType::Recreate => self.budget,
        }
    }
}

/// Limits of a rollout that replaces `count` instances at a time on their nodes, without surge pods.
fn in_turns(replicas: i64, count: i64) -> RolloutLimits {
    let unavailable = count.min(replicas);
    RolloutLimits {
        replicas,
        surge: 0,
        unavailable,
        min_available: replicas.saturating_sub(unavailable),
        max_total: replicas,
    }
}

/// Batches shown, at most: 1,000 instances one by one are as many batches.
const MOST: usize = 1_000;

impl RolloutSnapshot<'_> {
    fn batches(&self) -> Vec<RolloutGroup> {
        let (Some(grouping), Some(release)) = (self.grouping(), self.release) else { return Vec::new() };
        let is_current = release.phase == RolloutPhase::Running && release.batch > 0;
        let done = if is_current { release.batch - 1 } else { release.batch };
        let replayed = self.replayed(grouping, release);
        let past = (1..=release.batch).map(|ordinal| {
            let known = replayed.get(usize::try_from(ordinal - 1).unwrap_or(usize::MAX));
            let kind = known.map(|group| group.kind).or_else(|| release.kind.filter(|_| ordinal == release.batch));
            RolloutGroup {
                ordinal,
                kind: kind.map(kind_name).unwrap_or_default().to_owned(),
                state: if ordinal <= done { "Done" } else { "Current" }.to_owned(),
                units: known.map(|group| self.by_unit(&group.add)).unwrap_or_default(),
            }
        });
        let coming = if release.is_open() { self.planned(grouping, &release.committed) } else { Vec::new() };
        let coming = (release.batch + 1..).zip(coming).map(|(ordinal, group)| RolloutGroup {
            ordinal,
            kind: kind_name(group.kind).to_owned(),
            state: "ToCome".to_owned(),
            units: self.by_unit(&group.add),
        });
        past.chain(coming).take(MOST).collect()
    }

    /// Pods of the largest batch that is in progress or to come.
    fn largest_batch(&self) -> i64 {
        let Some(grouping) = self.grouping() else { return 0 };
        let committed = self.release.map(|release| release.committed.as_slice()).unwrap_or_default();
        let coming = self.planned(grouping, committed).into_iter().map(|group| group.add.iter().sum()).max();
        coming.unwrap_or(0).max(if self.release.is_some_and(RolloutState::is_open) { grouping.batch_size } else { 0 })
    }

    /// How the rollout is divided into batches; none when it is not. A rollback has no beta.
    fn grouping(&self) -> Option<BatchSettings> {
        let record = &self.group.record;
        let beta = match self.strategy() {
            StrategyType::Batch => false,
            StrategyType::Beta => record.equals.is_empty(),
            StrategyType::Serial | StrategyType::RollingUpdate | StrategyType::Recreate => return None,
        };
        let size = record.spec.strategy.as_ref().and_then(|strategy| strategy.batch_size).unwrap_or(Amount::Count(1));
        let spread = record.spec.topology.as_ref().map(|topology| topology.spread).unwrap_or_default();
        Some(BatchSettings { batch_size: batch_size(size, record.spec.num_instances), beta, spread })
    }

    /// The batches that follow when these pods of each unit are committed. A rollback visits the units in reverse.
    fn planned(&self, grouping: BatchSettings, committed: &[i64]) -> Vec<Batch> {
        let targets = self.report.map(|report| report.units.iter().map(|unit| unit.target)).into_iter().flatten();
        let committed = committed.iter().copied().chain(std::iter::repeat(0));
        let mut units: Vec<UnitProgress> =
            targets.zip(committed).map(|(target, committed)| UnitProgress { target, committed }).collect();
        let is_rollback = !self.group.record.equals.is_empty();
        if is_rollback {
            units.reverse();
        }
        let turned = |mut group: Batch| {
            if is_rollback {
                group.add.reverse();
            }
            group
        };
        batches(grouping, &units).map(turned).take(MOST).collect()
    }

    fn replayed(&self, grouping: BatchSettings, release: &RolloutState) -> Vec<Batch> {
        let count = usize::try_from(release.batch).unwrap_or(usize::MAX);
        let mut replayed = self.planned(grouping, &[]);
        replayed.truncate(count);
        let mut sums = vec![0; self.units.len()];
        for group in &replayed {
            sums.iter_mut().zip(&group.add).for_each(|(sum, add)| *sum += add);
        }
        if sums == release.committed && replayed.len() == count { replayed } else { Vec::new() }
    }
}
