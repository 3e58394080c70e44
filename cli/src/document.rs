//! Reads PodGroupSpecs from a file: JSON or YAML, one or several. Pure.
//!
//! Keys match in any case, as in the API, and fields the API would silently drop are named, because in a file a
//! person wrote they are typing errors.

use contract::go_json;
use contract::spec::PodGroupSpec;
use contract::time::Timestamp;
use contract::validate::sentence;
use serde_json::{Map, Value};

/// Why a file holds no PodGroupSpec.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing in it.
    #[error("it is empty; give it a PodGroupSpec, deploy/demo-podgroup.json shows one")]
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
    #[error("PodGroup {number}: {reason}")]
    Field {
        /// Which document, from 1.
        number: usize,
        /// Names the field.
        reason: String,
    },
    /// Fields whose values cannot be.
    #[error("PodGroup {name:?}: {flaws}")]
    Flaws {
        /// Which.
        name: String,
        /// Each with its field.
        flaws: String,
    },
}

/// One spec and what of its document was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The spec, valid.
    pub spec: PodGroupSpec,
    /// Paths of fields that mean nothing.
    pub ignored: Vec<String>,
}

/// Every PodGroupSpec of a text.
pub fn read(text: &str) -> Result<Vec<Document>, Error> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let values = if is_json { json(text)? } else { yaml(text)? };
    let values: Vec<Value> = values.into_iter().flat_map(flatten).collect();
    if values.is_empty() {
        return Err(Error::Empty);
    }
    values.into_iter().enumerate().map(|(index, value)| document(index + 1, &value)).collect()
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

fn document(number: usize, value: &Value) -> Result<Document, Error> {
    let mut spec: PodGroupSpec =
        go_json::from_value(value.clone()).map_err(|error| Error::Field { number, reason: error.to_string() })?;
    fill(&mut spec);
    let mut ignored = Vec::new();
    let known = serde_json::to_value(&spec).expect("a spec has string keys only");
    unknown_fields(value, &known, "", &mut ignored);
    if let Err(flaws) = spec.validate() {
        let unknown = ignored.iter().map(|field| format!("; {field}: unknown field")).collect::<String>();
        return Err(Error::Flaws { name: spec.name, flaws: sentence(&flaws) + &unknown });
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

/// What must happen so that a group that runs as `current` becomes `wanted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is as wanted.
    Nothing,
    /// Only the number of instances differs.
    Scale(u32),
    /// These fields differ, which cannot be changed in place.
    Unsupported(Vec<String>),
}

/// Compares what runs with what is wanted; versions, times and remembered nodes are the cluster's own.
pub fn change(current: &PodGroupSpec, wanted: &PodGroupSpec) -> Change {
    let strip = |spec: &PodGroupSpec| {
        let mut spec = spec.clone().for_creation(Timestamp::NEVER);
        spec.num_instances = 0;
        serde_json::to_value(spec).expect("a spec has string keys only")
    };
    let mut differing = Vec::new();
    differences(&strip(current), &strip(wanted), "", &mut differing);
    match (differing.is_empty(), u32::try_from(wanted.num_instances)) {
        (true, Ok(number)) if current.num_instances != wanted.num_instances => Change::Scale(number),
        (true, _) => Change::Nothing,
        (false, _) => Change::Unsupported(differing),
    }
}

fn differences(left: &Value, right: &Value, at: &str, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
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
    fn only_the_number_of_instances_can_be_changed() {
        let wanted = one(JSON).spec;
        let running = PodGroupSpec { version: 3, ..wanted.clone().for_creation(Timestamp::from_millis(5)) };
        assert_eq!(change(&running, &wanted), Change::Nothing);
        assert_eq!(change(&running, &PodGroupSpec { num_instances: 5, ..wanted.clone() }), Change::Scale(5));
        let mut other = wanted;
        other.pod.containers[0].image = "j".to_owned();
        other.pod.filters.push("constraint:a==b".to_owned());
        let fields = ["Pod.Containers[0].Image", "Pod.Filters"].map(str::to_owned).to_vec();
        assert_eq!(change(&running, &other), Change::Unsupported(fields));
    }
}
