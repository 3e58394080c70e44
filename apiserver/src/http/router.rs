//! Routes a method and a path, by the original's rules. Pure.
//!
//! Every method is routed on every resource; the resource refuses what it does not implement. A path that differs only in
//! case, extra slashes or dots is redirected.

use axum::http::Method;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    PodGroups,
    Depends,
    Nodes,
    Node,
    /// Scheduling on or off.
    Status,
    Notifies,
    /// Outcomes of commands.
    Operations,
    Cluster,
    /// The read-only and maintenance switches.
    EngineConfig,
    Maintenance,
    /// The missing-instance guard.
    Guard,
    /// Placement constraints of the whole cluster.
    Constraints,
    /// Request statistics.
    DebugVars,
    Ports,
    /// Starts and stops of containers.
    History,
    Events,
    /// What containers wrote.
    Logs,
    DeadLetters,
    Rollouts,
    Revisions,
    /// Preview of a spec.
    Plan,
    Backup,
    Restore,
    /// Workload policies of namespaces.
    Policies,
    Tokens,
    /// Tokens with which nodes join.
    JoinTokens,
    /// Nodes that join.
    Join,
    /// Whether clients must prove who they are, and what the client may do.
    Access,
    /// The audit log.
    Audit,
}

impl Resource {
    pub const ALL: [Self; 29] = [
        Self::PodGroups,
        Self::Depends,
        Self::Nodes,
        Self::Node,
        Self::Status,
        Self::Notifies,
        Self::Operations,
        Self::Cluster,
        Self::Ports,
        Self::History,
        Self::Events,
        Self::Logs,
        Self::DeadLetters,
        Self::EngineConfig,
        Self::Maintenance,
        Self::Guard,
        Self::Constraints,
        Self::DebugVars,
        Self::Rollouts,
        Self::Revisions,
        Self::Plan,
        Self::Backup,
        Self::Restore,
        Self::Policies,
        Self::Tokens,
        Self::JoinTokens,
        Self::Join,
        Self::Access,
        Self::Audit,
    ];

    /// Its path; `{name}` stands for a name in it.
    pub fn path(self) -> &'static str {
        match self {
            Self::PodGroups => "/api/podgroups",
            Self::Depends => "/api/depends",
            Self::Nodes => "/api/nodes",
            Self::Node => "/api/nodes/{name}",
            Self::Status => "/api/status",
            Self::Notifies => "/api/notifies",
            Self::Operations => "/api/operations",
            Self::Cluster => "/api/cluster",
            Self::EngineConfig => "/api/engine/config",
            Self::Maintenance => "/api/engine/maintenance",
            Self::Guard => "/api/guard",
            Self::Constraints => "/api/constraints",
            Self::DebugVars => "/debug/vars",
            Self::Ports => "/api/ports",
            Self::History => "/api/cntstatushistory",
            Self::Events => "/api/events",
            Self::Logs => "/api/logs",
            Self::DeadLetters => "/api/deadletters",
            Self::Rollouts => "/api/rollouts",
            Self::Revisions => "/api/revisions",
            Self::Plan => "/api/podgroups/plan",
            Self::Backup => "/api/backup",
            Self::Restore => "/api/restore",
            Self::Policies => "/api/policies",
            Self::Tokens => "/api/tokens",
            Self::JoinTokens => "/api/jointokens",
            Self::Join => "/api/join",
            Self::Access => "/api/access",
            Self::Audit => "/api/audit",
        }
    }
}

impl Resource {
    /// Whether it answers this method. The original routes every method everywhere and refuses the others itself.
    pub fn implements(self, verb: HttpMethod) -> bool {
        use HttpMethod::{Delete, Get, Patch, Post, Put};
        let verbs: &[HttpMethod] = match self {
            Self::PodGroups => &[Get, Post, Patch, Delete],
            Self::Depends => &[Get, Post, Put, Delete],
            Self::Nodes | Self::Node | Self::Constraints => &[Get, Patch, Delete],
            Self::Status | Self::EngineConfig | Self::Access => &[Get, Patch],
            Self::Notifies | Self::Tokens | Self::JoinTokens => &[Get, Post, Delete],
            Self::Ports | Self::Guard | Self::Join => &[Get, Post],
            Self::Maintenance => &[Patch],
            Self::Plan => &[Post],
            Self::Restore => &[Post, Delete],
            Self::Policies => &[Get, Put, Delete],
            Self::Operations
            | Self::Cluster
            | Self::DebugVars
            | Self::History
            | Self::Events
            | Self::Logs
            | Self::DeadLetters
            | Self::Rollouts
            | Self::Revisions
            | Self::Backup
            | Self::Audit => &[Get],
        };
        verbs.contains(&verb)
    }

    /// Methods named in `Allow`.
    pub fn allow(self) -> &'static str {
        if self == Self::DebugVars { "GET, OPTIONS" } else { "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS" }
    }
}

/// The read-only switch does not apply below this path.
pub const ALWAYS_OPEN: &str = "/api/engine/";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl HttpMethod {
    pub const ALL: [Self; 5] = [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete];

    /// As written in requests.
    pub fn method(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
    /// As written in error messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "Get",
            Self::Post => "Post",
            Self::Put => "Put",
            Self::Patch => "Patch",
            Self::Delete => "Delete",
        }
    }
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Call(Resource, HttpMethod),
    /// HEAD is routed but never implemented.
    Head,
    Options(Resource),
    /// An unknown method.
    NotAllowed(Resource),
    /// To the canonical path.
    Redirect(&'static str),
    Unknown,
}

pub fn route(method: &Method, path: &str) -> Route {
    let known = Resource::ALL.into_iter().find(|resource| resource.path() == path);
    let Some(resource) = known.or_else(|| (!rest(path).is_empty()).then_some(Resource::Node)) else {
        let cleaned = clean(path);
        let meant = Resource::ALL.into_iter().map(Resource::path).find(|right| right.eq_ignore_ascii_case(&cleaned));
        return meant.map_or(Route::Unknown, Route::Redirect);
    };
    match method.as_str() {
        "GET" => Route::Call(resource, HttpMethod::Get),
        "OPTIONS" => Route::Options(resource),
        _ if resource == Resource::DebugVars => Route::NotAllowed(resource),
        "POST" => Route::Call(resource, HttpMethod::Post),
        "PUT" => Route::Call(resource, HttpMethod::Put),
        "PATCH" => Route::Call(resource, HttpMethod::Patch),
        "DELETE" => Route::Call(resource, HttpMethod::Delete),
        "HEAD" => Route::Head,
        _ => Route::NotAllowed(resource),
    }
}

/// The name at the end of a path like `/api/nodes/{name}`; empty for other paths.
pub fn rest(path: &str) -> &str {
    path.strip_prefix("/api/nodes/")
        .filter(|name| !name.contains('/') && ![".", ".."].contains(name))
        .unwrap_or_default()
}

/// Removes empty segments, `.` and `..`.
fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use contract::access::routes;

    use super::*;

    #[test]
    fn every_method_is_routed_on_every_resource() {
        for resource in Resource::ALL.into_iter().filter(|resource| *resource != Resource::DebugVars) {
            for (method, verb) in [
                (Method::GET, HttpMethod::Get),
                (Method::POST, HttpMethod::Post),
                (Method::PUT, HttpMethod::Put),
                (Method::PATCH, HttpMethod::Patch),
                (Method::DELETE, HttpMethod::Delete),
            ] {
                assert_eq!(route(&method, resource.path()), Route::Call(resource, verb));
            }
            assert_eq!(route(&Method::HEAD, resource.path()), Route::Head);
            assert_eq!(route(&Method::OPTIONS, resource.path()), Route::Options(resource));
            assert_eq!(route(&Method::TRACE, resource.path()), Route::NotAllowed(resource));
        }
    }

    #[test]
    fn every_implemented_method_has_a_right_and_every_right_is_for_one() {
        let mut implemented = vec![("GET", "/metrics")];
        for resource in Resource::ALL {
            let verbs = HttpMethod::ALL.into_iter().filter(|verb| resource.implements(*verb));
            implemented.extend(verbs.map(|verb| (verb.method(), resource.path())));
        }
        let mut guarded: Vec<(&str, &str)> = routes::ROUTES.iter().map(|row| (row.method, row.path)).collect();
        guarded.extend(routes::WITHOUT_CLIENT);
        implemented.sort_unstable();
        guarded.sort_unstable();
        assert_eq!(implemented, guarded);
    }

    #[test]
    fn debug_vars_are_read_only() {
        let debug_vars = Resource::DebugVars;
        assert_eq!(route(&Method::GET, debug_vars.path()), Route::Call(debug_vars, HttpMethod::Get));
        assert_eq!(route(&Method::OPTIONS, debug_vars.path()), Route::Options(debug_vars));
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::TRACE] {
            assert_eq!(route(&method, debug_vars.path()), Route::NotAllowed(debug_vars), "{method}");
        }
    }

    #[test]
    fn a_path_that_is_not_canonical_is_redirected() {
        for path in
            ["/api/podgroups/", "/API/PodGroups", "//api//podgroups", "/api/./podgroups", "/api/x/../podgroups///"]
        {
            assert_eq!(route(&Method::GET, path), Route::Redirect("/api/podgroups"), "{path}");
        }
    }

    #[test]
    fn a_node_is_named_by_the_end_of_its_path() {
        assert_eq!(
            route(&Method::DELETE, "/api/nodes/node-1.example"),
            Route::Call(Resource::Node, HttpMethod::Delete)
        );
        assert_eq!(
            (rest("/api/nodes/node-1.example"), rest("/api/nodes"), rest("/api/nodes/a/b")),
            ("node-1.example", "", "")
        );
        assert_eq!(route(&Method::GET, "/api/nodes/"), Route::Redirect("/api/nodes"));
        assert_eq!(route(&Method::GET, "/api/nodes/../nodes"), Route::Redirect("/api/nodes"));
        assert_eq!(route(&Method::GET, "/api/nodes/a/b"), Route::Unknown);
    }

    #[test]
    fn any_other_path_is_unknown() {
        for path in ["/", "/api", "/api/podgroup", "/api/podgroups/a", "/../..", "/api/podgroups%2f"] {
            assert_eq!(route(&Method::GET, path), Route::Unknown, "{path}");
        }
    }
}
