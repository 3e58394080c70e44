//! Finds unknown fields of a document and suggests the intended ones. Pure.
//!
//! The known fields are those of a spec in which every optional part is written.

use std::collections::BTreeMap;

use contract::rollout::{
    Amount, AutoReschedule, Drain, FailBack, FailureAction, PodReplacement, Spread, Strategy, StrategyType, Topology,
    UnitType, UpdatePolicy,
};
use contract::spec::{CloudVolume, ContainerSpec, Dependency, PodGroupSpec, PodSpec};
use contract::validate::Flaw;
use serde_json::{Map, Value};

/// Members of these objects have names of the user's choice.
const FREE: [&str; 3] = ["Labels", "Config", "UnitReplicas"];

/// Every field of a group's document that is unknown.
pub(super) fn unknown_of_group(given: &Value) -> Vec<Flaw> {
    unknown(given, &group_fields())
}

/// Every field of a pod's document that is unknown.
pub(super) fn unknown_of_pod(given: &Value) -> Vec<Flaw> {
    unknown(given, &group_fields()["Pod"])
}

/// A member that is not `null`, by its name in any case.
pub(super) fn given<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    member(object.as_object()?, name).filter(|value| !value.is_null())
}

/// A member that is not `null`, by its name in any case.
pub(super) fn given_mut<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let mut members = object.as_object_mut()?.iter_mut();
    let (_, value) = members.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    Some(value).filter(|value| !value.is_null())
}

fn group_fields() -> Value {
    serde_json::to_value(every_field_of_a_group()).expect("a spec has string keys only")
}

fn unknown(given: &Value, known: &Value) -> Vec<Flaw> {
    let mut paths = Vec::new();
    unknown_fields(given, known, "", &mut paths);
    let mut all = Vec::new();
    names(known, "", &mut all);
    let flaw = |field: String| {
        let problem = match closest(&field, &all) {
            Some(meant) => format!("unknown field; did you mean {meant}?"),
            None => "unknown field".to_owned(),
        };
        Flaw { field, problem }
    };
    paths.into_iter().map(flaw).collect()
}

/// A group with every field set; without `..`, so that the compiler demands new fields here.
fn every_field_of_a_group() -> PodGroupSpec {
    let amount = Some(Amount::Count(1));
    PodGroupSpec {
        name: String::new(),
        namespace: String::new(),
        version: 0,
        created_at: Default::default(),
        updated_at: Default::default(),
        pod: every_field_of_a_pod(),
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

fn every_field_of_a_pod() -> PodSpec {
    let container = ContainerSpec { cloud_volumes: vec![CloudVolume::default()], ..ContainerSpec::default() };
    PodSpec { containers: vec![container], dependencies: vec![Dependency::default()], ..PodSpec::default() }
}

/// Paths of members of `given` that `known` does not have. One item of a known list stands for all of them.
fn unknown_fields(given: &Value, known: &Value, at: &str, found: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (key, value) in given {
                let path = joined(at, key);
                match member(known, key) {
                    Some(_) if FREE.iter().any(|free| free.eq_ignore_ascii_case(key)) => {}
                    Some(known) => unknown_fields(value, known, &path, found),
                    None => found.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            let Some(known) = known.first() else { return };
            for (index, given) in given.iter().enumerate() {
                unknown_fields(given, known, &format!("{at}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Paths of all known fields; `[]` stands for the index in a list.
fn names(known: &Value, at: &str, found: &mut Vec<String>) {
    match known {
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| !key.is_empty()) {
                let path = joined(at, key);
                names(value, &path, found);
                found.push(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, &format!("{at}[]"), found)),
        _ => {}
    }
}

/// The known field that `unknown` was most likely meant to be: one beside it if possible, else one elsewhere in the document.
fn closest(unknown: &str, known: &[String]) -> Option<String> {
    let (parent, name) = split(unknown);
    let place = without_indexes(parent);
    let distance = |path: &&String| {
        let (beside, candidate) = split(path);
        let (name, candidate) = (name.to_lowercase(), candidate.to_lowercase());
        let distance = distance(&name, &candidate);
        let is_beside = beside == place;
        let close = distance <= name.len() / 2 || (is_beside && name.len() >= 3 && candidate.contains(&name));
        close.then_some((!is_beside, distance, path.len()))
    };
    let meant = known.iter().filter_map(|path| distance(&path).map(|rank| (rank, path))).min()?.1;
    let (beside, candidate) = split(meant);
    Some(if beside == place { joined(parent, candidate) } else { meant.clone() })
}

fn joined(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// `Containers[3].Env` becomes `Containers[].Env`.
fn without_indexes(path: &str) -> String {
    path.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// The number of letters to insert, remove or replace to turn one word into the other (Levenshtein).
pub(crate) fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

fn member<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).or_else(|| object.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)).map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &Value) -> Vec<String> {
        unknown_of_group(json).iter().map(Flaw::to_string).collect()
    }

    #[test]
    fn a_field_with_its_default_value_is_not_a_typo() {
        let usual = serde_json::json!({
            "paused": false, "UpdatePolicy": "ReCreate", "FailureAction": "Hold", "ReadinessGates": [], "Drain": null,
            "Strategy": {"Type": "Batch", "NeedWaitingForConfirm": false, "UpgradePause": 0, "Window": null},
            "Topology": {"UnitType": "Cell", "UnitLabel": "", "Values": ["a"], "UnitReplicas": {}, "Spread": "Proportional"},
        });
        assert_eq!(of(&usual), Vec::<String>::new());
    }

    #[test]
    fn every_field_that_the_api_writes_is_known() {
        let group =
            serde_json::to_value(PodGroupSpec { pod: every_field_of_a_pod(), ..PodGroupSpec::default() }).unwrap();
        assert_eq!(of(&group), Vec::<String>::new());
    }

    #[test]
    fn unknown_fields_are_found_at_any_depth_and_names_of_units_are_free() {
        let odd = serde_json::json!({
            "Strategie": {}, "Strategy": {"Type": "Batch", "BatchSizes": 4}, "Image": "i",
            "Topology": {"Values": ["a"], "UnitReplicas": {"a": "50%"}, "AutoReschedule": {"Enabled": true}},
            "Pod": {"Containers": [{}, {"Enviroment": []}], "Dependencies": [{"Name": "x"}]},
        });
        let expected = [
            "Image: unknown field; did you mean Pod.Containers[].Image?",
            "Pod.Containers[1].Enviroment: unknown field",
            "Pod.Dependencies[0].Name: unknown field; did you mean Pod.Dependencies[0].PodName?",
            "Strategie: unknown field; did you mean Strategy?",
            "Strategy.BatchSizes: unknown field; did you mean Strategy.BatchSize?",
            "Topology.AutoReschedule.Enabled: unknown field; did you mean Topology.AutoReschedule.Enable?",
        ];
        let mut found = of(&odd);
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_distance_counts_changed_letters() {
        for (left, right, count) in [("", "abc", 3), ("kitten", "sitting", 3), ("typ", "type", 1), ("a", "a", 0)] {
            assert_eq!((distance(left, right), distance(right, left)), (count, count), "{left} {right}");
        }
    }
}
