//! Rows of `/api/podgroups`, and of the rules by which bodies are decoded.

use serde_json::{Value, json};

use super::demo_group;
use super::row::{Row, ask};

pub(crate) const ADDED: &str = "PodGroupSpec added into the orc engine.";
pub(crate) const PATCHED: &str = "PodGroupSpec will be patched and rescheduled.";
pub(crate) const DELETED: &str = "PodGroupSpec will be deleted from the orc engine.";
pub(crate) const NO_GROUP: &str = "PodGroup not existed";
const NO_NAME: &str = "No pod group name provided.";
const UNDECODABLE: &str = "Invalid PodGroupSpec params format: ";
const INCOMPLETE: &str = "Missing paremeters for PodGroupSpec";
/// The group most rows are about; it has no instances, so every operation on it is over at once.
const ZERO: &str = "row.zero.web";

pub(super) fn rows() -> Vec<Row> {
    [unknown(), flawed(), refused_by_state(), undecodable(), incomplete(), decided()].concat()
}

/// The rows whose answer the leader decides.
pub(super) fn decided() -> Vec<Row> {
    [created(), decoded(), scaled(), patched(), operated(), removed()].concat()
}

/// The address of a group.
pub(crate) fn at(name: &str) -> String {
    format!("/api/podgroups?name={name}")
}

/// A group without instances, changed.
fn zero(change: impl FnOnce(&mut Value)) -> Value {
    let mut group = demo_group(ZERO, 0);
    change(&mut group);
    group
}

fn unknown() -> Vec<Row> {
    let none = at("row.none.web");
    vec![
        ask("podgroups GET", "GET /api/podgroups").refused(400, NO_NAME),
        ask("podgroups GET", "GET /api/podgroups?name=").refused(400, NO_NAME),
        ask("podgroups GET", "GET /api/podgroups?all=false").refused(400, NO_NAME),
        ask("podgroups GET", "GET /api/podgroups?name=&name=a").refused(400, NO_NAME),
        ask("podgroups GET", format!("GET {none}")).refused(404, "No such pod group name=row.none.web"),
        ask("podgroups GET", format!("GET {none}&force_update=T")).refused(404, NO_GROUP),
        ask("podgroups GET", format!("GET {none}&force_update=yes")).refused(404, "No such pod group name=row.none.web"),
        ask("podgroups DELETE", "DELETE /api/podgroups").refused(400, NO_NAME),
        ask("podgroups DELETE", format!("DELETE {none}")).refused(404, NO_GROUP),
        ask("podgroups DELETE", "DELETE /api/podgroups").form("name=row.none.web").refused(400, NO_NAME),
        ask("podgroups PATCH", "PATCH /api/podgroups?cmd=replica&num_instances=1").refused(400, NO_NAME),
        ask("podgroups PATCH", format!("PATCH {none}&cmd=replica&num_instances=1")).refused(404, NO_GROUP),
        ask("podgroups PATCH", format!("PATCH {none}&cmd=operation&optype=start")).refused(404, NO_GROUP),
        ask("podgroups PATCH", format!("PATCH {none}&cmd=operation&optype=dance")).refused(404, NO_GROUP),
        ask("podgroups PATCH", format!("PATCH {none}&cmd=spec")).body(pod("row.none.web")).refused(404, NO_GROUP),
        ask("podgroups PATCH", "PATCH /api/podgroups?name=a%2Fb&cmd=operation").refused(404, NO_GROUP),
        ask("podgroups PATCH, Q-20", format!("PATCH {none}")).refused(
            400,
            "Unknown command cmd=\"\": should be replica, spec or operation, or, for rollouts, strategy, rollout, gate or drained",
        ),
        ask("podgroups PATCH, Q-20", format!("PATCH {none}&cmd=Replica")).refused_for(400, "Unknown command cmd=\"Replica\""),
        ask("ours", "GET /api/operations").refused(400, "No operation id provided."),
        ask("ours", "GET /api/operations?id=unknown")
            .refused(404, "No such operation, or not decided yet, or decided long ago"),
    ]
}

/// Parameters and bodies are checked before the name.
fn flawed() -> Vec<Row> {
    let none = at("row.none.web");
    let replica = |more: &str| ask("podgroups replica", format!("PATCH {none}&cmd=replica{more}"));
    let spec = || ask("podgroups spec", format!("PATCH {none}&cmd=spec"));
    vec![
        replica("").refused(400, "Bad parameter for num_instances, should be > 0 but -1"),
        replica("&num_instances=5001")
            .refused(400, "Bad parameter for num_instances, at most 5000 are allowed but 5001"),
        replica("&num_instances=1&restart_policy=often")
            .refused(400, "Bad parameter for restart_policy, should be never, always or onfail but \"often\""),
        spec().refused(400, "Bad parameter format for PodSpec, EOF"),
        spec().body("{\"Containers\":1}").refused_for(400, "Bad parameter format for PodSpec, Containers: "),
        spec().body("{}").refused_for(400, "Missing parameter for PodSpec: Pod.Name: must not be empty"),
    ]
}

/// The fake leader refuses groups of these names as the real one does in that state.
fn refused_by_state() -> Vec<Row> {
    let removing = "PodGroup is removing, need to wait for that";
    let locked = "Another operation \"Scheduling\" is progressing";
    let change = |more: &str| ask("podgroups PATCH", format!("PATCH /api/podgroups?name=locked&cmd={more}"));
    vec![
        ask("podgroups POST", "POST /api/podgroups").body(demo_group("removing.a.b", 0)).refused(500, removing),
        ask("ours", "POST /api/podgroups")
            .body(demo_group("limit.a.b", 0))
            .refused(400, "the number of groups would pass the limit of 1"),
        ask("podgroups DELETE", "DELETE /api/podgroups?name=locked").refused(423, locked),
        change("replica&num_instances=1").refused(423, locked),
        change("spec").body(pod("locked")).refused(423, locked),
        change("operation").refused(423, locked),
    ]
}

fn undecodable() -> Vec<Row> {
    let group = demo_group(ZERO, 0).to_string();
    let number = |text: &str| group.replace("\"NumInstances\":0", &format!("\"NumInstances\":{text}"));
    let mut rows: Vec<Row> = ["", "{", "nothing", "[1]", "\"text\"", "7"]
        .map(str::to_owned)
        .into_iter()
        .collect::<Vec<_>>()
        .into_iter()
        .chain(["1.5", "1e0", "\"1\"", "true", "[1]"].map(number))
        .chain([group.replace("\"Namespace\":\"row\"", "\"Namespace\":1")])
        .chain([group.replace("\"RestartPolicy\":1", "\"CreatedAt\":\"\"")])
        .map(|body| ask("decoding", "POST /api/podgroups").body(body).refused_for(400, UNDECODABLE))
        .collect();
    let end = format!("{UNDECODABLE}EOF");
    rows.push(ask("decoding", "POST /api/podgroups").body("").refused(400, end.clone()));
    rows.push(ask("decoding", "POST /api/podgroups").body("  \n").refused(400, end.clone()));
    rows.push(ask("decoding", "POST /api/podgroups").refused(400, end));
    rows
}

fn incomplete() -> Vec<Row> {
    let rows: [(&'static str, &str, Value); 16] = [
        ("podgroups POST", "/Name", "".into()),
        ("podgroups POST", "/Namespace", "".into()),
        ("podgroups POST", "/NumInstances", (-1).into()),
        ("podgroups POST", "/Pod/Name", "".into()),
        ("podgroups POST", "/Pod/Namespace", "".into()),
        ("podgroups POST", "/Pod/Containers", json!([])),
        ("podgroups POST", "/Pod/Containers", Value::Null),
        ("podgroups POST", "/Pod/Containers/0/Image", "".into()),
        ("podgroups POST", "/Pod/Containers/0/CpuLimit", (-1).into()),
        ("podgroups POST", "/Pod/Containers/0/MemoryLimit", (-1).into()),
        ("podgroups POST", "/Pod/Containers/0/Expose", (-1).into()),
        ("podgroups POST", "/Pod/Containers/0/CloudVolumes", json!([{"Type": "some", "Dirs": ["/d"]}])),
        ("podgroups POST, Q-05", "/Pod/Annotation", "no json".into()),
        ("podgroups POST, Q-05", "/Pod/Annotation", "[1]".into()),
        ("podgroups POST, Q-08", "/Pod/Labels", json!({"cc.bdp.lain.deployd.version": "7"})),
        ("podgroups POST, Q-31", "/Pod/Name", "row.other.web".into()),
    ];
    let wrong = |(paragraph, pointer, value): (&'static str, &str, Value)| {
        let group = zero(|group| {
            let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
            group.pointer_mut(parent).expect("its parent")[member] = value;
        });
        ask(paragraph, "POST /api/podgroups").body(group).refused_for(400, INCOMPLETE)
    };
    let mut rows: Vec<Row> = rows.into_iter().map(wrong).collect();
    rows.push(ask("podgroups POST", "POST /api/podgroups").body("{}").refused_for(400, INCOMPLETE));
    rows.push(ask("podgroups POST", "POST /api/podgroups").body("null").refused_for(400, INCOMPLETE));
    rows
}

fn created() -> Vec<Row> {
    let group = zero(|group| {
        group["Version"] = 7.into();
        group["Pod"]["Version"] = 9.into();
        group["Pod"]["Annotation"] = "".into();
        group["Pod"]["Labels"] = json!({"team": "<b>&"});
    });
    vec![
        ask("podgroups POST", "POST /api/podgroups").body(&group).accepted(at(ZERO), ADDED),
        ask("podgroups POST", "POST /api/podgroups").body(&group).refused(405, "PodGroup has already existed"),
        ask("members of a group, S4", format!("GET {}", at(ZERO)))
            .soon()
            .holds(200, "/State", 2)
            .holds(200, "/Healthst", 2)
            .holds(200, "/Pods", json!([]))
            .holds(200, "/LastError", "")
            .holds(200, "/OOMkilled", false)
            .holds(200, "/Spec/NumInstances", 0)
            .holds(200, "/Spec/Pod/Labels/team", "<b>&"),
        ask("version, Q-06", format!("GET {}", at(ZERO))).holds(200, "/Spec/Version", 0).holds(
            200,
            "/Spec/Pod/Version",
            0,
        ),
        ask("creation, Q-05", format!("GET {}", at(ZERO))).holds(200, "/Spec/Pod/Annotation", "{}"),
        ask("podgroups GET", format!("GET {}&force_update=true", at(ZERO))).holds(200, "/Spec/Name", ZERO),
        ask("podgroups GET", format!("GET {}&name=row.none.web", at(ZERO))).holds(200, "/Spec/Name", ZERO),
    ]
}

/// Any case of the names, `null` anywhere, unknown members, and whatever follows the first value.
fn decoded() -> Vec<Row> {
    let odd = "row.odd.web";
    let body = demo_group(odd, 0).to_string();
    let body = body.replace("\"Name\"", "\"nAmE\"").replace("\"Containers\"", "\"CONTAINERS\"");
    let body = body
        .replace("\"Image\"", "\"Command\":null,\"Entrypoint\":null,\"LogConfig\":null,\"CreateAt\":null,\"image\"");
    vec![
        ask("decoding", "POST /api/podgroups")
            .typed("text/plain", format!("{body} {{ trailing"))
            .accepted(at(odd), ADDED),
        ask("members of a group", format!("GET {}", at(odd)))
            .holds(200, "/Spec/Pod/Name", odd)
            .holds(200, "/Spec/Pod/Containers/0/LogConfig/Type", "")
            .holds(200, "/Spec/Pod/Containers/0/Entrypoint", Value::Null),
        ask("podgroups DELETE", format!("DELETE {}&num_instances=3", at(odd))).soon().accepted(at(odd), DELETED),
    ]
}

fn scaled() -> Vec<Row> {
    let bad = "Bad parameter for num_instances, should be > 0 but -1";
    let replica = |more: &str| format!("PATCH {}&cmd=replica{more}", at(ZERO));
    vec![
        ask("podgroups replica", replica("")).refused(400, bad),
        ask("podgroups replica", replica("&num_instances=")).refused(400, bad),
        ask("podgroups replica", replica("&num_instances=many")).refused(400, bad),
        ask("podgroups replica", replica("&num_instances=1.5")).refused(400, bad),
        ask("podgroups replica", replica("&num_instances=-1")).refused(400, bad),
        ask("podgroups replica", replica("&num_instances=-7")).refused(400, bad.replace("-1", "-7")),
        ask("podgroups replica", replica("&num_instances=0")).soon().accepted(at(ZERO), PATCHED),
        ask("podgroups replica", replica("&num_instances=%2B0&num_instances=9")).accepted(at(ZERO), PATCHED),
        ask("forms", "PATCH /api/podgroups?name=row.none.web&cmd=replica")
            .form(format!("name={ZERO}&num_instances=0"))
            .accepted(at(ZERO), PATCHED),
        ask("forms", format!("PATCH {}&num_instances=7", at(ZERO)))
            .form("cmd=replica&num_instances=0")
            .accepted(at(ZERO), PATCHED),
        ask("podgroups replica, Q-19", replica("&num_instances=0&restart_policy=onfail")).accepted(at(ZERO), PATCHED),
        ask("podgroups replica, Q-19", format!("GET {}", at(ZERO))).holds(200, "/Spec/RestartPolicy", 2),
        ask("podgroups replica, Q-19", replica("&num_instances=0&restart_policy=never")).accepted(at(ZERO), PATCHED),
        ask("podgroups replica, Q-19", format!("GET {}", at(ZERO))).holds(200, "/Spec/RestartPolicy", 0),
        ask("podgroups replica, Q-19", replica("&num_instances=0&restart_policy=Always"))
            .refused_for(400, "Bad parameter"),
        ask("version", format!("GET {}", at(ZERO))).holds(200, "/Spec/Version", 0),
    ]
}

/// The pod of a demo group.
pub(crate) fn pod(name: &str) -> Value {
    demo_group(name, 0)["Pod"].clone()
}

fn patched() -> Vec<Row> {
    let spec = format!("PATCH {}&cmd=spec", at(ZERO));
    let bad = "Bad parameter format for PodSpec, ";
    let missing = "Missing parameter for PodSpec";
    let with = |pointer: &'static str, value: Value| {
        let mut pod = pod(ZERO);
        *pod.pointer_mut(pointer).expect("a member") = value;
        pod
    };
    let mut other = pod("row.other.web");
    other["Namespace"] = "other".into();
    other["Network"] = "other".into();
    other["Version"] = 55.into();
    other["Labels"] = json!({});
    let version = |version: u32| {
        let shown = ask("version", format!("GET {}", at(ZERO))).soon();
        shown.holds(200, "/Spec/Version", version).holds(200, "/Spec/Pod/Version", version).holds(200, "/State", 2)
    };
    vec![
        ask("podgroups spec", &*spec).refused(400, format!("{bad}EOF")),
        ask("podgroups spec", &*spec).body("[]").refused_for(400, bad),
        ask("podgroups spec", &*spec).body(with("/Containers/0/MemoryLimit", "16m".into())).refused_for(400, bad),
        ask("podgroups spec", &*spec).body("{}").refused_for(400, missing),
        ask("podgroups spec", &*spec).body(with("/Containers", json!([]))).refused_for(400, missing),
        ask("podgroups spec", &*spec).body(with("/Containers/0/Image", "".into())).refused_for(400, missing),
        ask("podgroups spec, Q-05", &*spec).body(with("/Annotation", "{".into())).refused_for(400, missing),
        ask("podgroups spec", &*spec)
            .body(with("/Containers/0/MemoryLimit", (32 << 20).into()))
            .accepted(at(ZERO), PATCHED),
        version(1).holds(200, "/Spec/Pod/Containers/0/MemoryLimit", 32 << 20),
        ask("podgroups spec, Q-03", &*spec)
            .body(with("/Containers/0/MemoryLimit", 0.into()))
            .soon()
            .accepted(at(ZERO), PATCHED),
        version(2).holds(200, "/Spec/Pod/Containers/0/MemoryLimit", 32 << 20),
        ask("merged spec", &*spec).body(with("/Containers/0/CpuLimit", 0.into())).soon().accepted(at(ZERO), PATCHED),
        version(3).holds(200, "/Spec/Pod/Containers/0/CpuLimit", 1).holds(
            200,
            "/Spec/Pod/Containers/0/MemoryLimit",
            16 << 20,
        ),
        ask("merged spec: name, namespace and network stay", &*spec).body(other).soon().accepted(at(ZERO), PATCHED),
        version(4).holds(200, "/Spec/Pod/Name", ZERO).holds(200, "/Spec/Pod/Namespace", "row").holds(
            200,
            "/Spec/Pod/Network",
            "",
        ),
        ask("merged spec, Q-46: the same again", &*spec).body(pod(ZERO)).soon().accepted(at(ZERO), PATCHED),
        version(5).holds(200, "/Spec/NumInstances", 0),
        // A form is read for its parameters, and then there is no body left.
        ask("forms", &*spec).form(pod(ZERO)).refused(400, format!("{bad}EOF")),
    ]
}

fn operated() -> Vec<Row> {
    let more = [
        "&optype=start",
        "&optype=stop",
        "&optype=restart",
        "&optype=dance",
        "",
        "&optype=Start&instance=1",
        "&optype=stop&instance=7",
        "&optype=stop&instance=-1",
        "&optype=stop&instance=one",
    ];
    let row = |more| {
        ask("podgroups operation", format!("PATCH {}&cmd=operation{more}", at(ZERO))).soon().accepted(at(ZERO), PATCHED)
    };
    let mut rows: Vec<Row> = more.into_iter().map(row).collect();
    let drift = format!("PATCH /api/nodes?from=nowhere&cmd=drift&pg={ZERO}&pg_instance=3");
    rows.push(ask("nodes, Q-02", drift).refused(404, "instance 3 not existed, the PodGroup has 0"));
    rows
}

fn removed() -> Vec<Row> {
    vec![
        ask("podgroups DELETE", format!("DELETE {}", at(ZERO))).soon().accepted(at(ZERO), DELETED),
        ask("podgroups DELETE, S5", format!("GET {}", at(ZERO))).refused(404, format!("No such pod group name={ZERO}")),
        ask("podgroups DELETE", format!("DELETE {}", at(ZERO))).refused(404, NO_GROUP),
        all_gone(),
    ]
}

/// Waits until no group of these rows is left, not even one that is going away.
pub(crate) fn all_gone() -> Row {
    ask("ours", "GET /api/podgroups?namespace=row").soon().document(200, json!({"PodGroups": [], "Next": ""}))
}
