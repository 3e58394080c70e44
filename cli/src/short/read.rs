//! Reads the short form: a tree in, the JSON of a PodGroupSpec out, and where each field was written. Pure.

use std::collections::BTreeMap;

use contract::check::CheckKind;
use contract::spec::PodGroupSpec;
use contract::state::RestartPolicy;
use contract::validate::Flaw;
use serde_json::{Map, Value, json};

use super::keys::{self, KeyKind, KeyScope, ShortKey};
use super::{translate, values};
use crate::document::problem::DocumentProblem;
use crate::document::suggest;
use crate::document::tree::{TextPosition, YamlMember, YamlNode, YamlTree};

/// A document of the short form as a spec.
pub(crate) struct Converted<'a> {
    pub(crate) spec: PodGroupSpec,
    pub(crate) names_restart_policy: bool,
    pub(crate) names_strategy: bool,
    origins: BTreeMap<String, Origin<'a>>,
    begins: Option<TextPosition>,
}

/// Where a field was written.
struct Origin<'a> {
    /// The path in the short form.
    path: String,
    key: Option<TextPosition>,
    node: &'a YamlNode,
}

/// The mapping that is being read.
struct Level {
    /// The path of its keys in the table, up to the key.
    prefix: String,
    /// The same with indexes, for people.
    shown: String,
    /// The indexes of the lists that it is in.
    indexes: Vec<usize>,
    /// Which keys it may have; only the top level and the items of `containers` have a choice.
    scopes: &'static [KeyScope],
}

struct SpecReader<'a> {
    root: Value,
    origins: BTreeMap<String, Origin<'a>>,
    problems: Vec<DocumentProblem>,
}

/// The spec that a document of the short form stands for, or everything that is wrong with its keys.
pub(crate) fn convert(document: &YamlNode) -> Result<Converted<'_>, Vec<DocumentProblem>> {
    let begins = begin(document);
    let root = json!({"Pod": {"Annotation": "{}"}});
    let mut reader = SpecReader { root, origins: BTreeMap::new(), problems: Vec::new() };
    let has_list = document.member("containers").is_some();
    let scopes: &[KeyScope] = if has_list { &[KeyScope::Group] } else { &[KeyScope::Group, KeyScope::Container] };
    // Without `containers` the keys at the top level belong to the first container.
    let top = Level { prefix: String::new(), shown: String::new(), indexes: vec![0], scopes };
    reader.members(document.members(), &top);
    reader.require(document, begins);
    let names_strategy = reader.strategy(document);
    reader.units();
    let names_restart_policy = reader.origins.contains_key("RestartPolicy");
    let SpecReader { root, origins, mut problems } = reader;
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut converted =
        Converted { spec: PodGroupSpec::default(), names_restart_policy, names_strategy, origins, begins };
    match contract::lenient_json::from_value::<PodGroupSpec>(root) {
        Ok(spec) => converted.spec = completed(spec, names_restart_policy),
        Err(error) => problems.push(converted.problem(&error.flaw())),
    }
    if problems.is_empty() { Ok(converted) } else { Err(problems) }
}

/// The spec with the defaults of the short form.
fn completed(mut spec: PodGroupSpec, names_restart_policy: bool) -> PodGroupSpec {
    if !names_restart_policy {
        spec.restart_policy = RestartPolicy::Always;
    }
    if spec.namespace.is_empty() {
        spec.namespace = default_namespace(&spec.name).to_owned();
    }
    spec.pod.name.clone_from(&spec.name);
    spec.pod.namespace.clone_from(&spec.namespace);
    spec
}

/// The namespace of a group that names none.
pub(super) fn default_namespace(name: &str) -> &str {
    name.split_once('.').map_or(name, |(first, _)| first)
}

/// The check that `health` is short for: with `http` or `port` it is the readiness check.
fn readiness(key: &ShortKey, members: &[YamlMember]) -> Option<&'static ShortKey> {
    let is_short = key.path == "health" && members.iter().any(|member| matches!(member.key.as_str(), "http" | "port"));
    keys::by_path("health.readiness").filter(|_| is_short)
}

fn is_check(key: &str) -> bool {
    CheckKind::ALL.iter().any(|kind| kind.word() == key)
}

/// Where a document begins: its first key.
fn begin(document: &YamlNode) -> Option<TextPosition> {
    document.members().first().map_or(document.position, |first| first.position)
}

impl<'a> SpecReader<'a> {
    fn members(&mut self, members: &'a [YamlMember], level: &Level) {
        for member in members {
            match level.key(&member.key) {
                Some(key) => self.member(key, member, level),
                None => {
                    let problem = level.unknown(&member.key);
                    self.refuse(member.position, format!("{}{}", level.shown, member.key), problem);
                }
            }
        }
    }

    fn member(&mut self, key: &'static ShortKey, member: &'a YamlMember, level: &Level) {
        let path = format!("{}{}", level.shown, member.key);
        let origin = || Origin { path: path.clone(), key: member.position, node: &member.node };
        match (key.kind, &member.node.tree) {
            (KeyKind::Section(_), YamlTree::Map(members)) => {
                self.put(key, &level.indexes, json!({}), origin());
                match readiness(key, members) {
                    Some(check) => self.health(check, members, (&path, origin()), level),
                    None => self.members(members, &level.inside(key, &path)),
                }
            }
            (KeyKind::Section(_), tree)
                if key.plain().is_some() && !matches!(tree, YamlTree::Null | YamlTree::List(_)) =>
            {
                self.plain(key, &member.node, level, origin());
            }
            (KeyKind::Sections(_), YamlTree::List(items)) => {
                self.put(key, &level.indexes, json!([]), origin());
                items.iter().enumerate().for_each(|(index, item)| self.item(key, item, &level.item(key, index, &path)));
            }
            _ => self.leaf(key, &member.node, &level.indexes, origin()),
        }
    }

    /// `health` with a check of the agent in it: the other checks belong to `health`, everything else to `check`.
    fn health(
        &mut self,
        check: &'static ShortKey,
        members: &'a [YamlMember],
        (path, origin): (&str, Origin<'a>),
        level: &Level,
    ) {
        self.put(check, &level.indexes, json!({}), origin);
        for member in members {
            let parent = if is_check(&member.key) { "health" } else { check.path };
            if let Some(parent) = keys::by_path(parent) {
                self.members(std::slice::from_ref(member), &level.inside(parent, path));
            }
        }
    }

    /// An item of a list of mappings.
    fn item(&mut self, key: &'static ShortKey, item: &'a YamlNode, inside: &Level) {
        let path = inside.shown.trim_end_matches('.');
        let origin = || Origin { path: path.to_owned(), key: item.position, node: item };
        let field = with_indexes(&format!("{}[]", key.spec), &inside.indexes);
        set(&mut self.root, &field, json!({}));
        self.origins.insert(field, origin());
        match &item.tree {
            YamlTree::Map(members) => self.members(members, inside),
            YamlTree::Text(_) if key.plain().is_some() => self.plain(key, item, inside, origin()),
            _ => {
                let example = key.example.trim_start_matches('[').trim_end_matches(']');
                self.refuse(item.position, path.to_owned(), format!("must be an item such as {example}"));
            }
        }
    }

    /// A plain value in the place of a mapping.
    fn plain(&mut self, key: &'static ShortKey, node: &'a YamlNode, level: &Level, origin: Origin<'a>) {
        if let Some(plain) = key.plain() {
            self.leaf(plain, node, &level.indexes, origin);
        }
    }

    fn leaf(&mut self, key: &'static ShortKey, node: &'a YamlNode, indexes: &[usize], origin: Origin<'a>) {
        match values::to_json(key, node) {
            Ok(value) => self.put(key, indexes, value, origin),
            Err(problem) => match values::wrong_part(key, node) {
                Some(part) => {
                    let path = format!("{}{}", origin.path, part.path);
                    self.refuse(part.position.or(origin.key), path, part.problem);
                }
                None => self.refuse(node.position.or(origin.key), origin.path, problem),
            },
        }
    }

    /// Notes the value of a field; the same field cannot be given under two keys.
    fn put(&mut self, key: &ShortKey, indexes: &[usize], value: Value, origin: Origin<'a>) {
        let field = with_indexes(key.spec, indexes);
        if let Some(first) = self.origins.get(&field) {
            let problem = format!("means the same as {}; keep one of them", first.path);
            return self.refuse(origin.key, origin.path, problem);
        }
        set(&mut self.root, &field, value);
        self.origins.insert(field, origin);
    }

    fn refuse(&mut self, position: Option<TextPosition>, field: String, problem: String) {
        self.problems.push(DocumentProblem { position, field, problem });
    }

    fn require(&mut self, document: &YamlNode, begins: Option<TextPosition>) {
        for (field, path, remedy) in [
            ("Name", "name", "write the name of the group, such as name: shop.web"),
            ("NumInstances", "replicas", "write how many instances the group has, such as replicas: 3"),
            ("Pod.Containers[0].Image", "image", "write the image of the container, such as image: nginx:1.27"),
        ] {
            // The checks of a spec name the item of `containers` that has no image.
            let is_elsewhere = path == "image" && document.member("containers").is_some();
            // A value that is wrong has been reported.
            let is_named = self.origins.contains_key(field) || self.problems.iter().any(|it| it.field == path);
            if !is_named && !is_elsewhere {
                self.refuse(begins, path.to_owned(), format!("is required; {remedy}"));
            }
        }
    }

    /// The default strategy is a rolling update; `strategy: serial` is a group without a strategy. Returns whether the document
    /// names one.
    fn strategy(&mut self, document: &YamlNode) -> bool {
        let Some(member) = document.member("strategy") else {
            self.root["Strategy"] = json!({"Type": "RollingUpdate"});
            return false;
        };
        let is_word = matches!(member.node.tree, YamlTree::Text(_));
        let strategy = self.root.get_mut("Strategy").and_then(Value::as_object_mut);
        if let Some(strategy) = strategy {
            let kind = strategy.entry("Type").or_insert_with(|| json!("RollingUpdate"));
            if is_word && *kind == "Serial" {
                self.root["Strategy"] = Value::Null;
            }
        }
        true
    }

    /// A label says what the units are: `zone` is the type Zone, any other one is a label of cells.
    fn units(&mut self) {
        let Some(units) = self.root.get_mut("Topology").and_then(Value::as_object_mut) else { return };
        if units.contains_key("UnitType") {
            return;
        }
        let label = units.remove("UnitLabel").and_then(|label| label.as_str().map(str::to_owned));
        let (kind, label) = match label.as_deref() {
            Some("zone") => ("Zone", None),
            None | Some("cell") => ("Cell", None),
            Some(other) => ("Cell", Some(json!(other))),
        };
        units.insert("UnitType".to_owned(), json!(kind));
        units.extend(label.map(|label| ("UnitLabel".to_owned(), label)));
    }
}

impl Level {
    fn key(&self, name: &str) -> Option<&'static ShortKey> {
        let path = format!("{}{name}", self.prefix);
        let item = format!("containers[].{name}");
        let is_item = self.scopes.contains(&KeyScope::Item);
        let found = |key: &&ShortKey| key.path == path || (is_item && key.path == item);
        let key = keys::all().filter(|key| self.scopes.contains(&key.scope)).find(found)?;
        Some(key)
    }

    /// The names of the keys that may be written here, and the words that stand for them.
    fn known(&self) -> impl Iterator<Item = &'static ShortKey> {
        let (scopes, prefix) = (self.scopes, self.prefix.trim_end_matches('.').to_owned());
        let is_here =
            move |key: &&ShortKey| key.parent() == prefix || (prefix.is_empty() && key.scope == KeyScope::Item);
        keys::all().filter(move |key| scopes.contains(&key.scope)).filter(is_here)
    }

    fn unknown(&self, name: &str) -> String {
        let synonym = |key: &&ShortKey| key.also.contains(&name) || key.spec.rsplit('.').next() == Some(name);
        let names: Vec<&str> = self.known().map(ShortKey::name).collect();
        let others: Vec<&str> = self.known().flat_map(|key| key.also.iter().copied()).collect();
        let resembling = suggest::closest(name, &names).or_else(|| suggest::near(name, &others));
        let is_meant = |key: &&ShortKey| resembling.is_some_and(|word| key.name() == word || key.also.contains(&word));
        if let Some(meant) = self.known().find(synonym).or_else(|| self.known().find(is_meant)) {
            return format!("unknown key; did you mean {}?", meant.name());
        }
        let is_container = keys::all().any(|key| key.path == name && key.scope == KeyScope::Container);
        if is_container && self.prefix.is_empty() && !self.scopes.contains(&KeyScope::Container) {
            return "belongs to a container; move it into an item of containers".to_owned();
        }
        let elsewhere = keys::all().find(|key| key.name() == name || synonym(key));
        match elsewhere {
            Some(key) => format!("unknown key; did you mean {}?", key.path),
            None => "unknown key; `deployctl explain` lists all keys".to_owned(),
        }
    }

    fn inside(&self, key: &ShortKey, path: &str) -> Self {
        let (prefix, shown) = (format!("{}.", key.path), format!("{path}."));
        Self { prefix, shown, indexes: self.indexes.clone(), scopes: ALL_SCOPES }
    }

    fn item(&self, key: &ShortKey, index: usize, path: &str) -> Self {
        let is_container = key.path == "containers";
        let prefix = if is_container { String::new() } else { format!("{}[].", key.path) };
        let scopes = if is_container { ITEM_SCOPES } else { ALL_SCOPES };
        // The list of containers, and the lists of the pod, are the outermost ones.
        let mut indexes = if key.scope == KeyScope::Group { Vec::new() } else { self.indexes.clone() };
        indexes.push(index);
        Self { prefix, shown: format!("{path}[{index}]."), indexes, scopes }
    }
}

const ALL_SCOPES: &[KeyScope] = &[KeyScope::Group, KeyScope::Container, KeyScope::Item];
const ITEM_SCOPES: &[KeyScope] = &[KeyScope::Container, KeyScope::Item];

impl Converted<'_> {
    /// The flaws of the spec as problems of the document.
    pub(crate) fn problems(&self, flaws: &[Flaw]) -> Vec<DocumentProblem> {
        // These fields follow from the name, whose flaw is shown already.
        let follows = |field: &str| match field {
            "Pod.Name" | "Pod.Namespace" => true,
            "Namespace" => !self.origins.contains_key(field),
            _ => false,
        };
        flaws.iter().filter(|flaw| !follows(&flaw.field)).map(|flaw| self.problem(flaw)).collect()
    }

    /// A flaw of the spec as a problem of the document.
    fn problem(&self, flaw: &Flaw) -> DocumentProblem {
        let problem = translate::to_short(&flaw.problem);
        let mut field = flaw.field.as_str();
        loop {
            if let Some(origin) = self.origins.get(field) {
                let rest = &flaw.field[field.len()..];
                let position = member_of(origin.node, rest).or(origin.key);
                let shown =
                    translate::key(&flaw.field).filter(|_| rest.starts_with('.')).map(|key| format!(".{}", key.name()));
                let field = format!("{}{}", origin.path, shown.as_deref().unwrap_or(rest));
                return DocumentProblem { position, field, problem };
            }
            let Some(end) = field.rfind(['.', '[']) else { break };
            field = &field[..end];
        }
        DocumentProblem { position: self.begins, field: translate::path(&flaw.field), problem }
    }
}

/// The position of a part of a value: `[2]` of a list, `.name` of a mapping; of the value itself when there is no part.
fn member_of(node: &YamlNode, rest: &str) -> Option<TextPosition> {
    match (&node.tree, rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))) {
        (YamlTree::List(items), Some((index, _))) => items.get(index.parse::<usize>().ok()?)?.position,
        (YamlTree::Map(members), Some((index, _))) => members.get(index.parse::<usize>().ok()?)?.position,
        (YamlTree::Map(_), None) => node.member(rest.trim_start_matches('.')).and_then(|member| member.position),
        (YamlTree::List(_), None) => None,
        _ => node.position,
    }
}

/// `Pod.Containers[].Image` with the index of each list.
pub(super) fn with_indexes(spec: &str, indexes: &[usize]) -> String {
    let mut parts = spec.split("[]");
    let mut path = parts.next().unwrap_or_default().to_owned();
    for (index, part) in indexes.iter().zip(parts) {
        path.push_str(&format!("[{index}]{part}"));
    }
    path
}

/// Writes a value at a path, and creates the objects and lists on the way.
fn set(root: &mut Value, path: &str, value: Value) {
    let mut place = root;
    for step in path.split('.') {
        let (name, index) = match step.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (step, None),
        };
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[name];
        if let Some(index) = index {
            if !place.is_array() {
                *place = json!([]);
            }
            // Items are written in their order, so one more is always enough.
            if let Some(items) = place.as_array_mut().filter(|items| items.len() <= index) {
                items.push(json!({}));
            }
            place = &mut place[index];
        }
    }
    *place = value;
}
