//! The route table of docs/api.md as rows: a request, and what must come back.
//!
//! Each row is written once. The apiserver's tests send all of them against the fake leader. The cluster tests of `cli` send
//! those whose answer the leader decides to a real cluster, which also shows that the fake leader decides as the real one.
//! The rows run in order: a later row sees what an earlier one did, and in the end everything is as before.

#![allow(dead_code, reason = "each of the two test programs uses a part")]

mod dependencies;
mod fleet;
pub(crate) mod groups;
mod routes;
pub(crate) mod row;
pub(crate) mod switches;

use row::Row;
use serde_json::{Value, json};

/// Every row.
pub(crate) fn all() -> Vec<Row> {
    [routes::rows(), groups::rows(), dependencies::rows(), fleet::rows(), switches::rows()].concat()
}

/// The rows whose answer depends on what the leader decided and stored.
pub(crate) fn decided_by_the_leader() -> Vec<Row> {
    [groups::decided(), dependencies::decided(), fleet::decided(), switches::decided()].concat()
}

/// A group of `count` demo instances.
pub(crate) fn demo_group(name: &str, count: u32) -> Value {
    let namespace = name.split('.').next().expect("a first part");
    json!({
        "Name": name, "Namespace": namespace, "NumInstances": count, "RestartPolicy": 1,
        "Pod": {
            "Name": name, "Namespace": namespace, "Annotation": "{}", "Filters": ["constraint:group==default"],
            "Containers": [{"Image": "deployd-test/demo:1", "CpuLimit": 1, "MemoryLimit": 16 * 1024 * 1024, "Expose": 8080}],
        },
    })
}
