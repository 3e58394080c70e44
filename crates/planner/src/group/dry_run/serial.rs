//! Rehearses a group without a strategy: first its number, then one instance after another.

use contract::record::Filling;
use contract::rollout_view::PlanView;
use contract::state::TargetState;
use contract::time::Timestamp;

use super::super::{Bucket, GroupFacts, Planning, number};
use super::budget::{Budget, Stopped};
use super::stage::{Stage, Step};
use crate::rollout::controller::Action;

pub(super) fn dry_run(facts: &GroupFacts<'_>, now: Timestamp, mut budget: Budget<'_>) -> Result<PlanView, Stopped> {
    let mut planning = Planning::new(facts, now);
    planning.enroll();
    planning.arrive();
    // Tombstones of removed instances are no instances.
    let instances = planning.plan.slots.iter().rposition(|slot| slot.filling != Filling::Nothing);
    planning.plan.slots.truncate(instances.map_or(0, |last| last + 1));
    let outdated: Vec<usize> = planning.outdated().collect();
    let wanted = usize::try_from(facts.record.spec.num_instances).unwrap_or(0);
    let present = planning.plan.slots.len();
    let runs: Vec<bool> = (0..present).map(|index| planning.bucket(index) == Bucket::Running).collect();
    let count = |runs: &[bool]| i64::try_from(runs.iter().filter(|runs| **runs).count()).unwrap_or(i64::MAX);
    let (version, serving) = (facts.record.spec.version, count(&runs));
    let kept = count(&runs[..present.min(wanted)]);
    let mut stage = Stage::new(planning, vec![String::new()]);
    let created = (present..wanted).map(|index| Action::Create { slot: number(index), unit: 0, revision: version });
    let removed = (wanted..present).rev().map(|index| Action::Remove(number(index)));
    let sized: Vec<Action> = created.chain(removed).collect();
    if !sized.is_empty() {
        stage.perform(&step(&sized, &[kept]));
    }
    let grown = kept + i64::try_from(wanted.saturating_sub(present)).unwrap_or(0);
    for index in outdated.into_iter().filter(|index| *index < wanted) {
        budget.spend(stage.planning.plan.slots.len())?;
        let is_on = stage.planning.plan.slots[index].target == TargetState::Run && runs[index];
        stage.perform(&step(&[Action::Renew(number(index))], &[grown - i64::from(is_on)]));
    }
    Ok(stage.view(&[serving], true, Vec::new()))
}

fn step<'a>(actions: &'a [Action], available: &'a [i64]) -> Step<'a> {
    Step { group: 0, kind: None, actions, available }
}
