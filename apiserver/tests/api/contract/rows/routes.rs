//! Rows of all routes: redirects, methods, unknown paths; and `/debug/vars`: counters.

use super::row::{Row, ask};

/// Every path of the original API, with the methods it does not implement.
pub(super) const PATHS: [(&str, &[&str]); 11] = [
    ("/api/podgroups", &["PUT"]),
    ("/api/depends", &["PATCH"]),
    ("/api/nodes", &["POST", "PUT"]),
    ("/api/engine/config", &["POST", "PUT", "DELETE"]),
    ("/api/engine/maintenance", &["GET", "POST", "PUT", "DELETE"]),
    ("/api/status", &["POST", "PUT", "DELETE"]),
    ("/api/constraints", &["POST", "PUT"]),
    ("/api/notifies", &["PUT", "PATCH"]),
    ("/api/ports", &["PUT", "PATCH", "DELETE"]),
    ("/api/guard", &["PUT", "PATCH", "DELETE"]),
    ("/api/cntstatushistory", &["POST", "PUT", "PATCH", "DELETE"]),
];
/// Paths that the original does not have.
const OURS: [(&str, &[&str]); 11] = [
    ("/api/nodes/n1", &["POST", "PUT"]),
    ("/api/events", &["POST", "PUT", "PATCH", "DELETE"]),
    ("/api/logs", &["POST", "PUT", "PATCH", "DELETE"]),
    ("/api/deadletters", &["POST", "PUT", "PATCH", "DELETE"]),
    ("/api/operations", &["POST", "PUT", "PATCH", "DELETE"]),
    ("/api/cluster", &["POST", "PUT", "PATCH", "DELETE"]),
    ("/api/rollouts", &["POST", "PUT", "PATCH", "DELETE"]),
    ("/api/revisions", &["POST", "PUT", "PATCH", "DELETE"]),
    ("/api/podgroups/plan", &["GET", "PUT", "PATCH", "DELETE"]),
    ("/api/backup", &["POST", "PUT", "PATCH", "DELETE"]),
    ("/api/restore", &["GET", "PUT", "PATCH"]),
];
const ALLOW: &str = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS";

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (path, lacking) in PATHS.into_iter().chain(OURS) {
        for method in lacking {
            let word = format!("{}{}", &method[..1], method[1..].to_lowercase());
            rows.push(
                ask("methods", format!("{method} {path}")).refused(405, format!("{word} method is not supported")),
            );
        }
        rows.push(ask("HEAD", format!("HEAD {path}")).nothing(405));
        rows.push(ask("OPTIONS", format!("OPTIONS {path}")).nothing(200).header(200, "allow", ALLOW));
        let trace = ask("other methods", format!("TRACE {path}"));
        rows.push(trace.refused_by_router(405, "Method is not allowed").header(405, "allow", ALLOW));
    }
    for (path, _) in PATHS.into_iter().chain([("/debug/vars", &[][..])]) {
        rows.push(redirected("GET", &format!("{path}/"), 301, path));
        rows.push(redirected("PATCH", &path.to_uppercase(), 307, path));
        rows.push(redirected("DELETE", &path.replacen('/', "//", 2), 307, path));
    }
    for (method, status) in [("GET", 301), ("POST", 307), ("HEAD", 307), ("OPTIONS", 307)] {
        rows.push(redirected(method, "//API/Podgroups/", status, "/api/podgroups"));
    }
    rows.extend(unknown());
    rows.extend(counters());
    rows
}

fn redirected(method: &str, wrong: &str, status: u16, right: &str) -> Row {
    ask("redirects", format!("{method} {wrong}?name=a%20b&x=1"))
        .header(status, "location", format!("{right}?name=a%20b&x=1"))
        .nothing(status)
}

fn unknown() -> Vec<Row> {
    let requests = [
        "GET /",
        "GET /api",
        "GET /api/",
        "GET /api/podgroup",
        "GET /api/status/more",
        "GET /etc/passwd",
        "POST /api/apps",
        "DELETE /api/podgroups/a",
        "PATCH /debug",
        "OPTIONS /api/unknown",
    ];
    let row = |request| ask("unknown path", request).refused_by_router(404, "Page not found");
    let mut rows: Vec<Row> = requests.into_iter().map(row).collect();
    rows.push(ask("unknown path", "HEAD /api/unknown").nothing(404));
    rows
}

/// The Go members that make no sense here are left out: no `memstats`, no `goroutine_count`.
fn counters() -> Vec<Row> {
    let keys = [
        "at_server_start",
        "cmdline",
        "cpu_count",
        "hits_4xx_per_5min",
        "hits_5xx_per_5min",
        "hits_pageviews",
        "hits_per_minute",
        "hits_total",
        "latency_max",
        "latency_min",
        "latency_p50",
        "latency_p95",
        "latency_recent",
    ];
    let mut rows = vec![ask("debug/vars", "GET /debug/vars").keys(200, &keys)];
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        rows.push(ask("debug/vars", format!("{method} /debug/vars")).refused_by_router(405, "Method is not allowed"));
    }
    rows.push(ask("debug/vars", "HEAD /debug/vars").nothing(405));
    rows.push(ask("debug/vars", "OPTIONS /debug/vars").nothing(200));
    rows
}
