//! Compares a group with a file and returns what `apply` must change. Pure.
//!
//! Versions, times and remembered nodes belong to the cluster and are ignored. So is a limit of 0 in the file, which means
//! "unchanged" to the API.

use std::collections::BTreeSet;

use contract::rollout_fields;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::time::Timestamp;
use serde_json::{Map, Value};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    pub rollout: RolloutSettings,
    /// Paths in the pod spec; they need a new revision.
    pub pod: Vec<String>,
    pub number: Option<u32>,
    pub policy: Option<RestartPolicy>,
    /// Fields that cannot be changed while the group exists.
    pub fixed: Vec<String>,
}

impl Difference {
    /// The paths of all fields that differ and can be changed.
    pub fn changed_fields(&self) -> Vec<String> {
        let Self { rollout, pod, number, policy, fixed: _ } = self;
        let number = number.map(|_| "NumInstances".to_owned());
        let policy = policy.map(|_| "RestartPolicy".to_owned());
        rollout.paths.iter().chain(pod).cloned().chain(number).chain(policy).collect()
    }
}

/// Changed rollout settings (Strategy, Topology, Drain ...).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutSettings {
    /// A merge patch; `null` resets a field.
    pub fields: Map<String, Value>,
    pub paths: Vec<String>,
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
    let pod = pod.pod.into_iter().map(|field| format!("Pod.{field}")).collect();
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
    let mut paths = Vec::new();
    differences(&Value::Object(before), &Value::Object(after), "", &mut paths);
    RolloutSettings { fields, paths }
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

fn differences(left: &Value, right: &Value, at: &str, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                let of = |object: &Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
                differences(&of(left), &of(right), &path, found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differences(left, right, &format!("{at}[{index}]"), found);
            }
        }
        (left, right) if left != right => found.push(at.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
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
            pod: words(&["Pod.Containers[0].Image", "Pod.Filters"]),
            number: Some(5),
            policy: Some(RestartPolicy::Never),
            fixed: Vec::new(),
        };
        assert_eq!(of_group(&running(), &other), expected);
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
        let RolloutSettings { fields, paths } = of_group(&rolling, &slower).rollout;
        assert_eq!(paths, words(&["MinReadySeconds", "Strategy.MaxSurge"]));
        let expected = serde_json::json!({"MinReadySeconds": null, "Strategy": {"MaxSurge": "50%"}});
        assert_eq!(Value::Object(fields), expected);
        let plain = with(&format!("{{{REST}}}"));
        assert_eq!(
            of_group(&rolling, &plain).rollout.paths,
            words(&["MinReadySeconds", "Strategy"]),
            "the file is the whole"
        );
        let paused = PodGroupSpec { paused: true, ..rolling.clone() };
        assert_eq!(of_group(&rolling, &paused).rollout.paths, words(&["Paused"]));
    }
}
