//! Rows of `/api/engine`, `/api/status`, `/api/guard` and `/api/notifies`, and of the read-only switch.

use serde_json::json;

use super::demo_group;
use super::groups::pod;
use super::routes::PATHS;
use super::row::{JSON, Row, ask};

const SHUT: &str = "Do ReadOnly Permitted.\n";
const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn rows() -> Vec<Row> {
    [read_only(), maintained(), stopped(), started(), decided()].concat()
}

/// The rows whose answer the leader decides.
pub(super) fn decided() -> Vec<Row> {
    [config(), guard(), callbacks()].concat()
}

fn shown(readonly: bool, maintenance: bool) -> serde_json::Value {
    json!({"readonly": readonly, "maintenance": maintenance})
}

fn config() -> Vec<Row> {
    let path = "PATCH /api/engine/config";
    let format = "Invalid Engine Config params format: ";
    vec![
        ask("engine", "GET /api/engine/config").document(200, shown(false, false)),
        ask("engine", path).refused(400, format!("{format}EOF")),
        ask("engine", path).body("{\"readonly\":\"true\"}").refused_for(400, format),
        ask("engine", path).body("{\"readonly\":1}").refused_for(400, format),
        ask("engine", path).body("[]").refused_for(400, format),
        ask("engine: absent keys stay", path).body("{}").document(200, shown(false, false)),
        ask("decoding", path).body("null").document(200, shown(false, false)),
        ask("decoding", path).body("{\"readonly\":null}").document(200, shown(false, false)),
        ask("parameters", "PATCH /api/engine/maintenance?on=TRue").document(200, shown(false, false)),
        ask("engine", "PATCH /api/engine/maintenance").document(200, shown(false, false)),
        ask("parameters", "PATCH /api/engine/maintenance?on=1").document(200, shown(false, true)),
        ask("engine", "PATCH /api/engine/config")
            .body("{\"maintenance\":false,\"readonly\":null}")
            .document(200, shown(false, false)),
    ]
}

fn read_only() -> Vec<Row> {
    let mut rows = vec![
        ask("engine", "PATCH /api/engine/config").form("{\"READONLY\":true} rest").document(200, shown(true, false)),
        ask("engine", "GET /api/engine/config").document(200, shown(true, false)),
    ];
    rows.extend(shut());
    rows.extend([
        ask("engine: absent keys stay", "PATCH /api/engine/config")
            .body("{\"maintenance\":true}")
            .document(200, shown(true, true)),
        ask("engine", "PATCH /api/engine/config").body("{\"maintenance\":false}").document(200, shown(true, false)),
        ask("engine", "PATCH /api/engine/config").body("{\"readonly\":false}").document(200, shown(false, false)),
    ]);
    rows.extend(open());
    rows
}

/// Maintenance shuts the same doors.
fn maintained() -> Vec<Row> {
    let mut rows = vec![ask("engine", "PATCH /api/engine/maintenance?on=true").document(200, shown(false, true))];
    rows.extend(shut());
    rows.push(ask("engine: no parameter is off", "PATCH /api/engine/maintenance").document(200, shown(false, false)));
    rows.extend(open());
    rows.push(ask("forms", "PATCH /api/engine/maintenance?on=0").form("on=t").document(200, shown(false, true)));
    rows.push(ask("engine", "PATCH /api/engine/maintenance?on=nonsense").document(200, shown(false, false)));
    rows
}

/// Everything but GET and OPTIONS outside `/api/engine/`. The first row of each apiserver waits: a HEAD or an unknown path may be
/// answered as before until the switch is known there.
fn shut() -> Vec<Row> {
    let refused = |request: String| ask("read-only", request).text(403, TEXT, SHUT);
    let mut rows = vec![refused("POST /api/unknown".to_owned()).soon(), refused("POST /api/unknown".to_owned()).soon()];
    for (path, _) in PATHS {
        if path.starts_with("/api/engine/") {
            rows.push(ask("read-only", format!("DELETE {path}")).refused(405, "Delete method is not supported"));
            continue;
        }
        rows.extend(["POST", "PUT", "PATCH", "DELETE", "TRACE"].map(|method| refused(format!("{method} {path}"))));
        rows.push(ask("read-only", format!("HEAD {path}")).nothing(403));
        rows.push(ask("read-only", format!("OPTIONS {path}")).nothing(200));
        rows.push(ask("read-only", format!("DELETE {path}/")).header(307, "location", path));
    }
    rows.extend([
        refused("DELETE /api/podgroups?name=row.none.web".to_owned()),
        refused("PATCH /debug/vars".to_owned()),
        refused("DELETE /".to_owned()),
        ask("read-only", "POST /api/podgroups").body(demo_group("row.shut.web", 1)).text(403, TEXT, SHUT),
        ask("read-only", "POST /api/engine/config").refused(405, "Post method is not supported"),
        ask("read-only", "HEAD /api/engine/config").nothing(405),
        ask("read-only", "DELETE /api/engine/nothing").refused_by_router(404, "Page not found"),
        ask("read-only", "OPTIONS /api/unknown").refused_by_router(404, "Page not found"),
        ask("read-only", "POST /api/PODGROUPS/").header(307, "location", "/api/podgroups"),
        ask("ours", "GET /api/podgroups?all=true").document(200, json!({"PodGroups": [], "Next": ""})),
        ask("read-only", "PUT /api/depends").body(pod("row.none.web")).text(403, TEXT, SHUT),
        ask("read-only", "GET /api/podgroups?name=row.none.web&force_update=true").refused(404, "PodGroup not existed"),
        ask("read-only", "GET /api/status").document(200, json!({"status": "started"})),
        ask("read-only", "GET /api/guard").document(200, json!({"guard": "working"})),
        ask("read-only", "GET /api/unknown").refused_by_router(404, "Page not found"),
    ]);
    rows
}

/// After read-only is switched off, requests are accepted.
fn open() -> Vec<Row> {
    let row = || ask("read-only", "DELETE /api/podgroups?name=row.none.web").refused(404, "PodGroup not existed");
    let unknown = || ask("read-only", "POST /api/unknown").soon().refused_by_router(404, "Page not found");
    vec![row(), row(), unknown(), unknown()]
}

/// Rows of `/api/status`.
pub(crate) fn stopped() -> Vec<Row> {
    let status = "PATCH /api/status";
    let format = "Invalid Status params format: ";
    let neither = "Invalid Status, it should be start or stop";
    vec![
        ask("status", "GET /api/status").document(200, json!({"status": "started"})),
        ask("status", status).refused(400, format!("{format}EOF")),
        ask("status", status).body("{\"status\":1}").refused_for(400, format),
        ask("status", status).body("{}").refused(400, neither),
        ask("status", status).body("null").refused(400, neither),
        ask("status", status).body("{\"status\":\"started\"}").refused(400, neither),
        ask("status", status).body("{\"STATUS\":\"stop\"} rest").text(202, JSON, "\"Accept\"\n"),
        ask("status", "GET /api/status").document(200, json!({"status": "stopped"})),
        ask("status: idempotent", status).form("{\"status\":\"stop\"}").text(202, JSON, "\"Accept\"\n"),
    ]
}

pub(crate) fn started() -> Vec<Row> {
    let start = || ask("status", "PATCH /api/status").body("{\"status\":\"start\"}").text(202, JSON, "\"Accept\"\n");
    vec![start(), start(), ask("status", "GET /api/status").document(200, json!({"status": "started"}))]
}

/// Always 200; no parameter means sleep.
fn guard() -> Vec<Row> {
    let ok = json!({"successed": "OK"});
    let is = |word: &str| ask("guard", "GET /api/guard").document(200, json!({"guard": word}));
    vec![
        is("working"),
        ask("guard", "POST /api/guard").document(200, ok.clone()),
        is("sleeping"),
        ask("guard", "POST /api/guard?work=T").document(200, ok.clone()),
        is("working"),
        ask("parameters", "POST /api/guard?work=yes").document(200, ok.clone()),
        is("sleeping"),
        ask("forms", "POST /api/guard?work=false").form("work=true").document(200, ok),
        is("working"),
    ]
}

fn callbacks() -> Vec<Row> {
    let url = "/api/notifies";
    let one = "http://127.0.0.1:9/one";
    let add = |callback: &str| {
        let request = format!("POST /api/notifies?callback={callback}");
        ask("notifies POST", request).accepted(url, "notify will be added")
    };
    let remove = |callback: &str| format!("DELETE /api/notifies?callback={callback}");
    let removed = "notify uri will be deleted from the orc engine.";
    vec![
        ask("notifies GET", "GET /api/notifies").refused(404, "No notify found"),
        ask("notifies POST", "POST /api/notifies").refused(400, "constaint type required"),
        ask("notifies POST", "POST /api/notifies?callback=").refused(400, "constaint type required"),
        ask("notifies POST", "POST /api/notifies?callback=relative").refused_for(400, "callback url not valid: "),
        // The original takes it, and can never post to it.
        ask("notifies POST", "POST /api/notifies?callback=/x").refused_for(400, "callback url not valid: "),
        ask("notifies DELETE", "DELETE /api/notifies").refused(400, "callback value requird"),
        ask("notifies DELETE", remove(one)).refused(404, "Notify uri not existed"),
        add(one),
        ask("notifies POST: twice is once", "POST /api/notifies")
            .form(format!("callback={one}"))
            .accepted(url, "notify will be added"),
        add("http://127.0.0.1:9/two"),
        ask("notifies GET", "GET /api/notifies").document(200, json!([one, "http://127.0.0.1:9/two"])),
        ask("notifies DELETE", remove(one)).accepted(url, removed),
        ask("notifies DELETE", remove("http://127.0.0.1:9/two")).accepted(url, removed),
        ask("notifies GET", "GET /api/notifies").refused(404, "No notify found"),
    ]
}
