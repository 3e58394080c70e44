//! A rollout through deployctl, from the plan to the history, with the exit codes that scripts rely on.

use std::path::Path;

use contract::rollout_view::{PlanView, RolloutPhase};
use serde_json::json;

use super::images::{self, SECOND};
use super::rollout::{Rollout, group, with_image};
use crate::cluster::{Cluster, text};

const NAME: &str = "script.web.web";

#[tokio::test(flavor = "multi_thread")]
async fn deployctl_plans_follows_confirms_and_undoes_with_documented_exit_codes() {
    let cluster = Cluster::start(&[]).await;
    let strategy = json!({
        "Type": "Batch", "BatchSize": 2, "NeedWaitingForConfirm": true, "ConfirmFirstDeployment": true,
    });
    let wanted = group(NAME, 3, &json!({"Strategy": strategy}));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, image: &str| {
        let mut group = wanted.clone();
        group["Pod"] = with_image(&wanted, image);
        let path = folder.path().join(name);
        std::fs::write(&path, group.to_string()).expect("written");
        path
    };
    let first = file("first.json", crate::cluster::IMAGE);
    let (second, broken) = (file("second.json", SECOND), file("broken.json", &images::unknown().await));

    ends(&cluster, 3, &["rollout", "status", NAME], "").await;
    ends(&cluster, 10, &["plan", "--detailed-exitcode", "-f", path(&first)], NAME).await;
    ends(&cluster, 0, &["apply", "--detach", "-f", path(&first)], NAME).await;
    let release = Rollout::of(&cluster, NAME).await;
    waits(&release, 0).await;
    ends(&cluster, 5, &["rollout", "status", NAME, "--timeout", "1s"], "rollout confirm").await;
    ends(&cluster, 0, &["rollout", "confirm", NAME], "").await;
    ends(&cluster, 0, &["rollout", "status", NAME], "").await;
    ends(&cluster, 0, &["plan", "--detailed-exitcode", "-f", path(&first)], NAME).await;
    ends(&cluster, 1, &["rollout", "confirm", NAME], "").await;

    ends(&cluster, 10, &["plan", "--detailed-exitcode", "-f", path(&second)], NAME).await;
    let planned = cluster.deployctl(&["plan", "--output", "json", "-f", path(&second)]).await;
    let plan: PlanView = serde_json::from_slice(&planned.stdout).expect("a PlanView");
    assert_eq!((plan.release, plan.completes, plan.changes.len()), (1, true, 3), "{plan:#?}");
    let before = release.exactly(3).await;
    ends(&cluster, 0, &["apply", "--detach", "--cause", "the second one", "-f", path(&second)], NAME).await;
    waits(&release, 1).await;
    let now = release.exactly(3).await;
    let touched = now.iter().filter(|container| !before.contains(container)).count();
    let planned: Vec<usize> = plan.steps.iter().map(|step| step.actions.len()).collect();
    assert_eq!((planned, touched), (vec![2, 1], 2), "the first group is what was planned: {plan:#?}");
    ends(&cluster, 0, &["rollout", "confirm", NAME, "--release", "1", "--group", "1"], "").await;
    ends(&cluster, 0, &["rollout", "status", NAME, "--release", "1"], "").await;

    ends(&cluster, 0, &["apply", "--detach", "-f", path(&broken)], NAME).await;
    ends(&cluster, 1, &["rollout", "status", NAME], "undo").await;
    ends(&cluster, 0, &["rollout", "undo", NAME, "--cause", "it was broken", "--wait"], "").await;
    for told in ["the second one", "it was broken", "Superseded"] {
        ends(&cluster, 0, &["rollout", "history", NAME], told).await;
    }
    assert!(release.exactly(3).await.iter().all(|container| container.running));
    ends(&cluster, 0, &["delete", "podgroup", NAME, "--mode", "background"], "").await;
    release.exactly(0).await;
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a path")
}

async fn waits(release: &Rollout<'_>, number: u32) {
    release
        .until("it waits to be confirmed", |view| {
            (view.release, view.phase) == (number, RolloutPhase::WaitingForConfirm)
        })
        .await;
}

/// It ends with this code and says that.
async fn ends(cluster: &Cluster, code: i32, arguments: &[&str], says: &str) {
    let output = cluster.deployctl(arguments).await;
    let said = text(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}:\n{said}");
    assert!(said.contains(says), "{arguments:?} does not say {says:?}:\n{said}");
}
