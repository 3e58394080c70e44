//! Finds the fields of a document that mean nothing: a spec is read, written again, and what is not there any more was not
//! understood. Pure.
//!
//! The surprise: of how a group wants to be changed only what is said is written, so what is said as it would be anyway
//! (`Paused: false`) would look like a typing error. Every such field is therefore known beforehand.

use std::collections::BTreeMap;

use contract::rollout::{
    Amount, AutoReschedule, Drain, FailBack, FailureAction, PodReplacement, Spread, Strategy, StrategyType, Topology,
    UnitType, UpdatePolicy,
};
use contract::spec::{PodGroupSpec, PodSpec};
use serde::Serialize;
use serde_json::{Map, Value};

/// Paths of fields of a group's document that mean nothing.
pub(super) fn unknown_of_group(given: &Value, spec: &PodGroupSpec) -> Vec<String> {
    let mut known = written(spec);
    complete(&mut known, written(&everything_said()));
    unknown(given, &known)
}

/// Paths of fields of a pod's document that mean nothing.
pub(super) fn unknown_of_pod(given: &Value, spec: &PodSpec) -> Vec<String> {
    unknown(given, &written(spec))
}

fn written(spec: &impl Serialize) -> Value {
    serde_json::to_value(spec).expect("a spec has string keys only")
}

fn unknown(given: &Value, known: &Value) -> Vec<String> {
    let mut found = Vec::new();
    unknown_fields(given, known, "", &mut found);
    found
}

/// A group that says everything that can be said about how it is changed; without `..`, so that a new field is named here.
fn everything_said() -> PodGroupSpec {
    let amount = Some(Amount::Count(1));
    PodGroupSpec {
        name: String::new(),
        namespace: String::new(),
        version: 0,
        created_at: Default::default(),
        updated_at: Default::default(),
        pod: PodSpec::default(),
        num_instances: 0,
        restart_policy: Default::default(),
        strategy: Some(Strategy {
            kind: StrategyType::Beta,
            max_surge: amount,
            max_unavailable: amount,
            batch_size: amount,
            need_waiting_for_confirm: true,
            confirm_first_deployment: true,
            window: Some(1),
            upgrade_pause: 1,
        }),
        topology: Some(Topology {
            unit_type: UnitType::Zone,
            unit_label: "zone".to_owned(),
            values: Vec::new(),
            unit_replicas: BTreeMap::from([(String::new(), Amount::Count(1))]),
            auto_reschedule: Some(AutoReschedule {
                enable: true,
                initial_delay_seconds: 1,
                fail_back: FailBack::Eager,
            }),
            spread: Spread::Even,
        }),
        min_ready_seconds: Some(1),
        progress_deadline_seconds: Some(1),
        revision_history_limit: Some(1),
        paused: true,
        pod_replacement: Some(PodReplacement::Started),
        update_policy: UpdatePolicy::InPlaceOnly,
        failure_action: Some(FailureAction::Continue),
        failure_threshold: amount,
        fail_fast_restarts: Some(1),
        readiness_gates: vec![String::new()],
        drain: Some(Drain { grace_seconds: 1, needs_answer: true, timeout_seconds: Some(1) }),
    }
}

/// Gives `known` the members that only `more` has.
fn complete(known: &mut Value, more: Value) {
    let (Value::Object(known), Value::Object(more)) = (known, more) else { return };
    for (key, value) in more {
        match known.get_mut(&key) {
            Some(known) => complete(known, value),
            None => {
                known.insert(key, value);
            }
        }
    }
}

/// Paths of members of `given` that `known`, the same value read and written again, does not have.
fn unknown_fields(given: &Value, known: &Value, at: &str, found: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (key, value) in given {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                match member(known, key) {
                    Some(known) => unknown_fields(value, known, &path, found),
                    None => found.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter().zip(known).enumerate() {
                unknown_fields(given, known, &format!("{at}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn member<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).or_else(|| object.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)).map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &Value) -> Vec<String> {
        let spec: PodGroupSpec = contract::go_json::from_value(json.clone()).unwrap();
        unknown_of_group(json, &spec)
    }

    #[test]
    fn saying_what_would_be_so_anyway_is_no_typing_error() {
        let usual = serde_json::json!({
            "paused": false, "UpdatePolicy": "ReCreate", "FailureAction": "Hold", "ReadinessGates": [], "Drain": null,
            "Strategy": {"Type": "Batch", "NeedWaitingForConfirm": false, "UpgradePause": 0, "Window": null},
            "Topology": {"UnitType": "Cell", "UnitLabel": "", "Values": ["a"], "UnitReplicas": {}, "Spread": "Proportional"},
        });
        assert_eq!(of(&usual), Vec::<String>::new());
    }

    #[test]
    fn typing_errors_are_found_at_any_depth_and_units_are_none() {
        let odd = serde_json::json!({
            "Strategie": {}, "Strategy": {"Type": "Batch", "BatchSizes": 4},
            "Topology": {"Values": ["a"], "UnitReplicas": {"a": "50%"}, "AutoReschedule": {"Enabled": true}},
        });
        assert_eq!(of(&odd), ["Strategie", "Strategy.BatchSizes", "Topology.AutoReschedule.Enabled"]);
    }
}
