//! The right that each route of the API needs at least.
//!
//! For a change this is the least right that any request to the route needs; the exact one follows from the command
//! ([`crate::command::Verb::right`]). A route that is not in the table, such as an unsupported method, only needs a client
//! that is known.

use super::Right;

/// One method of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteRight {
    /// The path; `{name}` stands for a name in it.
    pub path: &'static str,
    /// The method.
    pub method: &'static str,
    /// The right.
    pub right: Right,
}

const fn row(method: &'static str, path: &'static str, right: Right) -> RouteRight {
    RouteRight { path, method, right }
}

/// Every route.
pub const ROUTES: [RouteRight; 55] = [
    row("GET", "/api/status", Right::Status),
    row("PATCH", "/api/status", Right::Operate),
    row("GET", "/api/cluster", Right::Status),
    row("GET", "/api/podgroups", Right::Read),
    row("POST", "/api/podgroups", Right::Deploy),
    row("PATCH", "/api/podgroups", Right::Release),
    row("DELETE", "/api/podgroups", Right::Deploy),
    row("POST", "/api/podgroups/plan", Right::Deploy),
    row("GET", "/api/depends", Right::Read),
    row("POST", "/api/depends", Right::Deploy),
    row("PUT", "/api/depends", Right::Deploy),
    row("DELETE", "/api/depends", Right::Deploy),
    row("GET", "/api/rollouts", Right::Read),
    row("GET", "/api/revisions", Right::Read),
    row("GET", "/api/cntstatushistory", Right::Read),
    row("GET", "/api/events", Right::Read),
    row("GET", "/api/logs", Right::Logs),
    row("GET", "/api/operations", Right::Read),
    row("GET", "/api/ports", Right::Read),
    row("POST", "/api/ports", Right::Deploy),
    row("GET", "/api/nodes", Right::Read),
    row("PATCH", "/api/nodes", Right::Deploy),
    row("DELETE", "/api/nodes", Right::Operate),
    row("GET", "/api/nodes/{name}", Right::Read),
    row("PATCH", "/api/nodes/{name}", Right::Operate),
    row("DELETE", "/api/nodes/{name}", Right::Operate),
    row("GET", "/api/policies", Right::Read),
    row("PUT", "/api/policies", Right::Administer),
    row("DELETE", "/api/policies", Right::Administer),
    row("GET", "/api/notifies", Right::Operate),
    row("POST", "/api/notifies", Right::Operate),
    row("DELETE", "/api/notifies", Right::Operate),
    row("GET", "/api/constraints", Right::Operate),
    row("PATCH", "/api/constraints", Right::Operate),
    row("DELETE", "/api/constraints", Right::Operate),
    row("GET", "/api/engine/config", Right::Operate),
    row("PATCH", "/api/engine/config", Right::Operate),
    row("PATCH", "/api/engine/maintenance", Right::Operate),
    row("GET", "/api/guard", Right::Operate),
    row("POST", "/api/guard", Right::Operate),
    row("GET", "/api/deadletters", Right::Operate),
    row("GET", "/debug/vars", Right::Monitor),
    row("GET", "/metrics", Right::Monitor),
    row("GET", "/api/backup", Right::Administer),
    row("POST", "/api/restore", Right::Administer),
    row("DELETE", "/api/restore", Right::Administer),
    row("GET", "/api/tokens", Right::Administer),
    row("POST", "/api/tokens", Right::Administer),
    row("DELETE", "/api/tokens", Right::Administer),
    row("GET", "/api/jointokens", Right::Administer),
    row("POST", "/api/jointokens", Right::Administer),
    row("DELETE", "/api/jointokens", Right::Administer),
    row("GET", "/api/access", Right::Status),
    row("PATCH", "/api/access", Right::Administer),
    row("GET", "/api/audit", Right::Administer),
];

/// Routes that any client may use: a node that joins has a join token only, which the apiserver and the leader check.
pub const WITHOUT_CLIENT: [(&str, &str); 2] = [("GET", "/api/join"), ("POST", "/api/join")];

/// Requests that an apiserver passes to the leader while the cluster is read-only, besides those to `/api/engine/`: they take access
/// away. The leader decides by their command ([`passes_read_only`](crate::command::Verb::passes_read_only)).
const TAKE_ACCESS_AWAY: [(&str, &str); 4] = [
    ("DELETE", "/api/tokens"),
    ("DELETE", "/api/jointokens"),
    ("PATCH", "/api/access"),
    ("DELETE", "/api/nodes/{name}"),
];

/// Whether an apiserver passes the request to the leader while the cluster is read-only.
pub fn passes_read_only(method: &str, path: &str) -> bool {
    TAKE_ACCESS_AWAY.contains(&(method, path))
}

/// The right that a route needs; none when any client that is known may use it.
pub fn right_of(method: &str, path: &str) -> Option<Right> {
    ROUTES.iter().find(|row| row.method == method && row.path == path).map(|row| row.right)
}
