//! A user's first application: from an empty directory to ready instances, with `init`, `apply`, `run` and `set`.

use std::time::Duration;

use contract::state::RestartPolicy;
use reqwest::Method;

use crate::cluster::{Cluster, IMAGE, demo_group, text};

const SOON: Duration = Duration::from_secs(60);

async fn succeeds(cluster: &Cluster, words: &[&str]) -> String {
    let output = cluster.deployctl(words).await;
    assert!(output.status.success(), "{words:?}:\n{}", text(&output));
    text(&output)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_directory_becomes_ready_instances_with_two_commands() {
    let cluster = Cluster::start(&[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("shop").display().to_string();
    succeeds(&cluster, &["init", &dir, "--image", IMAGE, "--port", "8080"]).await;
    let file = format!("{dir}/deployd.yaml");
    let applied = succeeds(&cluster, &["apply", "--wait", "-f", &file]).await;
    assert!(applied.contains("PodGroup shop.web created"), "{applied}");
    let group = cluster.running("shop.web", 2, SOON).await;
    assert!(group.spec.has_strategy() && group.spec.restart_policy == RestartPolicy::Always, "{:?}", group.spec);
    cluster.exactly("shop.web", 2, SOON).await;
    let again = succeeds(&cluster, &["apply", "--wait", "-f", &file]).await;
    assert!(again.contains("PodGroup shop.web is unchanged"), "{again}");
    an_image_runs_with_one_command_and_is_changed_by_set(&cluster).await;
    a_group_without_a_strategy_keeps_none(&cluster, &file).await;
}

async fn an_image_runs_with_one_command_and_is_changed_by_set(cluster: &Cluster) {
    let run = ["run", IMAGE, "--name", "trial.web", "--port", "8080", "--replicas", "2", "--memory", "16Mi", "--wait"];
    succeeds(cluster, &run).await;
    cluster.running("trial.web", 2, SOON).await;
    succeeds(cluster, &["set", "env", "trial.web", "GREETING=hello", "--wait"]).await;
    let group = cluster.running("trial.web", 2, SOON).await;
    assert_eq!((group.spec.version, &group.spec.pod.containers[0].env), (1, &vec!["GREETING=hello".to_owned()]));
    let again = succeeds(cluster, &["set", "env", "trial.web", "GREETING=hello", "--wait"]).await;
    assert!(again.contains("is unchanged"), "{again}");
    cluster.exactly("trial.web", 2, SOON).await;
}

async fn a_group_without_a_strategy_keeps_none(cluster: &Cluster, file: &str) {
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("old.web.web", 2))).await;
    cluster.running("old.web.web", 2, SOON).await;
    let short = format!(
        "name: old.web.web\nimage: {IMAGE}\nreplicas: 2\nport: 8080\nenv: {{GREETING: hello}}\nplace: [group==default]\n"
    );
    std::fs::write(file, short).expect("the file is written");
    let applied = succeeds(cluster, &["apply", "--wait", "-f", file]).await;
    assert!(applied.contains("updated: Pod.Containers[0].Env"), "{applied}");
    let group = cluster.running("old.web.web", 2, SOON).await;
    assert_eq!((group.spec.has_strategy(), group.spec.version), (false, 1));
    cluster.exactly("old.web.web", 2, SOON).await;
}
