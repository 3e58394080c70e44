//! Commands report what they observed: neither an accepted request nor an answer that may be behind is a success.

use contract::backup::{Entry, FORMAT, Header, Writer};
use contract::keys;
use contract::record::SCHEMA_VERSION;
use contract::time::Timestamp;
use serde_json::{Value, json};

use crate::rollouts::{revision, rollout};
use crate::server::{Ended, Server};

const GROUPS: &str = "GET /api/podgroups";
const CHANGE: &str = "PATCH /api/podgroups";
const OPERATION: &str = "GET /api/operations";
const NODE: &str = "GET /api/nodes/n1";
const NODES: &str = "PATCH /api/nodes";
const ROLLOUTS: &str = "GET /api/rollouts";

type Answer = (&'static str, u16, Value);

fn ok(what: &'static str) -> Answer {
    (what, 202, json!({"message": "ok"}))
}

fn decided(state: &str) -> Answer {
    let at = "2026-01-01T00:00:00Z";
    (OPERATION, 200, json!({"operation": "{key}", "state": state, "message": "read only", "decided_at": at}))
}

fn undecided() -> Answer {
    (OPERATION, 404, json!({"message": "not decided"}))
}

/// A group of one instance, in this state, whose container started at this second.
fn group(state: u8, second: u8) -> Value {
    let started = json!({"StartedAt": format!("2026-01-01T00:00:{second:02}Z"), "FinishedAt": "0001-01-01T00:00:00Z"});
    let container = json!({"Id": "c1", "NodeName": "n1", "Runtime": {"Id": "c1", "State": started}});
    json!({"Spec": {"Name": "a.web.web", "Namespace": "a", "NumInstances": 1},
        "Pods": [{"InstanceNo": 1, "State": state, "Containers": [container]}]})
}

fn line(operation: &str) -> Value {
    json!({"PodGroups": [{"Name": "a.web.web", "NumInstances": 1, "Running": 1, "Operation": operation}]})
}

fn node(pods: &[Value]) -> Value {
    json!({"Name": "n1", "State": "alive", "Engine": "up", "Containers": pods.len(), "Pods": pods,
        "HeardAt": "2026-01-01T00:00:00Z"})
}

fn pod(name: &str, group: &str, bound: bool) -> Value {
    json!({"Name": name, "PodGroup": group, "Instance": 1, "State": 2, "Bound": bound, "Why": "no node fits"})
}

async fn run(answers: &[Answer], words: &str) -> Ended {
    Server::start(answers).await.run(&words.split(' ').collect::<Vec<_>>()).await
}

#[tokio::test]
async fn the_engine_is_started_or_stopped_when_a_leader_has_decided_so() {
    let switch = ("PATCH /api/status", 202, json!("Accept"));
    let ended = run(&[switch.clone(), undecided(), decided("refused")], "engine stop").await;
    assert!(ended.code == Some(1) && ended.err.contains("read only") && ended.out.is_empty(), "{ended:?}");
    let ended = run(&[switch, undecided(), decided("accepted")], "engine stop").await;
    assert!(ended.code == Some(0) && ended.out.contains("scheduling is stopped"), "{ended:?}");
}

#[tokio::test]
async fn the_guard_is_switched_when_a_leader_has_decided_so() {
    const SWITCH: &str = "POST /api/guard";
    let shown = ("GET /api/guard", 200, json!({"guard": "working"}));
    let ok = (SWITCH, 200, json!({"successed": "OK"}));
    let ended = run(&[ok.clone(), shown.clone(), decided("refused")], "guard sleep").await;
    assert!(ended.code == Some(1) && ended.err.contains("read only") && ended.out.is_empty(), "{ended:?}");
    // `Failed` also answers a change that may have been stored.
    let failed = (SWITCH, 200, json!({"successed": "Failed"}));
    let server = Server::start(&[failed.clone(), ok, shown.clone(), undecided(), decided("accepted")]).await;
    let ended = server.run(&["guard", "work"]).await;
    assert!(ended.code == Some(0) && ended.out.contains("guard: working"), "{ended:?}");
    assert!(server.keys().len() == 2 && server.keys()[0] == server.keys()[1], "{:?}", server.keys());
    let ended = run(&[failed, shown, decided("accepted")], "guard work").await;
    assert!(ended.code == Some(0) && ended.out.contains("guard: working"), "{ended:?}");
}

#[tokio::test]
async fn a_restart_is_done_when_the_containers_have_started_again() {
    let before = [(GROUPS, 200, group(2, 1)), ok(CHANGE), (GROUPS, 200, line("Restarting")), (GROUPS, 200, line(""))];
    let same = [(GROUPS, 200, group(2, 1))];
    let words = "restart a.web.web --wait --timeout 2s";
    let ended = run(&[&before[..], &same].concat(), words).await;
    assert!(ended.code == Some(5) && ended.err.contains("instance 1 has not been restarted"), "{ended:?}");
    assert!(!ended.err.contains("a.web.web restarted"), "{ended:?}");
    let ended = run(&[&before[..], &same, &[(GROUPS, 200, group(2, 9))]].concat(), words).await;
    assert!(ended.code == Some(0) && ended.err.contains("PodGroup a.web.web restarted"), "{ended:?}");
}

#[tokio::test]
async fn an_instance_that_is_not_there_was_not_started() {
    let without = json!({"Spec": {"Name": "a.web.web", "Namespace": "a", "NumInstances": 1}, "Pods": []});
    let start = [(GROUPS, 200, group(3, 1)), ok(CHANGE), (GROUPS, 200, line("")), (GROUPS, 200, without)];
    let ended = run(&start, "start a.web.web --instance 1 --wait --timeout 1s").await;
    assert!(ended.code == Some(3) && ended.err.contains("has no instance 1"), "{ended:?}");
    let ended = run(&start, "start a.web.web --wait --timeout 1s").await;
    assert!(ended.code == Some(5) && !ended.err.contains("a.web.web started"), "{ended:?}");
}

#[tokio::test]
async fn instances_have_left_a_node_when_the_node_has_none_of_them_any_more() {
    let nodes = ("GET /api/nodes", 200, json!([{"Name": "n1"}]));
    let (there, other) = (pod("a.web.web.v0-i1-d0", "a.web.web", false), pod("b.web.web.v0-i1-d0", "b.web.web", false));
    for (words, change) in [("drift --from n1 --all", ok(NODES)), ("evacuate n1 --yes", ok("DELETE /api/nodes"))] {
        let asked =
            [nodes.clone(), change, (GROUPS, 200, line("")), (NODE, 200, node(&[there.clone(), other.clone()]))];
        let ended = run(&asked, &format!("{words} --wait --timeout 1s")).await;
        assert_eq!(ended.code, Some(5), "{words}: {ended:?}");
        assert!(ended.err.contains("a.web.web.v0-i1-d0 (no node fits)"), "{words}: {ended:?}");
        assert!(
            !ended.err.contains("instances moved off") && !ended.err.contains("is evacuated"),
            "{words}: {ended:?}"
        );
        // What is placed there afterwards is another instance.
        let later = (NODE, 200, node(&[pod("c.web.web.v0-i1-d0", "c.web.web", false)]));
        let ended = run(&[&asked[..], &[later]].concat(), &format!("{words} --wait --timeout 20s")).await;
        assert!(ended.code == Some(0) && ended.out.contains("1 containers are on n1 now"), "{words}: {ended:?}");
    }
    let known = [nodes, ok(NODES), (GROUPS, 200, group(2, 1)), (GROUPS, 200, line(""))];
    let stays = (NODE, 200, node(&[there, other.clone()]));
    let one = [&known[..], &[stays, (NODE, 200, node(&[other]))]].concat();
    let ended = run(&one, "drift --from n1 --group a.web.web --wait --timeout 20s").await;
    assert_eq!(ended.code, Some(0), "only the instances of that group were asked for: {ended:?}");
}

#[tokio::test]
async fn a_drift_names_the_instances_that_are_bound_to_their_data() {
    let nodes = ("GET /api/nodes", 200, json!([{"Name": "n1"}]));
    let bound = (NODE, 200, node(&[pod("a.db.db.v0-i1-d0", "a.db.db", true)]));
    let answers = [nodes, ok(NODES), (GROUPS, 200, line("")), bound];
    let ended = run(&answers, "drift --from n1 --all --wait --timeout 20s").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("a.db.db.v0-i1-d0") && ended.err.contains("drift --from n1 --force"), "{ended:?}");
}

#[tokio::test]
async fn a_node_without_a_heartbeat_is_not_reported_as_empty() {
    let silent = json!({"Name": "n1", "State": "unknown", "Engine": "up", "Pods": []});
    let drain = [("PATCH /api/nodes/n1", 202, json!({"message": "ok"})), (NODE, 200, silent)];
    let ended = run(&drain, "node drain n1 --timeout 1s").await;
    assert!(ended.code == Some(5) && ended.err.contains("no heartbeat from n1"), "{ended:?}");
    assert!(!ended.err.contains("n1 is empty"), "{ended:?}");
    let ended = run(&[&drain[..], &[(NODE, 200, node(&[]))]].concat(), "node drain n1 --timeout 20s").await;
    assert!(ended.code == Some(0) && ended.err.contains("n1 is empty"), "{ended:?}");
}

#[tokio::test]
async fn an_answer_of_a_standby_does_not_end_a_wait() {
    let stale = |mut body: Value| {
        body["stale"] = json!(true);
        body
    };
    let scaled = [ok(CHANGE), (GROUPS, 200, stale(group(2, 1))), (GROUPS, 200, group(0, 1))];
    let ended = run(&scaled, "scale a.web.web 1 --wait --timeout 1s").await;
    assert!(ended.code == Some(5) && !ended.err.contains("is ready"), "{ended:?}");
    let complete = (ROLLOUTS, 200, stale(rollout(5, "Complete", 4)));
    let followed = [complete, (ROLLOUTS, 200, rollout(6, "Progressing", 1))];
    let ended = run(&followed, "rollout status a.web.web --timeout 1s").await;
    assert_eq!(ended.code, Some(5), "{ended:?}");
    // A deletion ends with a list of the leader, not with that of a standby.
    let gone = [
        ok("DELETE /api/podgroups"),
        (GROUPS, 404, stale(json!({}))),
        (GROUPS, 404, json!({})),
        (GROUPS, 200, stale(json!({}))),
        (GROUPS, 404, json!({})),
        (GROUPS, 200, line("Removing")),
    ];
    let ended = run(&gone, "delete podgroup a.web.web --wait --timeout 2s").await;
    assert!(ended.code == Some(5) && !ended.err.contains("deleted"), "{ended:?}");
}

#[tokio::test]
async fn an_apply_that_was_rolled_back_before_the_first_look_has_failed() {
    let spec = |image: &str| {
        json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1, "Strategy": {"Type": "RollingUpdate"},
            "Pod": {"Name": "a.web.web", "Namespace": "a", "Containers": [{"Image": image}]}})
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), spec("i:2").to_string()).expect("written");
    let path = file.path().to_str().expect("a path");
    let mut back = rollout(6, "Complete", 4);
    back["IsRollback"] = json!(true);
    let pods = json!([{"InstanceNo": 1, "State": 2}]);
    let group = |image: &str| (GROUPS, 200, json!({"Spec": spec(image), "Pods": pods}));
    let ended = run(&[group("i:1"), ok(CHANGE), (ROLLOUTS, 200, back)], &format!("apply --wait -f {path}")).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("differs from the document in Pod.Containers[0].Image"), "{ended:?}");
    let done = [group("i:1"), ok(CHANGE), (ROLLOUTS, 200, rollout(5, "Complete", 4)), group("i:2")];
    let ended = run(&done, &format!("apply --wait -f {path}")).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn a_rolled_back_change_has_failed_with_no_wait_too() {
    let mut back = rollout(6, "Complete", 4);
    back["IsRollback"] = json!(true);
    let history = |by: &str| {
        let revisions = [revision(5, "RolledBack", "alice"), revision(6, "Completed", by)];
        ("GET /api/revisions", 200, json!({"Name": "a.web.web", "Current": 6, "Revisions": revisions}))
    };
    for (by, code) in [("", 1), ("alice", 0)] {
        let answers = [(ROLLOUTS, 200, back.clone()), history(by)];
        let ended = run(&answers, "rollout status a.web.web --no-wait").await;
        assert_eq!(ended.code, Some(code), "{by}: {ended:?}");
    }
}

#[tokio::test]
async fn a_frozen_release_that_lost_instances_is_not_complete() {
    let frozen = |available: i64| {
        let mut view = rollout(5, "Frozen", 4);
        view["Phase"] = json!("Completed");
        view["Units"][0]["UpdatedAvailable"] = json!(available);
        (ROLLOUTS, 200, view)
    };
    let words = "rollout status a.web.web --timeout 500ms";
    assert_eq!(run(&[frozen(0)], words).await.code, Some(5));
    assert_eq!(run(&[frozen(4)], words).await.code, Some(0));
}

#[tokio::test]
async fn a_scale_that_is_not_waited_for_is_only_accepted() {
    let ended = run(&[ok(CHANGE)], "scale a.web.web 3 --detach").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("scales to 3 instances") && !ended.err.contains("scaled to 3"), "{ended:?}");
}

#[tokio::test]
async fn a_restore_that_lacks_groups_has_failed() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut writer = Writer::default();
    let taken_at = Timestamp::from_millis(0);
    let header = Header { format: FORMAT, schema: SCHEMA_VERSION, revision: 7, taken_at, version: "0.1.0".to_owned() };
    let mut text = writer.header(&header);
    text.push_str(&writer.entry(&Entry::new(keys::group(&"a.web.web".parse().expect("a name")), b"{}".to_vec())));
    text.push_str(&writer.end());
    std::fs::write(file.path(), &text).expect("written");
    let path = file.path().to_str().expect("a path");
    for (groups, code) in [(0, 1), (1, 0)] {
        let status = json!({"leader": "s1", "term": 3, "groups": groups, "restored": "{restore}"});
        let answers = [ok("POST /api/restore"), ("GET /api/cluster", 200, status)];
        let ended = run(&answers, &format!("restore {path} --replace --yes --timeout 20s")).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.out.contains(&format!("restored {groups} of 1 PodGroups")), "{ended:?}");
    }
}

#[tokio::test]
async fn containers_that_cannot_be_removed_are_a_failure_of_down_and_nothing_is_purged() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = json!({"cluster": "local-1", "api": [], "nats": "", "etcd": "", "nodes": [], "supervisor": null,
        "children": [], "ports": {}});
    std::fs::write(dir.path().join("state.json"), state.to_string()).expect("written");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(dir.path().join("state.json"), private).expect("the mode is set");
    let path = dir.path().to_str().expect("a path");
    let server = Server::start(&[]).await;
    for (words, code) in [(&[][..], 1), (&["--purge"], 1), (&["--keep-containers"], 0)] {
        let mut command = server.command(&[&["down", "--dir", path][..], words].concat());
        let output = command.env("DOCKER_HOST", "unix:///no/such/engine.sock").output().await.expect("deployctl runs");
        let ended = Ended::of(&output);
        assert_eq!(ended.code, Some(code), "{words:?}: {ended:?}");
        assert!(dir.path().join("state.json").exists(), "{words:?}");
    }
}
