//! The JSON schema of the short form. Pure.

use serde_json::{Map, Value, json};

use super::keys::{self, KeyKind, KeyScope, ShortKey};

/// The schema, for editors and other programs.
pub(crate) fn schema() -> Value {
    let mut top = members("", |scope| scope != KeyScope::Item);
    let item = members("", |scope| scope == KeyScope::Container);
    let named = keys::all().filter(|key| key.scope == KeyScope::Item).map(|key| (key.name().to_owned(), of(key)));
    let item: Map<String, Value> = item.into_iter().chain(named).collect();
    let containers = top.get_mut("containers").and_then(Value::as_object_mut);
    if let Some(containers) = containers {
        containers.insert("items".to_owned(), mapping(&item));
    }
    let mut schema = mapping(&top);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("PodGroup of deployd, short form");
    schema["required"] = json!(["name", "replicas"]);
    schema["oneOf"] = json!([{"required": ["image"]}, {"required": ["containers"]}]);
    schema
}

fn members(parent: &str, is_in_scope: impl Fn(KeyScope) -> bool) -> Map<String, Value> {
    let here = keys::all().filter(|key| key.parent() == parent && is_in_scope(key.scope));
    here.map(|key| (key.name().to_owned(), of(key))).collect()
}

fn mapping(properties: &Map<String, Value>) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn of(key: &ShortKey) -> Value {
    let mut schema = of_kind(key);
    schema["description"] = json!(key.meaning);
    schema
}

fn of_kind(key: &ShortKey) -> Value {
    let scalar = json!(["string", "number", "boolean"]);
    match key.kind {
        KeyKind::Text => json!({"type": ["string", "number"]}),
        KeyKind::Number => match key.range() {
            Some(range) => json!({"type": "integer", "minimum": range.least, "maximum": range.most}),
            None => json!({"type": "integer"}),
        },
        KeyKind::Flag => json!({"type": "boolean"}),
        KeyKind::Words | KeyKind::Filters => json!({"type": "array", "items": {"type": scalar}}),
        KeyKind::Seconds | KeyKind::Bytes | KeyKind::Amount => json!({"type": ["string", "integer"]}),
        KeyKind::Cores => json!({"type": ["number", "string"]}),
        KeyKind::Choice(choices) => json!({"enum": choices.iter().map(|(word, _)| *word).collect::<Vec<_>>()}),
        KeyKind::Texts => json!({"type": "object", "additionalProperties": {"type": scalar}}),
        KeyKind::Amounts => json!({"type": "object", "additionalProperties": {"type": ["string", "integer"]}}),
        KeyKind::Environment => {
            let list = json!({"type": "array", "items": {"type": "string"}});
            json!({"anyOf": [{"type": "object", "additionalProperties": {"type": scalar}}, list]})
        }
        KeyKind::Ports => {
            json!({"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": 65535}})
        }
        KeyKind::Json => json!({"type": ["string", "object"]}),
        KeyKind::Section(_) => either(key, mapping(&members(key.path, |_| true))),
        KeyKind::Sections(_) => {
            let items = either(key, mapping(&members(&format!("{}[]", key.path), |_| true)));
            json!({"type": "array", "items": items})
        }
    }
}

/// The mapping, or the plain value that stands for it.
fn either(key: &ShortKey, mapping: Value) -> Value {
    match key.plain() {
        Some(plain) => json!({"anyOf": [of_kind(plain), mapping]}),
        None => mapping,
    }
}
