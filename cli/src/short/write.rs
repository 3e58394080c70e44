//! Writes a PodGroupSpec in the short form. Pure.

use contract::spec::{CloudVolume, ContainerSpec, Dependency, PodGroupSpec, PodSpec};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::keys::{self, KeyKind, KeyScope, ShortKey};
use super::read::{default_namespace, with_indexes};
use super::values::{self, Written};

/// Fields that are written although they have their defaults, because a group that exists keeps its own without them.
const ALWAYS: [&str; 3] = ["NumInstances", "RestartPolicy", "Strategy"];

/// The short form of a spec, as YAML. Reading it gives the same spec.
///
/// What the cluster sets (versions and times of group and pod) is left out. Keys have the order of `docs/spec.md`, and a key
/// with its default is left out, so equal specs have equal texts. `strategy` and `restart` are always written: without them,
/// `apply` leaves those of a group that exists.
pub fn to_short_yaml(spec: &PodGroupSpec) -> String {
    yaml(&short(spec))
}

/// A mapping of the short form as YAML.
pub(crate) fn yaml(document: &Written) -> String {
    // A mapping with keys that are texts can always be written.
    serde_saphyr::to_string(document).unwrap_or_default()
}

/// A document of these texts, which are quoted as YAML needs it.
pub(crate) fn document(texts: &[(&str, String)], replicas: u32, port: Option<u16>, env: &[String]) -> String {
    let text = |text: &String| Written::Text(text.clone());
    let mut members: Vec<(String, Written)> = texts.iter().map(|(key, it)| ((*key).to_owned(), text(it))).collect();
    members.push(("replicas".to_owned(), Written::Number(replicas.into())));
    members.extend(port.map(|port| ("port".to_owned(), Written::Number(port.into()))));
    members.extend((!env.is_empty()).then(|| ("env".to_owned(), Written::List(env.iter().map(text).collect()))));
    yaml(&Written::Map(members))
}

fn short(spec: &PodGroupSpec) -> Written {
    let spec = normal(spec);
    let writer = SpecWriter { defaults: normal(&defaults()), spec: &spec };
    let containers = spec["Pod"]["Containers"].as_array().map_or(0, Vec::len);
    let needs_list = containers != 1 || writer.has_item_keys();
    let mut members = Vec::new();
    for key in keys::all().filter(|key| key.parent().is_empty()) {
        match key.scope {
            KeyScope::Container if !needs_list => members.extend(writer.member(key, &[0])),
            KeyScope::Group if key.path == "containers" => {
                members.extend(needs_list.then(|| ("containers".to_owned(), writer.containers(containers))));
            }
            KeyScope::Group => members.extend(writer.member(key, &[])),
            KeyScope::Container | KeyScope::Item => {}
        }
    }
    Written::Map(members)
}

/// The spec as JSON, with what the short form says in another way.
fn normal(spec: &PodGroupSpec) -> Value {
    let mut json = serde_json::to_value(spec).expect("a spec has string keys only");
    if spec.namespace == default_namespace(&spec.name) {
        json["Namespace"] = json!("");
    }
    // A group without a strategy is `strategy: serial`.
    if spec.strategy.is_none() {
        json["Strategy"] = json!("serial");
    }
    if let Some(units) = &spec.topology {
        let label = match (units.unit_type, units.unit_label.as_str()) {
            (contract::rollout::UnitType::Cell, "") => Some("cell"),
            (contract::rollout::UnitType::Zone, "") => Some("zone"),
            (contract::rollout::UnitType::Cell, label) if !matches!(label, "cell" | "zone") => Some(label),
            _ => None,
        };
        if let Some(label) = label {
            json["Topology"]["UnitLabel"] = json!(label);
            json["Topology"]["UnitType"] = Value::Null;
        }
    }
    json
}

/// A spec with every list that the table looks into, and nothing else.
fn defaults() -> PodGroupSpec {
    let container = ContainerSpec { cloud_volumes: vec![CloudVolume::default()], ..ContainerSpec::default() };
    let pod = PodSpec {
        containers: vec![container],
        dependencies: vec![Dependency::default()],
        annotation: "{}".to_owned(),
        ..PodSpec::default()
    };
    PodGroupSpec { pod, ..PodGroupSpec::default() }
}

struct SpecWriter<'a> {
    spec: &'a Value,
    defaults: Value,
}

impl SpecWriter<'_> {
    /// Whether a container has keys that the top level has no place for.
    fn has_item_keys(&self) -> bool {
        let mut keys = keys::all().filter(|key| key.scope == KeyScope::Item);
        keys.any(|key| self.member(key, &[0]).is_some())
    }

    fn containers(&self, count: usize) -> Written {
        let is_container = |key: &&ShortKey| match key.scope {
            KeyScope::Container => key.parent().is_empty(),
            KeyScope::Item => true,
            KeyScope::Group => false,
        };
        let one = |index| {
            Written::Map(keys::all().filter(is_container).filter_map(|key| self.member(key, &[index])).collect())
        };
        Written::List((0..count).map(one).collect())
    }

    /// A key with its value, unless the field has its default.
    fn member(&self, key: &'static ShortKey, indexes: &[usize]) -> Option<(String, Written)> {
        if key.is_alias {
            return None;
        }
        let value = at(self.spec, &with_indexes(key.spec, indexes)).filter(|value| !value.is_null())?;
        let zeros: Vec<usize> = indexes.iter().map(|_| 0).collect();
        let usual = at(&self.defaults, &with_indexes(key.spec, &zeros));
        let written = match key.kind {
            KeyKind::Section(_) if value.is_object() => self.section(key, indexes, usual.is_some())?,
            KeyKind::Sections(_) => self.sections(key, indexes, value)?,
            _ if usual == Some(value) && !ALWAYS.contains(&key.spec) => return None,
            _ => values::of_json(key, value),
        };
        Some((key.name().to_owned(), written))
    }

    /// The mapping of a section. A section that every spec has is left out when all its keys are.
    fn section(&self, key: &'static ShortKey, indexes: &[usize], is_always_there: bool) -> Option<Written> {
        let inside = keys::all().filter(|inner| inner.parent() == key.path && inner.scope == key.scope);
        let members: Vec<(String, Written)> = inside.filter_map(|inner| self.member(inner, indexes)).collect();
        if members.is_empty() && is_always_there {
            return None;
        }
        Some(shortened(key, members))
    }

    fn sections(&self, key: &'static ShortKey, indexes: &[usize], value: &Value) -> Option<Written> {
        let count = value.as_array().map(Vec::len).filter(|count| *count > 0)?;
        let parent = format!("{}[]", key.path);
        let one = |index| {
            let indexes: Vec<usize> = indexes.iter().copied().chain([index]).collect();
            let inside = keys::all().filter(|inner| inner.parent() == parent);
            shortened(key, inside.filter_map(|inner| self.member(inner, &indexes)).collect())
        };
        Some(Written::List((0..count).map(one).collect()))
    }
}

/// The plain value where it says everything. `{type: serial}` stays a mapping: the word stands for a group without a strategy.
fn shortened(key: &'static ShortKey, mut members: Vec<(String, Written)>) -> Written {
    let plain = key.plain().map(ShortKey::name);
    let is_plain = members.len() == 1 && plain == Some(members[0].0.as_str());
    if is_plain && members[0].1 != Written::Text("serial".to_owned()) {
        return members.swap_remove(0).1;
    }
    Written::Map(members)
}

/// The value at a path such as `Pod.Containers[0].Image`.
fn at<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(root, |place, step| match step.split_once('[') {
        Some((name, index)) => place.get(name)?.get(index.trim_end_matches(']').parse::<usize>().ok()?),
        None => place.get(step),
    })
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Cores(cores) => serializer.serialize_f64(*cores),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
                map.end()
            }
        }
    }
}
