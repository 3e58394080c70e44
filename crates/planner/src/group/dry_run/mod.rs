//! Says what a spec would do, without doing it: every step, the fate of each instance, and what that takes.
//!
//! The steps are the conductor's own in a world where everything that is ordered comes up ([`controller::dry_run`]); they are
//! performed on the slots by the very functions that execute, so that places are found, or not, as they will be. A group
//! without a strategy is rehearsed as its serial upgrade goes: one instance at a time in the order of their numbers.

mod budget;
mod serial;
mod stage;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use contract::rollout_view::{InstanceChange, PlanView};
use contract::time::Timestamp;

pub use self::budget::{Budget, Stopped};
use self::stage::{Stage, Step};
use super::{GroupFacts, Planning};
use crate::rollout::controller::{self, RolloutFacts, RolloutState};
use crate::rollout::units::Warning;

/// What the group's record would do to the group as it is: the record is the one after the spec is accepted.
pub fn dry_run(facts: &GroupFacts<'_>, now: Timestamp, budget: Budget<'_>) -> Result<PlanView, Stopped> {
    if facts.record.spec.has_strategy() {
        rehearse_release(facts, now, budget)
    } else {
        serial::dry_run(facts, now, budget)
    }
}

/// A warning for people; units are named as they are counted.
pub fn warning_text(warning: Warning, units: &[String]) -> String {
    match warning {
        Warning::Truncated(unit) => {
            let name = units.get(unit).map_or("?", String::as_str);
            format!("unit {name:?} gets fewer than its UnitReplicas ask for: there are not so many instances")
        }
        Warning::PercentTruncated => {
            "units get less than their percentages: there are not so many instances".to_owned()
        }
        Warning::Overflow => "units get more than their UnitReplicas ask for: there are more instances".to_owned(),
        Warning::Unsatisfiable => {
            "every unit is to have none, so no instance has a unit: change UnitReplicas".to_owned()
        }
    }
}

fn rehearse_release(facts: &GroupFacts<'_>, now: Timestamp, mut budget: Budget<'_>) -> Result<PlanView, Stopped> {
    let mut planning = Planning::new(facts, now);
    planning.enroll();
    planning.arrive();
    let (told, units) = planning.conductor_facts();
    let mut stage = Stage::new(planning, units);
    let mut spent = Ok(());
    let rehearsal = controller::dry_run(&told, |step, slots| {
        // A rollout step looks at every instance a dozen times, and writes a number for every unit.
        spent = budget.spend(8 * (slots.len() + told.units.len()));
        if spent.is_err() {
            return ControlFlow::Break(());
        }
        let step = Step { group: step.batch, kind: step.kind, actions: &step.actions, available: &step.available };
        stage.perform(&step);
        stage.tell_places(slots);
        ControlFlow::Continue(())
    });
    spent?;
    let report =
        controller::controller(&RolloutFacts { state: RolloutState { is_frozen: true, ..told.state.clone() }, ..told })
            .report;
    let serving: Vec<i64> = report.units.iter().map(|unit| unit.available).collect();
    let warnings = report.warnings.iter().map(|warning| warning_text(*warning, &stage.units)).collect();
    Ok(stage.view(&serving, rehearsal.completes, warnings))
}

/// What is said when nothing happens: every instance stays as it is.
fn empty_view(facts: &GroupFacts<'_>) -> PlanView {
    let spec = &facts.record.spec;
    let instances = (1..).zip(facts.slots).filter(|(_, slot)| slot.filling != contract::record::Filling::Nothing);
    PlanView {
        name: spec.name.clone(),
        release: spec.version,
        strategy: spec.strategy_type(),
        is_new: facts.slots.is_empty() && facts.record.former.is_empty() && facts.record.proven.is_none(),
        steps: Vec::new(),
        changes: instances.map(|(number, _)| (number, InstanceChange::Untouched)).collect(),
        peak_extra_pods: 0,
        peak_extra_memory: 0,
        peak_extra_cpu_millis: 0,
        min_available: BTreeMap::new(),
        unplaced: Vec::new(),
        completes: true,
        warnings: Vec::new(),
    }
}
