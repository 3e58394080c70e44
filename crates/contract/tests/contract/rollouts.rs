//! Compatibility of the rollout fields: groups and clients that do not use them see no difference.

use std::collections::BTreeSet;

use contract::command::{Refusal, Removal, Verb};
use contract::lenient_json;
use contract::record::{GroupRecord, Instance, PlacementRecord};
use contract::rollout::{Amount, StrategyType};
use contract::spec::PodGroupSpec;

use crate::rollout_samples::{self, said};
use crate::samples;

/// Every field of a spec before rollout fields existed.
const BEFORE: [&str; 8] =
    ["CreatedAt", "Name", "Namespace", "NumInstances", "Pod", "RestartPolicy", "UpdatedAt", "Version"];

fn names(names: impl IntoIterator<Item = &'static str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn a_group_without_rollout_fields_is_serialised_as_before() {
    assert_eq!(said(&samples::spec()), names(BEFORE));
    let instance = serde_json::to_string(&Instance::default()).expect("JSON");
    assert_eq!(instance, r#"{"node":null,"version":0,"drift":0,"target":0}"#);
    let record = serde_json::to_value(<GroupRecord>::default()).expect("JSON");
    let members: Vec<_> = record.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(members, ["operation", "spec", "updated_at"]);
}

#[test]
fn data_and_commands_of_older_versions_are_decoded() {
    let placement = r#"{"slots":[{"node":"node1","version":4,"drift":0,"target":0}]}"#;
    let read: PlacementRecord = serde_json::from_str(placement).expect("an old placement");
    assert_eq!((read.instances[0].named_version(), read.instances[0].pods().count()), (4, 1));
    let removal: Verb = serde_json::from_str(r#"{"RemoveGroup":{"name":"a"}}"#).expect("an old command");
    assert_eq!(removal, Verb::RemoveGroup { name: "a".parse().expect("a name"), removal: Removal::Foreground });
    assert_eq!(serde_json::to_string(&removal).expect("JSON"), r#"{"RemoveGroup":{"name":"a"}}"#);
}

#[test]
fn every_rollout_field_and_no_other_can_be_patched() {
    let all: BTreeSet<String> =
        [said(&rollout_samples::spec()), said(&rollout_samples::rolling_spec())].into_iter().flatten().collect();
    for name in all {
        let field = serde_json::Map::from_iter([(name.clone(), serde_json::Value::Null)]);
        let is_release_field = contract::rollout_fields::check(&field).is_ok();
        assert_eq!(is_release_field, !BEFORE.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn every_nested_rollout_field_is_known() {
    for spec in [rollout_samples::spec(), rollout_samples::rolling_spec(), rollout_samples::paused_spec()] {
        let serde_json::Value::Object(body) = serde_json::to_value(&spec).expect("JSON") else { panic!("an object") };
        assert_eq!(contract::rollout_fields::strangers(&body), []);
    }
}

#[test]
fn with_rollout_fields_of_copies_all_rollout_fields() {
    let full = rollout_samples::spec();
    let mut fields = match serde_json::to_value(&full).expect("JSON") {
        serde_json::Value::Object(members) => members,
        other => panic!("a spec is an object: {other}"),
    };
    fields.retain(|name, _| !BEFORE.contains(&name.as_str()));
    let plain = PodGroupSpec { num_instances: full.num_instances, ..samples::spec() };
    assert_eq!(plain.with_rollout_fields(&fields), Ok(full.clone()));
    fields.values_mut().for_each(|value| *value = serde_json::Value::Null);
    assert_eq!(full.with_rollout_fields(&fields), Ok(plain));
}

#[test]
fn rollout_fields_match_in_any_case_and_null_is_ignored() {
    let full = rollout_samples::spec();
    let text = serde_json::to_string(&full).expect("JSON");
    assert_eq!(lenient_json::from_slice::<PodGroupSpec>(text.as_bytes()), Ok(full));
    let body = r#"{"STRATEGY":{"type":"RollingUpdate","maxsurge":"30%","MAXUNAVAILABLE":1,"Window":null},"topology":
        {"unittype":"Zone","VALUES":["A","a"],"unitreplicas":{"A":2,"a":"10%"}},"minReadySeconds":null,
        "PodReplacement":null,"readinessgates":["G"],"paused":null,"failureAction":"Rollback"}"#;
    let spec: PodGroupSpec = lenient_json::from_slice(body.as_bytes()).expect("decodes");
    let strategy = spec.strategy.expect("a strategy");
    assert_eq!(strategy.kind, StrategyType::RollingUpdate);
    assert_eq!((strategy.max_surge, strategy.max_unavailable), (Some(Amount::Percent(30)), Some(Amount::Count(1))));
    let topology = spec.topology.expect("a topology");
    assert_eq!(topology.unit_replicas.keys().collect::<Vec<_>>(), ["A", "a"], "units keep their case");
    assert_eq!(
        (spec.min_ready_seconds, spec.paused, spec.readiness_gates.as_slice()),
        (None, false, &["G".to_owned()][..])
    );
}

#[test]
fn a_malformed_rollout_field_is_named() {
    for (body, told) in [
        (r#"{"Strategy":{"Type":"Rolling"}}"#, "Strategy.Type: unknown variant `Rolling`, expected one of `Serial`"),
        (r#"{"Strategy":{"MaxSurge":"10"}}"#, "Strategy.MaxSurge: \"10\" is not a percentage: digits and one % are"),
        (r#"{"Strategy":{"BatchSize":1.5}}"#, "Strategy.BatchSize: "),
        (r#"{"Topology":{"UnitReplicas":{"a":"-1%"}}}"#, "Topology.UnitReplicas.a: \"-1%\" is not a percentage"),
        (r#"{"Topology":{"UnitType":"Rack"}}"#, "Topology.UnitType: unknown variant `Rack`"),
        (r#"{"MinReadySeconds":"5"}"#, "MinReadySeconds: "),
        (r#"{"ReadinessGates":"g"}"#, "ReadinessGates: "),
        (r#"{"Drain":{"NeedsAnswer":1}}"#, "Drain.NeedsAnswer: "),
        (r#"{"FailureAction":"Retry"}"#, "FailureAction: unknown variant `Retry`, expected one of `Hold`"),
    ] {
        let error = lenient_json::from_slice::<PodGroupSpec>(body.as_bytes()).expect_err(body).to_string();
        assert!(error.starts_with(told), "{body}: {error}");
    }
}

#[test]
fn refusals_name_the_current_state_and_the_remedy() {
    for (refusal, text) in [
        (
            Refusal::ReleaseUnknown { release: Some(2), current: Some(3) },
            "revision 2 is not the current one; revision 3 is",
        ),
        (
            Refusal::ReleaseUnknown { release: None, current: None },
            "the PodGroup has no rollout: it has no Strategy, or its spec has not changed yet",
        ),
        (
            Refusal::RevisionUnknown { revision: Some(1), kept: vec![2, 3] },
            "revision 1 is not in the history; kept are: 2, 3",
        ),
        (
            Refusal::RevisionUnknown { revision: None, kept: vec![3] },
            "there is no earlier revision that completed; kept are: 3",
        ),
    ] {
        assert_eq!(refusal.to_string(), text);
    }
}
