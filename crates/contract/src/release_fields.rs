//! Which fields of a PodGroupSpec are about its releases, and how `cmd=strategy` changes them: a field that is named is
//! replaced whole, `null` makes it unsaid, and one that is not named stays as it is.
//!
//! Names match in any case, as in every body. The surprise: unlike elsewhere, an unknown name is a flaw. No client of the
//! original sends any of this, and a budget that is misspelt and ignored would be found out in an outage.

use serde_json::{Map, Value};

use crate::go_json;
use crate::spec::PodGroupSpec;
use crate::validate::Flaw;

/// Takes one field over from what was said.
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

/// What the fields that are objects have inside.
const INSIDE: [(&str, &[&str]); 4] = [
    (
        "Strategy",
        &["Type", "MaxSurge", "MaxUnavailable", "BatchSize", "NeedWaitingForConfirm", "Window", "UpgradePause"],
    ),
    ("Topology", &["UnitType", "UnitLabel", "Values", "UnitReplicas", "AutoReschedule", "Spread"]),
    ("Topology.AutoReschedule", &["Enable", "InitialDelaySeconds", "FailBack"]),
    ("Drain", &["GraceSeconds", "NeedsAnswer", "TimeoutSeconds"]),
];

/// What stands inside the release fields of a body and is no field there.
pub fn strangers(body: &Map<String, Value>) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (path, known) in INSIDE {
        let said = inside(body, path).into_iter().flat_map(Map::keys);
        for name in said.filter(|name| !known.iter().any(|known| known.eq_ignore_ascii_case(name))) {
            let problem = format!("is not a field of {path}; there are {}", known.join(", "));
            flaws.push(flaw(&format!("{path}.{name}"), &problem));
        }
    }
    flaws
}

/// The object at a path of names in any case.
fn inside<'a>(body: &'a Map<String, Value>, path: &str) -> Option<&'a Map<String, Value>> {
    path.split('.').try_fold(body, |members, step| {
        members.iter().find(|(name, _)| name.eq_ignore_ascii_case(step)).and_then(|(_, value)| value.as_object())
    })
}

/// Checks everything about `fields` that can be told without the group: there is one, each is known, each can be read.
pub fn check(fields: &Map<String, Value>) -> Result<(), Vec<Flaw>> {
    read(fields).map(drop)
}

impl PodGroupSpec {
    /// This spec with the release fields replaced that are named. Whether the result makes sense is another question, for
    /// [`PodGroupSpec::validate`].
    pub fn with_release_fields(&self, fields: &Map<String, Value>) -> Result<Self, Vec<Flaw>> {
        let (said, takes) = read(fields)?;
        let mut spec = self.clone();
        takes.into_iter().for_each(|take| take(&mut spec, &said));
        Ok(spec)
    }

    /// This spec with all release fields of another.
    #[must_use]
    pub fn with_release_fields_of(&self, other: &Self) -> Self {
        let mut spec = self.clone();
        FIELDS.iter().for_each(|(_, take)| take(&mut spec, other));
        spec
    }
}

fn read(fields: &Map<String, Value>) -> Result<(PodGroupSpec, Vec<Take>), Vec<Flaw>> {
    let (mut flaws, mut found) = (Vec::new(), Vec::<(&str, Take)>::new());
    for name in fields.keys() {
        match FIELDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            None => flaws.push(flaw(name, &unknown())),
            Some((known, _)) if found.iter().any(|(seen, _)| seen == known) => {
                flaws.push(flaw(name, "is named a second time"));
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
    let said = go_json::from_value(Value::Object(fields.clone())).map_err(|error| vec![error.flaw()])?;
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
    use crate::rollout::{Amount, Strategy, StrategyType};

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
        let flaws = rolling().with_release_fields(&object(value)).expect_err("flaws");
        flaws.iter().map(Flaw::to_string).collect()
    }

    #[test]
    fn a_named_field_is_replaced_whole_and_the_others_stay() {
        let next = rolling().with_release_fields(&object(json!({"strategy": {"type": "Beta"}}))).expect("fine");
        let strategy = Strategy { kind: StrategyType::Beta, ..Strategy::default() };
        assert_eq!(next, PodGroupSpec { strategy: Some(strategy), ..rolling() });
    }

    #[test]
    fn null_makes_a_field_unsaid() {
        let next = rolling().with_release_fields(&object(json!({"MinReadySeconds": null}))).expect("fine");
        assert_eq!(next, PodGroupSpec { min_ready_seconds: None, ..rolling() });
    }

    #[test]
    fn what_is_no_release_field_is_named_with_the_way_to_change_it() {
        let told = flaws(json!({"NumInstances": 3, "Strateg": {}, "Paused": true}));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("NumInstances: cannot be changed here; a pod changes by cmd=spec"), "{told:?}");
        assert!(told[1].starts_with("Strateg: ") && told[1].ends_with("ReadinessGates, Drain"), "{told:?}");
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named_by_its_path() {
        let told = flaws(json!({"Strategy": {"MaxSurge": "ten"}}));
        assert!(told[0].starts_with("Strategy.MaxSurge: \"ten\" is not a percentage"), "{told:?}");
    }

    #[test]
    fn a_misspelt_name_inside_a_field_is_named_with_the_right_ones() {
        let told =
            flaws(json!({"strategy": {"type": "Beta", "MaxSurg": 1}, "Topology": {"AutoReschedule": {"Delay": 1}}}));
        let expected = [
            "Strategy.MaxSurg: is not a field of Strategy; there are Type, MaxSurge, MaxUnavailable, BatchSize, \
             NeedWaitingForConfirm, Window, UpgradePause",
            "Topology.AutoReschedule.Delay: is not a field of Topology.AutoReschedule; there are Enable, \
             InitialDelaySeconds, FailBack",
        ];
        assert_eq!(told, expected);
        let units = json!({"Topology": {"UnitReplicas": {"any-unit": 1}}, "Strategy": null, "Drain": 7});
        assert_eq!(strangers(&object(units)), [], "units are names of the user's, and what is no object has no names");
    }

    #[test]
    fn nothing_to_change_and_a_field_in_two_cases_are_flaws() {
        assert!(flaws(json!({}))[0].starts_with("body: names no field"));
        assert_eq!(flaws(json!({"Paused": true, "paused": false})), ["paused: is named a second time"]);
    }
}
