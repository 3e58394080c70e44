//! The API request of a change.

use reqwest::Method;
use serde_json::Value;

use crate::chaos::model::{Change, Kind, Object};
use crate::cluster::Request;
use crate::cluster::specs::{group, pod};

pub(crate) fn request(object: &Object, change: &Change) -> Request {
    let name = &object.name;
    let (method, path, body) = match (change, object.kind) {
        (Change::Create { count }, _) => (Method::POST, "/api/podgroups".to_owned(), Some(group(name, *count))),
        (Change::Delete, _) => (Method::DELETE, format!("/api/podgroups?name={name}"), None),
        (Change::Replica { count }, _) => (Method::PATCH, patch(name, &format!("replica&num_instances={count}")), None),
        (Change::Spec { mark }, _) => (Method::PATCH, patch(name, "spec"), Some(pod(name, *mark))),
        (Change::Start { instance }, _) => operation(name, "start", *instance),
        (Change::Stop { instance }, _) => operation(name, "stop", *instance),
        (Change::Restart { instance }, _) => operation(name, "restart", *instance),
        (Change::Drift { from }, _) => (Method::PATCH, format!("/api/nodes?cmd=drift&from={from}&pg={name}"), None),
        (Change::Set { .. }, Kind::Callback) => (Method::POST, format!("/api/notifies?callback={name}"), None),
        (Change::Unset, Kind::Callback) => (Method::DELETE, format!("/api/notifies?callback={name}"), None),
        // Soft and unequal: every node meets it, so placement is as without it.
        (Change::Set { mark }, Kind::Constraint | Kind::Group { .. }) => {
            (Method::PATCH, format!("/api/constraints?type={name}&value=m{mark}&equal=false&soft=true"), None)
        }
        (Change::Unset, Kind::Constraint | Kind::Group { .. }) => {
            (Method::DELETE, format!("/api/constraints?type={name}"), None)
        }
    };
    Request { method, path, body }
}

fn patch(name: &str, rest: &str) -> String {
    format!("/api/podgroups?name={name}&cmd={rest}")
}

fn operation(name: &str, word: &str, instance: u32) -> (Method, String, Option<Value>) {
    (Method::PATCH, patch(name, &format!("operation&optype={word}&instance={instance}")), None)
}
