//! Reads a group as the Python console does: by exact key, without checks, expecting lists to have a first element.
//!
//! Where console would answer its users 500, this reader says which member was missing or of which wrong kind. It knows
//! nothing of our own types, which would fill in what is absent.

use contract::time::Timestamp;
use serde_json::Value;

/// What console shows of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) container_id: String,
    pub(super) container_name: String,
    pub(super) container_ip: String,
    pub(super) container_port: i64,
    pub(super) node_ip: String,
    pub(super) running: bool,
    pub(super) started_at: Timestamp,
    pub(super) env: Vec<String>,
}

/// What console shows of a group (`deploys/models.py`, `apis/views.py`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) last_error: String,
    pub(super) instances: Vec<Instance>,
}

/// The group, or the first thing console would stumble over.
pub(super) fn read(body: &Value) -> Result<Shown, String> {
    read_spec(&body["Spec"])?;
    let last_error = text(body, "/LastError")?;
    let instances = match &body["Pods"] {
        Value::Null => Vec::new(),
        Value::Array(pods) => pods.iter().map(read_pod).collect::<Result<_, _>>()?,
        other => return Err(format!("Pods is {other}")),
    };
    Ok(Shown { last_error, instances })
}

/// What console reads of a dependency pod: an object of lists of pods, each with a `LastError`.
pub(super) fn read_dependency(body: &Value) -> Result<Vec<(String, Shown)>, String> {
    let namespaces = body["Pods"].as_object().ok_or("Pods is no object")?;
    let read = |(namespace, pods): (&String, &Value)| {
        let pods = pods.as_array().ok_or("no list of pods")?;
        let last_error = pods.iter().map(|pod| text(pod, "/LastError")).collect::<Result<Vec<_>, _>>()?.concat();
        let instances = pods.iter().map(read_pod).collect::<Result<_, _>>()?;
        Ok((namespace.clone(), Shown { last_error, instances }))
    };
    namespaces.iter().map(read).collect()
}

fn read_pod(pod: &Value) -> Result<Instance, String> {
    let started_at = text(pod, "/Containers/0/Runtime/State/StartedAt")?;
    let zone_is_utc = started_at.contains('T') && started_at.ends_with('Z');
    let started_at = Timestamp::parse(&started_at)
        .ok()
        .filter(|_| zone_is_utc)
        .ok_or_else(|| format!("StartedAt is {started_at:?}"))?;
    let env = match at(pod, "/Containers/0/Runtime/Config/Env")? {
        Value::Null => Vec::new(),
        Value::Array(env) => env.iter().map(|entry| text(entry, "")).collect::<Result<_, _>>()?,
        other => return Err(format!("Env is {other}")),
    };
    Ok(Instance {
        container_id: text(pod, "/Containers/0/Id")?,
        container_name: text(pod, "/Containers/0/Runtime/Name")?,
        container_ip: text(pod, "/Containers/0/ContainerIp")?,
        container_port: number(pod, "/Containers/0/ContainerPort")?,
        node_ip: text(pod, "/Containers/0/NodeIp")?,
        running: at(pod, "/Containers/0/Runtime/State/Running")?.as_bool().ok_or("Running is no boolean")?,
        started_at,
        env,
    })
}

/// Console rebuilds the spec from this when memory or CPU change (`render_podgroup_spec_from_json`).
fn read_spec(spec: &Value) -> Result<(), String> {
    for member in ["/Name", "/Namespace", "/Pod/Name", "/Pod/Namespace", "/Pod/Annotation"] {
        text(spec, member)?;
    }
    for member in ["/NumInstances", "/RestartPolicy", "/Pod/Version"] {
        number(spec, member)?;
    }
    let annotation = text(spec, "/Pod/Annotation")?;
    serde_json::from_str::<Value>(&annotation).map_err(|error| format!("Annotation: {error}"))?;
    for member in ["/Pod/Containers", "/Pod/Dependencies", "/Pod/Filters"] {
        let found = at(spec, member)?;
        if !found.is_array() && !found.is_null() {
            return Err(format!("{member} is {found}"));
        }
    }
    read_container(at(spec, "/Pod/Containers/0")?)
}

fn read_container(container: &Value) -> Result<(), String> {
    for member in ["/Image", "/User", "/WorkingDir"] {
        text(container, member)?;
    }
    for member in ["/CpuLimit", "/MemoryLimit", "/Expose"] {
        number(container, member)?;
    }
    for member in ["/Volumes", "/SystemVolumes"] {
        at(container, member)?;
    }
    if !at(container, "/Env")?.is_array() {
        return Err("Env of a container spec is iterated and must be a list".to_owned());
    }
    at(container, "/LogConfig/Type")?;
    at(container, "/LogConfig/Config").map(drop)
}

fn at<'a>(value: &'a Value, pointer: &str) -> Result<&'a Value, String> {
    value.pointer(pointer).ok_or_else(|| format!("KeyError: {pointer}"))
}

fn text(value: &Value, pointer: &str) -> Result<String, String> {
    at(value, pointer)?.as_str().map(str::to_owned).ok_or_else(|| format!("{pointer} is no text"))
}

fn number(value: &Value, pointer: &str) -> Result<i64, String> {
    at(value, pointer)?.as_i64().ok_or_else(|| format!("{pointer} is no whole number"))
}
