//! `rollout`, `gate`, `drained`, `apply` and `delete` of groups whose changes are rollouts.

use serde_json::{Value, json};

use crate::server::{Ended, Server};

const ROLLOUTS: &str = "GET /api/rollouts";
const REVISIONS: &str = "GET /api/revisions";
const CHANGE: &str = "PATCH /api/podgroups";
const OPEN: &str = "Progressing";

pub(super) fn rollout(release: u32, status: &str, updated: i64) -> Value {
    let phase = match status {
        "Complete" => "Completed",
        "Aborted" => "Aborted",
        "WaitingForConfirm" => "WaitingForConfirm",
        _ => "Running",
    };
    json!({
        "Name": "a.web.web", "Release": release, "Strategy": "Beta", "IsRollback": false, "Phase": phase, "Stand": status,
        "Message": format!("{updated} of 4 are there"), "Since": "2026-01-01T00:00:00Z", "Replicas": 4, "MinAvailable": 3,
        "MaxTotal": 4, "Group": 1, "Groups": [], "WaitsFor": [], "Instances": [], "IsPaused": status == "Paused",
        "IsFrozen": false, "Warnings": [],
        "Units": [{"Name": "", "Target": 4, "Committed": 4, "Updated": updated, "UpdatedAvailable": updated,
                   "Available": 4, "Unplaced": 0}],
    })
}

pub(super) fn revision(number: u32, outcome: &str, by: &str) -> Value {
    json!({
        "Revision": number, "At": "2026-01-01T00:00:00Z", "By": by, "Cause": "ticket-7", "Outcome": outcome,
        "EndedAt": "2026-01-01T00:01:00Z", "Copies": null, "Instances": 4,
        "Pod": {"Name": "a.web.web", "Containers": [{"Image": format!("i:{number}")}]},
    })
}

fn accepted() -> Value {
    json!({"message": "ok"})
}

fn lines(ended: &Ended) -> Vec<String> {
    ended.err.lines().map(|line| line.split("; ").nth(1).unwrap_or(line).to_owned()).collect()
}

#[tokio::test]
async fn status_writes_a_line_per_change_to_standard_error_and_the_end_to_standard_output() {
    let looks = [0, 0, 2, 2].map(|updated| (ROLLOUTS, 200, rollout(5, OPEN, updated)));
    let server = Server::start(&[&looks[..], &[(ROLLOUTS, 200, rollout(5, "Complete", 4))]].concat()).await;
    let ended = server.run(&["rollout", "status", "a.web.web"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(lines(&ended), ["0/4 updated, 4 available", "2/4 updated, 4 available"]);
    assert!(ended.out.starts_with("a.web.web: revision 5 (Beta) is complete"), "{}", ended.out);
    let json = server.run(&["rollout", "status", "a.web.web", "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&json.out).expect("JSON"), rollout(5, "Complete", 4));
}

#[tokio::test]
async fn every_failed_rollout_is_exit_code_1_with_the_remedy() {
    for (status, remedy) in
        [("Held", "rollout undo a.web.web"), ("Stuck", "rollout undo"), ("Aborted", "deployctl apply")]
    {
        let server = Server::start(&[(ROLLOUTS, 200, rollout(5, status, 1))]).await;
        for words in [&["rollout", "status", "a.web.web"][..], &["rollout", "status", "a.web.web", "--no-wait"]] {
            let ended = server.run(words).await;
            assert_eq!(ended.code, Some(1), "{status}: {ended:?}");
            assert!(
                ended.err.contains("rollout of PodGroup a.web.web to revision 5") && ended.err.contains(remedy),
                "{ended:?}"
            );
            assert!(ended.out.contains("1 of 4 are there"), "{ended:?}");
        }
    }
}

#[tokio::test]
async fn a_rollout_that_waits_for_approval_prints_the_command_and_ends_at_the_deadline() {
    let server = Server::start(&[(ROLLOUTS, 200, rollout(5, "WaitingForConfirm", 1))]).await;
    let ended = server.run(&["rollout", "status", "a.web.web", "--timeout", "500ms"]).await;
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let first = ended.err.lines().next().unwrap_or_default();
    assert!(first.contains("`deployctl rollout confirm a.web.web --batch 1`"), "{ended:?}");
    let now = server.run(&["rollout", "status", "a.web.web", "--no-wait"]).await;
    assert_eq!(now.code, Some(0), "{now:?}");
}

#[tokio::test]
async fn ctrl_c_does_not_stop_the_rollout() {
    let server = Server::start(&[(ROLLOUTS, 200, rollout(5, OPEN, 1))]).await;
    let child = server.command(&["rollout", "status", "a.web.web"]).spawn().expect("deployctl runs");
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
    // It has begun to listen for the signal before it asks.
    let mut pause = tokio::time::interval(std::time::Duration::from_millis(10));
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while server.count("GET /api/rollouts?name=a.web.web") < 2 {
        assert!(tokio::time::Instant::now() < deadline, "it never asked");
        pause.tick().await;
    }
    rustix::process::kill_process(pid.expect("a pid"), rustix::process::Signal::INT).expect("the signal is sent");
    let ended = Ended::of(&child.wait_with_output().await.expect("it ends"));
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.err.contains("continues in the background") && server.changes().is_empty(), "{ended:?}");
}

#[tokio::test]
async fn confirm_names_the_revision_and_the_batch_that_were_shown() {
    let server = Server::start(&[
        (ROLLOUTS, 200, rollout(5, "WaitingForConfirm", 1)),
        (CHANGE, 202, accepted()),
        (CHANGE, 202, accepted()),
        (CHANGE, 409, json!({"message": "batch 1 is not the current batch of the rollout to revision 5; batch 2 is"})),
    ])
    .await;
    assert_eq!(server.run(&["rollout", "confirm", "a.web.web"]).await.code, Some(0));
    assert_eq!(server.run(&["rollout", "skip", "a.web.web", "--group", "3"]).await.code, Some(0));
    let late = server.run(&["rollout", "confirm", "a.web.web"]).await;
    assert!(late.code == Some(1) && late.err.contains("batch 2 is"), "{late:?}");
    let mut whole = rollout(5, OPEN, 1);
    whole["Group"] = json!(0);
    let none = Server::start(&[(ROLLOUTS, 200, whole)]).await.run(&["rollout", "confirm", "a.web.web"]).await;
    assert!(none.code == Some(1) && none.err.contains("has no current batch"), "{none:?}");
    let asked: Vec<String> = server.changes().into_iter().map(|(line, _)| line).collect();
    const SAY: &str = "PATCH /api/podgroups?name=a.web.web&cmd=rollout&action=";
    assert_eq!(asked[0], format!("{SAY}confirm&release=5&group=1"));
    assert_eq!(asked[1], format!("{SAY}skip&group=3"));
}

#[tokio::test]
async fn undo_leaves_a_paused_group_alone_unless_forced() {
    let paused = [(ROLLOUTS, 200, rollout(5, "Paused", 1)), (CHANGE, 202, accepted())];
    let server = Server::start(&paused).await;
    let refused = server.run(&["rollout", "undo", "a.web.web"]).await;
    assert!(
        refused.code == Some(1) && refused.err.contains("`deployctl rollout resume a.web.web` first"),
        "{refused:?}"
    );
    assert_eq!(server.changes(), []);
    let words = ["rollout", "undo", "a.web.web", "--force", "--to", "3", "--cause", "too slow"];
    assert_eq!(server.run(&words).await.code, Some(0));
    let expected = "PATCH /api/podgroups?name=a.web.web&cmd=rollout&action=undo&revision=3&cause=too+slow";
    assert_eq!(server.changes()[0].0, expected);
}

#[tokio::test]
async fn undo_with_wait_follows_its_own_rollout() {
    let mut back = rollout(6, "Complete", 4);
    back["IsRollback"] = Value::from(true);
    let looks = [(ROLLOUTS, 200, rollout(5, OPEN, 1)), (ROLLOUTS, 200, back), (CHANGE, 202, accepted())];
    let ended = Server::start(&looks).await.run(&["rollout", "undo", "a.web.web", "--wait"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.out.contains("rolling back PodGroup a.web.web (revision 6)") && ended.out.contains("is complete"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn pause_resume_abort_freeze_accept_a_revision() {
    let server = Server::start(&[(CHANGE, 202, accepted())]).await;
    for action in ["pause", "resume", "abort", "freeze", "unfreeze"] {
        assert_eq!(server.run(&["rollout", action, "a.web.web", "--release", "5"]).await.code, Some(0), "{action}");
        let expected = format!("PATCH /api/podgroups?name=a.web.web&cmd=rollout&action={action}&release=5");
        assert_eq!(server.changes().last().map(|(line, _)| line.clone()), Some(expected));
    }
    assert_eq!(server.run(&["drained", "a.web.web", "2"]).await.code, Some(0));
    assert_eq!(server.run(&["gate", "a.web.web", "2", "open", "false", "--version", "5"]).await.code, Some(0));
    let asked: Vec<String> = server.changes().into_iter().skip(5).map(|(line, _)| line).collect();
    assert_eq!(asked[0], "PATCH /api/podgroups?name=a.web.web&cmd=drained&instance=2");
    assert_eq!(asked[1], "PATCH /api/podgroups?name=a.web.web&cmd=gate&instance=2&gate=open&value=false&version=5");
}

#[tokio::test]
async fn the_history_is_a_table_a_revision_its_pod_and_an_unknown_one_an_error() {
    let revisions = [revision(4, "Superseded", "alice"), revision(5, "Completed", "")];
    let history = json!({"Name": "a.web.web", "Current": 5, "Revisions": revisions});
    let server = Server::start(&[(REVISIONS, 200, history.clone())]).await;
    let table = server.run(&["rollout", "history", "a.web.web"]).await;
    for words in ["Superseded", "ticket-7", "i:4", "5*", "automatic rollback"] {
        assert!(table.out.contains(words), "{words}: {table:?}");
    }
    let one = server.run(&["rollout", "history", "a.web.web", "--revision", "4"]).await;
    assert!(one.out.contains("\"Image\": \"i:4\""), "{one:?}");
    let unknown = server.run(&["rollout", "history", "a.web.web", "--revision", "9"]).await;
    assert!(unknown.code == Some(3) && unknown.err.contains("it has 4, 5"), "{unknown:?}");
    let missing = Server::start(&[(REVISIONS, 404, json!({"message": "PodGroup not existed"}))]).await;
    let missing = missing.run(&["rollout", "history", "a.web.web"]).await;
    assert!(missing.code == Some(3) && missing.err.contains("`deployctl get podgroup` lists them"), "{missing:?}");
}

#[tokio::test]
async fn apply_changes_the_strategy_before_the_pod_and_follows_the_rollout() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let spec = json!({
        "Name": "a.web.web", "Namespace": "a", "NumInstances": 1, "Strategy": {"Type": "Beta", "BatchSize": 2},
        "Pod": {"Name": "a.web.web", "Namespace": "a", "Containers": [{"Image": "i:2"}]},
    });
    std::fs::write(file.path(), spec.to_string()).expect("written");
    let mut current = spec.clone();
    current["Strategy"] = json!({"Type": "Batch", "BatchSize": 2});
    current["MinReadySeconds"] = json!(3);
    current["Pod"]["Containers"][0]["Image"] = json!("i:1");
    let pods = json!([{"InstanceNo": 1, "State": 2}]);
    let server = Server::start(&[
        ("GET /api/podgroups", 200, json!({"Spec": current, "Pods": pods})),
        ("GET /api/podgroups", 200, json!({"Spec": spec, "Pods": pods})),
        (CHANGE, 202, accepted()),
        (ROLLOUTS, 200, rollout(5, OPEN, 1)),
        (ROLLOUTS, 200, rollout(5, "Complete", 4)),
    ])
    .await;
    let path = file.path().to_str().expect("a path");
    let ended = server.run(&["apply", "-f", path, "--wait", "--cause", "ticket-7"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.err.contains("updated: MinReadySeconds, Strategy.Type, updated: Pod.Containers[0].Image"),
        "{ended:?}"
    );
    let changes = server.changes();
    assert_eq!(changes[0].0, "PATCH /api/podgroups?name=a.web.web&cmd=strategy&strict=true");
    let sent: Value = serde_json::from_str(&changes[0].1).expect("JSON");
    assert_eq!(sent, json!({"MinReadySeconds": null, "Strategy": {"Type": "Beta"}}));
    assert_eq!(changes[1].0, "PATCH /api/podgroups?name=a.web.web&cmd=spec&strict=true&cause=ticket-7");
    assert_eq!(changes.len(), 2, "{changes:?}");
}

#[tokio::test]
async fn a_group_is_deleted_in_the_way_asked_for() {
    let server = Server::start(&[("DELETE /api/podgroups", 202, accepted())]).await;
    for words in [&[][..], &["--mode", "background"], &["--mode", "orphan"]] {
        let words = [&["delete", "podgroup", "a.web.web", "--detach"][..], words].concat();
        assert_eq!(server.run(&words).await.code, Some(0));
    }
    let asked: Vec<String> = server.changes().into_iter().map(|(line, _)| line).collect();
    const DELETE: &str = "DELETE /api/podgroups?name=a.web.web";
    assert_eq!(asked, [DELETE.to_owned(), format!("{DELETE}&mode=background"), format!("{DELETE}&mode=orphan")]);
}

#[tokio::test]
async fn an_apply_that_is_rolled_back_exits_1_with_the_exit_code_and_the_last_log_line() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let spec = json!({
        "Name": "a.web.web", "Namespace": "a", "NumInstances": 4, "Strategy": {"Type": "Beta"},
        "Pod": {"Name": "a.web.web", "Namespace": "a", "Containers": [{"Image": "i:2"}]},
    });
    std::fs::write(file.path(), spec.to_string()).expect("written");
    let mut current = spec.clone();
    current["Pod"]["Containers"][0]["Image"] = json!("i:1");
    let why = "exited (3), 5 restarts: cannot open /etc/app.conf";
    let pod = json!({"Revision": 5, "Node": "n1", "Ready": false, "Available": false, "Draining": false, "Gates": {},
        "IPs": [], "NodePorts": [], "Containers": [], "Why": why});
    let mut broken = rollout(5, OPEN, 1);
    broken["Instances"] = json!([{"Instance": 2, "Unit": "", "Pods": [pod]}]);
    let mut back = rollout(6, "Complete", 4);
    back["IsRollback"] = json!(true);
    let history = [revision(5, "RolledBack", "alice"), revision(6, "Completed", "")];
    let server = Server::start(&[
        ("GET /api/podgroups", 200, json!({"Spec": current, "Pods": []})),
        (CHANGE, 202, accepted()),
        (ROLLOUTS, 200, rollout(5, OPEN, 1)),
        (ROLLOUTS, 200, broken),
        (ROLLOUTS, 200, back),
        (REVISIONS, 200, json!({"Name": "a.web.web", "Current": 6, "Revisions": history})),
    ])
    .await;
    let ended = server.run(&["apply", "-w", "-f", file.path().to_str().expect("a path")]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("was rolled back by revision 6"), "{ended:?}");
    assert!(ended.err.lines().last().is_some_and(|line| line.contains(&format!("instance 2: {why}"))), "{ended:?}");
}
