//! `deployctl logs` on a whole cluster: several instances, a restart while they are followed, and who may read them.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::cluster::{Cluster, demo_group, eventually, program, repository, text};

const SOON: Duration = Duration::from_secs(60);
const GROUP: &str = "shop.web.web";
/// What the demo writes at its start.
const LISTENS: &str = "demo listens on 8080";

/// `deployctl logs --follow`; dropping it ends it.
struct Follower {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        let mut command = Command::new(program("deployctl"));
        command.current_dir(repository()).arg("--dir").arg(cluster.folder()).args(["logs", "--follow"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("deployctl runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { _child: child, lines }
    }

    async fn next(&mut self) -> String {
        let line = tokio::time::timeout(SOON, self.lines.next_line()).await.expect("a line in time");
        line.expect("readable").expect("it still follows")
    }
}

impl Cluster {
    async fn shown_logs(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.deployctl(&[&["logs"], arguments].concat()).await;
        (output.status.code(), text(&output))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_logs_of_all_instances_are_shown_and_followed_through_restarts_of_instance_and_apiserver() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group(GROUP, 3))).await;
    cluster.running(GROUP, 3, SOON).await;
    let all: BTreeSet<String> = (1..=3).map(|instance| format!("[web {instance}] {LISTENS}")).collect();
    eventually(SOON, "a line of each instance", async || {
        let (code, said) = cluster.shown_logs(&[GROUP]).await;
        assert_eq!(code, Some(0), "{said}");
        (said.lines().map(str::to_owned).collect::<BTreeSet<_>>() == all).then_some(())
    })
    .await;
    assert_eq!(cluster.shown_logs(&[GROUP, "--instance", "2"]).await, (Some(0), format!("{LISTENS}\n")));
    assert_eq!(cluster.shown_logs(&[GROUP, "--instance", "2", "--previous"]).await, (Some(0), String::new()));

    let mut follower = Follower::start(&cluster, &[GROUP]);
    let seen = BTreeSet::from([follower.next().await, follower.next().await, follower.next().await]);
    assert_eq!(seen, all);
    let workloads = cluster.exactly(GROUP, 3, SOON).await;
    let second = workloads.iter().find(|workload| workload.instance == 2).expect("instance 2");
    cluster.engine.kill(&second.id).await;
    assert_eq!(follower.next().await, format!("[web 2] {LISTENS}"), "the restarted instance");
    assert_eq!(
        cluster.shown_logs(&[GROUP, "--instance", "2", "--previous", "--prefix"]).await,
        (Some(0), format!("[web 2] {LISTENS}\n"))
    );

    // The follower loses its apiserver, and continues at another one without a line twice.
    for name in ["apiserver-1", "apiserver-2"] {
        let before = cluster.child(name);
        cluster.kill(name);
        cluster.restarted(name, before).await;
    }
    let third = workloads.iter().find(|workload| workload.instance == 3).expect("instance 3");
    cluster.engine.kill(&third.id).await;
    assert_eq!(follower.next().await, format!("[web 3] {LISTENS}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_readers_of_its_namespace_see_the_log_of_a_group_and_wrong_names_are_explained() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group(GROUP, 1))).await;
    let mut unplaced = demo_group("shop.far.away", 1);
    unplaced["Pod"]["Filters"] = json!(["constraint:node==nowhere"]);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&unplaced)).await;
    cluster.running(GROUP, 1, SOON).await;
    for (binding, status, code, part) in [
        ("viewer@shop", 200, 0, LISTENS),
        ("viewer@bank", 404, 3, "no PodGroup"),
        ("monitor@*", 403, 7, "not allowed (403)"),
    ] {
        let token = cluster.token(binding, &[binding.to_owned()]).await;
        let file = cluster.folder().join("reader.token");
        std::fs::write(&file, &token).expect("written");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("private");
        let request = fabric::http::client(SOON).get(format!("{}/api/logs?name={GROUP}", cluster.api(0)));
        let answer = request.bearer_auth(token).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{binding}");
        let said = cluster.deployctl(&["--token-file", file.to_str().expect("a path"), "logs", GROUP]).await;
        assert!(said.status.code() == Some(code) && text(&said).contains(part), "{binding}: {}", text(&said));
    }
    for (arguments, code, part) in [
        (&["shop.web.wbe"][..], 3, "did you mean shop.web.web?"),
        (&[GROUP, "--instance", "7"], 3, "has no instance 7; it has the instances 1 to 1"),
        (&[GROUP, "--container", "2"], 3, "no container 2; they have the containers 0 to 0"),
        (&["shop.far.away"], 1, "no node yet: no node fits"),
    ] {
        let (seen, said) = cluster.shown_logs(arguments).await;
        assert!(seen == Some(code) && said.contains(part), "{arguments:?}: {seen:?} {said}");
    }
}
