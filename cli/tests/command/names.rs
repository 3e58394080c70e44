//! What deployctl does with names: suggestions, several of them, files of them, and commands that name none.

use serde_json::{Value, json};

use crate::questions::on_terminal;
use crate::server::{Server, run};

const GROUPS: &str = "GET /api/podgroups";
const NODES: &str = "GET /api/nodes";
const DELETE: &str = "DELETE /api/podgroups";
const SCALE: &str = "PATCH /api/podgroups?name=a.web.web&cmd=replica&num_instances=";

fn ok() -> Value {
    json!({"message": "ok"})
}

fn list(names: &[&str]) -> Value {
    let line = |name: &&str| json!({"Name": name, "Namespace": "a", "NumInstances": 2, "Running": 2, "State": 2});
    json!({"PodGroups": names.iter().map(line).collect::<Vec<_>>()})
}

fn lines(server: &Server) -> Vec<String> {
    server.changes().into_iter().map(|(line, _)| line).collect()
}

#[tokio::test]
async fn a_mistyped_name_gets_a_suggestion() {
    let answers = [(GROUPS, 404, json!({})), (GROUPS, 200, list(&["ux.db.db", "ux.web.web"]))];
    for words in ["get podgroup ux.wbe.web", "describe podgroup ux.wbe.web", "why ux.web"] {
        let server = Server::start(&answers).await;
        let ended = server.run(&words.split(' ').collect::<Vec<_>>()).await;
        assert!(ended.code == Some(3) && ended.err.ends_with("\ndid you mean ux.web.web?\n"), "{words}: {ended:?}");
    }
    let nodes = [("GET /api/nodes/node1", 404, json!({})), (NODES, 200, json!([{"Name": "node-1"}]))];
    for words in ["node show node1", "describe node node1", "drift --from node1 --all"] {
        let ended = Server::start(&nodes).await.run(&words.split(' ').collect::<Vec<_>>()).await;
        assert!(ended.code == Some(3) && ended.err.ends_with("\ndid you mean node-1?\n"), "{words}: {ended:?}");
        assert!(ended.err.contains("no node \"node1\"; `deployctl get nodes` lists them"), "{words}: {ended:?}");
    }
}

#[tokio::test]
async fn scale_takes_a_number_or_a_difference() {
    let group = json!({"Spec": {"Name": "a.web.web", "Namespace": "a", "NumInstances": 3}});
    for (number, expected) in [("5", 5), ("+1", 4), ("-1", 2), ("-9", 0)] {
        let server = Server::start(&[(GROUPS, 200, group.clone()), ("PATCH /api/podgroups", 202, ok())]).await;
        let ended = server.run(&["scale", "a.web.web", number, "--detach"]).await;
        assert_eq!((ended.code, lines(&server)), (Some(0), vec![format!("{SCALE}{expected}")]), "{ended:?}");
    }
}

#[tokio::test]
async fn delete_takes_several_names_or_a_file() {
    let server = Server::start(&[(DELETE, 202, ok())]).await;
    let ended = server.run(&["delete", "a.web.web", "a.db.db", "--detach"]).await;
    let expected = ["a.web.web", "a.db.db"].map(|name| format!("DELETE /api/podgroups?name={name}"));
    assert_eq!((ended.code, lines(&server)), (Some(0), expected.to_vec()), "{ended:?}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "Name: a.web.web\nNamespace: a\nNumInstances: 1\nPod: {Containers: [{Image: i}]}\n";
    std::fs::write(file.path(), text).expect("written");
    let path = file.path().to_str().expect("a path");
    let server = Server::start(&[(DELETE, 404, json!({}))]).await;
    let ended = server.run(&["delete", "-f", path]).await;
    assert!(ended.code == Some(0) && ended.out.contains("PodGroup a.web.web does not exist"), "{ended:?}");
    assert_eq!(server.run(&["delete"]).await.code, Some(2));
    assert_eq!(server.run(&["delete", "a.web.web", "--all"]).await.code, Some(2));
}

#[tokio::test]
async fn commands_without_a_scope_ask_on_a_terminal_and_need_a_flag_elsewhere() {
    let answers = [
        (GROUPS, 200, list(&["a.db.db", "a.web.web"])),
        (DELETE, 202, ok()),
        (NODES, 200, json!([{"Name": "n1"}])),
        ("PATCH /api/nodes", 202, ok()),
        ("DELETE /api/nodes", 202, ok()),
    ];
    for (words, flag, what, count) in [
        ("delete --all -d", "--yes", "deletes all 2 PodGroups with 4 instances in http://127.0.0.1:", 2),
        ("drift --from n1 -d", "--all", "moves the instances of every PodGroup off n1 in http://127.0.0.1:", 1),
        ("evacuate n1 -d", "--yes", "moves every instance off n1 in http://127.0.0.1:", 1),
    ] {
        let server = Server::start(&answers).await;
        let ended = server.run(&words.split(' ').collect::<Vec<_>>()).await;
        assert_eq!((ended.code, server.changes().len()), (Some(2), 0), "{words}: {ended:?}");
        assert!(ended.err.contains(what) && ended.err.contains(flag), "{words}: {ended:?}");
        let ended = on_terminal(&server, words, "n\n").await;
        assert_eq!((ended.code, server.changes().len()), (Some(2), 0), "{words}: {ended:?}");
        assert!(ended.out.contains(what) && ended.out.contains("Continue? [y/N]"), "{words}: {ended:?}");
        let ended = on_terminal(&server, words, "y\n").await;
        assert_eq!((ended.code, server.changes().len()), (Some(0), count), "{words}: {ended:?}");
        let ended = server.run(&format!("{words} {flag}").split(' ').collect::<Vec<_>>()).await;
        assert_eq!((ended.code, server.changes().len()), (Some(0), 2 * count), "{words}: {ended:?}");
    }
}

#[tokio::test]
async fn words_of_other_tools_get_the_command_that_does_the_same() {
    let server = Server::start(&[]).await;
    for (word, hint) in
        [("validate", "deployctl plan -f FILE"), ("top", "deployctl get nodes"), ("inspect", "describe podgroup")]
    {
        let ended = server.run(&[word]).await;
        assert!(ended.code == Some(2) && ended.err.contains(hint), "{word}: {ended:?}");
        assert!(!ended.err.contains("similar subcommand"), "{word}: {ended:?}");
    }
    assert!(server.run(&["aply"]).await.err.contains("'apply'"));
}

#[tokio::test]
async fn completion_scripts_are_valid_and_know_the_commands() {
    let server = Server::start(&[]).await;
    for shell in ["bash", "zsh", "fish"] {
        let ended = server.run(&["completion", shell]).await;
        assert!(ended.code == Some(0) && ended.out.contains("rollout") && ended.out.contains("podgroup"), "{shell}");
    }
    let script = server.run(&["completion", "bash"]).await.out;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let complete =
        "COMP_WORDS=(deployctl roll) COMP_CWORD=1\n_deployctl deployctl roll deployctl\necho ${COMPREPLY[@]}\n";
    std::fs::write(file.path(), format!("{script}\n{complete}")).expect("written");
    let shell = tokio::process::Command::new("bash").arg(file.path()).output().await.expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&shell.stdout), "rollout\n", "{shell:?}");
}

#[tokio::test]
async fn an_address_without_a_scheme_means_http() {
    let server = Server::start(&[(NODES, 200, json!([]))]).await;
    let address = server.url().trim_start_matches("http://").to_owned();
    let ended = server.run(&["node", "list", "--api", &address]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "no nodes\n"), "{ended:?}");
}

#[tokio::test]
async fn without_user_a_change_carries_the_name_of_the_uid() {
    let server = Server::start(&[("PATCH /api/podgroups", 202, ok())]).await;
    let mut command = server.command(&["scale", "a.web.web", "3", "--detach"]);
    command.env_remove("USER").env_remove("LOGNAME");
    assert_eq!(run(command).await.code, Some(0));
    let id = tokio::process::Command::new("id").arg("-un").output().await.expect("id runs");
    assert_eq!(server.users(), [String::from_utf8_lossy(&id.stdout).trim()]);
}
