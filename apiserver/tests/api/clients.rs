//! What console, lainctl and the monitors read, line by line: they index without asking, and a missing field is their 500.

use serde_json::{Value, json};

use crate::leader::{Leader, Manner};
use crate::node;
use crate::world::World;

/// The least a client may send: everything that may be null is.
const SPARSE: &str = r#"{"Name":"hello.web.web","Namespace":"hello","NumInstances":3,"RestartPolicy":1,"Pod":{
    "Name":"hello.web.web","Namespace":"hello","Containers":[{"Image":"registry/hello:1","Env":null,"Command":null,
    "Entrypoint":null,"LogConfig":null,"Volumes":null,"SystemVolumes":null,"CloudVolumes":null,"DnsSearch":null}],
    "Filters":null,"Labels":null,"Dependencies":null,"Annotation":null,"HealthConfig":null}}"#;

fn list_or_null(value: &Value) -> bool {
    value.is_array() || value.is_null()
}

/// `models.py`, `specs.py`: fields of every answer, deployed or not.
fn check_spec(spec: &Value) {
    assert_eq!((&spec["Name"], &spec["Namespace"]), (&json!("hello.web.web"), &json!("hello")));
    assert_eq!((&spec["NumInstances"], &spec["RestartPolicy"]), (&json!(3), &json!(1)));
    let pod = &spec["Pod"];
    assert_eq!((&pod["Name"], &pod["Namespace"]), (&json!("hello.web.web"), &json!("hello")));
    assert!(pod["Version"].is_u64(), "{pod}");
    assert!(pod["Annotation"].is_string(), "{pod}");
    for list in ["Containers", "Dependencies", "Filters"] {
        assert!(pod.get(list).is_some_and(list_or_null), "{list}");
    }
    let container = &pod["Containers"][0];
    for text in ["Image", "User", "WorkingDir"] {
        assert!(container[text].is_string(), "{text}: {container}");
    }
    for list in ["Env", "Volumes", "SystemVolumes"] {
        assert!(container[list].is_array(), "{list}: {container}");
    }
    for number in ["CpuLimit", "MemoryLimit", "Expose"] {
        assert!(container[number].is_i64() || container[number].is_u64(), "{number}: {container}");
    }
    assert_eq!(container["LogConfig"]["Type"], "", "an object, even when unset");
}

/// `views.py`: fields of every instance, created or not.
fn check_instance(pod: &Value, number: usize) {
    assert_eq!(pod["InstanceNo"], json!(number), "Pods[k-1] is instance k");
    assert!(pod["LastError"].is_string());
    let container = &pod["Containers"][0];
    for text in ["Id", "ContainerIp", "NodeIp"] {
        assert!(container[text].is_string(), "{text}: {container}");
    }
    assert!(container["ContainerPort"].is_u64());
    let runtime = &container["Runtime"];
    let name = runtime["Name"].as_str().unwrap();
    assert!(name.is_empty() || name.starts_with('/'), "{name:?}");
    assert!(runtime["State"]["Running"].is_boolean());
    let started = runtime["State"]["StartedAt"].as_str().unwrap();
    assert!(started.contains('T') && started.ends_with('Z'), "{started:?}");
    assert!(runtime["Config"].get("Env").is_some_and(list_or_null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_that_console_reads_of_a_group_is_present() {
    // Node n1 describes its container, n2 is silent, instance 3 has not been created.
    let world = World::start_with(&["--inspect-deadline", "300ms"]).await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", SPARSE).await.status, 202);
    node::describes(&world.bus, "n1").await;
    let body = world.get("/api/podgroups?name=hello.web.web&force_update=false").await.json();
    check_spec(&body["Spec"]);
    assert_eq!(body["LastError"], "", "anything else is a failed deployment");
    let pods = body["Pods"].as_array().unwrap();
    assert_eq!(pods.len(), 3);
    for (index, pod) in pods.iter().enumerate() {
        check_instance(pod, index + 1);
    }
    let described = &pods[0]["Containers"][0]["Runtime"];
    assert_eq!((&described["Name"], &described["Node"]["Name"]), (&json!("/engine"), &json!("n1")));
    // archon knows an instance by its environment, lainctl by its name too.
    let silent = &pods[1]["Containers"][0]["Runtime"];
    assert_eq!((&silent["Name"], &silent["State"]["Running"]), (&json!("/hello.web.web.v0-i2-d0"), &json!(true)));
    let env = silent["Config"]["Env"].as_array().unwrap();
    for ours in ["DEPLOYD_POD_NAME=hello.web.web", "DEPLOYD_POD_INSTANCE_NO=2"] {
        assert!(env.contains(&json!(ours)), "{ours}: {env:?}");
    }
    assert_eq!(
        (&silent["Config"]["Image"], &pods[1]["Containers"][0]["NodePort"]),
        (&json!("registry/hello:1"), &json!(30_000))
    );
    let pending = &pods[2]["Containers"][0];
    assert_eq!((&pending["Id"], &pending["Runtime"]["State"]["Running"]), (&json!(""), &json!(false)));
    assert_eq!(pending["Runtime"]["State"]["StartedAt"], "0001-01-01T00:00:00Z");
    let places = ["n1", "n2", ""].map(|node| json!(node));
    assert_eq!([0, 1, 2].map(|k: usize| body["PrevState"][k]["NodeName"].clone()), places);
    assert_eq!(body["PrevState"][1]["IPs"], json!(["172.20.0.2"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_lainctl_and_the_monitors_are_answered_below_300() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", SPARSE).await.status, 202);
    for (method, path, status) in [
        ("GET", "/api/status", 200),
        ("GET", "/debug/vars", 200),
        ("PATCH", "/api/constraints?type=node&value=n1", 202),
        ("DELETE", "/api/constraints?type=node&value=n1", 202),
        ("PATCH", "/api/nodes?cmd=drift&from=n1&pg=hello.web.web&pg_instance=1", 202),
        ("PATCH", "/api/nodes?cmd=drift&from=n1&pg=hello.web.web&pg_instance=1&force=true&to=n2", 202),
        ("DELETE", "/api/nodes?node=n1", 202),
    ] {
        let seen = world.call(method, path, None).await;
        assert_eq!(seen.status, status, "{method} {path}: {}", seen.text);
    }
}
