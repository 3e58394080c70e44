//! Lists: every format, filters, watching, the width of the terminal and colours.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::questions::on_terminal;
use crate::server::Server;

const GROUPS: &str = "GET /api/podgroups";
const NODES: &str = "GET /api/nodes";

fn line(name: &str, ready: u32, state: u8) -> Value {
    json!({"Name": name, "Namespace": "a", "Version": 3, "NumInstances": 2, "Running": 2, "Ready": ready, "State": state,
        "Images": ["box:1"], "CreatedAt": "2020-01-01T00:00:00Z"})
}

fn groups(lines: &[Value]) -> Value {
    json!({"PodGroups": lines})
}

fn nodes() -> Value {
    json!([
        {"Name": "n1", "State": "alive", "Engine": "up", "Labels": {"zone": "a"}},
        {"Name": "n2", "State": "lost", "Engine": "up", "Labels": {"zone": "b"}},
    ])
}

fn words(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
async fn a_list_of_groups_has_ready_image_and_age_and_every_format() {
    let list = groups(&[line("a.db.db", 0, 3), line("a.web.web", 2, 2)]);
    let server = Server::start(&[(GROUPS, 200, list.clone())]).await;
    let ls = words(&server.run(&["ls"]).await.out);
    assert_eq!(ls[0], "PODGROUP NAMESPACE READY STATE IMAGE AGE ERROR");
    assert!(ls[1].starts_with("a.db.db a 0/2 exited box:1 ") && ls[1].ends_with('d'), "{ls:?}");
    let wide = words(&server.run(&["get", "podgroup", "-o", "wide"]).await.out);
    assert_eq!(wide[0], "PODGROUP NAMESPACE READY STATE OPERATION VERSION IMAGE AGE ERROR");
    assert_eq!(server.run(&["get", "pg", "-o", "name"]).await.out, "a.db.db\na.web.web\n");
    assert_eq!(server.run(&["get", "pg", "*.web", "-o", "name"]).await.out, "a.web.web\n");
    let json: Value = serde_json::from_str(&server.run(&["ls", "-o", "json"]).await.out).expect("JSON");
    assert_eq!((&json[1]["Name"], &json[1]["Ready"]), (&json!("a.web.web"), &json!(2)));
    let yaml = server.run(&["ls", "-o", "yaml"]).await.out;
    assert!(yaml.contains("- ") && yaml.contains("Name: a.web.web"), "{yaml}");
    assert_eq!(server.run(&["ls", "nothing.*"]).await.out, "no PodGroups\n");
}

#[tokio::test]
async fn a_namespace_comes_from_the_flag_or_the_environment() {
    let server = Server::start(&[(GROUPS, 200, groups(&[line("a.web.web", 2, 2)]))]).await;
    server.run(&["ls", "--namespace", "shop"]).await;
    assert_eq!(server.count("GET /api/podgroups?namespace=shop&after="), 1);
    for (flags, expected) in [(&["ls"][..], 2), (&["ls", "-A"], 2)] {
        let mut command = server.command(flags);
        command.env("DEPLOYD_NAMESPACE", "shop");
        crate::server::run(command).await;
        assert_eq!(server.count("GET /api/podgroups?namespace=shop&after="), expected, "{flags:?}");
    }
    assert_eq!(server.count("GET /api/podgroups?all=true&after="), 1);
}

#[tokio::test]
async fn instances_of_all_groups_are_one_list_with_exit_codes() {
    let exit = json!({"Code": 3, "At": "2026-01-01T00:00:00Z", "Restarts": 5, "LastLine": "no such file"});
    let pods = json!([
        {"InstanceNo": 1, "State": 2, "RestartCount": 1, "Containers": [{"NodeName": "n1", "NodeIp": "10.0.0.1", "NodePort": 80}]},
        {"InstanceNo": 2, "State": 3, "Exit": exit, "Containers": [{"NodeName": "n2"}]},
    ]);
    let spec = json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 2,
        "Pod": {"Labels": {"tier": "web"}, "Containers": [{"Image": "box:1"}]}});
    let group = json!({"Spec": spec, "Pods": pods});
    let answers = [(GROUPS, 200, groups(&[line("a.web.web", 1, 2)])), (GROUPS, 200, group)];
    let shown = async |flags: &[&str]| {
        let server = Server::start(&answers).await;
        server.run(&[&["ps"], flags].concat()).await.out
    };
    let rows = words(&shown(&[]).await);
    assert_eq!(rows[0], "INSTANCE STATE NODE ADDRESS RESTARTS AGE ERROR");
    assert_eq!(rows[1], "a.web.web#1 running n1 10.0.0.1:80 1 -");
    assert!(rows[2].starts_with("a.web.web#2 exited n2 ") && rows[2].ends_with("5 restarts: no such file"), "{rows:?}");
    assert_eq!(shown(&["--node", "n2", "-o", "name"]).await, "a.web.web#2\n");
    assert_eq!(shown(&["-l", "tier=web,team!=x", "-o", "name"]).await, "a.web.web#1\na.web.web#2\n");
    assert_eq!(shown(&["-l", "tier=db"]).await, "no instances\n");
    let json: Value = serde_json::from_str(&shown(&["-o", "json"]).await).expect("JSON");
    assert_eq!((&json[1]["PodGroup"], &json[1]["Exit"]["Code"]), (&json!("a.web.web"), &json!(3)));
    let server = Server::start(&[(GROUPS, 200, groups(&[]))]).await;
    let ended = server.run(&["ps", "a.wbe"]).await;
    assert!(ended.code == Some(3) && ended.err.contains("no PodGroup \"a.wbe\""), "{ended:?}");
}

#[tokio::test]
async fn nodes_are_selected_by_name_and_label() {
    let server = Server::start(&[(NODES, 200, nodes())]).await;
    for (flags, expected) in
        [("", "n1\nn2\n"), ("n1", "n1\n"), ("-l zone=b", "n2\n"), ("-l zone!=b", "n1\n"), ("-l rack", "")]
    {
        let flags: Vec<&str> = flags.split(' ').filter(|word| !word.is_empty()).collect();
        assert_eq!(
            server.run(&[&["get", "nodes", "-o", "name"], &flags[..]].concat()).await.out,
            expected,
            "{flags:?}"
        );
    }
    assert_eq!(server.run(&["node", "list", "-l", "zone=b", "-o", "name"]).await.out, "n2\n");
}

#[tokio::test]
async fn get_all_shows_groups_instances_and_nodes() {
    let group = json!({"Spec": {"Name": "a.web.web", "Namespace": "a"}, "Pods": [{"InstanceNo": 1, "State": 2}]});
    let answers = [(GROUPS, 200, groups(&[line("a.web.web", 1, 2)])), (GROUPS, 200, group), (NODES, 200, nodes())];
    let text = Server::start(&answers).await.run(&["get", "all"]).await.out;
    for word in ["PODGROUP", "a.web.web#1", "n2"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let json = Server::start(&answers).await.run(&["get", "all", "-o", "json"]).await.out;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (json["PodGroups"].as_array().map(Vec::len), json["Nodes"].as_array().map(Vec::len)),
        (Some(1), Some(2))
    );
}

#[tokio::test]
async fn a_watched_list_prints_a_row_when_it_changes_and_says_what_is_gone() {
    let (old, new) = (line("a.web.web", 1, 2), line("a.web.web", 2, 2));
    let other = line("a.db.db", 2, 2);
    let states = [groups(&[other.clone(), old.clone()]), groups(&[other, new.clone()]), groups(&[new])];
    let server = Server::start(&states.map(|list| (GROUPS, 200, list))).await;
    let mut child = server.command(&["ls", "--watch"]).stderr(Stdio::null()).spawn().expect("deployctl runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.expect("a line in time");
        seen.push(line.expect("readable").expect("a line").split_whitespace().take(3).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(
        seen,
        ["PODGROUP NAMESPACE READY", "a.db.db a 2/2", "a.web.web a 1/2", "a.web.web a 2/2", "a.db.db (gone)"]
    );
    child.kill().await.expect("it ends");
}

#[tokio::test]
async fn tables_fit_the_terminal_and_piped_output_is_not_cut() {
    let mut long = line("a.web.web", 1, 2);
    long["LastError"] = json!("instance 2: ".to_owned() + &"very ".repeat(12) + "long");
    let server = Server::start(&[(GROUPS, 200, groups(&[long]))]).await;
    let shown = on_terminal(&server, "ls", "").await;
    let widest = shown.out.lines().map(|line| line.trim_end().chars().count()).max();
    assert!(widest.is_some_and(|width| width <= 110) && shown.out.contains('…'), "{shown:?}");
    assert!(shown.out.lines().next().is_some_and(|line| line.contains("ERROR")), "{shown:?}");
    let piped = server.run(&["ls"]).await.out;
    assert!(piped.contains("very long") && !piped.contains('…'), "{piped}");
}

#[tokio::test]
async fn colours_are_for_terminals_and_users_that_want_them() {
    let server = Server::start(&[(NODES, 200, nodes())]).await;
    const RED: &str = "\u{1b}[31mlost\u{1b}[0m";
    assert!(on_terminal(&server, "node list", "").await.out.contains(RED));
    assert!(!on_terminal(&server, "node list --color never", "").await.out.contains(RED));
    assert!(!server.run(&["node", "list"]).await.out.contains(RED));
    assert!(server.run(&["node", "list", "--color", "always"]).await.out.contains(RED));
}

#[tokio::test]
async fn status_is_a_document_for_monitoring() {
    let server = Server::start(&[
        ("GET /api/cluster", 200, json!({"leader": "scheduler-1", "term": 3})),
        (NODES, 200, nodes()),
        (GROUPS, 200, groups(&[line("a.web.web", 2, 2)])),
        ("GET /api/access", 200, json!({"enforced": false, "principal": "x", "bindings": [], "anonymous": []})),
    ])
    .await;
    let ended = server.run(&["status", "-o", "json"]).await;
    let found: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!((&found["Well"], &found["Problems"]), (&json!(false), &json!(["n2 is lost"])));
    assert_eq!((&found["Leader"], &found["PodGroups"][0]["Name"]), (&json!("scheduler-1"), &json!("a.web.web")));
    let yaml = server.run(&["status", "-o", "yaml"]).await.out;
    assert!(yaml.contains("Well: false"), "{yaml}");
}

#[tokio::test]
async fn describe_shows_spec_instances_exit_codes_and_events() {
    let exit = json!({"Code": 3, "At": "2026-01-01T00:00:00Z", "Restarts": 5, "LastLine": "no such file"});
    let spec = json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1,
        "Pod": {"Containers": [{"Image": "box:1", "Env": ["TOKEN=secret"]}]}});
    let group = json!({"Spec": spec, "Pods": [{"InstanceNo": 1, "State": 3, "Exit": exit}]});
    let event = json!({"At": "2026-01-01T00:00:00Z", "Kind": "Incident", "Group": "a.web.web", "Message": "it exited"});
    let server = Server::start(&[(GROUPS, 200, group), ("GET /api/events", 200, json!({"Events": [event]}))]).await;
    let ended = server.run(&["describe", "podgroup", "a.web.web"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in
        ["image      box:1", "env        TOKEN\n", "instance 1 exited (3)", "5 restarts: no such file", "it exited"]
    {
        assert!(ended.out.contains(words), "{words}: {ended:?}");
    }
    assert!(!ended.out.contains("secret"), "{ended:?}");
}

#[tokio::test]
async fn why_names_the_reasons_and_exits_1_until_the_group_is_ready() {
    let group = |state: u8, error: &str| {
        let spec = json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1});
        json!({"Spec": spec, "Pods": [{"InstanceNo": 1, "State": state, "LastError": error}]})
    };
    let list = groups(&[line("a.web.web", 0, 0)]);
    let server =
        Server::start(&[(GROUPS, 200, group(0, "no node fits: n1 is full")), (GROUPS, 200, list.clone())]).await;
    let ended = server.run(&["why", "a.web.web"]).await;
    let expected = "a.web.web: 0 of 1 instances are ready\n- instance 1: no node fits: n1 is full\n  \
        `deployctl get nodes` shows what is free on each node\n";
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), expected), "{ended:?}");
    let server = Server::start(&[(GROUPS, 200, group(2, "")), (GROUPS, 200, list)]).await;
    let ended = server.run(&["why", "a.web.web"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "a.web.web is ready: 1 of 1 instances\n"), "{ended:?}");
}
