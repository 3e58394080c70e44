//! Rows of 1.6, 1.9, 1.11 and of the read-only switch of 1.1: engine config, maintenance, guard, callbacks.

use serde_json::json;

use super::groups::pod;
use super::routes::PATHS;
use super::row::{Row, ask};

const SHUT: &str = "Do ReadOnly Permitted.\n";
const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn rows() -> Vec<Row> {
    [config(), read_only(), maintained(), guard(), callbacks()].concat()
}

fn shown(readonly: bool, maintenance: bool) -> serde_json::Value {
    json!({"readonly": readonly, "maintenance": maintenance})
}

fn config() -> Vec<Row> {
    let path = "PATCH /api/engine/config";
    let format = "Invalid Engine Config params format: ";
    vec![
        ask("1.6", "GET /api/engine/config").document(200, shown(false, false)),
        ask("1.6", path).refused(400, format!("{format}EOF")),
        ask("1.6", path).body("{\"readonly\":\"true\"}").refused_for(400, format),
        ask("1.6", path).body("{\"readonly\":1}").refused_for(400, format),
        ask("1.6", path).body("[]").refused_for(400, format),
        ask("1.6: absent keys stay", path).body("{}").document(200, shown(false, false)),
        ask("1.1 decoding", path).body("null").document(200, shown(false, false)),
        ask("1.1 decoding", path).body("{\"readonly\":null}").document(200, shown(false, false)),
        ask("1.1 parameters", "PATCH /api/engine/maintenance?on=TRue").document(200, shown(false, false)),
        ask("1.6", "PATCH /api/engine/maintenance").document(200, shown(false, false)),
    ]
}

fn read_only() -> Vec<Row> {
    let mut rows = vec![
        ask("1.6", "PATCH /api/engine/config").form("{\"READONLY\":true} rest").document(200, shown(true, false)),
        ask("1.6", "GET /api/engine/config").document(200, shown(true, false)),
    ];
    rows.extend(shut());
    rows.extend([
        ask("1.6: absent keys stay", "PATCH /api/engine/config")
            .body("{\"maintenance\":true}")
            .document(200, shown(true, true)),
        ask("1.6", "PATCH /api/engine/config").body("{\"maintenance\":false}").document(200, shown(true, false)),
        ask("1.6", "PATCH /api/engine/config").body("{\"readonly\":false}").document(200, shown(false, false)),
    ]);
    rows.extend(open());
    rows
}

/// Maintenance shuts the same doors.
fn maintained() -> Vec<Row> {
    let mut rows = vec![ask("1.6", "PATCH /api/engine/maintenance?on=true").document(200, shown(false, true))];
    rows.extend(shut());
    rows.push(ask("1.6: no parameter is off", "PATCH /api/engine/maintenance").document(200, shown(false, false)));
    rows.extend(open());
    rows.push(ask("1.1 forms", "PATCH /api/engine/maintenance?on=0").form("on=t").document(200, shown(false, true)));
    rows.push(ask("1.6", "PATCH /api/engine/maintenance?on=nonsense").document(200, shown(false, false)));
    rows
}

/// Everything but GET and OPTIONS outside `/api/engine/`. The first row of each apiserver waits: a HEAD or an unknown path may be
/// answered as before until the switch is known there.
fn shut() -> Vec<Row> {
    let refused = |request: String| ask("1.1 read-only", request).text(403, TEXT, SHUT);
    let mut rows = vec![refused("POST /api/unknown".to_owned()).soon(), refused("POST /api/unknown".to_owned()).soon()];
    for (path, _) in PATHS {
        if path.starts_with("/api/engine/") {
            rows.push(ask("1.1 read-only", format!("DELETE {path}")).refused(405, "Delete method is not supported"));
            continue;
        }
        rows.extend(["POST", "PUT", "PATCH", "DELETE", "TRACE"].map(|method| refused(format!("{method} {path}"))));
        rows.push(ask("1.1 read-only", format!("HEAD {path}")).nothing(403));
        rows.push(ask("1.1 read-only", format!("OPTIONS {path}")).nothing(200));
        rows.push(ask("1.1 read-only", format!("DELETE {path}/")).header(307, "location", path));
    }
    rows.extend([
        refused("DELETE /api/podgroups?name=row.none.web".to_owned()),
        refused("PATCH /debug/vars".to_owned()),
        ask("1.1 read-only", "PUT /api/depends").body(pod("row.none.web")).text(403, TEXT, SHUT),
        ask("1.1 read-only", "GET /api/podgroups?name=row.none.web&force_update=true")
            .refused(404, "PodGroup not existed"),
        ask("1.1 read-only", "GET /api/status").document(200, json!({"status": "started"})),
        ask("1.1 read-only", "GET /api/guard").document(200, json!({"guard": "working"})),
        ask("1.1 read-only", "GET /api/unknown").refused_by_router(404, "Page not found"),
    ]);
    rows
}

/// After read-only is switched off, requests are accepted.
fn open() -> Vec<Row> {
    let row = || ask("1.1 read-only", "DELETE /api/podgroups?name=row.none.web").refused(404, "PodGroup not existed");
    let unknown = || ask("1.1 read-only", "POST /api/unknown").soon().refused_by_router(404, "Page not found");
    vec![row(), row(), unknown(), unknown()]
}

/// Always 200; no parameter means sleep.
fn guard() -> Vec<Row> {
    let ok = json!({"successed": "OK"});
    let is = |word: &str| ask("1.11", "GET /api/guard").document(200, json!({"guard": word}));
    vec![
        is("working"),
        ask("1.11", "POST /api/guard").document(200, ok.clone()),
        is("sleeping"),
        ask("1.11", "POST /api/guard?work=T").document(200, ok.clone()),
        is("working"),
        ask("1.1 parameters", "POST /api/guard?work=yes").document(200, ok.clone()),
        is("sleeping"),
        ask("1.1 forms", "POST /api/guard?work=false").form("work=true").document(200, ok),
        is("working"),
    ]
}

fn callbacks() -> Vec<Row> {
    let url = "/api/notifies";
    let one = "http://127.0.0.1:9/one";
    let add = |callback: &str| {
        let request = format!("POST /api/notifies?callback={callback}");
        ask("1.9 POST", request).accepted(url, "notify will be added")
    };
    let remove = |callback: &str| format!("DELETE /api/notifies?callback={callback}");
    let removed = "notify uri will be deleted from the orc engine.";
    vec![
        ask("1.9 GET", "GET /api/notifies").refused(404, "No notify found"),
        ask("1.9 POST", "POST /api/notifies").refused(400, "constaint type required"),
        ask("1.9 POST", "POST /api/notifies?callback=").refused(400, "constaint type required"),
        ask("1.9 POST", "POST /api/notifies?callback=relative").refused_for(400, "callback url not valid: "),
        // The original takes it, and can never post to it.
        ask("1.9 POST", "POST /api/notifies?callback=/x").refused_for(400, "callback url not valid: "),
        ask("1.9 DELETE", "DELETE /api/notifies").refused(400, "callback value requird"),
        ask("1.9 DELETE", remove(one)).refused(404, "Notify uri not existed"),
        add(one),
        ask("1.9 POST: twice is once", "POST /api/notifies")
            .form(format!("callback={one}"))
            .accepted(url, "notify will be added"),
        add("http://127.0.0.1:9/two"),
        ask("1.9 GET", "GET /api/notifies").document(200, json!([one, "http://127.0.0.1:9/two"])),
        ask("1.9 DELETE", remove(one)).accepted(url, removed),
        ask("1.9 DELETE", remove("http://127.0.0.1:9/two")).accepted(url, removed),
        ask("1.9 GET", "GET /api/notifies").refused(404, "No notify found"),
    ]
}
