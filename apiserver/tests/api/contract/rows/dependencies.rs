//! Rows of `/api/depends`: dependency pods. No group needs them here, so none runs.

use serde_json::{Value, json};

use super::groups::pod;
use super::row::{Row, ask};

const NAME: &str = "row.portal.portal";
const UNKNOWN: &str = "DependencyPod not existed";
const NO_NAME: &str = "Missing dependency pod name for the request";
const FORMAT: &str = "Bad parameter format for PodSpec, ";

pub(super) fn rows() -> Vec<Row> {
    [refused(), decided()].concat()
}

/// The rows whose answer the leader decides.
pub(super) fn decided() -> Vec<Row> {
    [created(), updated(), removed()].concat()
}

fn check_url() -> String {
    format!("/api/depends?name={NAME}")
}

fn refused() -> Vec<Row> {
    let nameless = |change: (&str, Value)| {
        let mut pod = pod(NAME);
        *pod.pointer_mut(change.0).expect("a member") = change.1;
        pod
    };
    let flaws = || [("/Name", "".into()), ("/Containers", json!([])), ("/Containers/0/Image", "".into())];
    let mut rows = vec![
        ask("depends GET", "GET /api/depends").refused(400, NO_NAME),
        ask("depends GET", "GET /api/depends?name=").refused(400, NO_NAME),
        ask("depends GET", "GET /api/depends?name=row.none.web").refused(404, UNKNOWN),
        ask("depends GET", "GET /api/depends?name=a%20b").refused(404, UNKNOWN),
        ask("depends DELETE", "DELETE /api/depends").refused(400, NO_NAME),
        ask("depends DELETE", "DELETE /api/depends?name=row.none.web").refused(404, UNKNOWN),
        ask("depends DELETE", "DELETE /api/depends?name=row.none.web&force=true").refused(404, UNKNOWN),
        ask("depends POST", "POST /api/depends").refused(400, format!("{FORMAT}EOF")),
        ask("depends POST", "POST /api/depends").body("[]").refused_for(400, FORMAT),
        ask("depends PUT", "PUT /api/depends").refused(400, format!("{FORMAT}EOF")),
        ask("depends PUT", "PUT /api/depends").body("7").refused_for(400, FORMAT),
        ask("depends POST", "POST /api/depends")
            .body("{\"Name\":\"a b\",\"Containers\":[{}]}")
            .refused_for(400, "Missing paremeters for PodSpec: Pod.Name: contains ' '"),
        ask("depends PUT", "PUT /api/depends").body(pod("row.none.web")).refused(404, UNKNOWN),
    ];
    rows.extend(flaws().map(|flaw| {
        ask("depends POST", "POST /api/depends").body(nameless(flaw)).refused_for(400, "Missing paremeters for PodSpec")
    }));
    rows.extend(flaws().map(|flaw| {
        ask("depends PUT", "PUT /api/depends").body(nameless(flaw)).refused_for(400, "Missing parameters for PodSpec")
    }));
    rows
}

fn created() -> Vec<Row> {
    let added = "Dependency pod will be added into orc engine.";
    vec![
        ask("depends POST", "POST /api/depends").form(pod(NAME)).accepted(check_url(), added),
        ask("depends POST", "POST /api/depends").body(pod(NAME)).refused(405, "DependencyPod has already existed"),
        ask("depends GET", format!("GET {}", check_url()))
            .keys(200, &["Pods", "Spec"])
            .holds(200, "/Pods", json!({}))
            .holds(200, "/Spec/Name", NAME)
            .holds(200, "/Spec/Version", 0)
            .holds(200, "/Spec/Containers/0/LogConfig/Type", ""),
    ]
}

fn updated() -> Vec<Row> {
    let will = "Dependency PodSpec would be updated in orc engine.";
    let put = |pod: Value| ask("depends PUT", "PUT /api/depends").body(pod).accepted(check_url(), will);
    let shown = |version: u32, memory: i64| {
        ask("depends PUT", format!("GET {}", check_url())).holds(200, "/Spec/Version", version).holds(
            200,
            "/Spec/Containers/0/MemoryLimit",
            memory,
        )
    };
    let with_memory = |memory: i64| {
        let mut pod = pod(NAME);
        pod["Containers"][0]["MemoryLimit"] = memory.into();
        pod
    };
    vec![
        put(with_memory(32 << 20)),
        shown(1, 32 << 20),
        // nothing new, whatever version the client sends.
        put(with_memory(32 << 20)),
        put(with_memory(0)),
        shown(1, 32 << 20),
        put(with_memory(16 << 20)),
        shown(2, 16 << 20),
    ]
}

fn removed() -> Vec<Row> {
    let will = "Dependency pod will be removed from the orc engine.";
    let gone = || ask("depends GET", format!("GET {}", check_url())).soon().refused(404, UNKNOWN);
    let again = || ask("depends POST", "POST /api/depends").body(pod(NAME)).soon();
    vec![
        ask("depends DELETE, Q-17: unused, so it goes", format!("DELETE {}", check_url())).accepted(check_url(), will),
        gone(),
        again().accepted(check_url(), "Dependency pod will be added into orc engine."),
        ask("depends DELETE", format!("DELETE {}&force=1", check_url())).accepted(check_url(), will),
        gone(),
    ]
}
