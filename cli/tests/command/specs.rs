//! The short form, and the commands that write, convert and explain it.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::server::{Ended, Server};

const GROUP: &str = "GET /api/podgroups";
const CREATE: &str = "POST /api/podgroups";
const CHANGE: &str = "PATCH /api/podgroups";
const SHORT: &str = "name: shop.web\nimage: nginx:1.27\nreplicas: 2\nport: 80\nmemory: 256Mi\n";

fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("the file is written");
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("a path")
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// A group as the API shows it.
fn group(pod: &Value) -> Value {
    let mut spec = json!({"Name": "shop.web", "Namespace": "shop", "NumInstances": 2, "RestartPolicy": 1, "Pod": pod});
    (spec["Pod"]["Name"], spec["Pod"]["Namespace"]) = (json!("shop.web"), json!("shop"));
    spec["Pod"]["Annotation"] = json!("{}");
    json!({"Spec": spec})
}

async fn created(words: &[&str]) -> Value {
    let server = Server::start(&[(GROUP, 404, json!({})), (CREATE, 202, json!({"message": "ok"}))]).await;
    let ended = server.run(words).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (line, body) = server.changes().swap_remove(0);
    assert_eq!(line, "POST /api/podgroups?strict=true");
    serde_json::from_str(&body).expect("JSON")
}

#[tokio::test]
async fn apply_reads_the_short_form() {
    let file = file(SHORT);
    let body = created(&["apply", "--detach", "-f", path(&file)]).await;
    let container = &body["Pod"]["Containers"][0];
    assert_eq!((&container["Image"], &container["Expose"]), (&json!("nginx:1.27"), &json!(80)));
    assert_eq!((&body["Strategy"], &body["RestartPolicy"]), (&json!({"Type": "RollingUpdate"}), &json!(1)));
}

#[tokio::test]
async fn applying_the_short_form_over_a_group_without_a_strategy_changes_nothing() {
    let pod = json!({"Containers": [{"Image": "nginx:1.27", "Expose": 80, "MemoryLimit": 256 << 20}]});
    let server = Server::start(&[(GROUP, 200, group(&pod))]).await;
    let file = file(SHORT);
    let ended = server.run(&["apply", "--detach", "-f", path(&file)]).await;
    assert!(ended.code == Some(0) && ended.err.contains("is unchanged"), "{ended:?}");
    assert_eq!(server.changes(), []);
}

#[tokio::test]
async fn an_error_names_file_line_and_column_and_nothing_is_sent() {
    let server = Server::start(&[]).await;
    let file = file(&SHORT.replace("memory", "memroy"));
    for command in [&["apply"][..], &["plan"], &["convert"]] {
        let ended = server.run(&[command, &["-f", path(&file)]].concat()).await;
        let expected = format!(
            "deployctl: {} is not a valid document\n  caused by: line 5, column 1: memroy: unknown key; did you mean memory?\n    \
             5 | memroy: 256Mi\n      | ^^^^^^\n",
            path(&file)
        );
        assert_eq!((ended.code, ended.err), (Some(2), expected));
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn convert_turns_one_form_into_the_other_and_back() {
    let server = Server::start(&[]).await;
    for example in ["demo-short.yaml", "demo-podgroup.json", "demo-beta.yaml", "demo-release.yaml"] {
        let example = repository().join("deploy").join(example).display().to_string();
        let spec = server.run(&["convert", "-f", &example]).await;
        let short = server.run(&["convert", "--to", "short", "-f", &example]).await;
        assert_eq!((spec.code, short.code), (Some(0), Some(0)), "{spec:?} {short:?}");
        let again = server.run(&["convert", "--file", path(&file(&short.out))]).await;
        assert_eq!(again.out, spec.out, "{}", short.out);
        let short_again = server.run(&["convert", "--to", "short", "-f", path(&file(&spec.out))]).await;
        assert_eq!(short_again.out, short.out);
    }
    let two = file(&format!("{SHORT}---\n{SHORT}"));
    let ended = server.run(&["convert", "--to", "short", "-f", path(&two)]).await;
    assert_eq!(ended.out.matches("---\nname: shop.web\n").count(), 1, "{ended:?}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_compose_file_is_converted_and_what_is_left_out_is_reported() {
    let server = Server::start(&[]).await;
    let compose = file("services:\n  web:\n    image: nginx:1.27\n    ports: [\"80\"]\n    tty: true\n");
    let words = ["convert", "--from", "compose", "--project", "shop", "-f", path(&compose)];
    let ended = server.run(&words).await;
    let expected = "name: shop.web\nimage: nginx:1.27\nreplicas: 1\nrestart: never\nport: 80\n";
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), expected));
    let report = "line 5, column 5: services.web.tty: not supported; deployd has no counterpart\n";
    assert_eq!(ended.err, format!("{}: {report}", path(&compose)));
    let spec = server.run(&[&words[..], &["--to", "spec"]].concat()).await;
    let spec: Value = serde_json::from_str(&spec.out).expect("JSON");
    assert_eq!((&spec["Name"], &spec["Pod"]["Containers"][0]["Expose"]), (&json!("shop.web"), &json!(80)));
    let applied = server.run(&["apply", "-f", path(&compose)]).await;
    assert!(applied.code == Some(2) && applied.err.contains("deployctl convert --from compose -f FILE"), "{applied:?}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn explain_shows_a_key_and_suggests_one_for_a_typo() {
    let server = Server::start(&[]).await;
    let ended = server.run(&["explain", "health.every"]).await;
    assert!(
        ended.code == Some(0) && ended.out.starts_with("health.every\n  The time between two checks."),
        "{ended:?}"
    );
    let typo = server.run(&["explain", "healt.every"]).await;
    assert_eq!(
        (typo.code, typo.err.as_str()),
        (Some(2), "deployctl: healt.every: unknown key; did you mean health.every?\n")
    );
    let stored = |file: &str| std::fs::read_to_string(repository().join(file)).expect(file);
    assert_eq!(server.run(&["explain", "--markdown"]).await.out, stored("docs/spec.md"));
    let schema: Value = serde_json::from_str(&server.run(&["explain", "--schema"]).await.out).expect("JSON");
    assert_eq!(schema, serde_json::from_str::<Value>(&stored("docs/podgroup.schema.json")).expect("JSON"));
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn init_writes_a_document_that_apply_takes_and_never_overwrites_one() {
    let server = Server::start(&[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let shop = folder.path().join("shop").display().to_string();
    let ended = server.run(&["init", &shop]).await;
    assert!(ended.code == Some(0) && ended.out.contains("deployctl apply -f"), "{ended:?}");
    let written = format!("{shop}/deployd.yaml");
    let short = server.run(&["convert", "--to", "short", "-f", &written]).await;
    let expected = "name: shop.web\nreplicas: 2\nrestart: always\nimage: nginx:1.27\nport: 80\nstrategy: rolling\n";
    assert_eq!(short.out, expected);
    std::fs::write(&written, "mine").expect("the file is written");
    let again = server.run(&["init", &shop]).await;
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("deployd.yaml exists; edit it, or name another directory"), "{again:?}");
    assert_eq!(std::fs::read_to_string(&written).expect("the file"), "mine");
    let wrong = server.run(&["init", &shop, "--name", "a b"]).await;
    assert!(wrong.code == Some(2) && wrong.err.contains("name: contains ' '"), "{wrong:?}");
}

#[tokio::test]
async fn run_creates_a_group_from_flags_and_prints_it_with_dry_run() {
    let words =
        ["run", "nginx:1.27", "--port", "80", "--env", "A=b c", "--memory", "256Mi", "--cpu", "0.5", "--replicas", "3"];
    let body = created(&[&words[..], &["--detach"]].concat()).await;
    assert_eq!((&body["Name"], &body["NumInstances"]), (&json!("nginx"), &json!(3)));
    let container = &body["Pod"]["Containers"][0];
    assert_eq!((&container["Env"], &container["CpuLimit"]), (&json!(["A=b c"]), &json!(1)));
    assert_eq!((&container["Expose"], &container["MemoryLimit"]), (&json!(80), &json!(256 << 20)));
    let server = Server::start(&[]).await;
    let ended = server.run(&[&words[..], &["--dry-run"]].concat()).await;
    let expected = "name: nginx\nreplicas: 3\nrestart: always\nimage: nginx:1.27\nenv:\n  A: b c\nport: 80\nmemory: 256Mi\n\
        cpu: 0.5\nstrategy: rolling\n";
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), expected));
    let wrong = server.run(&["run", "nginx", "--memory", "much"]).await;
    assert!(
        wrong.code == Some(2) && wrong.err.contains("memory: must be a size such as 256Mi, is \"much\""),
        "{wrong:?}"
    );
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn run_changes_no_group_that_exists() {
    let server = Server::start(&[(GROUP, 200, group(&json!({"Containers": [{"Image": "nginx:1.27"}]})))]).await;
    let other = server.run(&["run", "nginx:1.28", "--name", "shop.web", "--replicas", "2"]).await;
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(
        other.err.contains("PodGroup shop.web exists and differs in Pod.Containers[0].Image; change it"),
        "{other:?}"
    );
    let same = server.run(&["run", "nginx:1.27", "--name", "shop.web", "--replicas", "2", "--detach"]).await;
    assert!(same.code == Some(0) && same.err.contains("is unchanged"), "{same:?}");
    assert_eq!(server.changes(), []);
}

/// How `set` ends, and the container it sends.
async fn set(containers: Value, words: &[&str]) -> (Ended, Option<Value>) {
    let pod = group(&json!({"Containers": containers}));
    let server = Server::start(&[(GROUP, 200, pod), (CHANGE, 202, json!({"message": "ok"}))]).await;
    let ended = server.run(&[&["set"], words, &["--detach"]].concat()).await;
    let changes = server.changes();
    assert!(changes.len() < 2 && changes.iter().all(|(line, _)| line.contains("cmd=spec")), "{changes:?}");
    let sent = changes.first().map(|(_, body)| serde_json::from_str::<Value>(body).expect("JSON"));
    (ended, sent.map(|pod| pod["Containers"].clone()))
}

#[tokio::test]
async fn set_changes_one_part_of_a_container_and_nothing_the_second_time() {
    let before = json!([{"Image": "i:1", "Env": ["A=1", "B=2"], "MemoryLimit": 64 << 20, "CpuLimit": 2}]);
    for (words, pointer, value) in [
        (&["image", "shop.web", "i:2"][..], "/0/Image", json!("i:2")),
        (&["env", "shop.web", "A=x", "B-", "C=3"], "/0/Env", json!(["A=x", "C=3"])),
        (&["memory", "shop.web", "256Mi"], "/0/MemoryLimit", json!(256 << 20)),
        (&["cpu", "shop.web", "0.5"], "/0/CpuLimit", json!(1)),
    ] {
        let (ended, sent) = set(before.clone(), words).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        let sent = sent.unwrap_or_else(|| panic!("{words:?} sends nothing"));
        assert_eq!(sent.pointer(pointer), Some(&value), "{words:?}");
        let (again, unsent) = set(sent, words).await;
        assert!(
            again.code == Some(0) && again.err.contains("is unchanged") && unsent.is_none(),
            "{words:?}: {again:?}"
        );
    }
}

#[tokio::test]
async fn set_refuses_wrong_values_and_an_unnamed_container_of_several() {
    let two = json!([{"Image": "i"}, {"Image": "j"}]);
    for (words, reason) in [
        (&["image", "shop.web", "k"][..], "PodGroup shop.web has 2 containers; choose one with --container 0..1"),
        (&["image", "shop.web", "k", "--container", "2"], "has 2 containers"),
        (&["memory", "shop.web", "1Mi", "--container", "1"], "memory: must be a size such as 256Mi, is \"1Mi\""),
        (&["cpu", "shop.web", "9", "--container", "1"], "cpu: must be cores from 0.5 to 4"),
        (&["env", "shop.web", "A", "--container", "1"], "\"A\" must be NAME=TEXT, or NAME- to remove a variable"),
    ] {
        let (ended, sent) = set(two.clone(), words).await;
        assert_eq!((ended.code, sent), (Some(2), None), "{words:?}: {ended:?}");
        assert!(ended.err.contains(reason), "{words:?}: {ended:?}");
    }
    let (ended, sent) = set(two, &["image", "shop.web", "k", "--container", "1"]).await;
    assert_eq!((ended.code, sent.map(|sent| sent[1]["Image"].clone())), (Some(0), Some(json!("k"))));
    let server = Server::start(&[(GROUP, 404, json!({}))]).await;
    assert_eq!(server.run(&["set", "image", "shop.web", "k"]).await.code, Some(3));
}
