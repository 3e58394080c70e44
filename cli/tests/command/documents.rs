//! Documents that `apply`, `plan` and `depends apply` read: a mistake is refused before anything is sent.

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::server::{Ended, Server};

const GROUP: &str = "GET /api/podgroups";

fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("the file is written");
    file
}

async fn apply(server: &Server, document: &str) -> Ended {
    let file = file(document);
    server.run(&["apply", "--detach", "-f", file.path().to_str().expect("a path")]).await
}

/// A document with these extra lines at the top level.
fn with(lines: &str) -> String {
    format!("Name: a.web.web\nNamespace: a\nPod: {{Containers: [{{Image: i}}]}}\n{lines}\n")
}

/// A document with these members in its container and in its pod.
fn with_pod(container: &str, pod: &str) -> String {
    format!("Name: a.web.web\nNamespace: a\nNumInstances: 1\nPod: {{Containers: [{{Image: i{container}}}]{pod}}}\n")
}

async fn created(document: &str) -> (String, Value) {
    let server =
        Server::start(&[(GROUP, 404, json!({})), ("POST /api/podgroups", 202, json!({"message": "ok"}))]).await;
    let ended = apply(&server, document).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (line, body) = server.changes().swap_remove(0);
    (line, serde_json::from_str(&body).expect("JSON"))
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_its_path_and_the_closest_name_before_anything_is_sent() {
    let server = Server::start(&[]).await;
    for (document, words) in [
        (with("NumInstance: 3"), "NumInstance: unknown field; did you mean NumInstances?"),
        (with("NumInstances: 3\nBogus: 1"), "Bogus: unknown field"),
        (with("NumInstances: 3\nStrategy: {Typ: Batch}"), "Strategy.Typ: unknown field; did you mean Strategy.Type?"),
        (with("NumInstances: 3\nHealthCheck: {}"), "HealthCheck: unknown field; did you mean Pod.HealthConfig?"),
        (with_pod("", ", HealthCheck: {cmd: x}"), "Pod.HealthCheck: unknown field; did you mean Pod.HealthConfig?"),
        (
            with_pod(", Memory: 5", ""),
            "Pod.Containers[0].Memory: unknown field; did you mean Pod.Containers[0].MemoryLimit?",
        ),
    ] {
        for command in ["apply", "plan"] {
            let file = file(&document);
            let ended = server.run(&[command, "-f", file.path().to_str().expect("a path")]).await;
            assert_eq!(ended.code, Some(2), "{command} {document}: {ended:?}");
            assert!(ended.err.contains(words), "{command} {document}: {ended:?}");
        }
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn an_unknown_field_of_a_dependency_pod_is_refused() {
    let server = Server::start(&[]).await;
    let file = file("Name: a\nNamespace: a\nStatefull: true\nContainers: [{Image: i}]");
    let ended = server.run(&["depends", "apply", "-f", file.path().to_str().expect("a path")]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("Statefull: unknown field; did you mean Stateful?"), "{ended:?}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_document_without_a_number_of_instances_is_refused() {
    let server = Server::start(&[]).await;
    for document in [with(""), with("NumInstances: null")] {
        let ended = apply(&server, &document).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("NumInstances: is required"), "{ended:?}");
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_group_is_created_strictly_and_restarts_always_unless_the_document_says_otherwise() {
    let (line, body) = created(&with("NumInstances: 0")).await;
    assert_eq!(line, "POST /api/podgroups?strict=true");
    assert_eq!((&body["NumInstances"], &body["RestartPolicy"]), (&json!(0), &json!(1)));
    for (written, policy) in [("never", 0), ("always", 1), ("onfail", 2), ("0", 0), ("2", 2)] {
        let (_, body) = created(&with(&format!("NumInstances: 1\nRestartPolicy: {written}"))).await;
        assert_eq!(body["RestartPolicy"], json!(policy), "{written}");
    }
}

#[tokio::test]
async fn a_document_that_does_not_say_restart_policy_leaves_that_of_a_running_group() {
    let spec = json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1, "RestartPolicy": 0,
        "Pod": {"Name": "a.web.web", "Namespace": "a", "Containers": [{"Image": "i"}]}});
    let server = Server::start(&[(GROUP, 200, json!({"Spec": spec}))]).await;
    let ended = apply(&server, &with("NumInstances: 1")).await;
    assert!(ended.code == Some(0) && ended.err.contains("is unchanged"), "{ended:?}");
    assert_eq!(server.changes(), []);
}

#[tokio::test]
async fn values_are_written_as_people_write_them() {
    let text = with_pod(
        ", MemoryLimit: 256Mi, CpuLimit: 0.5",
        ", SetupTime: 1m, KillTimeout: 30s, HealthConfig: {cmd: x, options: {interval: 10s, timeout: 5, retries: 3}}",
    ) + "Strategy: {Type: RollingUpdate}\nMinReadySeconds: 10s\nDrain: {GraceSeconds: 5s}\n";
    let (_, body) = created(&text).await;
    let container = &body["Pod"]["Containers"][0];
    assert_eq!((&container["MemoryLimit"], &container["CpuLimit"]), (&json!(256 << 20), &json!(1)));
    let pod = &body["Pod"];
    assert_eq!((&pod["SetupTime"], &pod["KillTimeout"]), (&json!(60), &json!(30)));
    assert_eq!(pod["HealthConfig"]["options"], json!({"interval": 10, "timeout": 5, "retries": 3}));
    assert_eq!((&body["MinReadySeconds"], &body["Drain"]["GraceSeconds"]), (&json!(10), &json!(5)));
}

#[tokio::test]
async fn values_that_the_cluster_would_change_are_refused_with_the_range() {
    let server = Server::start(&[]).await;
    for (document, words) in [
        (with_pod(", CpuLimit: 9", ""), "Pod.Containers[0].CpuLimit: must be a level 0..8"),
        (with_pod(", CpuLimit: 0.3", ""), "Pod.Containers[0].CpuLimit: 0.3 cores"),
        (with_pod(", MemoryLimit: 256X", ""), "Pod.Containers[0].MemoryLimit: \"256X\" is not a size"),
        (with_pod("", ", KillTimeout: 5"), "Pod.KillTimeout: must be 0 (default 10) or 10..120, is 5"),
        (with_pod("", ", KillTimeout: 1h"), "Pod.KillTimeout: must be 0 (default 10) or 10..120, is 3600"),
        (with_pod("", ", SetupTime: 500ms"), "Pod.SetupTime: \"500ms\" is not a whole number of seconds"),
        (
            with_pod("", ", HealthConfig: {cmd: x, options: {interval: 5}}"),
            "Pod.HealthConfig.options.interval: must be 0 (default 10) or 10..86400, is 5",
        ),
        (with("NumInstances: 1\nRestartPolicy: sometimes"), "RestartPolicy: must be always, onfail or never"),
        (with("NumInstances: 1\nRestartPolicy: 7"), "RestartPolicy: must be always, onfail or never"),
    ] {
        let ended = apply(&server, &document).await;
        assert_eq!(ended.code, Some(2), "{document}: {ended:?}");
        assert!(ended.err.contains(words), "{document}: {ended:?}");
    }
    assert_eq!(server.requests(), 0);
}
