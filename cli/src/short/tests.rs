//! The table, reading and writing agree, and nothing is lost.

mod compose;
mod errors;
mod identity;
mod pages;

use contract::spec::PodGroupSpec;
use serde_json::{Value, json};

use super::keys::{self, KeyKind, KeyScope, ShortKey};
use super::to_short_yaml;
use crate::document::{self, Document};

/// Fields of a PodGroupSpec that the cluster sets, or that equal another one.
const WITHOUT_KEY: [&str; 8] =
    ["Version", "CreatedAt", "UpdatedAt", "Pod.Name", "Pod.Namespace", "Pod.Version", "Pod.CreatedAt", "Pod.UpdatedAt"];

/// The only group of a text.
fn one(text: &str) -> Document {
    let mut documents = document::read(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(documents.len(), 1, "{text}");
    documents.swap_remove(0)
}

fn spec(text: &str) -> PodGroupSpec {
    one(text).spec
}

/// A document that holds this key with its example, at its place.
fn with_example(key: &ShortKey) -> String {
    // A list of mappings in flow style needs the brackets at the right level.
    let mut value = format!("{}: {}", key.name(), key.example);
    let mut parent = key.parent();
    while !parent.is_empty() && parent != "containers[]" {
        let (name, is_list) = parent.strip_suffix("[]").map_or((parent, false), |name| (name, true));
        let last = name.rsplit('.').next().unwrap_or(name);
        value = if is_list { format!("{last}: [{{{value}}}]") } else { format!("{last}: {{{value}}}") };
        parent = name.rsplit_once('.').map_or("", |(parent, _)| parent);
    }
    match (key.path, key.scope) {
        ("name", _) => format!("{value}\nreplicas: 1\nimage: i\n"),
        ("replicas", _) => format!("name: a\n{value}\nimage: i\n"),
        ("image", _) | ("containers", _) => format!("name: a\nreplicas: 1\n{value}\n"),
        (_, KeyScope::Item) => format!("name: a\nreplicas: 1\ncontainers: [{{image: i, {value}}}]\n"),
        _ => format!("name: a\nreplicas: 1\nimage: i\n{value}\n"),
    }
}

/// The spec of a document whose settings may contradict each other.
fn unchecked(text: &str) -> Result<PodGroupSpec, String> {
    let node = crate::document::tree::yaml(text).map_err(|error| error.reason)?.swap_remove(0);
    super::convert(&node).map(|converted| converted.spec).map_err(|problems| format!("{problems:?}"))
}

#[test]
fn every_key_of_the_table_is_read_and_changes_its_field() {
    let plain = unchecked("name: a\nreplicas: 7\nimage: j\n").unwrap();
    let plain = serde_json::to_value(plain).unwrap();
    for key in keys::all() {
        let text = with_example(key);
        let spec = unchecked(&text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", key.path));
        let spec = serde_json::to_value(spec).unwrap();
        let pointer = format!("/{}", key.spec.replace("[]", "/0").replace('.', "/"));
        // The label of a unit may say its type.
        let pointer = if key.path == "units.label" { "/Topology/UnitType".to_owned() } else { pointer };
        let found = spec.pointer(&pointer).filter(|value| !value.is_null());
        assert!(found.is_some(), "{}: {pointer} is not set by\n{text}{spec}", key.path);
        assert_ne!(found, plain.pointer(&pointer), "{}: {pointer} is not changed by\n{text}", key.path);
    }
}

#[test]
fn every_key_of_the_table_is_written() {
    for key in keys::all().filter(|key| !key.is_alias && key.path != "units.type") {
        let spec = unchecked(&with_example(key)).unwrap();
        let yaml = to_short_yaml(&spec);
        assert_eq!(unchecked(&yaml).unwrap(), spec, "{}:\n{yaml}", key.path);
    }
}

#[test]
fn every_field_of_a_spec_has_a_key_or_is_set_by_the_cluster() {
    let all = serde_json::to_value(crate::document::every_field()).unwrap();
    let mut fields = Vec::new();
    leaves(&all, String::new(), &mut fields);
    assert!(fields.len() > 60, "{fields:?}");
    for field in fields {
        let named = keys::all().any(|key| key.spec == field && !key.is_alias);
        assert!(named || WITHOUT_KEY.contains(&field.as_str()), "{field} has no key in cli/src/short/keys");
    }
}

/// The paths of all fields. Mappings with free names, and lists of plain values, are one field.
fn leaves(value: &Value, path: String, found: &mut Vec<String>) {
    let free = keys::all().any(|key| key.spec == path && matches!(key.kind, KeyKind::Texts | KeyKind::Amounts));
    match value {
        Value::Object(members) if !free && !members.is_empty() => {
            for (name, value) in members {
                leaves(value, if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, found);
            }
        }
        Value::Array(items) if items.first().is_some_and(Value::is_object) => {
            items.iter().for_each(|item| leaves(item, format!("{path}[]"), found));
        }
        _ => found.push(path),
    }
}

#[test]
fn keys_are_unique_and_complete() {
    let mut paths: Vec<&str> = keys::all().map(|key| key.path).collect();
    paths.sort_unstable();
    assert!(paths.is_sorted_by(|left, right| left < right), "{paths:?}");
    for key in keys::all() {
        let parent = key.parent().trim_end_matches("[]");
        assert!(parent.is_empty() || keys::by_path(parent).is_some(), "{}: {parent} is no key", key.path);
        assert!(key.meaning.ends_with('.') && !key.example.is_empty(), "{}", key.path);
    }
}

const LONG: &str = r#"{
    "Name": "shop.web", "Namespace": "shop", "NumInstances": 3, "RestartPolicy": 1, "MinReadySeconds": 5,
    "Strategy": {"Type": "Batch", "BatchSize": 2}, "Drain": {"GraceSeconds": 90},
    "Topology": {"UnitType": "Cell", "Values": ["cell-a", "cell-b"], "UnitReplicas": {"cell-a": "50%"}},
    "Pod": {
        "Name": "shop.web", "Namespace": "shop", "Annotation": "{}", "KillTimeout": 30,
        "Filters": ["constraint:disk==ssd", "affinity:image!=redis"], "Labels": {"team": "shop"},
        "Dependencies": [{"PodName": "svc.portal.portal", "Policy": 0}, {"PodName": "svc.log", "Policy": 1}],
        "HealthConfig": {"cmd": "wget -qO- http://127.0.0.1/", "options": {"interval": 10, "timeout": 3, "retries": 3}},
        "Containers": [{"Image": "nginx:1.27", "Env": ["GREETING=hello", "DEBUG=true", "RATIO=1.10", "EMPTY="],
            "Expose": 80, "MemoryLimit": 268435456, "CpuLimit": 1, "Volumes": ["/data"], "Command": ["sleep", "3600"]}]
    }
}"#;

const SHORT: &str = r#"name: shop.web
replicas: 3
restart: always
labels:
  team: shop
place:
- disk==ssd
- affinity:image!=redis
needs:
- svc.portal.portal
- pod: svc.log
  sharing: node
image: nginx:1.27
command:
- sleep
- "3600"
env:
  GREETING: hello
  DEBUG: "true"
  RATIO: "1.10"
  EMPTY: ""
port: 80
memory: 256Mi
cpu: 0.5
volumes:
- /data
health:
  command: wget -qO- http://127.0.0.1/
  every: 10s
  timeout: 3s
  retries: 3
stopTimeout: 30s
strategy:
  type: batch
  size: 2
minReady: 5s
drain:
  grace: 90s
units:
  label: cell
  values:
  - cell-a
  - cell-b
  replicas:
    cell-a: 50%
"#;

#[test]
fn a_spec_is_written_in_the_short_form_and_read_back() {
    assert_eq!(to_short_yaml(&spec(LONG)), SHORT);
    assert_eq!(spec(SHORT), spec(LONG));
}

#[test]
fn numbers_words_and_lists_are_read_as_people_write_them() {
    let text = r#"
name: shop.web
replicas: 3
image: nginx:1.27
ports: [80]
env: [GREETING=hello, DEBUG=true, RATIO=1.10, "EMPTY="]
command: [sleep, 3600]
memory: 268435456
cpu: 500m
volumes: [/data]
labels: {team: shop}
place: ["constraint:disk==ssd", "affinity:image!=redis"]
needs: [{pod: svc.portal.portal}, {pod: svc.log, sharing: node}]
health: {command: "wget -qO- http://127.0.0.1/", every: 10, timeout: 3s, retries: 3}
stopTimeout: 30
strategy: {type: batch, size: 2}
minReady: 5s
drain: {grace: 1m30s}
units: {values: [cell-a, cell-b], replicas: {cell-a: 50%}}
"#;
    assert_eq!(spec(text), spec(LONG));
    let json = r#"{"name": "shop.web", "replicas": 3, "image": "nginx:1.27", "env": {"RATIO": 1.10}}"#;
    assert_eq!(spec(json).pod.containers[0].env, ["RATIO=1.10"]);
}

#[test]
fn the_defaults_are_safe() {
    let spec = serde_json::to_value(spec("name: shop.web\nreplicas: 2\nimage: i\n")).unwrap();
    assert_eq!((&spec["Namespace"], &spec["RestartPolicy"]), (&json!("shop"), &json!(1)));
    assert_eq!(spec["Strategy"], json!({"Type": "RollingUpdate"}));
    assert_eq!((spec.get("MinReadySeconds"), spec.get("FailureAction")), (None, None), "those of the cluster");
    assert_eq!((&spec["Pod"]["Name"], &spec["Pod"]["Namespace"]), (&json!("shop.web"), &json!("shop")));
    let batch = self::spec("name: a\nreplicas: 2\nimage: i\nstrategy: {maxSurge: 1}\n");
    assert_eq!(batch.strategy_type(), contract::rollout::StrategyType::RollingUpdate);
}

#[test]
fn an_absent_strategy_or_restart_policy_leaves_that_of_a_group_that_exists() {
    const GROUP: &str = "name: a\nreplicas: 2\nimage: i\n";
    let open = one(GROUP);
    let serial = spec(&format!("{GROUP}strategy: serial\nrestart: never\n"));
    assert_eq!(serial.strategy, None);
    assert_eq!(open.over(&serial), serial);
    let batch = spec(&format!("{GROUP}strategy: {{type: batch, size: 2}}\nrestart: on-failure\n"));
    assert_eq!(open.over(&batch), batch);
    let units = one(&format!("{GROUP}units: {{values: [cell-a]}}\n"));
    assert_eq!(units.over(&serial).strategy, units.spec.strategy, "units need another strategy than serial");
    let named = one(&format!("{GROUP}strategy: rolling\n"));
    assert_eq!(named.over(&batch).strategy, named.spec.strategy);
}

#[test]
fn several_containers_stand_in_a_list() {
    let text = "name: a\nreplicas: 1\nrestart: always\ncontainers:\n- image: i\n  port: 80\n- image: j\n  name: side\nstrategy: rolling\n";
    let spec = spec(text);
    let images: Vec<&str> = spec.pod.images().collect();
    assert_eq!((images, spec.pod.containers[1].name.as_str()), (vec!["i", "j"], "side"));
    assert_eq!(to_short_yaml(&spec), text);
}

#[test]
fn a_file_may_hold_both_forms() {
    let text = format!("{SHORT}---\nName: b\nNamespace: b\nNumInstances: 1\nPod: {{Containers: [{{Image: i}}]}}\n");
    let names: Vec<String> = document::read(&text).unwrap().into_iter().map(|document| document.spec.name).collect();
    assert_eq!(names, ["shop.web", "b"]);
}

#[test]
fn health_with_http_or_port_is_the_readiness_check_of_the_agent() {
    let read = |health: &str| document::read(&format!("name: a.b\nimage: i\nreplicas: 1\nhealth: {health}\n"));
    let health = |text: &str| read(text).unwrap().swap_remove(0).spec.pod.health_config;
    let short = health("{http: /healthz, port: 8080, every: 5s, failures: 2, liveness: {port: 8080}}");
    let long = "{readiness: {http: /healthz, port: 8080, every: 5s, failures: 2}, liveness: {port: 8080}}";
    assert_eq!(short, health(long));
    let readiness = short.readiness.expect("a check");
    assert_eq!(
        (readiness.http.as_str(), readiness.port, readiness.period, readiness.failures),
        ("/healthz", 8080, 5, 2)
    );
    assert_eq!((short.liveness.map(|check| check.port), short.options.interval), (Some(8080), 0));
    let wrong = read("{http: /healthz, port: 8080, retries: 2}").unwrap_err().to_string();
    assert!(wrong.contains("health.retries: unknown key; did you mean failures?"), "{wrong}");
    let neither = read("{readiness: {every: 5s}}").unwrap_err().to_string();
    assert!(neither.contains("must have either http and port"), "{neither}");
}
