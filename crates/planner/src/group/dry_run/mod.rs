//! Computes the plan that users see: what a spec would do, step by step, without doing it.
//!
//! The steps come from the rollout controller in a simulation where every ordered pod becomes ready
//! ([`controller::dry_run`]). They are applied by the functions that execute rollouts, so placements succeed or fail as
//! they will. A group without a strategy is upgraded one instance at a time in the order of their numbers. The scheduler
//! calls [`dry_run`] for `plan` requests; any client may send them, so the work is limited ([`WorkLimit`]).

mod simulation;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use contract::record::Presence;
use contract::rollout_view::{InstanceChange, PlanView};
use contract::state::TargetState;
use contract::time::Timestamp;

use self::simulation::PlanSimulation;
use super::{GroupFacts, Planning, PodStatus, number};
use crate::rollout::controller::{self, RolloutAction, RolloutFacts, RolloutState, SimulatedStep};
use crate::rollout::units::Warning;

/// The maximum work of one plan, in examined instances: every step examines all of them.
///
/// A serial upgrade of 5,000 instances takes 25 million. A Beta rollout of 1,000 instances in 64 units, one at a time, takes
/// 8 million (8 x 1,064 x 937 steps), which is a quarter of a second of one core. The largest plan takes about two seconds.
const MOST_WORK: usize = 40_000_000;

/// The work that a plan may still do.
#[derive(Clone, Copy)]
pub struct WorkLimit<'a> {
    pub(in crate::group) left: usize,
    pub(in crate::group) is_expired: &'a dyn Fn() -> bool,
}

/// Why a plan was not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aborted {
    /// It takes too many steps.
    Costly,
    /// The client does not wait any longer.
    Expired,
}

impl<'a> WorkLimit<'a> {
    /// `is_expired` tells whether the client has stopped waiting.
    pub fn new(is_expired: &'a dyn Fn() -> bool) -> Self {
        Self { left: MOST_WORK, is_expired }
    }

    fn spend(&mut self, work: usize) -> Result<(), Aborted> {
        self.left = self.left.checked_sub(work).ok_or(Aborted::Costly)?;
        if (self.is_expired)() { Err(Aborted::Expired) } else { Ok(()) }
    }
}

/// What the group's record would do to the present instances; the record is the one after the spec is accepted.
pub fn dry_run(facts: &GroupFacts<'_>, now: Timestamp, limit: WorkLimit<'_>) -> Result<PlanView, Aborted> {
    if facts.record.spec.has_strategy() {
        dry_run_rollout(facts, now, limit)
    } else {
        dry_run_serial(facts, now, limit)
    }
}

/// The text of a warning.
pub fn warning_text(warning: Warning, units: &[String]) -> String {
    match warning {
        Warning::Truncated(unit) => {
            let name = units.get(unit).map_or("?", String::as_str);
            format!("unit {name:?} gets fewer instances than its UnitReplicas: the group has too few")
        }
        Warning::PercentTruncated => {
            "units get less than their percentages: the group has too few instances".to_owned()
        }
        Warning::Overflow => "units get more than their UnitReplicas: the group has more instances".to_owned(),
        Warning::Unsatisfiable => "no unit may have an instance: change UnitReplicas".to_owned(),
    }
}

fn dry_run_rollout(facts: &GroupFacts<'_>, now: Timestamp, mut limit: WorkLimit<'_>) -> Result<PlanView, Aborted> {
    let mut planning = Planning::new(facts, now);
    planning.load_instances();
    planning.complete_moves();
    let (input, units) = planning.controller_facts();
    let mut run = PlanSimulation::new(planning, units);
    let mut spent = Ok(());
    let completes = controller::dry_run(&input, |step, instances| {
        // A rollout step examines every instance about eight times and writes a number for every unit.
        spent = limit.spend(8 * (instances.len() + input.units.len()));
        if spent.is_err() {
            return ControlFlow::Break(());
        }
        run.apply(&step);
        run.copy_nodes(instances);
        ControlFlow::Continue(())
    });
    spent?;
    let report = controller::controller(&RolloutFacts {
        state: RolloutState { is_frozen: true, ..input.state.clone() },
        ..input
    })
    .report;
    let serving: Vec<i64> = report.units.iter().map(|unit| unit.available).collect();
    let warnings = report.warnings.iter().map(|warning| warning_text(*warning, &run.units)).collect();
    Ok(run.view(&serving, completes, warnings))
}

fn dry_run_serial(facts: &GroupFacts<'_>, now: Timestamp, mut limit: WorkLimit<'_>) -> Result<PlanView, Aborted> {
    let mut planning = Planning::new(facts, now);
    planning.load_instances();
    planning.complete_moves();
    // Tombstones are no instances.
    let instances = planning.plan.instances.iter().rposition(|instance| instance.presence != Presence::Free);
    planning.plan.instances.truncate(instances.map_or(0, |last| last + 1));
    let outdated: Vec<usize> = planning.outdated().collect();
    let wanted = usize::try_from(facts.record.spec.num_instances).unwrap_or(0);
    let present = planning.plan.instances.len();
    let runs: Vec<bool> = (0..present).map(|index| planning.status(index) == PodStatus::Running).collect();
    let count = |runs: &[bool]| i64::try_from(runs.iter().filter(|runs| **runs).count()).unwrap_or(i64::MAX);
    let (version, serving) = (facts.record.spec.version, count(&runs));
    let kept = count(&runs[..present.min(wanted)]);
    let mut run = PlanSimulation::new(planning, vec![String::new()]);
    let created =
        (present..wanted).map(|index| RolloutAction::Create { instance: number(index), unit: 0, revision: version });
    let removed = (wanted..present).rev().map(|index| RolloutAction::Remove(number(index)));
    let sized: Vec<RolloutAction> = created.chain(removed).collect();
    if !sized.is_empty() {
        run.apply(&step(sized, kept));
    }
    let grown = kept + i64::try_from(wanted.saturating_sub(present)).unwrap_or(0);
    for index in outdated.into_iter().filter(|index| *index < wanted) {
        limit.spend(run.planning.plan.instances.len())?;
        let is_on = run.planning.plan.instances[index].target == TargetState::Run && runs[index];
        run.apply(&step(vec![RolloutAction::Renew(number(index))], grown - i64::from(is_on)));
    }
    Ok(run.view(&[serving], true, Vec::new()))
}

fn step(actions: Vec<RolloutAction>, available: i64) -> SimulatedStep {
    SimulatedStep { batch: 0, kind: None, actions, available: vec![available] }
}

/// The plan that changes nothing.
fn empty_view(facts: &GroupFacts<'_>) -> PlanView {
    let spec = &facts.record.spec;
    let instances = (1..).zip(facts.instances).filter(|(_, instance)| instance.presence != Presence::Free);
    PlanView {
        name: spec.name.clone(),
        release: spec.version,
        strategy: spec.strategy_type(),
        is_new: facts.instances.is_empty() && facts.record.former.is_empty() && facts.record.proven.is_none(),
        steps: Vec::new(),
        changes: instances.map(|(number, _)| (number, InstanceChange::Untouched)).collect(),
        peak_extra_pods: 0,
        peak_extra_memory: 0,
        peak_extra_cpu_millis: 0,
        min_available: BTreeMap::new(),
        unplaced: Vec::new(),
        completes: true,
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}
