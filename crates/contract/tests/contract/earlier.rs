//! Messages and records of version 1: this build decodes all of them and loses no field.
//!
//! The files in `golden/v1` are never rewritten. A new optional field is fine; a removed or renamed field, or another
//! meaning, fails here.

use std::path::PathBuf;

use contract::record::{
    CallbacksRecord, Cursor, DependencyRecord, GroupRecord, NodeRecord, PairsRecord, PlacementRecord, RevisionsRecord,
    SchemaRecord,
};
use contract::switches::{ConstraintsRecord, EngineRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The message decoded and serialised again by this build.
fn again<T: DeserializeOwned + Serialize>(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_str::<T>(text)?)
}

/// Decodes a file as the type that its name gives.
fn read(name: &str, text: &str) -> Result<Value, serde_json::Error> {
    match name {
        "dead-letter" => again::<contract::notice::DeadLetter>(text),
        "event" => again::<contract::event::Event>(text),
        "inspect-reply" => again::<contract::query::InspectReply>(text),
        "inspect-request" => again::<contract::query::InspectRequest>(text),
        "notice" => again::<contract::notice::Notice>(text),
        "pod-facts-released" => again::<contract::report::PodFacts>(text),
        "record-callbacks" => again::<CallbacksRecord>(text),
        "record-constraints" => again::<ConstraintsRecord>(text),
        "record-cursor" => again::<Cursor>(text),
        "record-dependency" => again::<DependencyRecord>(text),
        "record-engine" => again::<EngineRecord>(text),
        "record-history" => again::<contract::history::HistoryRecord>(text),
        "record-node" => again::<NodeRecord>(text),
        "record-pairs" => again::<PairsRecord>(text),
        "record-revisions" => again::<RevisionsRecord>(text),
        "record-schema" => again::<SchemaRecord>(text),
        _ if name.starts_with("record-group") => again::<GroupRecord>(text),
        _ if name.starts_with("record-placement") => again::<PlacementRecord>(text),
        _ if name.starts_with("answer-") => again::<contract::query::Reply>(text),
        _ if name.starts_with("command-") => again::<contract::command::Command>(text),
        _ if name.starts_with("order-reply-") => again::<contract::order::OrderReply>(text),
        _ if name.starts_with("order-") => again::<contract::order::OrderMessage>(text),
        _ if name.starts_with("outcome-") => again::<contract::command::Outcome>(text),
        _ if name.starts_with("query-") => again::<contract::query::Query>(text),
        _ if name.starts_with("report-") => again::<contract::report::ReportMessage>(text),
        _ => panic!("{name}: unknown kind of message"),
    }
}

/// Fields of `earlier` that `now` lacks.
fn lost(earlier: &Value, now: &Value, at: &str) -> Vec<String> {
    match (earlier, now) {
        (Value::Object(earlier), Value::Object(now)) => {
            let missing = Value::Null;
            let compare = |(key, value)| lost(value, now.get(key).unwrap_or(&missing), &format!("{at}/{key}"));
            earlier.iter().flat_map(compare).collect()
        }
        (Value::Array(earlier), Value::Array(now)) if earlier.len() == now.len() => {
            let pairs = earlier.iter().zip(now).enumerate();
            pairs.flat_map(|(index, (earlier, now))| lost(earlier, now, &format!("{at}/{index}"))).collect()
        }
        _ if earlier == now => Vec::new(),
        _ => vec![format!("{at}: was {earlier}, is {now}")],
    }
}

#[test]
fn everything_version_1_wrote_is_read_and_nothing_of_it_is_lost() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/v1");
    let mut read_files = 0;
    for entry in std::fs::read_dir(&folder).expect("golden/v1").flatten() {
        let path = entry.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let text = std::fs::read_to_string(&path).expect("text");
        let now = read(&name, &text).unwrap_or_else(|error| panic!("{name} of version 1 is not read: {error}"));
        let earlier = serde_json::from_str(&text).expect("JSON");
        assert_eq!(lost(&earlier, &now, &name), Vec::<String>::new());
        read_files += 1;
    }
    assert!(read_files > 100, "only {read_files} files: the folder is not whole");
}

#[test]
fn a_removed_field_is_detected() {
    let (earlier, now) = (serde_json::json!({"a": 1, "b": [1, {"c": 2}]}), serde_json::json!({"b": [1, {}], "d": 3}));
    assert_eq!(lost(&earlier, &now, ""), ["/a: was 1, is null", "/b/1/c: was 2, is null"]);
}
