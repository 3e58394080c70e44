//! Specs of demo groups, as the API takes them.

use serde_json::{Value, json};

use crate::cluster::IMAGE;

/// Environment variable that holds the mark of a group's last change.
pub(crate) const MARK: &str = "PROOF_MARK";

/// A group of `count` demo instances.
pub(crate) fn group(name: &str, count: u32) -> Value {
    let namespace = namespace(name);
    json!({"Name": name, "Namespace": namespace, "NumInstances": count, "RestartPolicy": 1, "Pod": pod(name, 0)})
}

pub(crate) fn pod(name: &str, mark: u32) -> Value {
    json!({
        "Name": name, "Namespace": namespace(name), "Annotation": "{}", "KillTimeout": 1,
        "Filters": ["constraint:group==default"],
        "Containers": [{
            "Image": IMAGE, "CpuLimit": 1, "MemoryLimit": 8 * 1024 * 1024, "Expose": 0, "Env": [format!("{MARK}={mark}")],
        }],
    })
}

/// One namespace, and so one network, for all groups of a cluster: an engine has room for about thirty networks.
fn namespace(name: &str) -> &str {
    let first = name.split('.').next().unwrap_or(name);
    first.split_once('-').map_or(first, |(_, tag)| tag)
}
