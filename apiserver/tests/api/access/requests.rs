//! One request for each route of `contract::access`, about an object of a namespace, and what its answer shows. The matrix of the
//! apiserver and that of a whole cluster use it. No request destroys more than the objects that it names.

use contract::access::routes::RouteRight;

/// What decides about a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Concerns {
    /// The namespace of its object.
    Namespace,
    /// Whether the client has the right anywhere.
    Anything,
}
use Concerns::{Anything, Namespace};

/// One request of a route about an object of a namespace.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) body: Option<String>,
    pub(crate) concerns: Concerns,
}

/// The objects that the requests name: the group and the dependency pod exist, no request but a DELETE changes them.
pub(crate) struct Objects {
    pub(crate) namespace: String,
    pub(crate) group: String,
    /// JSON of the group.
    pub(crate) spec: String,
}

pub(crate) fn dependency(namespace: &str) -> String {
    format!(
        r#"{{"Name":"dep-{namespace}","Namespace":"{namespace}","Containers":[{{"Image":"a"}}],"Annotation":"{{}}"}}"#
    )
}

/// The request of a route; a route that is not here fails the test that asks for it.
pub(crate) fn about(route: &RouteRight, objects: &Objects) -> Request {
    let Objects { namespace, group, spec } = objects;
    let with = |path: &str, query: &str, body: Option<&str>, concerns| Request {
        path: format!("{path}{query}"),
        body: body.map(str::to_owned),
        concerns,
    };
    let named = format!("?name={group}");
    let (query, body, concerns) = match (route.method, route.path) {
        ("GET", "/api/podgroups" | "/api/rollouts" | "/api/revisions" | "/api/logs") => (named, None, Namespace),
        ("GET", "/api/cntstatushistory") => (format!("{named}&instance=1"), None, Namespace),
        ("POST", "/api/podgroups" | "/api/podgroups/plan") => (String::new(), Some(spec.clone()), Namespace),
        ("PATCH", "/api/podgroups") => (format!("{named}&cmd=drained&instance=1"), None, Namespace),
        ("DELETE", "/api/podgroups") => (named, None, Namespace),
        ("GET" | "DELETE", "/api/depends") => (format!("?name=dep-{namespace}"), None, Namespace),
        ("POST" | "PUT", "/api/depends") => (String::new(), Some(dependency(namespace)), Namespace),
        // The matrix itself makes hundreds of events.
        ("GET", "/api/events") => ("?limit=1000".to_owned(), None, Namespace),
        ("GET", "/api/ports" | "/api/policies") => (String::new(), None, Namespace),
        ("PATCH", "/api/nodes") => (format!("?cmd=drift&from=n1&pg={group}"), None, Namespace),
        ("POST", "/api/ports") => ("?cmd=validate".to_owned(), Some(r#"{"Ports":[7]}"#.to_owned()), Anything),
        ("GET", "/api/operations") => ("?id=none".to_owned(), None, Anything),
        ("DELETE", "/api/nodes") => ("?node=n1".to_owned(), None, Anything),
        ("GET" | "DELETE", "/api/nodes/{name}") => {
            return with("/api/nodes/n1", "", None, Anything);
        }
        ("PATCH", "/api/nodes/{name}") => return with("/api/nodes/n1", "?cmd=uncordon", None, Anything),
        ("PATCH", "/api/status") => (String::new(), Some(r#"{"status":"start"}"#.to_owned()), Anything),
        ("PUT", "/api/policies") => {
            ("?namespace=other".to_owned(), Some(r#"{"Level":"baseline"}"#.to_owned()), Anything)
        }
        ("DELETE", "/api/policies") => ("?namespace=none".to_owned(), None, Anything),
        ("POST" | "DELETE", "/api/notifies") => ("?callback=http://127.0.0.1:1/".to_owned(), None, Anything),
        ("PATCH", "/api/constraints") => ("?type=node&value=n9".to_owned(), None, Anything),
        ("PATCH", "/api/engine/config") => (String::new(), Some("{}".to_owned()), Anything),
        ("POST", "/api/guard") => ("?work=true".to_owned(), None, Anything),
        ("DELETE", "/api/tokens") => ("?id=none".to_owned(), None, Anything),
        ("POST", "/api/tokens") => {
            (String::new(), Some(r#"{"Principal":"new","Bindings":["viewer@none"]}"#.to_owned()), Anything)
        }
        ("DELETE", "/api/jointokens") => ("?id=none".to_owned(), None, Anything),
        ("POST", "/api/jointokens") => (String::new(), Some(r#"{"Names":"rack-*"}"#.to_owned()), Anything),
        ("PATCH", "/api/access") => (String::new(), Some(r#"{"Enforced":true}"#.to_owned()), Anything),
        ("POST", "/api/restore") => (String::new(), Some(r#""Abort""#.to_owned()), Anything),
        (
            "GET",
            "/api/status" | "/api/cluster" | "/api/nodes" | "/api/notifies" | "/api/constraints" | "/api/engine/config"
            | "/api/guard" | "/api/deadletters" | "/debug/vars" | "/metrics" | "/api/backup" | "/api/tokens"
            | "/api/jointokens" | "/api/access" | "/api/audit",
        )
        | ("PATCH", "/api/engine/maintenance")
        | ("DELETE", "/api/constraints" | "/api/restore") => (String::new(), None, Anything),
        other => panic!("no request for the route {other:?}"),
    };
    Request { path: format!("{}{query}", route.path), body, concerns }
}

/// Whether an answer shows that the client was allowed: it is neither a refusal nor the answer about an unknown object.
pub(crate) fn is_allowed(
    (status, text): (u16, &str),
    route: &RouteRight,
    concerns: Concerns,
    objects: &Objects,
) -> bool {
    if [401, 403, 429].contains(&status) {
        return false;
    }
    let lists = ["/api/events", "/api/ports", "/api/policies"];
    match (route.method, route.path) {
        ("GET", path) if lists.contains(&path) => {
            text.contains(&format!("\"{}\"", objects.group))
                || text.contains(&format!("\"Namespace\": \"{}\"", objects.namespace))
        }
        ("GET", "/api/cntstatushistory") => text.contains("start"),
        _ => concerns == Anything || status != 404,
    }
}
