//! Gives renamed fields of `/api/rollouts` and `/api/podgroups/plan` under both names, for one version: `Stand` and `Status`,
//! `Fates` and `Changes`, `Deeds` of `Deed` and `Actions` of `Action`.
//!
//! The types of `contract` keep the old names, which deployctl and schedulers of the version before read.

use std::collections::BTreeMap;

use contract::rollout::StrategyType;
use contract::rollout_view::{InstanceChange, PlanAction, PlanStep, PlanView, RolloutStatus, RolloutView, Unplaced};
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Rollout<'a> {
    #[serde(flatten)]
    view: &'a RolloutView,
    status: RolloutStatus,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlanBody<'a> {
    name: &'a str,
    release: u32,
    strategy: StrategyType,
    is_new: bool,
    steps: Vec<Step<'a>>,
    fates: &'a BTreeMap<u32, InstanceChange>,
    changes: &'a BTreeMap<u32, InstanceChange>,
    peak_extra_pods: i64,
    peak_extra_memory: u64,
    peak_extra_cpu_millis: u64,
    min_available: &'a BTreeMap<String, i64>,
    unplaced: &'a [Unplaced],
    completes: bool,
    warnings: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Step<'a> {
    #[serde(flatten)]
    step: &'a PlanStep,
    actions: Vec<PlanActionBody<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct PlanActionBody<'a> {
    instance: u32,
    action: &'a str,
    unit: &'a str,
}

pub fn rollout(view: &RolloutView) -> Rollout<'_> {
    Rollout { view, status: view.status }
}

pub fn plan(view: &PlanView) -> PlanBody<'_> {
    // Without `..`, so that a field added to the view is not forgotten here.
    let PlanView {
        name,
        release,
        strategy,
        is_new,
        steps,
        changes,
        peak_extra_pods,
        peak_extra_memory,
        peak_extra_cpu_millis,
        min_available,
        unplaced,
        completes,
        warnings,
        notes,
    } = view;
    PlanBody {
        name,
        release: *release,
        strategy: *strategy,
        is_new: *is_new,
        steps: steps.iter().map(step).collect(),
        fates: changes,
        changes,
        peak_extra_pods: *peak_extra_pods,
        peak_extra_memory: *peak_extra_memory,
        peak_extra_cpu_millis: *peak_extra_cpu_millis,
        min_available,
        unplaced,
        completes: *completes,
        warnings,
        notes,
    }
}

fn step(step: &PlanStep) -> Step<'_> {
    let actions = step.actions.iter().map(|PlanAction { instance, action, unit }| PlanActionBody {
        instance: *instance,
        action,
        unit,
    });
    Step { step, actions: actions.collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ROLLOUT: &str = include_str!("../../../crates/contract/golden/api-rollout.json");
    const PLAN: &str = include_str!("../../../crates/contract/golden/api-plan.json");

    #[test]
    fn a_rollout_has_its_status_under_both_names_and_is_otherwise_unchanged() {
        let before: Value = serde_json::from_str(ROLLOUT).unwrap();
        let view: RolloutView = serde_json::from_str(ROLLOUT).unwrap();
        let mut after = serde_json::to_value(rollout(&view)).unwrap();
        assert_eq!(after["Status"], before["Stand"]);
        after.as_object_mut().unwrap().remove("Status");
        assert_eq!(after, before);
    }

    #[test]
    fn a_plan_has_changes_and_actions_under_both_names_and_is_otherwise_unchanged() {
        let before: Value = serde_json::from_str(PLAN).unwrap();
        let view: PlanView = serde_json::from_str(PLAN).unwrap();
        let mut after = serde_json::to_value(plan(&view)).unwrap();
        assert_eq!(after["Changes"], before["Fates"]);
        after.as_object_mut().unwrap().remove("Changes");
        for step in after["Steps"].as_array_mut().unwrap() {
            let deeds = step["Deeds"].as_array().unwrap();
            let renamed: Vec<Value> = deeds
                .iter()
                .map(|deed| json!({"Instance": deed["Instance"], "Action": deed["Deed"], "Unit": deed["Unit"]}))
                .collect();
            assert!(!renamed.is_empty());
            assert_eq!(step["Actions"], json!(renamed));
            step.as_object_mut().unwrap().remove("Actions");
        }
        assert_eq!(after, before);
    }

    #[test]
    fn the_notes_of_a_plan_are_passed_on_and_absent_when_there_are_none() {
        let view: PlanView = serde_json::from_str(PLAN).unwrap();
        assert_eq!(serde_json::to_value(plan(&view)).unwrap().get("Notes"), None);
        let noted = PlanView { notes: vec!["an operation is in progress".to_owned()], ..view };
        assert_eq!(serde_json::to_value(plan(&noted)).unwrap()["Notes"], json!(["an operation is in progress"]));
    }
}
