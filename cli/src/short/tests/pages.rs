//! The generated pages are those of the table.

use std::path::Path;

use serde_json::Value;

use super::super::keys::{self, KeyScope};
use super::super::{explain, reference, schema};

/// The file equals `text`; `deploy/golden` writes it.
fn pinned(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("DEPLOYD_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("the file is written");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == text, "{} differs from cli/src/short/keys: run deploy/golden", path.display());
}

#[test]
fn the_reference_is_that_of_the_table() {
    pinned("docs/spec.md", &reference());
}

#[test]
fn the_schema_is_that_of_the_table() {
    let schema = schema();
    pinned("docs/podgroup.schema.json", &format!("{}\n", serde_json::to_string_pretty(&schema).unwrap()));
    for key in keys::all() {
        let mut places = vec![&schema];
        for step in key.path.split('.') {
            let name = step.trim_end_matches("[]");
            places = places.into_iter().flat_map(variants).filter_map(|place| place["properties"].get(name)).collect();
            if step.ends_with("[]") {
                places = places.into_iter().filter_map(|place| place.get("items")).collect();
            }
        }
        assert!(!places.is_empty(), "{} is not in the schema", key.path);
    }
    let item = &schema["properties"]["containers"]["items"]["properties"];
    for key in keys::all().filter(|key| key.scope == KeyScope::Container && key.parent().is_empty()) {
        assert!(item.get(key.path).is_some(), "{} is not in the schema of a container", key.path);
    }
}

#[test]
fn every_yaml_example_of_the_documents_is_valid() {
    for (page, least) in [("README.md", 1), ("docs/spec.md", 1)] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page)).unwrap();
        let blocks: Vec<&str> = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(blocks.len() >= least, "{page}");
        for block in blocks {
            super::spec(block);
        }
    }
}

fn variants(schema: &Value) -> Vec<&Value> {
    let any = schema["anyOf"].as_array().map(|variants| variants.iter().collect());
    any.unwrap_or_else(|| vec![schema])
}

#[test]
fn a_key_is_explained_with_default_rules_and_example() {
    let expected = "\
health.every
  The time between two checks.

  Default       10s
  Rules         10s to 24h
  Example       every: 30s
  PodGroupSpec  Pod.HealthConfig.options.interval";
    assert_eq!(explain(Some("health.every")).as_deref(), Ok(expected));
    assert_eq!(explain(Some("Pod.HealthConfig.options.interval")).as_deref(), Ok(expected));
    assert_eq!(explain(Some("every")), Err("did you mean health.every?".to_owned()), "several keys have that name");
    assert!(explain(Some("failBack")).is_ok(), "one key has that name");
    let health = explain(Some("health")).unwrap();
    assert!(health.contains("\nKeys:\n  health.command  ") && !health.contains('`'), "{health}");
    assert!(explain(Some("needs.pod")).is_ok() && explain(Some("containers.image")).is_err());
}

#[test]
fn a_misspelt_key_is_explained_by_the_one_that_is_meant() {
    for (wrong, meant) in [
        ("healt.every", "did you mean health.every?"),
        ("environment", "did you mean env?"),
        ("memroy", "did you mean memory?"),
        ("secrets", "`deployctl explain` lists all keys"),
    ] {
        assert_eq!(explain(Some(wrong)), Err(meant.to_owned()), "{wrong}");
    }
}

#[test]
fn all_keys_are_listed() {
    let list = explain(None).unwrap();
    for key in keys::all() {
        assert!(list.contains(&format!("\n  {} ", key.path)), "{}", key.path);
    }
}
