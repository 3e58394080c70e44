//! Reads PodGroupSpecs, or PodSpecs of dependency pods, from a file: JSON or YAML, one or several. Pure.
//!
//! Keys match in any case, as in the API. Everything else is strict, because a person wrote the file: an unknown field, a
//! missing `NumInstances` and a value that the cluster would change are errors, and nothing is sent.

pub mod difference;
pub(crate) mod fields;
mod values;

use contract::duplicate_fields;
use contract::lenient_json;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::validate::{Flaw, sentence};
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it is empty; deploy/demo-podgroup.json is an example of a PodGroup")]
    Empty,
    #[error("it is not {format}: {reason}")]
    Syntax { format: &'static str, reason: String },
    #[error("spec {number}: {reason}")]
    Field {
        /// From 1.
        number: usize,
        reason: String,
    },
    /// Fields that are unknown, missing or have a value that is not allowed.
    #[error("{name:?}: {flaws}")]
    Flaws { name: String, flaws: String },
}

/// The document of a PodGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The spec, valid. `RestartPolicy` is `always` when the document does not name one.
    pub spec: PodGroupSpec,
    names_restart_policy: bool,
}

impl Document {
    /// The spec to apply over a group that exists: without a named restart policy the group keeps its own, and a paused group
    /// stays paused.
    pub fn over(&self, current: &PodGroupSpec) -> PodGroupSpec {
        let mut spec = self.spec.clone();
        spec.paused |= current.paused;
        if !self.names_restart_policy {
            spec.restart_policy = current.restart_policy;
        }
        spec
    }
}

/// Every PodGroupSpec of a text.
pub fn read(text: &str) -> Result<Vec<Document>, Error> {
    let group = |(index, mut value): (usize, Value)| {
        let mut flaws = fields::unknown_of_group(&value);
        flaws.extend(values::convert_group(&mut value));
        if fields::given(&value, "NumInstances").is_none() {
            let problem = "is required; write how many instances the group has, such as NumInstances: 3".to_owned();
            flaws.push(Flaw { field: "NumInstances".to_owned(), problem });
        }
        let names_restart_policy = fields::given(&value, "RestartPolicy").is_some();
        refuse(&value, &flaws)?;
        let mut spec: PodGroupSpec = decoded(index + 1, &value)?;
        if !names_restart_policy {
            spec.restart_policy = RestartPolicy::Always;
        }
        fill(&mut spec);
        refuse(&value, &spec.validate().err().unwrap_or_default())?;
        Ok(Document { spec, names_restart_policy })
    };
    values(text)?.into_iter().enumerate().map(group).collect()
}

/// Every PodSpec of a text.
pub fn read_pods(text: &str) -> Result<Vec<PodSpec>, Error> {
    let pod = |(index, mut value): (usize, Value)| {
        let mut flaws = fields::unknown_of_pod(&value);
        flaws.extend(values::convert_pod(&mut value));
        refuse(&value, &flaws)?;
        let spec: PodSpec = decoded(index + 1, &value)?;
        refuse(&value, &spec.validate().err().unwrap_or_default())?;
        Ok(spec)
    };
    values(text)?.into_iter().enumerate().map(pod).collect()
}

fn values(text: &str) -> Result<Vec<Value>, Error> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let values = if is_json { json(text)? } else { yaml(text)? };
    let values: Vec<Value> = values.into_iter().flat_map(flatten).collect();
    if values.is_empty() { Err(Error::Empty) } else { Ok(values) }
}

fn json(text: &str) -> Result<Vec<Value>, Error> {
    if let Some(reason) = duplicate_fields::problem(text.as_bytes()) {
        return Err(Error::Syntax { format: "JSON", reason });
    }
    let values: Result<Vec<Value>, serde_json::Error> = serde_json::Deserializer::from_str(text).into_iter().collect();
    values.map_err(|error| Error::Syntax { format: "JSON", reason: error.to_string() })
}

fn yaml(text: &str) -> Result<Vec<Value>, Error> {
    serde_saphyr::from_multiple(text).map_err(|error| Error::Syntax { format: "YAML", reason: error.to_string() })
}

fn flatten(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => vec![other],
    }
}

fn decoded<S: DeserializeOwned>(number: usize, value: &Value) -> Result<S, Error> {
    lenient_json::from_value(value.clone()).map_err(|error| Error::Field { number, reason: error.to_string() })
}

fn refuse(value: &Value, flaws: &[Flaw]) -> Result<(), Error> {
    if flaws.is_empty() {
        return Ok(());
    }
    let name = fields::given(value, "Name").and_then(Value::as_str).unwrap_or_default().to_owned();
    Err(Error::Flaws { name, flaws: sentence(flaws) })
}

/// The pod has the group's name and namespace unless the document says otherwise.
fn fill(spec: &mut PodGroupSpec) {
    if spec.pod.name.is_empty() {
        spec.pod.name.clone_from(&spec.name);
    }
    if spec.pod.namespace.is_empty() {
        spec.pod.namespace.clone_from(&spec.namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"Name":"a.web.web","Namespace":"a","NumInstances":2,"Pod":{"Containers":[{"Image":"i"}]}}"#;
    const YAML: &str = "
name: a.web.web
namespace: a
numInstances: 2
pod:
  containers:
    - image: i
";

    fn one(text: &str) -> Document {
        let mut documents = read(text).unwrap();
        assert_eq!(documents.len(), 1);
        documents.remove(0)
    }

    #[test]
    fn json_and_yaml_are_equivalent() {
        assert_eq!(one(JSON).spec, one(YAML).spec);
        assert_eq!(one(YAML).spec.pod.name, "a.web.web", "the pod has the name of its group");
    }

    #[test]
    fn a_file_may_hold_several() {
        assert_eq!(read(&format!("{JSON}\n{JSON}")).unwrap().len(), 2);
        assert_eq!(read(&format!("[{JSON},{JSON},{JSON}]")).unwrap().len(), 3);
        assert_eq!(read(&format!("---{YAML}---{YAML}")).unwrap().len(), 2);
    }

    #[test]
    fn the_demo_is_a_document() {
        let demo = one(crate::commands::up::demo::DOCUMENT);
        assert_eq!((demo.spec.name.as_str(), demo.spec.num_instances), ("demo.web.web", 3));
    }

    #[test]
    fn an_error_names_the_field() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("").contains("empty"));
        assert!(error("{\"Name\": ").contains("not JSON"));
        assert!(error("a: [").contains("not YAML"));
        assert!(error("Name: [1]\nNumInstances: 1").contains("spec 1: Name: "));
        assert!(error("{\"NumInstances\":\"2\"}").contains("NumInstances"));
        let flaws = error("{\"Name\":\"a b\",\"Namespace\":\"a\",\"NumInstances\":1}");
        let misspelt = error("{\"Name\":\"a\",\"Namespce\":\"a\"}");
        assert!(misspelt.contains("Namespce: unknown field"), "{misspelt}");
        assert!(flaws.contains("Name: contains ' '") && flaws.contains("Pod.Containers: must not be empty"), "{flaws}");
    }

    #[test]
    fn every_unknown_field_is_named_and_labels_may_have_any_name() {
        let text = "
Name: a
Namespace: a
NumInstance: 3
Pod:
  Labels: {Any: thing}
  Containers: [{Image: i, Memory: 5, LogConfig: {Config: {max-size: 1m}}}]
";
        let error = read(text).unwrap_err().to_string();
        let expected = "\"a\": NumInstance: unknown field; did you mean NumInstances?; Pod.Containers[0].Memory: unknown \
            field; did you mean Pod.Containers[0].MemoryLimit?; NumInstances: is required; write how many instances the group \
            has, such as NumInstances: 3";
        assert_eq!(error, expected);
    }

    #[test]
    fn the_default_restart_policy_is_always_for_a_new_group_and_unchanged_for_an_existing_one() {
        let document = one(JSON);
        assert_eq!(document.spec.restart_policy, RestartPolicy::Always);
        let current = PodGroupSpec { restart_policy: RestartPolicy::OnFail, ..document.spec.clone() };
        assert_eq!(document.over(&current).restart_policy, RestartPolicy::OnFail);
        let named = one(&JSON.replace("\"NumInstances\"", "\"RestartPolicy\":\"never\",\"NumInstances\""));
        assert_eq!(named.spec.restart_policy, RestartPolicy::Never);
        assert_eq!(named.over(&current).restart_policy, RestartPolicy::Never);
    }

    #[test]
    fn the_examples_are_documents() {
        for (name, text) in [
            ("demo.web.release", include_str!("../../../deploy/demo-release.yaml")),
            ("demo.web.release", include_str!("../../../deploy/demo-release-next.yaml")),
            ("demo.beta.web", include_str!("../../../deploy/demo-beta.yaml")),
        ] {
            let example = one(text);
            assert_eq!(example.spec.name, name);
            assert!(example.spec.has_strategy(), "{name}");
        }
    }

    #[test]
    fn a_file_may_hold_pod_specs() {
        let pods = read_pods("Name: svc.portal.portal\nNamespace: svc\nContainers: [{Image: i}]").unwrap();
        assert_eq!(pods[0].name, "svc.portal.portal");
        let error = read_pods("{\"Name\":\"a\"}").unwrap_err().to_string();
        assert!(error.contains("Pod.Namespace: ") && error.contains("Pod.Containers: must not be empty"), "{error}");
    }
}
