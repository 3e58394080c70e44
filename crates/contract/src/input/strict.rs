//! Strict requests: an unknown field is an error that names its path and the field that was probably meant.
//!
//! The API is strict with `strict=true`, and `deployctl` always is. A plain request ignores unknown fields, as in the
//! original API, except inside fields that are additions.

use serde_json::{Map, Value};

use crate::rollout_fields;
use crate::spec::{PodGroupSpec, PodSpec};
use crate::validate::Flaw;

/// The fields of a check that the agent performs.
const CHECK_FIELDS: &[&str] = &["http", "port", "command", "container", "period", "timeout", "failures", "successes"];

/// The fields that the original API defines, by path, and those of checks.
const FIELDS: [(&str, &[&str]); 12] = [
    ("", &["Name", "Namespace", "Version", "CreatedAt", "UpdatedAt", "Pod", "NumInstances", "RestartPolicy"]),
    (
        "Pod",
        &[
            "Name",
            "Namespace",
            "Version",
            "CreatedAt",
            "UpdatedAt",
            "Network",
            "Containers",
            "Filters",
            "Labels",
            "Dependencies",
            "Annotation",
            "Stateful",
            "SetupTime",
            "KillTimeout",
            "PrevState",
            "HealthConfig",
        ],
    ),
    (
        "Pod.Containers[]",
        &[
            "Name",
            "Namespace",
            "Version",
            "CreatedAt",
            "UpdatedAt",
            "Image",
            "Env",
            "User",
            "WorkingDir",
            "DnsSearch",
            "Volumes",
            "SystemVolumes",
            "CloudVolumes",
            "Command",
            "Entrypoint",
            "CpuLimit",
            "MemoryLimit",
            "Expose",
            "LogConfig",
        ],
    ),
    ("Pod.Containers[].CloudVolumes[]", &["Type", "Dirs"]),
    ("Pod.Containers[].LogConfig", &["Type", "Config"]),
    ("Pod.Dependencies[]", &["PodName", "Policy"]),
    ("Pod.PrevState", &["NodeName", "IPs"]),
    ("Pod.HealthConfig", &["cmd", "options", "startup", "readiness", "liveness"]),
    ("Pod.HealthConfig.startup", CHECK_FIELDS),
    ("Pod.HealthConfig.readiness", CHECK_FIELDS),
    ("Pod.HealthConfig.liveness", CHECK_FIELDS),
    ("Pod.HealthConfig.options", &["interval", "timeout", "retries"]),
];

/// Checks the JSON of a group for a strict request: unknown fields, a missing `NumInstances`, and numbers that a plain
/// request would clamp.
pub fn group_flaws(document: &Map<String, Value>, spec: &PodGroupSpec) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    unknown(document, &FieldPath { shown: String::new(), known: String::new() }, &mut flaws);
    if member(document, "NumInstances").is_none_or(Value::is_null) {
        let problem = "is required: a group without it would be scaled to 0 instances";
        flaws.push(Flaw { field: "NumInstances".to_owned(), problem: problem.to_owned() });
    }
    flaws.extend(spec.pod.clamps().iter().map(crate::ranges::Clamp::flaw));
    flaws
}

/// The same for the JSON of a pod without a group. Paths start with `Pod`, as in a group.
pub fn pod_flaws(document: &Map<String, Value>, pod: &PodSpec) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    unknown(document, &FieldPath { shown: "Pod".to_owned(), known: "Pod".to_owned() }, &mut flaws);
    flaws.extend(pod.clamps().iter().map(crate::ranges::Clamp::flaw));
    flaws
}

/// Whether a document sets a field, in any case of its name, to something else than `null`.
pub fn names(document: &Map<String, Value>, field: &str) -> bool {
    member(document, field).is_some_and(|value| !value.is_null())
}

fn member<'a>(document: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    document.iter().find(|(name, _)| name.eq_ignore_ascii_case(field)).map(|(_, value)| value)
}

/// A path in a document: `Pod.Containers[3]` as shown, `Pod.Containers[]` in the tables.
struct FieldPath {
    shown: String,
    known: String,
}

impl FieldPath {
    fn below(&self, shown: &str, known: &str) -> Self {
        let join = |path: &str, name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        Self { shown: join(&self.shown, shown), known: join(&self.known, known) }
    }
    fn element(&self, index: usize) -> Self {
        Self { shown: format!("{}[{index}]", self.shown), known: format!("{}[]", self.known) }
    }
    /// The field names at this path; none where users choose the names.
    fn fields(&self) -> Option<Vec<&'static str>> {
        let own = FIELDS.iter().find(|(path, _)| *path == self.known).map(|(_, names)| names.to_vec());
        match (own, self.known.as_str()) {
            (Some(names), "") => Some(names.into_iter().chain(rollout_fields::all_names()).collect()),
            (Some(names), _) => Some(names),
            (None, path) => rollout_fields::names_inside(path).map(<[&str]>::to_vec),
        }
    }
}

fn unknown(document: &Map<String, Value>, place: &FieldPath, flaws: &mut Vec<Flaw>) {
    let Some(fields) = place.fields() else { return };
    for (name, value) in document {
        // Field names match in any case.
        let is_same = |(other, _): &(&String, &Value)| other.eq_ignore_ascii_case(name);
        if let Some((first, _)) = document.iter().find(is_same).filter(|(first, _)| *first != name) {
            let problem = format!("is given twice: {first} is the same field");
            flaws.push(Flaw { field: place.below(name, name).shown, problem });
            continue;
        }
        let Some(known) = fields.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
            flaws.push(Flaw { field: place.below(name, name).shown, problem: unknown_problem(name, &fields) });
            continue;
        };
        let below = place.below(name, known);
        match value {
            Value::Object(members) => unknown(members, &below, flaws),
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    if let Value::Object(members) = element {
                        unknown(members, &below.element(index), flaws);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The error text for an unknown name, with a suggestion.
pub fn unknown_problem(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(meant) => format!("is not a field here; did you mean {meant}?"),
        None => format!("is not a field here; there are {}", known.join(", ")),
    }
}

/// The known name closest to `name`, if fewer than half of the letters differ.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let close = known.iter().map(|known| (distance(&name.to_lowercase(), &known.to_lowercase()), *known));
    let (letters, meant) = close.min_by_key(|(letters, _)| *letters)?;
    (letters * 2 < name.chars().count().max(meant.chars().count())).then_some(meant)
}

/// Levenshtein distance: letters to insert, remove or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::Check;
    use crate::spec::{CloudVolume, ContainerSpec, Dependency, HealthConfig};

    fn flaws(document: &Value) -> Vec<String> {
        let members = document.as_object().expect("an object");
        let spec = crate::lenient_json::from_value(document.clone()).expect("a spec");
        group_flaws(members, &spec).iter().map(Flaw::to_string).collect()
    }

    #[test]
    fn an_unknown_field_is_reported_with_its_path_and_a_suggestion() {
        let document = json!({
            "NumInstance": 3,
            "numinstances": 3,
            "Strategy": {"Typ": "RollingUpdate"},
            "Pod": {
                "HealthCheck": {},
                "Labels": {"anything": "goes"},
                "Containers": [{"Image": "demo"}, {"Imag": "demo", "LogConfig": {"Config": {"tag": "x"}}}],
            },
            "Bogus": 1,
        });
        assert_eq!(
            flaws(&document),
            [
                "Bogus: is not a field here; there are Name, Namespace, Version, CreatedAt, UpdatedAt, Pod, NumInstances, \
                 RestartPolicy, Strategy, Topology, MinReadySeconds, ProgressDeadlineSeconds, RevisionHistoryLimit, Paused, \
                 PodReplacement, UpdatePolicy, FailureAction, FailureThreshold, FailFastRestarts, ReadinessGates, Drain",
                "NumInstance: is not a field here; did you mean NumInstances?",
                "Pod.Containers[1].Imag: is not a field here; did you mean Image?",
                "Pod.HealthCheck: is not a field here; did you mean HealthConfig?",
                "Strategy.Typ: is not a field here; did you mean Type?",
            ]
        );
    }

    #[test]
    fn the_number_of_instances_is_required_and_a_clamp_is_an_error() {
        assert_eq!(
            flaws(&json!({"Pod": {"HealthConfig": {"options": {"interval": 5}}}})),
            [
                "NumInstances: is required: a group without it would be scaled to 0 instances",
                "Pod.HealthConfig.options.interval: must be 10..86400 or 0 (not set), is 5",
            ]
        );
        assert_eq!(flaws(&json!({"NumInstances": 0})), [""; 0]);
    }

    #[test]
    fn the_tables_contain_exactly_the_serialised_fields() {
        let container = ContainerSpec { cloud_volumes: vec![CloudVolume::default()], ..ContainerSpec::default() };
        let (word, number) = ("a".to_owned(), 1);
        let check = Check {
            http: word.clone(),
            port: number,
            command: vec![word],
            container: number,
            period: number,
            timeout: number,
            failures: number,
            successes: number,
        };
        let of = || Some(check.clone());
        let health_config = HealthConfig { startup: of(), readiness: of(), liveness: of(), ..HealthConfig::default() };
        let dependencies = vec![Dependency::default()];
        let pod = PodSpec { containers: vec![container], dependencies, health_config, ..PodSpec::default() };
        let written = serde_json::to_value(PodGroupSpec { pod, ..PodGroupSpec::default() }).expect("a value");
        for (path, known) in FIELDS {
            let steps = path.split(['.', '[', ']']).filter(|step| !step.is_empty());
            let object = steps.fold(&written, |value, step| match &value[step] {
                Value::Array(elements) => &elements[0],
                value => value,
            });
            let mut known = known.to_vec();
            known.sort_unstable();
            let names: Vec<&String> = object.as_object().expect("an object").keys().collect();
            assert_eq!(names, known, "{path}");
        }
    }

    #[test]
    fn a_field_given_in_two_cases_is_refused() {
        let twice = json!({"Name": "a", "NumInstances": 2, "numinstances": 0});
        assert!(flaws(&twice).iter().any(|flaw| flaw.contains("is given twice")), "{:?}", flaws(&twice));
    }
}
