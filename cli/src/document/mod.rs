//! Reads PodGroupSpecs, or PodSpecs of dependency pods, from a file: JSON or YAML, one or several, each in the form of the API
//! or in the short form ([`crate::short`]). Pure.
//!
//! Keys of a PodGroupSpec match in any case, as in the API. Everything else is strict, because a person wrote the file: an
//! unknown field, a missing `NumInstances` and a value that the cluster would change are errors, and nothing is sent.

pub mod difference;
mod fields;
mod form;
pub(crate) mod problem;
pub(crate) mod suggest;
pub(crate) mod tree;
mod values;

use contract::duplicate_fields;
use contract::lenient_json;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::validate::Flaw;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::short;
use form::DocumentForm;
use problem::{DocumentProblem, report};
use tree::{TextPosition, YamlNode, YamlTree};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it is empty; `deployctl init` writes an example")]
    Empty,
    #[error("it is not {format}: {reason}")]
    Syntax { format: &'static str, reason: String },
    /// Fields that are unknown, missing or have a value that is not allowed, each with its line.
    #[error("{0}")]
    Flaws(String),
}

/// The document of a PodGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The spec, valid. `RestartPolicy` is `always` when the document does not name one.
    pub spec: PodGroupSpec,
    names_restart_policy: bool,
    /// A PodGroupSpec without `Strategy` names Serial; the short form without `strategy` leaves it open.
    names_strategy: bool,
}

impl Document {
    /// A document that names everything.
    pub fn of_spec(spec: PodGroupSpec) -> Self {
        Self { spec, names_restart_policy: true, names_strategy: true }
    }

    /// The spec to apply over a group that exists: without a named restart policy or strategy the group keeps its own, and a
    /// paused group stays paused.
    pub fn over(&self, current: &PodGroupSpec) -> PodGroupSpec {
        let mut spec = self.spec.clone();
        spec.paused |= current.paused;
        if !self.names_restart_policy {
            spec.restart_policy = current.restart_policy;
        }
        if !self.names_strategy {
            let kept = PodGroupSpec { strategy: current.strategy.clone(), ..spec.clone() };
            // The other settings of the document may need another strategy: `units` needs one that is not Serial.
            if kept.validate_settings().is_ok() {
                return kept;
            }
        }
        spec
    }
}

/// Every PodGroupSpec of a text.
pub fn read(text: &str) -> Result<Vec<Document>, Error> {
    let group = |node: &YamlNode| match form::of(node) {
        Ok(DocumentForm::Spec) => spec_form(text, node),
        Ok(DocumentForm::Short) => short_form(text, node),
        Err(problem) => Err(Error::Flaws(report(text, vec![problem]))),
    };
    nodes(text)?.iter().map(group).collect()
}

/// A group in the form of the API.
fn spec_form(text: &str, node: &YamlNode) -> Result<Document, Error> {
    let mut value = node.to_json();
    let mut flaws = fields::unknown_of_group(&value);
    flaws.extend(values::convert_group(&mut value));
    if fields::given(&value, "NumInstances").is_none() {
        let problem = "is required; write how many instances the group has, such as NumInstances: 3".to_owned();
        flaws.push(Flaw { field: "NumInstances".to_owned(), problem });
    }
    let names_restart_policy = fields::given(&value, "RestartPolicy").is_some();
    refuse(text, node, flaws)?;
    let mut spec: PodGroupSpec = decoded(text, node, value)?;
    if !names_restart_policy {
        spec.restart_policy = RestartPolicy::Always;
    }
    fill(&mut spec);
    refuse(text, node, spec.validate().err().unwrap_or_default())?;
    Ok(Document { spec, names_restart_policy, names_strategy: true })
}

/// A group in the short form.
fn short_form(text: &str, node: &YamlNode) -> Result<Document, Error> {
    let refused = |problems| Error::Flaws(report(text, problems));
    let converted = short::convert(node).map_err(refused)?;
    let flaws = converted.spec.validate().err().unwrap_or_default();
    if !flaws.is_empty() {
        return Err(refused(converted.problems(&flaws)));
    }
    let short::Converted { spec, names_restart_policy, names_strategy, .. } = converted;
    Ok(Document { spec, names_restart_policy, names_strategy })
}

/// The documents of the short form that a compose file stands for, and a line for each key that is left out. `project` is the
/// name of the project when the file names none.
pub fn read_compose(text: &str, project: &str) -> Result<(Vec<String>, Vec<String>), Error> {
    let file = yaml(text)?.into_iter().next().ok_or(Error::Empty)?;
    let converted = short::compose(&file, project).map_err(|problem| Error::Flaws(report(text, vec![problem])))?;
    let documents = converted.documents.iter().map(short::yaml).collect();
    Ok((documents, converted.reports.iter().map(DocumentProblem::line).collect()))
}

/// Every PodSpec of a text.
pub fn read_pods(text: &str) -> Result<Vec<PodSpec>, Error> {
    let pod = |node: &YamlNode| {
        let mut value = node.to_json();
        let mut flaws = fields::unknown_of_pod(&value);
        flaws.extend(values::convert_pod(&mut value));
        refuse(text, node, flaws)?;
        let spec: PodSpec = decoded(text, node, value)?;
        refuse(text, node, spec.validate().err().unwrap_or_default())?;
        Ok(spec)
    };
    nodes(text)?.iter().map(pod).collect()
}

fn nodes(text: &str) -> Result<Vec<YamlNode>, Error> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let nodes = if is_json { json(text)? } else { yaml(text)? };
    let nodes: Vec<YamlNode> = nodes.into_iter().flat_map(flatten).collect();
    if nodes.is_empty() { Err(Error::Empty) } else { Ok(nodes) }
}

fn json(text: &str) -> Result<Vec<YamlNode>, Error> {
    if let Some(reason) = duplicate_fields::problem(text.as_bytes()) {
        return Err(Error::Syntax { format: "JSON", reason });
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut nodes = Vec::new();
    loop {
        let from = values.byte_offset();
        match values.next() {
            None => return Ok(nodes),
            Some(Err(error)) => return Err(Error::Syntax { format: "JSON", reason: error.to_string() }),
            Some(Ok(value)) => nodes.push(tree::json(text, from, &value, values.byte_offset() - from)),
        }
    }
}

fn yaml(text: &str) -> Result<Vec<YamlNode>, Error> {
    tree::yaml(text).map_err(|error| {
        let problem = DocumentProblem { position: error.position, field: String::new(), problem: error.reason };
        Error::Syntax { format: "YAML", reason: report(text, vec![problem]) }
    })
}

fn flatten(node: YamlNode) -> Vec<YamlNode> {
    match node.tree {
        YamlTree::List(items) => items,
        YamlTree::Null => Vec::new(),
        _ => vec![node],
    }
}

fn decoded<S: DeserializeOwned>(text: &str, node: &YamlNode, value: Value) -> Result<S, Error> {
    lenient_json::from_value(value).map_err(|error| {
        let Flaw { field, problem } = error.flaw();
        let problem = in_plain_words(&problem);
        Error::Flaws(report(text, vec![DocumentProblem { position: position(node, &field), field, problem }]))
    })
}

/// What the decoder says, which names types of the program: `invalid type: string "x", expected i64`.
fn in_plain_words(problem: &str) -> String {
    let serde = problem.strip_prefix("invalid type: ").or_else(|| problem.strip_prefix("invalid value: "));
    let found = serde.and_then(|rest| rest.split_once(", expected "));
    let ours = || problem.strip_prefix("expected ").and_then(|rest| rest.split_once(", found "));
    let Some((is, must)) = found.or_else(|| ours().map(|(must, is)| (is, must))) else { return problem.to_owned() };
    let must = match must {
        "i64" | "u32" | "u16" | "u8" | "u64" => "a whole number",
        other if other.starts_with("struct ") || other == "a map" => "a mapping",
        "a sequence" => "a list",
        other => other,
    };
    let is = is.strip_prefix("string ").map_or_else(|| is.to_owned(), |text| format!("the text {text}"));
    format!("must be {must}, is {is}")
}

fn refuse(text: &str, node: &YamlNode, flaws: Vec<Flaw>) -> Result<(), Error> {
    if flaws.is_empty() {
        return Ok(());
    }
    let located = |Flaw { field, problem }| DocumentProblem { position: position(node, &field), field, problem };
    Err(Error::Flaws(report(text, flaws.into_iter().map(located).collect())))
}

#[cfg(test)]
pub(crate) fn every_field() -> PodGroupSpec {
    fields::every_field_of_a_group()
}

/// Where a field of the form of the API is written: its key, or what of its path is there.
fn position(document: &YamlNode, field: &str) -> Option<TextPosition> {
    let mut found = document.members().first().map_or(document.position, |first| first.position);
    // Checks of a dependency pod name its fields as those of a group.
    let field = field.strip_prefix("Pod.").filter(|_| document.member_in_any_case("Pod").is_none()).unwrap_or(field);
    let mut node = document;
    for step in field.split(['.', '[']).map(|step| step.trim_end_matches(']')) {
        if let (YamlTree::List(items), Ok(index)) = (&node.tree, step.parse::<usize>()) {
            let Some(item) = items.get(index) else { break };
            (found, node) = (item.position, item);
        } else {
            let Some(member) = node.member_in_any_case(step) else { break };
            (found, node) = (member.position, &member.node);
        }
    }
    found
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
        assert!(error("Name: [1]\nNumInstances: 1").starts_with("line 1, column 1: Name: "));
        assert!(error("{\"NumInstances\":\"2\"}").contains("NumInstances"));
        let flaws = error("{\"Name\":\"a b\",\"Namespace\":\"a\",\"NumInstances\":1}");
        let misspelt = error("{\"Name\":\"a\",\"Namespce\":\"a\"}");
        assert!(misspelt.contains("Namespce: unknown field"), "{misspelt}");
        assert!(flaws.contains("Name: contains ' '") && flaws.contains("Pod.Containers: must not be empty"), "{flaws}");
    }

    #[test]
    fn a_value_of_another_type_is_explained_without_types_of_the_program() {
        for (text, expected) in [
            ("NumInstances: x", "NumInstances: must be a whole number, is the text \"x\""),
            ("NumInstances: 1\nPaused: 5", "Paused: must be a boolean, is integer `5`"),
            ("NumInstances: 1\nPod: 5", "Pod: must be a mapping, is a number"),
            ("NumInstances: 1\nPod: {Containers: 5}", "Pod.Containers: must be a list, is a number"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert_eq!(error.lines().next().unwrap().split_once(": ").unwrap().1, expected);
        }
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
        let expected = "\
line 2, column 1: NumInstances: is required; write how many instances the group has, such as NumInstances: 3
    2 | Name: a
      | ^^^^
line 4, column 1: NumInstance: unknown field; did you mean NumInstances?
    4 | NumInstance: 3
      | ^^^^^^^^^^^
line 7, column 27: Pod.Containers[0].Memory: unknown field; did you mean Pod.Containers[0].MemoryLimit?
    7 |   Containers: [{Image: i, Memory: 5, LogConfig: {Config: {max-size: 1m}}}]
      |                           ^^^^^^";
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
