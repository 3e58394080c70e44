//! The rollout fields of a PodGroupSpec, and how `cmd=strategy` changes them: by JSON merge patch (RFC 7396). A named
//! field is replaced, also inside objects; `null` resets it to the default; other fields stay.
//!
//! Names match in any case. Unlike elsewhere, an unknown name is an error: clients of the original API send none of
//! these fields, and a misspelt budget that is ignored would only show in an outage.

use serde_json::{Map, Value};

use crate::lenient_json;
use crate::spec::PodGroupSpec;
use crate::validate::Flaw;

/// Copies one field.
type Take = fn(&mut PodGroupSpec, &PodGroupSpec);

const FIELDS: [(&str, Take); 13] = [
    ("Strategy", |spec, said| spec.strategy.clone_from(&said.strategy)),
    ("Topology", |spec, said| spec.topology.clone_from(&said.topology)),
    ("MinReadySeconds", |spec, said| spec.min_ready_seconds = said.min_ready_seconds),
    ("ProgressDeadlineSeconds", |spec, said| spec.progress_deadline_seconds = said.progress_deadline_seconds),
    ("RevisionHistoryLimit", |spec, said| spec.revision_history_limit = said.revision_history_limit),
    ("Paused", |spec, said| spec.paused = said.paused),
    ("PodReplacement", |spec, said| spec.pod_replacement = said.pod_replacement),
    ("UpdatePolicy", |spec, said| spec.update_policy = said.update_policy),
    ("FailureAction", |spec, said| spec.failure_action = said.failure_action),
    ("FailureThreshold", |spec, said| spec.failure_threshold = said.failure_threshold),
    ("FailFastRestarts", |spec, said| spec.fail_fast_restarts = said.fail_fast_restarts),
    ("ReadinessGates", |spec, said| spec.readiness_gates.clone_from(&said.readiness_gates)),
    ("Drain", |spec, said| spec.drain.clone_from(&said.drain)),
];

/// Fields of the rollout fields that are objects, by path.
const INSIDE: [(&str, &[&str]); 4] = [
    (
        "Strategy",
        &[
            "Type",
            "MaxSurge",
            "MaxUnavailable",
            "BatchSize",
            "NeedWaitingForConfirm",
            "ConfirmFirstDeployment",
            "Window",
            "UpgradePause",
        ],
    ),
    ("Topology", &["UnitType", "UnitLabel", "Values", "UnitReplicas", "AutoReschedule", "Spread"]),
    ("Topology.AutoReschedule", &["Enable", "InitialDelaySeconds", "FailBack"]),
    ("Drain", &["GraceSeconds", "NeedsAnswer", "TimeoutSeconds"]),
];

/// Names of all rollout fields.
pub(crate) fn all_names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(name, _)| *name)
}

/// Field names inside a rollout field, by its path.
pub(crate) fn names_inside(path: &str) -> Option<&'static [&'static str]> {
    INSIDE.iter().find(|(known, _)| *known == path).map(|(_, names)| *names)
}

/// Unknown fields inside the rollout fields of a body.
pub fn strangers(body: &Map<String, Value>) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (path, known) in INSIDE {
        let said = inside(body, path).into_iter().flat_map(Map::keys);
        let mut seen = Vec::new();
        for name in said {
            match known.iter().find(|known| known.eq_ignore_ascii_case(name)) {
                None => {
                    let problem = format!("is not a field of {path}; there are {}", known.join(", "));
                    flaws.push(flaw(&format!("{path}.{name}"), &problem));
                }
                Some(known) if seen.contains(known) => {
                    flaws.push(flaw(&format!("{path}.{name}"), "is given twice"));
                }
                Some(known) => seen.push(known),
            }
        }
    }
    flaws
}

/// The object at a path, matching names in any case.
fn inside<'a>(body: &'a Map<String, Value>, path: &str) -> Option<&'a Map<String, Value>> {
    path.split('.').try_fold(body, |members, step| {
        members.iter().find(|(name, _)| name.eq_ignore_ascii_case(step)).and_then(|(_, value)| value.as_object())
    })
}

/// Checks what can be checked without the group: at least one field, all known, all readable.
pub fn check(fields: &Map<String, Value>) -> Result<(), Vec<Flaw>> {
    read(fields).map(drop)
}

impl PodGroupSpec {
    /// This spec with the patch applied. [`PodGroupSpec::validate`] checks the result.
    pub fn with_rollout_fields(&self, fields: &Map<String, Value>) -> Result<Self, Vec<Flaw>> {
        let (_, takes) = read(fields)?;
        let unreadable = |error: serde_json::Error| vec![flaw("body", &error.to_string())];
        let mut merged = serde_json::to_value(self).map_err(unreadable)?;
        merge(&mut merged, &Value::Object(named("", fields)));
        let said: Self = lenient_json::from_value(merged).map_err(|error| vec![error.flaw()])?;
        let mut spec = self.clone();
        takes.into_iter().for_each(|take| take(&mut spec, &said));
        Ok(spec)
    }

    /// This spec with the rollout fields of another.
    #[must_use]
    pub fn with_rollout_fields_of(&self, other: &Self) -> Self {
        let mut spec = self.clone();
        FIELDS.iter().for_each(|(_, take)| take(&mut spec, other));
        spec
    }
}

/// The merge patch from one spec's rollout fields to another's: only differences; `null` for fields to reset.
pub fn between(before: &PodGroupSpec, after: &PodGroupSpec) -> Map<String, Value> {
    let said = |spec: &PodGroupSpec| match serde_json::to_value(spec) {
        Ok(Value::Object(mut members)) => {
            members.retain(|name, _| FIELDS.iter().any(|(known, _)| known == name));
            members
        }
        Ok(_) | Err(_) => Map::new(),
    };
    difference(&said(before), &said(after))
}

fn difference(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    let changed = changed.map(|(name, value)| match (before.get(name), value) {
        (Some(Value::Object(before)), Value::Object(after)) => (name.clone(), Value::Object(difference(before, after))),
        (_, value) => (name.clone(), value.clone()),
    });
    gone.chain(changed).collect()
}

/// RFC 7396: objects are merged, everything else is replaced, and `null` removes.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return into.clone_from(patch) };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(members) = into else { return };
    for (name, value) in patch {
        match value {
            Value::Null => drop(members.remove(name)),
            value => merge(members.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}

/// The fields with their canonical names; names that users choose, such as units, keep their case.
fn named(path: &str, members: &Map<String, Value>) -> Map<String, Value> {
    let inside = INSIDE.iter().find(|(known, _)| *known == path).map(|(_, names)| names.to_vec());
    let known = if path.is_empty() { FIELDS.map(|(name, _)| name).to_vec() } else { inside.unwrap_or_default() };
    let renamed = members.iter().map(|(name, value)| {
        let name = known.iter().find(|known| known.eq_ignore_ascii_case(name)).map_or(name.as_str(), |known| *known);
        let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        match value {
            Value::Object(members) if !known.is_empty() => (name.to_owned(), Value::Object(named(&below, members))),
            value => (name.to_owned(), value.clone()),
        }
    });
    renamed.collect()
}

fn read(fields: &Map<String, Value>) -> Result<(PodGroupSpec, Vec<Take>), Vec<Flaw>> {
    let (mut flaws, mut found) = (Vec::new(), Vec::<(&str, Take)>::new());
    for name in fields.keys() {
        match FIELDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            None => flaws.push(flaw(name, &unknown())),
            Some((known, _)) if found.iter().any(|(seen, _)| seen == known) => {
                flaws.push(flaw(name, "is given twice"));
            }
            Some(field) => found.push(*field),
        }
    }
    if fields.is_empty() {
        flaws.push(flaw("body", &format!("names no field to change; there are {}", names())));
    }
    flaws.extend(strangers(fields));
    if !flaws.is_empty() {
        return Err(flaws);
    }
    let mut said = Value::Null;
    merge(&mut said, &Value::Object(named("", fields)));
    let said = lenient_json::from_value(said).map_err(|error| vec![error.flaw()])?;
    Ok((said, found.into_iter().map(|(_, take)| take).collect()))
}

fn flaw(field: &str, problem: &str) -> Flaw {
    Flaw { field: field.to_owned(), problem: problem.to_owned() }
}
fn unknown() -> String {
    format!(
        "cannot be changed here; a pod changes by cmd=spec, the number of instances by cmd=replica, here {}",
        names()
    )
}
fn names() -> String {
    FIELDS.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rollout::{Amount, Drain, Strategy, StrategyType, Topology};

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other} is no object"),
        }
    }
    fn rolling() -> PodGroupSpec {
        let strategy =
            Strategy { kind: StrategyType::RollingUpdate, max_surge: Some(Amount::Count(1)), ..Strategy::default() };
        PodGroupSpec { num_instances: 3, strategy: Some(strategy), min_ready_seconds: Some(5), ..Default::default() }
    }
    fn flaws(value: Value) -> Vec<String> {
        let flaws = rolling().with_rollout_fields(&object(value)).expect_err("flaws");
        flaws.iter().map(Flaw::to_string).collect()
    }

    #[test]
    fn a_patch_replaces_only_the_named_nested_fields() {
        let patch = json!({"strategy": {"maxsurge": "50%", "MaxUnavailable": 0}, "Drain": {"GraceSeconds": 5}});
        let next = rolling().with_rollout_fields(&object(patch)).expect("fine");
        let strategy = Strategy {
            kind: StrategyType::RollingUpdate,
            max_surge: Some(Amount::Percent(50)),
            max_unavailable: Some(Amount::Count(0)),
            ..Strategy::default()
        };
        let drain = Drain { grace_seconds: 5, ..Drain::default() };
        assert_eq!(next, PodGroupSpec { strategy: Some(strategy), drain: Some(drain), ..rolling() });
        let patch = json!({"Strategy": {"Type": "Beta", "MaxSurge": null, "MaxUnavailable": null}});
        let strategy = Strategy { kind: StrategyType::Beta, ..Strategy::default() };
        let after = next.with_rollout_fields(&object(patch)).expect("fine");
        assert_eq!(after, PodGroupSpec { strategy: Some(strategy), ..next });
    }

    #[test]
    fn units_are_merged_by_their_names_and_lists_are_replaced() {
        let topology = |replicas: &[(&str, i64)]| Topology {
            values: vec!["a".to_owned(), "A".to_owned()],
            unit_replicas: replicas.iter().map(|(unit, pods)| ((*unit).to_owned(), Amount::Count(*pods))).collect(),
            ..Topology::default()
        };
        let spec = PodGroupSpec { topology: Some(topology(&[("a", 1), ("A", 2)])), ..rolling() };
        let patch = json!({"Topology": {"unitReplicas": {"a": null, "A": 3}}, "ReadinessGates": ["x"]});
        let next = spec.with_rollout_fields(&object(patch)).expect("fine");
        assert_eq!(
            (next.topology.as_ref(), next.readiness_gates.as_slice()),
            (Some(&topology(&[("A", 3)])), ["x".to_owned()].as_slice())
        );
        let back = between(&next, &spec);
        assert_eq!(back, object(json!({"Topology": {"UnitReplicas": {"a": 1, "A": 2}}, "ReadinessGates": null})));
        assert_eq!(next.with_rollout_fields(&back), Ok(spec));
    }

    #[test]
    fn null_resets_a_field() {
        let next = rolling().with_rollout_fields(&object(json!({"MinReadySeconds": null}))).expect("fine");
        assert_eq!(next, PodGroupSpec { min_ready_seconds: None, ..rolling() });
    }

    #[test]
    fn another_field_is_refused_with_the_command_that_changes_it() {
        let told = flaws(json!({"NumInstances": 3, "Strateg": {}, "Paused": true}));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("NumInstances: cannot be changed here; a pod changes by cmd=spec"), "{told:?}");
        assert!(told[1].starts_with("Strateg: ") && told[1].ends_with("ReadinessGates, Drain"), "{told:?}");
    }

    #[test]
    fn a_malformed_value_is_named_by_its_path() {
        let told = flaws(json!({"Strategy": {"MaxSurge": "ten"}}));
        assert!(told[0].starts_with("Strategy.MaxSurge: \"ten\" is not a percentage"), "{told:?}");
    }

    #[test]
    fn a_misspelt_nested_field_is_reported_with_the_known_fields() {
        let told =
            flaws(json!({"strategy": {"type": "Beta", "MaxSurg": 1}, "Topology": {"AutoReschedule": {"Delay": 1}}}));
        let expected = [
            "Strategy.MaxSurg: is not a field of Strategy; there are Type, MaxSurge, MaxUnavailable, BatchSize, \
             NeedWaitingForConfirm, ConfirmFirstDeployment, Window, UpgradePause",
            "Topology.AutoReschedule.Delay: is not a field of Topology.AutoReschedule; there are Enable, \
             InitialDelaySeconds, FailBack",
        ];
        assert_eq!(told, expected);
        let units = json!({"Topology": {"UnitReplicas": {"any-unit": 1}}, "Strategy": null, "Drain": 7});
        assert_eq!(strangers(&object(units)), [], "units are names of the user's, and what is no object has no names");
    }

    #[test]
    fn an_empty_patch_and_a_duplicate_field_are_flaws() {
        assert!(flaws(json!({}))[0].starts_with("body: names no field"));
        assert_eq!(flaws(json!({"Paused": true, "paused": false})), ["paused: is given twice"]);
        let inside = flaws(json!({"Strategy": {"MaxSurge": 1, "maxSurge": 2}}));
        assert_eq!(inside, ["Strategy.maxSurge: is given twice"]);
    }
}
