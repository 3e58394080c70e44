//! Compares a group with a file and returns what `apply` must change. Pure.
//!
//! Versions, times and remembered nodes belong to the cluster and are ignored. So is a limit of 0 in the file, which means
//! "unchanged" to the API.

use std::collections::{BTreeMap, BTreeSet};

use contract::rollout_fields;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    pub rollout: RolloutSettings,
    /// Changes of the pod spec; they need a new revision.
    pub pod: Vec<FieldChange>,
    pub number: Option<u32>,
    pub policy: Option<RestartPolicy>,
    /// Fields that cannot be changed while the group exists.
    pub fixed: Vec<String>,
}

impl Difference {
    /// All fields that differ and can be changed; `current` is the spec of the group as it runs.
    pub fn changes(&self, current: &PodGroupSpec) -> Vec<FieldChange> {
        let Self { rollout, pod, number, policy, fixed: _ } = self;
        let number = number.map(|number| FieldChange::of("NumInstances", &current.num_instances, &number));
        let policy = policy.map(|policy| FieldChange::of("RestartPolicy", &current.restart_policy, &policy));
        rollout.changes.iter().chain(pod).cloned().chain(number).chain(policy).collect()
    }
}

/// A field before and after a change; `null` stands for a field or an item that is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FieldChange {
    /// Its path, such as `Pod.Containers[0].Image` or `Pod.Containers[0].Env.GREETING`.
    pub path: String,
    pub before: Value,
    pub after: Value,
}

impl FieldChange {
    fn of(path: &str, before: &impl Serialize, after: &impl Serialize) -> Self {
        let before = serde_json::to_value(before).expect("a number or a word");
        let after = serde_json::to_value(after).expect("a number or a word");
        Self { path: path.to_owned(), before, after }
    }
}

/// The paths of changes; items of one list share a path.
pub fn paths(changes: &[FieldChange]) -> String {
    let mut paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    paths.dedup();
    paths.join(", ")
}

/// Changed rollout settings (Strategy, Topology, Drain ...).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutSettings {
    /// A merge patch; `null` resets a field.
    pub fields: Map<String, Value>,
    pub changes: Vec<FieldChange>,
}

/// Fields that are not rollout settings.
const OTHER: [&str; 8] =
    ["Name", "Namespace", "Version", "CreatedAt", "UpdatedAt", "Pod", "NumInstances", "RestartPolicy"];

/// What differs between a group that runs as `current` and `wanted`.
pub fn of_group(current: &PodGroupSpec, wanted: &PodGroupSpec) -> Difference {
    let pod = of_pod(&current.pod, &wanted.pod);
    let mut fixed = Vec::new();
    if current.namespace != wanted.namespace {
        fixed.push("Namespace".to_owned());
    }
    fixed.extend(pod.fixed.into_iter().map(|field| format!("Pod.{field}")));
    let number = u32::try_from(wanted.num_instances).ok().filter(|_| current.num_instances != wanted.num_instances);
    let policy = (current.restart_policy != wanted.restart_policy).then_some(wanted.restart_policy);
    let rollout = rollout_settings(current, wanted);
    let in_pod = |change: FieldChange| FieldChange { path: format!("Pod.{}", change.path), ..change };
    let pod = pod.pod.into_iter().map(in_pod).collect();
    Difference { rollout, pod, number, policy, fixed }
}

fn rollout_settings(current: &PodGroupSpec, wanted: &PodGroupSpec) -> RolloutSettings {
    let settings = |spec: &PodGroupSpec| match serde_json::to_value(spec).expect("a spec has string keys only") {
        Value::Object(mut fields) => {
            fields.retain(|name, _| !OTHER.contains(&name.as_str()));
            fields
        }
        _ => Map::new(),
    };
    let fields = rollout_fields::between(current, wanted);
    let (before, after) = (settings(current), settings(wanted));
    let mut changes = Vec::new();
    differences(&Value::Object(before), &Value::Object(after), "", &mut changes);
    RolloutSettings { fields, changes }
}

/// What differs between a pod that runs as `current` and `wanted`.
pub fn of_pod(current: &PodSpec, wanted: &PodSpec) -> Difference {
    let fixed = [("Namespace", &current.namespace, &wanted.namespace), ("Network", &current.network, &wanted.network)];
    let fixed = fixed.into_iter().filter(|(_, current, wanted)| current != wanted);
    let fixed = fixed.map(|(field, ..)| field.to_owned()).collect();
    // An empty annotation equals `{}`.
    let annotation = if current.annotation.trim().is_empty() { "{}" } else { &current.annotation }.to_owned();
    let current = &PodSpec { annotation, ..current.clone() };
    let next = current.patched(wanted.clone(), Timestamp::NEVER);
    let mut pod = Vec::new();
    if !next.asks_the_same(current) {
        let timeless = |spec: &PodSpec| {
            let mut spec = spec.clone();
            (spec.version, spec.created_at, spec.updated_at) = (0, Timestamp::NEVER, Timestamp::NEVER);
            serde_json::to_value(spec).expect("a spec has string keys only")
        };
        differences(&timeless(current), &timeless(&next), "", &mut pod);
    }
    Difference { pod, fixed, ..Difference::default() }
}

fn differences(left: &Value, right: &Value, at: &str, found: &mut Vec<FieldChange>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                let of = |object: &Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
                differences(&of(left), &of(right), &path, found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before != after && by_item(before, after, at, found) => {}
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differences(left, right, &format!("{at}[{index}]"), found);
            }
        }
        (left, right) if left != right => {
            found.push(FieldChange { path: at.to_owned(), before: left.clone(), after: right.clone() });
        }
        _ => {}
    }
}

/// The differences of environments by variable, and of other lists of texts by added and removed item; whether there are any.
/// A command is one value: its words mean nothing alone.
fn by_item(before: &[Value], after: &[Value], at: &str, found: &mut Vec<FieldChange>) -> bool {
    let (Some(left), Some(right)) = (texts(before), texts(after)) else { return false };
    let known = found.len();
    if at.ends_with(".Env") {
        let (left, right) = (variables(&left), variables(&right));
        let keys: BTreeSet<&str> = left.keys().chain(right.keys()).copied().collect();
        let value = |of: &BTreeMap<&str, &str>, key| of.get(key).map_or(Value::Null, |value| Value::from(*value));
        let changes = keys.into_iter().filter(|key| left.get(key) != right.get(key)).map(|key| FieldChange {
            path: format!("{at}.{key}"),
            before: value(&left, key),
            after: value(&right, key),
        });
        found.extend(changes);
    } else if before.len() != after.len() && !at.ends_with("Command") && !at.ends_with("Entrypoint") {
        let item = |before: &str, after: &str| {
            let value = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
            FieldChange { path: at.to_owned(), before: value(before), after: value(after) }
        };
        found.extend(left.iter().filter(|text| !right.contains(text)).map(|text| item(text, "")));
        found.extend(right.iter().filter(|text| !left.contains(text)).map(|text| item("", text)));
    }
    found.len() > known
}

fn texts(values: &[Value]) -> Option<Vec<&str>> {
    values.iter().map(Value::as_str).collect()
}

/// Environment entries `KEY=value` by key; the last of several counts, as for a process.
fn variables<'a>(entries: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    entries.iter().map(|entry| entry.split_once('=').unwrap_or((entry, ""))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const JSON: &str = r#"{"Name":"a.web.web","Namespace":"a","NumInstances":2,"RestartPolicy":1,
        "Pod":{"Containers":[{"Image":"i","MemoryLimit":33554432}]}}"#;

    fn wanted() -> PodGroupSpec {
        crate::document::read(JSON).unwrap().swap_remove(0).spec
    }
    /// The same group after it has run for a while.
    fn running() -> PodGroupSpec {
        let mut spec = wanted().for_creation(Timestamp::from_millis(5));
        (spec.version, spec.pod.version, spec.pod.updated_at) = (3, 3, Timestamp::from_millis(9));
        spec
    }
    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }
    fn change(path: &str, before: Value, after: Value) -> FieldChange {
        FieldChange { path: path.to_owned(), before, after }
    }

    #[test]
    fn equal_documents_have_no_difference() {
        assert_eq!(of_group(&running(), &wanted()), Difference::default());
        let mut open = wanted();
        open.pod.containers[0].memory_limit = 0;
        assert_eq!(of_group(&running(), &open), Difference::default(), "0 means as before");
        assert_eq!(of_group(&wanted(), &wanted()), Difference::default(), "an empty annotation says nothing");
    }

    #[test]
    fn the_pod_the_number_and_the_policy_can_be_changed() {
        let mut other = wanted();
        other.pod.containers[0].image = "j".to_owned();
        other.pod.filters.push("constraint:a==b".to_owned());
        (other.num_instances, other.restart_policy) = (5, RestartPolicy::Never);
        let expected = Difference {
            rollout: RolloutSettings::default(),
            pod: vec![
                change("Pod.Containers[0].Image", json!("i"), json!("j")),
                change("Pod.Filters", Value::Null, json!("constraint:a==b")),
            ],
            number: Some(5),
            policy: Some(RestartPolicy::Never),
            fixed: Vec::new(),
        };
        let found = of_group(&running(), &other);
        assert_eq!(found, expected);
        let all = found.changes(&running());
        assert_eq!(paths(&all), "Pod.Containers[0].Image, Pod.Filters, NumInstances, RestartPolicy");
        assert_eq!(all[2], change("NumInstances", json!(2), json!(5)));
    }

    #[test]
    fn environments_differ_by_variable_and_lists_by_item() {
        let with = |env: &[&str], volumes: &[&str], command: &[&str]| {
            let mut spec = wanted();
            let container = &mut spec.pod.containers[0];
            (container.env, container.volumes, container.command) = (words(env), words(volumes), words(command));
            spec
        };
        let before = with(&["A=1", "B=2", "C=3"], &["/data", "/cache"], &["run", "-v"]);
        let after = with(&["C=3", "A=x=y", "D="], &["/data"], &["run", "-v", "--fast"]);
        let at = |field: &str| format!("Pod.Containers[0].{field}");
        let expected = [
            change(&at("Command"), json!(["run", "-v"]), json!(["run", "-v", "--fast"])),
            change(&at("Env.A"), json!("1"), json!("x=y")),
            change(&at("Env.B"), json!("2"), Value::Null),
            change(&at("Env.D"), Value::Null, json!("")),
            change(&at("Volumes"), json!("/cache"), Value::Null),
        ];
        assert_eq!(of_group(&before, &after).pod, expected);
        // Another sequence of the same variables is a change too: the container gets it.
        let turned = with(&["B=2", "A=1", "C=3"], &["/data", "/cache"], &["run", "-v"]);
        assert_eq!(paths(&of_group(&before, &turned).pod), at("Env[0]") + ", " + &at("Env[1]"));
    }

    #[test]
    fn namespaces_and_networks_cannot() {
        let mut other = wanted();
        other.namespace = "b".to_owned();
        other.pod.namespace = "b".to_owned();
        other.pod.network = "n".to_owned();
        let fixed = words(&["Namespace", "Pod.Namespace", "Pod.Network"]);
        assert_eq!(of_group(&running(), &other), Difference { fixed, ..Difference::default() });
    }

    #[test]
    fn how_it_is_changed_is_a_difference_field_by_field() {
        let with = |text: &str| crate::document::read(&text.replace('\'', "\"")).unwrap().swap_remove(0).spec;
        const REST: &str = "'Name':'a.web.web','Namespace':'a','NumInstances':2,'Pod':{'Containers':[{'Image':'i'}]}";
        let rolling =
            with(&format!("{{{REST},'Strategy':{{'Type':'RollingUpdate','MaxSurge':1}},'MinReadySeconds':5}}"));
        let slower = with(&format!("{{{REST},'Strategy':{{'Type':'RollingUpdate','MaxSurge':'50%'}}}}"));
        let RolloutSettings { fields, changes } = of_group(&rolling, &slower).rollout;
        assert_eq!(paths(&changes), "MinReadySeconds, Strategy.MaxSurge");
        let expected = serde_json::json!({"MinReadySeconds": null, "Strategy": {"MaxSurge": "50%"}});
        assert_eq!(Value::Object(fields), expected);
        let plain = with(&format!("{{{REST}}}"));
        let left_out = of_group(&rolling, &plain).rollout.changes;
        assert_eq!(paths(&left_out), "MinReadySeconds, Strategy", "the file is the whole");
        let paused = PodGroupSpec { paused: true, ..rolling.clone() };
        assert_eq!(paths(&of_group(&rolling, &paused).rollout.changes), "Paused");
    }
}
