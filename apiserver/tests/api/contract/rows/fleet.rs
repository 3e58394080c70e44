//! Rows of `/api/nodes`, `/api/constraints`, `/api/ports` and `/api/cntstatushistory`: drifts, constraints, stream ports, histories.

use serde_json::json;

use super::demo_group;
use super::groups::{ADDED, DELETED, all_gone, at};
use super::row::{JSON, Row, ask};

const OWNER: &str = "row.ports.web";
const INSTANCE: &str = "Bad parameter for pg_instance, should be > 0, or -1 for all, but ";

pub(super) fn rows() -> Vec<Row> {
    [drifts_refused(), histories(), decided()].concat()
}

/// The rows whose answer the leader decides.
pub(super) fn decided() -> Vec<Row> {
    [drifts(), constraints(), evacuated(), ports()].concat()
}

fn drifts_refused() -> Vec<Row> {
    let refused = [
        ("PATCH /api/nodes", "from node name required"),
        ("PATCH /api/nodes?from=&cmd=drift", "from node name required"),
        ("PATCH /api/nodes?from=a&to=a", "from node equals to target node"),
        ("PATCH /api/nodes?from=a&to=a&cmd=drift", "from node equals to target node"),
        ("PATCH /api/nodes?from=a", "Unkown command "),
        ("PATCH /api/nodes?from=a&to=b&cmd=Drift", "Unkown command Drift"),
        ("DELETE /api/nodes", "from node name required"),
        ("DELETE /api/nodes?name=a", "from node name required"),
    ];
    let names = [
        ("PATCH /api/nodes?from=a%2Fb&cmd=drift", "Bad parameter for from: contains '/'"),
        ("PATCH /api/nodes?from=a&to=a%20b&cmd=drift", "Bad parameter for to: contains ' '"),
        ("PATCH /api/nodes?from=a&pg=..&cmd=drift", "Bad parameter for pg: "),
        ("DELETE /api/nodes?node=a%2Fb", "Bad parameter for node: contains '/'"),
    ];
    let mut rows: Vec<Row> =
        refused.map(|(request, why)| ask("nodes", request).refused(400, why)).into_iter().collect();
    rows.extend(names.map(|(request, why)| ask("nodes", request).refused_for(400, why)));
    for instance in ["0", "-2", "-9", "99999999999"] {
        let request = format!("PATCH /api/nodes?from=a&cmd=drift&pg_instance={instance}");
        rows.push(ask("nodes, Q-02", request).refused_for(400, INSTANCE));
    }
    rows
}

fn drifts() -> Vec<Row> {
    let drifting = |from: &str, to: &str, force: bool, pg: &str, instance: i64| {
        json!({
            "forceDrift": force, "from": from, "message": "PodGroups will be drifting", "pgInstance": instance,
            "pgName": pg, "to": to,
        })
    };
    vec![
        ask("nodes: unknown nodes", "PATCH /api/nodes?from=nowhere&cmd=drift")
            .document(202, drifting("nowhere", "", false, "", -1)),
        ask(
            "nodes: unknown group",
            "PATCH /api/nodes?from=nowhere&to=there&cmd=drift&force=true&pg=row.none.web&pg_instance=2",
        )
        .document(202, drifting("nowhere", "there", true, "row.none.web", 2)),
        ask("parameters", "PATCH /api/nodes?from=nowhere&cmd=drift&force=yes&pg_instance=one")
            .document(202, drifting("nowhere", "", false, "", -1)),
        ask("forms", "PATCH /api/nodes?from=a&to=a")
            .form("cmd=drift&from=nowhere")
            .document(202, drifting("nowhere", "a", false, "", -1)),
    ]
}

fn constraints() -> Vec<Row> {
    let patched = |kind: &str| (format!("/api/constraints?type={kind}"), "Constraints will be patched");
    let deleted = "Constraint will be deleted from the orc engine.";
    let shown =
        |equal: bool, value: &str, soft: bool| json!({"Type": "node", "Equal": equal, "Value": value, "Soft": soft});
    let set = |request: &str| {
        let (url, message) = patched("node");
        ask("constraints PATCH", format!("PATCH /api/constraints?{request}")).accepted(url, message)
    };
    let get = || ask("constraints GET", "GET /api/constraints");
    vec![
        get().refused(404, "No constraint found"),
        ask("constraints GET", "GET /api/constraints?type=zone").refused(404, "No constraint found"),
        ask("constraints PATCH", "PATCH /api/constraints").refused(400, "constraint type required"),
        ask("constraints PATCH", "PATCH /api/constraints?value=a").refused(400, "constraint type required"),
        ask("constraints PATCH", "PATCH /api/constraints?type=node").refused(400, "constraint value required"),
        set("type=node&value=row-a"),
        get().document(200, shown(false, "row-a", true)),
        set("type=node&value=row-b&equal=true&soft=false"),
        get().document(200, shown(true, "row-b", false)),
        set("type=node&value=row-c&equal=maybe&soft=no"),
        ask("constraints: one per type", "GET /api/constraints?type=node").document(200, shown(false, "row-c", true)),
        ask("constraints DELETE", "DELETE /api/constraints?type=zone").refused(404, "Constraint not existed"),
        // lainctl sends the value along; it does not count.
        ask("constraints DELETE", "DELETE /api/constraints?type=node&value=other").accepted(patched("node").0, deleted),
        ask("constraints DELETE", "DELETE /api/constraints").refused(404, "Constraint not existed"),
        get().refused(404, "No constraint found"),
    ]
}

/// Evacuation leaves a constraint behind.
fn evacuated() -> Vec<Row> {
    vec![
        ask("nodes DELETE", "DELETE /api/nodes?node=row-nowhere")
            .document(202, json!({"message": "containers in node will be drift", "node": "row-nowhere"})),
        ask("constraint of an evacuation", "GET /api/constraints?type=node")
            .document(200, json!({"Type": "node", "Equal": false, "Value": "row-nowhere", "Soft": true})),
        ask("constraint of an evacuation", "DELETE /api/constraints")
            .accepted("/api/constraints?type=node", "Constraint will be deleted from the orc engine."),
    ]
}

fn ports() -> Vec<Row> {
    let mut owner = demo_group(OWNER, 0);
    let annotation = json!({"ports": [
        {"srcport": 9501, "dstport": 8080, "proto": "tcp"}, {"srcport": 9502, "dstport": 8080, "proto": "tcp", "more": 1},
    ]});
    owner["Pod"]["Annotation"] = annotation.to_string().into();
    let row =
        |port: u16| json!({"srcport": port, "dstport": 8080, "proto": "tcp", "NameSpace": "row", "ProcName": OWNER});
    let validate = |body: &str| ask("ports POST", "POST /api/ports?cmd=validate").body(body);
    let free = |body: &str| validate(body).text(200, JSON, "null\n");
    let format = "Invalid ports params format: ";
    vec![
        ask("ports GET", "GET /api/ports").document(200, json!([])),
        ask("ports POST", "POST /api/ports").body("{\"Ports\":[9501]}").refused(400, "Unknown request!"),
        ask("ports POST", "POST /api/ports?cmd=Validate").body("{\"Ports\":[9501]}").refused(400, "Unknown request!"),
        validate("").refused(400, format!("{format}EOF")),
        validate("{\"Ports\":[\"9501\"]}").refused_for(400, format),
        validate("{\"Ports\":9501}").refused_for(400, format),
        free("{\"Ports\":[9501]}"),
        free("{\"ports\":null}"),
        free("{\"Ports\":[80,65535]}"),
        free("{}"),
        validate("{\"Ports\":[1.5]}").refused_for(400, format),
        validate("{\"Ports\":[80,0]}").refused(400, format!("{format}Ports: 0 is not a port 1..65535")),
        validate("{\"Ports\":[-1]}").refused(400, format!("{format}Ports: -1 is not a port 1..65535")),
        validate("{\"Ports\":[70000]}").refused(400, format!("{format}Ports: 70000 is not a port 1..65535")),
        free("{}"),
        free("null"),
        ask("podgroups POST", "POST /api/podgroups").body(&owner).accepted(at(OWNER), ADDED),
        ask("ports GET", "GET /api/ports").document(200, json!([row(9501), row(9502)])),
        validate("{\"Ports\":[9502,9503,9501]}").refused(400, "Conflicted ports: [9502 9501]"),
        // The original reads the form and then finds no body left.
        ask("ports POST", "POST /api/ports?cmd=validate")
            .form("{\"Ports\":[9501]}")
            .refused(400, "Conflicted ports: [9501]"),
        free("{\"Ports\":[9503]}"),
        ask("podgroups DELETE", format!("DELETE {}", at(OWNER))).soon().accepted(at(OWNER), DELETED),
        all_gone(),
        ask("10.1: cancelled", "GET /api/ports").document(200, json!([])),
    ]
}

fn histories() -> Vec<Row> {
    let path = "GET /api/cntstatushistory";
    let no_instance = "No pod instance provided.";
    vec![
        ask("cntstatushistory", path).refused(400, "No pod group name provided."),
        ask("cntstatushistory", format!("{path}?instance=1")).refused(400, "No pod group name provided."),
        ask("cntstatushistory", format!("{path}?name=row.none.web")).refused(400, no_instance),
        ask("cntstatushistory", format!("{path}?name=row.none.web&instance=one")).refused(400, no_instance),
        ask("cntstatushistory", format!("{path}?name=row.none.web&instance=-1")).refused(400, no_instance),
        ask("cntstatushistory", format!("{path}?name=row.none.web&instance=1")).document(200, json!([])),
        ask("cntstatushistory", format!("{path}?name=row.none.web&instance=-7")).document(200, json!([])),
        ask("cntstatushistory", format!("{path}?name=a%2Fb&instance=0")).document(200, json!([])),
    ]
}
