//! Reads PodGroupSpecs, or PodSpecs of dependency pods, from a file: JSON or YAML, one or several. Pure.
//!
//! Keys match in any case, as in the API, and fields the API would silently drop are named, because in a file a
//! person wrote they are typing errors.

mod fields;

use contract::go_json;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::validate::{Flaw, sentence};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why a file holds no spec.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing in it.
    #[error("it is empty; give it a spec, deploy/demo-podgroup.json shows one of a PodGroup")]
    Empty,
    /// Neither JSON nor YAML.
    #[error("it is not {format}: {reason}")]
    Syntax {
        /// What we took it for.
        format: &'static str,
        /// Where and why.
        reason: String,
    },
    /// A field has the wrong type.
    #[error("spec {number}: {reason}")]
    Field {
        /// Which document, from 1.
        number: usize,
        /// Names the field.
        reason: String,
    },
    /// Fields whose values cannot be.
    #[error("{name:?}: {flaws}")]
    Flaws {
        /// Which.
        name: String,
        /// Each with its field.
        flaws: String,
    },
}

/// One spec and what of its document was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<S = PodGroupSpec> {
    /// The spec, valid.
    pub spec: S,
    /// Paths of fields that mean nothing.
    pub ignored: Vec<String>,
}

/// Every PodGroupSpec of a text.
pub fn read(text: &str) -> Result<Vec<Document>, Error> {
    let group = |(index, value): (usize, &Value)| {
        let mut spec: PodGroupSpec = decoded(index + 1, value)?;
        fill(&mut spec);
        let (checked, ignored) = (spec.validate(), fields::unknown_of_group(value, &spec));
        document(spec.name.clone(), spec, ignored, checked)
    };
    values(text)?.iter().enumerate().map(group).collect()
}

/// Every PodSpec of a text.
pub fn read_pods(text: &str) -> Result<Vec<Document<PodSpec>>, Error> {
    let pod = |(index, value): (usize, &Value)| {
        let spec: PodSpec = decoded(index + 1, value)?;
        let (checked, ignored) = (spec.validate(), fields::unknown_of_pod(value, &spec));
        document(spec.name.clone(), spec, ignored, checked)
    };
    values(text)?.iter().enumerate().map(pod).collect()
}

fn values(text: &str) -> Result<Vec<Value>, Error> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let values = if is_json { json(text)? } else { yaml(text)? };
    let values: Vec<Value> = values.into_iter().flat_map(flatten).collect();
    if values.is_empty() { Err(Error::Empty) } else { Ok(values) }
}

fn json(text: &str) -> Result<Vec<Value>, Error> {
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
    go_json::from_value(value.clone()).map_err(|error| Error::Field { number, reason: error.to_string() })
}

/// The spec, unless it was found to be flawed; `ignored` are fields that mean nothing.
fn document<S>(
    name: String,
    spec: S,
    ignored: Vec<String>,
    checked: Result<(), Vec<Flaw>>,
) -> Result<Document<S>, Error> {
    if let Err(flaws) = checked {
        let unknown = ignored.iter().map(|field| format!("; {field}: unknown field")).collect::<String>();
        return Err(Error::Flaws { name, flaws: sentence(&flaws) + &unknown });
    }
    Ok(Document { spec, ignored })
}

/// The pod of a group is called like the group; nobody should have to say it twice.
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
    fn json_and_yaml_say_the_same() {
        assert_eq!(one(JSON).spec, one(YAML).spec);
        assert_eq!(one(JSON).ignored, Vec::<String>::new());
        assert_eq!(one(YAML).spec.pod.name, "a.web.web", "the pod is called like its group");
    }

    #[test]
    fn a_file_may_hold_several() {
        assert_eq!(read(&format!("{JSON}\n{JSON}")).unwrap().len(), 2);
        assert_eq!(read(&format!("[{JSON},{JSON},{JSON}]")).unwrap().len(), 3);
        assert_eq!(read(&format!("---{YAML}---{YAML}")).unwrap().len(), 2);
    }

    #[test]
    fn the_demo_is_a_document() {
        let demo = one(crate::up::demo::DOCUMENT);
        assert_eq!((demo.spec.name.as_str(), demo.spec.num_instances), ("demo.web.web", 3));
        assert_eq!(demo.ignored, Vec::<String>::new());
    }

    #[test]
    fn an_error_names_the_place() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("").contains("empty"));
        assert!(error("{\"Name\": ").contains("not JSON"));
        assert!(error("a: [").contains("not YAML"));
        assert!(error("Name: [1]").contains("Name: "), "{}", error("Name: [1]"));
        assert!(error("{\"NumInstances\":\"2\"}").contains("NumInstances"));
        let flaws = error("{\"Name\":\"a b\",\"Namespace\":\"a\"}");
        let misspelt = error("{\"Name\":\"a\",\"Namespce\":\"a\"}");
        assert!(misspelt.contains("Namespce: unknown field"), "{misspelt}");
        assert!(flaws.contains("Name: contains ' '") && flaws.contains("Pod.Containers: must not be empty"), "{flaws}");
    }

    #[test]
    fn typing_errors_are_named_and_labels_are_not_typing_errors() {
        let text = "
Name: a
Namespace: a
NumInstance: 3
Pod:
  Labels: {Any: thing}
  Containers: [{Image: i, Memory: 5}]
";
        assert_eq!(one(text).ignored, ["NumInstance", "Pod.Containers[0].Memory"]);
    }

    #[test]
    fn the_examples_are_documents() {
        for (name, text) in [
            ("demo.web.release", include_str!("../../deploy/demo-release.yaml")),
            ("demo.web.release", include_str!("../../deploy/demo-release-next.yaml")),
            ("demo.beta.web", include_str!("../../deploy/demo-beta.yaml")),
        ] {
            let example = one(text);
            assert_eq!((example.spec.name.as_str(), example.ignored), (name, Vec::new()));
            assert!(example.spec.is_conducted(), "{name}");
        }
    }

    #[test]
    fn a_file_may_hold_pods_of_their_own() {
        let text = "Name: svc.portal.portal\nNamespace: svc\nContainers: [{Image: i}]\nTypo: 1";
        let pods = read_pods(text).unwrap();
        assert_eq!(
            (pods[0].spec.name.as_str(), pods[0].ignored.as_slice()),
            ("svc.portal.portal", &["Typo".to_owned()][..])
        );
        let error = read_pods("{\"Name\":\"a\"}").unwrap_err().to_string();
        assert!(error.contains("Pod.Namespace: ") && error.contains("Pod.Containers: must not be empty"), "{error}");
    }
}
