//! Rows of 1.1, 1.2 and 1.13: routing, redirects, methods, unknown paths, counters.

use super::row::{Row, ask};

/// Every path, with the methods it does not implement.
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
const ALLOW: &str = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS";

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (path, lacking) in PATHS {
        for method in lacking {
            let word = format!("{}{}", &method[..1], method[1..].to_lowercase());
            rows.push(
                ask("1.1 methods", format!("{method} {path}")).refused(405, format!("{word} method is not supported")),
            );
        }
        rows.push(ask("1.1 HEAD", format!("HEAD {path}")).nothing(405));
        rows.push(ask("1.1 OPTIONS", format!("OPTIONS {path}")).nothing(200).header(200, "allow", ALLOW));
        let trace = ask("1.1 other methods", format!("TRACE {path}"));
        rows.push(trace.refused_by_router(405, "Method is not allowed").header(405, "allow", ALLOW));
        rows.push(redirected("GET", &format!("{path}/"), 301, path));
        rows.push(redirected("PATCH", &path.to_uppercase(), 307, path));
        rows.push(redirected("DELETE", &path.replace("/api/", "//api//"), 307, path));
    }
    rows.extend(unknown());
    rows.extend(counters());
    rows
}

fn redirected(method: &str, wrong: &str, status: u16, right: &str) -> Row {
    ask("1.1 redirects", format!("{method} {wrong}?name=a%20b&x=1"))
        .header(status, "location", format!("{right}?name=a%20b&x=1"))
        .nothing(status)
}

fn unknown() -> Vec<Row> {
    let requests =
        ["GET /", "GET /api", "GET /api/podgroup", "POST /api/apps", "DELETE /api/podgroups/a", "PATCH /debug"];
    requests.into_iter().map(|r| ask("1.1 unknown path", r).refused_by_router(404, "Page not found")).collect()
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
    let mut rows = vec![ask("1.13", "GET /debug/vars").keys(200, &keys)];
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        rows.push(ask("1.13", format!("{method} /debug/vars")).refused_by_router(405, "Method is not allowed"));
    }
    rows.push(ask("1.13", "HEAD /debug/vars").nothing(405));
    rows
}
