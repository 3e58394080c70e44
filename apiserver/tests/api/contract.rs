//! The route table of docs/api.md: every row that one apiserver and a stand-in for the leader can show, in one place.
//!
//! The rows run in order against one world, so a later row sees what an earlier one did. What a row cannot say in a line
//! (whole bodies, huge bodies, outages, the commands that arrive) has its own test in the other files.

use serde_json::{Value, json};

use crate::leader::{Leader, Manner};
use crate::world::{Seen, World};

/// What a request brings along.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Nothing,
    Json(&'static str),
    Form(&'static str),
}
use Sent::{Form, Json, Nothing};

/// What the answer is.
#[derive(Debug)]
enum Want {
    /// `message`; an error's `data` repeats it.
    Says(&'static str),
    /// The beginning of `message`.
    Begins(&'static str),
    /// The whole body, beside `operation`, which is ours and always another.
    Is(Value),
    /// The whole body as text.
    Text(&'static str),
    /// Another path.
    To(&'static str),
    /// These members, whatever their values.
    Keys(&'static [&'static str]),
}
use Want::{Begins, Is, Keys, Says, Text, To};

type Row = (&'static str, &'static str, Sent, u16, Want);

const POD: &str = r#"{"Name":"a.web.web","Namespace":"a","Containers":[{"Image":"r/a:2"}]}"#;
const GROUP: &str = r#"{"Name":"a.web.web","Namespace":"a","NumInstances":2,"RestartPolicy":1,"Pod":{"Name":"a.web.web",
    "Namespace":"a","Containers":[{"Image":"r/a:1","MemoryLimit":33554432}],
    "Annotation":"{\"ports\":[{\"srcport\":9001,\"dstport\":80}]}"}} trailing bytes are ignored"#;
const REMOVING: &str = r#"{"name":"removing.a","NAMESPACE":"a","pod":{"Name":"removing.a","Namespace":"a",
    "Containers":[{"image":"r/a:1"}],"Dependencies":null},"Unknown":1}"#;

const NOT_FOUND: &str = "{\n  \"message\": \"Page not found\",\n  \"data\": \"\"\n}\n";
const NOT_ALLOWED: &str = "{\n  \"message\": \"Method is not allowed\",\n  \"data\": \"\"\n}\n";
const NO_GROUP_NAME: &str = "No pod group name provided.";
const NO_GROUP: &str = "PodGroup not existed";
const LOCKED: &str = "Another operation \"Scheduling\" is progressing";
const PATCHED: &str = "PodGroupSpec will be patched and rescheduled.";
const NUMBER: &str = "Bad parameter for num_instances, should be > 0 but -1";
const READ_ONLY: &str = "Do ReadOnly Permitted.\n";

/// 1.1 Routing.
#[rustfmt::skip] // A table is read by its columns.
fn routing() -> Vec<Row> {
    vec![
        ("GET", "/api/podgroups/?name=a&x=%20y", Nothing, 301, To("/api/podgroups?name=a&x=%20y")),
        ("GET", "/API/Podgroups?name=a", Nothing, 301, To("/api/podgroups?name=a")),
        ("GET", "//api//podgroups", Nothing, 301, To("/api/podgroups")),
        ("GET", "/Debug/Vars/", Nothing, 301, To("/debug/vars")),
        ("PATCH", "/api/nodes/?cmd=drift", Nothing, 307, To("/api/nodes?cmd=drift")),
        ("DELETE", "/api/Nodes?node=n1", Nothing, 307, To("/api/nodes?node=n1")),
        ("POST", "/api/podgroups/", Json(GROUP), 307, To("/api/podgroups")),
        ("HEAD", "/api/podgroups/", Nothing, 307, To("/api/podgroups")),
        ("OPTIONS", "/api/podgroups/", Nothing, 307, To("/api/podgroups")),
        ("HEAD", "/api/podgroups", Nothing, 405, Text("")),
        ("HEAD", "/api/nodes", Nothing, 405, Text("")),
        ("OPTIONS", "/api/podgroups", Nothing, 200, Text("")),
        ("OPTIONS", "/debug/vars", Nothing, 200, Text("")),
        ("TRACE", "/api/podgroups", Nothing, 405, Text(NOT_ALLOWED)),
        ("TRACE", "/api/nodes", Nothing, 405, Text(NOT_ALLOWED)),
        ("POST", "/debug/vars", Nothing, 405, Text(NOT_ALLOWED)),
        ("HEAD", "/debug/vars", Nothing, 405, Text("")),
        ("GET", "/", Nothing, 404, Text(NOT_FOUND)),
        ("GET", "/api/podgroups/a.web.web", Nothing, 404, Text(NOT_FOUND)),
        ("POST", "/api/unknown", Json("{}"), 404, Text(NOT_FOUND)),
        ("HEAD", "/api/unknown", Nothing, 404, Text("")),
        ("OPTIONS", "/api/unknown", Nothing, 404, Text(NOT_FOUND)),
        ("PUT", "/api/podgroups", Json("{}"), 405, Says("Put method is not supported")),
        ("POST", "/api/nodes", Nothing, 405, Says("Post method is not supported")),
        ("PUT", "/api/nodes", Nothing, 405, Says("Put method is not supported")),
        ("POST", "/api/status", Nothing, 405, Says("Post method is not supported")),
        ("PUT", "/api/status", Nothing, 405, Says("Put method is not supported")),
        ("DELETE", "/api/status", Nothing, 405, Says("Delete method is not supported")),
        ("POST", "/api/engine/config", Nothing, 405, Says("Post method is not supported")),
        ("GET", "/api/engine/maintenance", Nothing, 405, Says("Get method is not supported")),
        ("POST", "/api/constraints", Nothing, 405, Says("Post method is not supported")),
        ("PATCH", "/api/notifies", Nothing, 405, Says("Patch method is not supported")),
        ("DELETE", "/api/ports", Nothing, 405, Says("Delete method is not supported")),
        ("PATCH", "/api/guard", Nothing, 405, Says("Patch method is not supported")),
        ("DELETE", "/api/cntstatushistory", Nothing, 405, Says("Delete method is not supported")),
    ]
}

/// 1.3 GET, POST and DELETE.
#[rustfmt::skip] // A table is read by its columns.
fn groups() -> Vec<Row> {
    const CREATE: &str = "/api/podgroups";
    const WRONG: &str = "Invalid PodGroupSpec params format: ";
    vec![
        ("POST", CREATE, Nothing, 400, Says("Invalid PodGroupSpec params format: EOF")),
        ("POST", CREATE, Json("{"), 400, Begins(WRONG)),
        ("POST", CREATE, Json(r#"{"NumInstances":1.5}"#), 400, Begins(WRONG)),
        ("POST", CREATE, Json(r#"{"NumInstances":1e0}"#), 400, Begins(WRONG)),
        ("POST", CREATE, Json(r#"{"NumInstances":"1"}"#), 400, Begins(WRONG)),
        ("POST", CREATE, Json(r#"{"CreatedAt":""}"#), 400, Begins(WRONG)),
        ("POST", CREATE, Json("{}"), 400, Begins("Missing paremeters for PodGroupSpec")),
        ("POST", CREATE, Json("null"), 400, Begins("Missing paremeters for PodGroupSpec")),
        ("POST", CREATE, Json(REMOVING), 500, Says("PodGroup is removing, need to wait for that")),
        // Nothing is read from the parameters, so any content type will do.
        ("POST", CREATE, Form(GROUP), 202, Is(json!({"check_url": "/api/podgroups?name=a.web.web", "message": "PodGroupSpec added into the orc engine."}))),
        ("POST", "/api/ports?cmd=validate", Json(r#"{"Ports":[9001,80,9001]}"#), 400, Says("Conflicted ports: [9001 9001]")),
        ("GET", "/api/ports", Nothing, 200, Is(json!([{"srcport": 9001, "dstport": 80, "proto": "tcp", "NameSpace": "a", "ProcName": "a.web.web"}]))),
        ("POST", CREATE, Json(GROUP), 405, Says("PodGroup has already existed")),
        ("GET", "/api/podgroups", Nothing, 400, Says(NO_GROUP_NAME)),
        ("GET", "/api/podgroups?name=", Nothing, 400, Says(NO_GROUP_NAME)),
        ("GET", "/api/podgroups?name=b", Nothing, 404, Says("No such pod group name=b")),
        ("GET", "/api/podgroups?name=b&name=a.web.web", Nothing, 404, Says("No such pod group name=b")),
        ("GET", "/api/podgroups?name=b&force_update=maybe", Nothing, 404, Says("No such pod group name=b")),
        ("GET", "/api/podgroups?name=b&force_update=T", Nothing, 404, Says(NO_GROUP)),
        ("GET", "/api/podgroups?name=a.web.web&force_update=true", Nothing, 200, Keys(&["Spec", "PrevState", "Pods", "Healthst", "State", "OOMkilled", "LastError", "UpdatedAt"])),
        ("DELETE", "/api/podgroups", Nothing, 400, Says(NO_GROUP_NAME)),
        // A DELETE has no form.
        ("DELETE", "/api/podgroups", Form("name=a.web.web"), 400, Says(NO_GROUP_NAME)),
        ("DELETE", "/api/podgroups?name=b", Nothing, 404, Says(NO_GROUP)),
        ("DELETE", "/api/podgroups?name=locked", Nothing, 423, Says(LOCKED)),
    ]
}

/// 1.3 PATCH.
#[rustfmt::skip] // A table is read by its columns.
fn patches() -> Vec<Row> {
    const OF: &str = "/api/podgroups?name=a.web.web&cmd=spec";
    let accepted = || Is(json!({"check_url": "/api/podgroups?name=a.web.web", "message": PATCHED}));
    vec![
        ("PATCH", "/api/podgroups?cmd=nothing", Nothing, 400, Says(NO_GROUP_NAME)),
        ("PATCH", "/api/podgroups?name=b", Nothing, 400, Says("Unknown command cmd=\"\": should be replica, spec or operation, or for releases strategy, rollout, gate or drained")),
        ("PATCH", "/api/podgroups?name=b&cmd=Spec", Json("{}"), 400, Begins("Unknown command cmd=\"Spec\"")),
        // Parameters before the name.
        ("PATCH", "/api/podgroups?name=b&cmd=replica", Nothing, 400, Says(NUMBER)),
        ("PATCH", "/api/podgroups?name=b&cmd=replica&num_instances=many", Nothing, 400, Says(NUMBER)),
        ("PATCH", "/api/podgroups?name=b&cmd=replica&num_instances=-2", Nothing, 400, Begins("Bad parameter for num_instances")),
        ("PATCH", "/api/podgroups?name=b&cmd=replica&num_instances=5001", Nothing, 400, Says("Bad parameter for num_instances, at most 5000 are allowed but 5001")),
        ("PATCH", "/api/podgroups?name=b&cmd=replica&num_instances=1&restart_policy=often", Nothing, 400, Says("Bad parameter for restart_policy, should be never, always or onfail but \"often\"")),
        ("PATCH", "/api/podgroups?name=b&cmd=spec", Nothing, 400, Says("Bad parameter format for PodSpec, EOF")),
        ("PATCH", "/api/podgroups?name=b&cmd=spec", Json(r#"{"Containers":1}"#), 400, Begins("Bad parameter format for PodSpec, Containers: ")),
        ("PATCH", "/api/podgroups?name=b&cmd=spec", Form(POD), 400, Says("Bad parameter format for PodSpec, EOF")),
        ("PATCH", "/api/podgroups?name=b&cmd=spec", Json("{}"), 400, Begins("Missing parameter for PodSpec: Pod.Name: must not be empty")),
        ("PATCH", "/api/podgroups?name=b&cmd=replica&num_instances=1", Nothing, 404, Says(NO_GROUP)),
        ("PATCH", "/api/podgroups?name=b&cmd=spec", Json(POD), 404, Says(NO_GROUP)),
        ("PATCH", "/api/podgroups?name=b&cmd=operation&optype=stop", Nothing, 404, Says(NO_GROUP)),
        ("PATCH", "/api/podgroups?name=a%2Fb&cmd=operation", Nothing, 404, Says(NO_GROUP)),
        ("PATCH", "/api/podgroups?name=locked&cmd=replica&num_instances=1", Nothing, 423, Says(LOCKED)),
        ("PATCH", "/api/podgroups?name=locked&cmd=spec", Json(POD), 423, Says(LOCKED)),
        ("PATCH", "/api/podgroups?name=locked&cmd=operation", Nothing, 423, Says(LOCKED)),
        ("PATCH", "/api/podgroups?name=a.web.web&cmd=replica&num_instances=0", Nothing, 202, accepted()),
        ("PATCH", "/api/podgroups?name=a.web.web&cmd=replica&num_instances=3&restart_policy=never", Nothing, 202, accepted()),
        ("PATCH", "/api/podgroups?name=a.web.web&num_instances=1", Form("num_instances=2&cmd=replica"), 202, accepted()),
        // No memory limit: as before (Q-03).
        ("PATCH", OF, Json(POD), 202, accepted()),
        ("PATCH", "/api/podgroups?name=a.web.web&cmd=operation&optype=start", Nothing, 202, accepted()),
        ("PATCH", "/api/podgroups?name=a.web.web&cmd=operation&optype=stop&instance=1", Nothing, 202, accepted()),
        ("PATCH", "/api/podgroups?name=a.web.web&cmd=operation&optype=restart&instance=0", Nothing, 202, accepted()),
        ("PATCH", "/api/podgroups?name=a.web.web&cmd=operation", Nothing, 202, accepted()),
        ("PATCH", "/api/podgroups?name=a.web.web&cmd=operation&optype=Start&instance=-3", Nothing, 202, accepted()),
        ("PATCH", "/api/podgroups?name=a.web.web&cmd=operation&optype=stop&instance=99", Nothing, 202, accepted()),
    ]
}

/// 1.4.
#[rustfmt::skip] // A table is read by its columns.
fn dependencies() -> Vec<Row> {
    const NO_NAME: &str = "Missing dependency pod name for the request";
    const UNKNOWN: &str = "DependencyPod not existed";
    const ONE: &str = "/api/depends?name=a.web.web";
    let told = |message: &str| Is(json!({"check_url": ONE, "message": message}));
    vec![
        ("GET", "/api/depends", Nothing, 400, Says(NO_NAME)),
        ("GET", ONE, Nothing, 404, Says(UNKNOWN)),
        ("POST", "/api/depends", Nothing, 400, Says("Bad parameter format for PodSpec, EOF")),
        ("POST", "/api/depends", Json("{}"), 400, Begins("Missing paremeters for PodSpec")),
        ("PUT", "/api/depends", Json("["), 400, Begins("Bad parameter format for PodSpec, ")),
        ("PUT", "/api/depends", Json("{}"), 400, Begins("Missing parameters for PodSpec")),
        ("PUT", "/api/depends", Json(POD), 404, Says(UNKNOWN)),
        // Nothing is read from the parameters, so any content type will do.
        ("POST", "/api/depends", Form(POD), 202, told("Dependency pod will be added into orc engine.")),
        ("POST", "/api/depends", Json(POD), 405, Says("DependencyPod has already existed")),
        ("PUT", "/api/depends", Form(POD), 202, told("Dependency PodSpec would be updated in orc engine.")),
        ("PATCH", "/api/depends", Json(POD), 405, Says("Patch method is not supported")),
        ("GET", ONE, Nothing, 200, Keys(&["Spec", "Pods"])),
        ("DELETE", "/api/depends", Nothing, 400, Says(NO_NAME)),
        ("DELETE", "/api/depends?name=b", Nothing, 404, Says(UNKNOWN)),
        ("DELETE", "/api/depends?name=a.web.web&force=1", Nothing, 202, told("Dependency pod will be removed from the orc engine.")),
    ]
}

/// 1.5.
#[rustfmt::skip] // A table is read by its columns.
fn nodes() -> Vec<Row> {
    const NO_NODE: &str = "from node name required";
    const INSTANCE: &str = "Bad parameter for pg_instance, should be > 0, or -1 for all, but ";
    let drifting = |force: bool, to: &str, group: &str, instance: i64| {
        Is(json!({"forceDrift": force, "from": "n1", "message": "PodGroups will be drifting", "pgInstance": instance,
            "pgName": group, "to": to}))
    };
    vec![
        ("PATCH", "/api/nodes", Nothing, 400, Says(NO_NODE)),
        ("PATCH", "/api/nodes?from=&to=&cmd=x", Nothing, 400, Says(NO_NODE)),
        ("PATCH", "/api/nodes?from=a&to=a&cmd=x", Nothing, 400, Says("from node equals to target node")),
        ("PATCH", "/api/nodes?from=a&to=b&cmd=x", Nothing, 400, Says("Unkown command x")),
        ("PATCH", "/api/nodes?from=a%2Fb&pg_instance=0", Nothing, 400, Says("Unkown command ")),
        ("PATCH", "/api/nodes?from=a%2Fb&cmd=drift", Nothing, 400, Begins("Bad parameter for from: contains '/'")),
        ("PATCH", "/api/nodes?from=n1&to=a%20b&cmd=drift", Nothing, 400, Begins("Bad parameter for to: contains ' '")),
        ("PATCH", "/api/nodes?from=n1&pg=..&cmd=drift", Nothing, 400, Begins("Bad parameter for pg: ")),
        ("PATCH", "/api/nodes?from=n1&cmd=drift&pg_instance=0", Nothing, 400, Begins(INSTANCE)),
        ("PATCH", "/api/nodes?from=n1&cmd=drift&pg_instance=-2", Nothing, 400, Begins(INSTANCE)),
        ("PATCH", "/api/nodes?from=n1&cmd=drift&pg_instance=99999999999", Nothing, 400, Begins(INSTANCE)),
        ("PATCH", "/api/nodes?from=n1&cmd=drift&pg=a.web.web&pg_instance=3", Nothing, 404, Says("instance 3 not existed, the PodGroup has 2")),
        ("PATCH", "/api/nodes?from=n1&cmd=drift", Nothing, 202, drifting(false, "", "", -1)),
        ("PATCH", "/api/nodes?from=n1&cmd=drift&pg_instance=one", Nothing, 202, drifting(false, "", "", -1)),
        ("PATCH", "/api/nodes?from=n1&cmd=drift&pg=unknown&pg_instance=7", Nothing, 202, drifting(false, "", "unknown", 7)),
        ("PATCH", "/api/nodes?from=n1&cmd=drift&to=n9&force=1&pg=a.web.web&pg_instance=2", Nothing, 202, drifting(true, "n9", "a.web.web", 2)),
        ("PATCH", "/api/nodes?from=n3", Form("cmd=drift&from=n1&to=n9"), 202, drifting(false, "n9", "", -1)),
        ("DELETE", "/api/nodes", Nothing, 400, Says(NO_NODE)),
        ("DELETE", "/api/nodes?node=a%2Fb", Nothing, 400, Begins("Bad parameter for node: contains '/'")),
        ("DELETE", "/api/nodes?node=n1", Nothing, 202, Is(json!({"message": "containers in node will be drift", "node": "n1"}))),
        ("DELETE", "/api/nodes?node=unknown", Nothing, 202, Says("containers in node will be drift")),
    ]
}

/// 1.6, 1.7, 1.8 and 1.11, with the engine as usual.
#[rustfmt::skip] // A table is read by its columns.
fn switches() -> Vec<Row> {
    let config = |readonly: bool, maintenance: bool| Is(json!({"readonly": readonly, "maintenance": maintenance}));
    const PATCH: &str = "Constraints will be patched";
    vec![
        ("GET", "/api/engine/config", Nothing, 200, config(false, false)),
        ("PATCH", "/api/engine/config", Nothing, 400, Says("Invalid Engine Config params format: EOF")),
        ("PATCH", "/api/engine/config", Json(r#"{"readonly":1}"#), 400, Begins("Invalid Engine Config params format: ")),
        ("PATCH", "/api/engine/config", Form(r#"{"ReadOnly":null}"#), 200, config(false, false)),
        ("GET", "/api/status", Nothing, 200, Text("{\n  \"status\": \"started\"\n}\n")),
        ("PATCH", "/api/status", Nothing, 400, Begins("Invalid Status params format: ")),
        ("PATCH", "/api/status", Json(r#"{"status":"x"}"#), 400, Says("Invalid Status, it should be start or stop")),
        ("PATCH", "/api/status", Form(r#"{"status":"stop"}"#), 202, Text("\"Accept\"\n")),
        ("GET", "/api/status", Nothing, 200, Text("{\n  \"status\": \"stopped\"\n}\n")),
        ("PATCH", "/api/status", Json(r#"{"Status":"start"}"#), 202, Text("\"Accept\"\n")),
        ("GET", "/api/constraints", Nothing, 404, Says("No constraint found")),
        ("PATCH", "/api/constraints?value=n1", Nothing, 400, Says("constraint type required")),
        ("PATCH", "/api/constraints?type=node", Nothing, 400, Says("constraint value required")),
        ("PATCH", "/api/constraints?type=node&value=n1", Nothing, 202, Is(json!({"check_url": "/api/constraints?type=node", "message": PATCH}))),
        ("GET", "/api/constraints", Nothing, 200, Is(json!({"Type": "node", "Equal": false, "Value": "n1", "Soft": true}))),
        ("DELETE", "/api/constraints?type=rack", Nothing, 404, Says("Constraint not existed")),
        ("DELETE", "/api/constraints?type=node&value=other", Nothing, 202, Is(json!({"check_url": "/api/constraints?type=node", "message": "Constraint will be deleted from the orc engine."}))),
        ("GET", "/api/guard", Nothing, 200, Is(json!({"guard": "working"}))),
        ("POST", "/api/guard", Nothing, 200, Is(json!({"successed": "OK"}))),
        ("GET", "/api/guard", Nothing, 200, Is(json!({"guard": "sleeping"}))),
        ("POST", "/api/guard", Form("work=t"), 200, Is(json!({"successed": "OK"}))),
        ("GET", "/api/guard", Nothing, 200, Is(json!({"guard": "working"}))),
    ]
}

/// 1.9, 1.10, 1.12 and 1.13.
#[rustfmt::skip] // A table is read by its columns.
fn rest() -> Vec<Row> {
    const URL: &str = "/api/notifies?callback=http%3A%2F%2Fa%2Fb";
    const PORTS: &str = "/api/ports?cmd=validate";
    const HISTORY: &str = "/api/cntstatushistory";
    vec![
        ("GET", "/api/notifies", Nothing, 404, Says("No notify found")),
        ("POST", "/api/notifies", Nothing, 400, Says("constaint type required")),
        ("POST", "/api/notifies?callback=x", Nothing, 400, Begins("callback url not valid: ")),
        ("POST", URL, Nothing, 202, Is(json!({"check_url": "/api/notifies", "message": "notify will be added"}))),
        ("POST", URL, Nothing, 202, Says("notify will be added")),
        ("GET", "/api/notifies", Nothing, 200, Is(json!(["http://a/b"]))),
        ("DELETE", "/api/notifies", Nothing, 400, Says("callback value requird")),
        ("DELETE", "/api/notifies?callback=http://c/", Nothing, 404, Says("Notify uri not existed")),
        ("DELETE", URL, Nothing, 202, Is(json!({"check_url": "/api/notifies", "message": "notify uri will be deleted from the orc engine."}))),
        ("POST", "/api/ports?cmd=x", Json("{}"), 400, Says("Unknown request!")),
        ("POST", PORTS, Nothing, 400, Says("Invalid ports params format: EOF")),
        ("POST", PORTS, Json(r#"{"Ports":["1"]}"#), 400, Begins("Invalid ports params format: ")),
        ("POST", PORTS, Json(r#"{"Ports":[9000]}"#), 200, Text("null\n")),
        ("GET", HISTORY, Nothing, 400, Says(NO_GROUP_NAME)),
        ("GET", "/api/cntstatushistory?name=a&instance=-1", Nothing, 400, Says("No pod instance provided.")),
        ("GET", "/api/cntstatushistory?name=a&instance=x", Nothing, 400, Says("No pod instance provided.")),
        ("GET", "/api/cntstatushistory?name=a&instance=1", Nothing, 200, Text("[]\n")),
        ("GET", "/debug/vars", Nothing, 200, Keys(&[
            "cmdline", "at_server_start", "cpu_count", "hits_total", "hits_per_minute", "hits_4xx_per_5min",
            "hits_5xx_per_5min", "latency_recent", "latency_max", "latency_min", "latency_p95", "latency_p50",
            "hits_pageviews",
        ])),
    ]
}

/// 1.1, the read-only switch; the last rows open it again.
#[rustfmt::skip] // A table is read by its columns.
fn read_only() -> Vec<Row> {
    vec![
        ("PATCH", "/api/engine/maintenance?on=true", Nothing, 200, Is(json!({"readonly": false, "maintenance": true}))),
        ("POST", "/api/podgroups", Json(GROUP), 403, Text(READ_ONLY)),
        ("PATCH", "/api/nodes?from=n1&cmd=drift", Nothing, 403, Text(READ_ONLY)),
        ("DELETE", "/api/nodes?node=n1", Nothing, 403, Text(READ_ONLY)),
        ("PATCH", "/api/status", Json(r#"{"status":"stop"}"#), 403, Text(READ_ONLY)),
        ("POST", "/api/guard", Nothing, 403, Text(READ_ONLY)),
        ("PUT", "/api/unknown", Nothing, 403, Text(READ_ONLY)),
        ("TRACE", "/api/podgroups", Nothing, 403, Text(READ_ONLY)),
        ("HEAD", "/api/podgroups", Nothing, 403, Text("")),
        ("GET", "/api/podgroups?name=a.web.web&force_update=true", Nothing, 200, Keys(&["Spec"])),
        ("GET", "/api/unknown", Nothing, 404, Text(NOT_FOUND)),
        ("OPTIONS", "/api/podgroups", Nothing, 200, Text("")),
        ("DELETE", "/api/podgroups/?name=a.web.web", Nothing, 307, To("/api/podgroups?name=a.web.web")),
        ("POST", "/api/engine/config", Nothing, 405, Says("Post method is not supported")),
        ("PATCH", "/api/engine/maintenance", Nothing, 200, Is(json!({"readonly": false, "maintenance": false}))),
        ("DELETE", "/api/podgroups?name=a.web.web", Nothing, 202, Is(json!({"check_url": "/api/podgroups?name=a.web.web", "message": "PodGroupSpec will be deleted from the orc engine."}))),
        ("GET", "/api/podgroups?name=a.web.web", Nothing, 404, Says("No such pod group name=a.web.web")),
    ]
}

/// How the answer differs from the expected one.
fn difference(seen: &Seen, status: u16, want: &Want) -> Option<String> {
    let json = || serde_json::from_str::<Value>(&seen.text).unwrap_or_default();
    let told = json()["message"].as_str().unwrap_or_default().to_owned();
    let repeated = status < 400 || json()["data"] == told;
    let right = match want {
        Says(message) => told == *message && repeated,
        Begins(message) => told.starts_with(message) && told.len() > message.len() && repeated,
        Is(body) => {
            let mut seen = json();
            if let Some(members) = seen.as_object_mut() {
                members.remove("operation");
            }
            seen == *body
        }
        Text(text) => seen.text == *text,
        To(path) => seen.location == *path,
        Keys(keys) => keys.iter().all(|key| json().get(key).is_some()),
    };
    (seen.status != status || !right)
        .then(|| format!("{} {} {:?}, wanted {status} {want:?}", seen.status, seen.location, seen.text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_section_one_has_the_expected_answer() {
    let world = World::start_with(&["--inspect-deadline", "100ms"]).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let rows = [routing(), groups(), patches(), dependencies(), nodes(), switches(), rest(), read_only()]
        .into_iter()
        .flatten();
    let mut differences = Vec::new();
    for (method, path, sent, status, want) in rows {
        let body = match sent {
            Nothing => None,
            Json(body) => Some(("application/json", body)),
            Form(body) => Some(("application/x-www-form-urlencoded", body)),
        };
        let seen = world.call(method, path, body).await;
        if let Some(difference) = difference(&seen, status, &want) {
            differences.push(format!("{method} {path} {sent:?}: {difference}"));
        }
        let json = seen.text.starts_with(['{', '[']);
        assert!(
            !json || seen.content_type == "application/json; charset=UTF-8",
            "{method} {path}: {}",
            seen.content_type
        );
        if status == 405 && seen.text == NOT_ALLOWED || method == "OPTIONS" && status == 200 {
            assert!(seen.allow.contains("GET") && seen.allow.ends_with("OPTIONS"), "{method} {path}: {:?}", seen.allow);
        }
    }
    assert!(differences.is_empty(), "{} rows differ:\n{}", differences.len(), differences.join("\n"));
    assert_eq!(
        leader.refreshed.load(std::sync::atomic::Ordering::Relaxed),
        3,
        "of two that exist and one that does not"
    );
}
