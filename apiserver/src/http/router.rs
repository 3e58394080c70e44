//! Says what a method and a path mean, by deployd's rules. Pure.
//!
//! The surprise: every method is routed on every resource, a resource then refuses what it does not do; and a path
//! that is right but for its case, a slash too many or dots is redirected, not refused.

use axum::http::Method;

/// Something with a path of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Groups.
    PodGroups,
    /// Dependency pods.
    Depends,
    /// Nodes.
    Nodes,
    /// One node.
    Node,
    /// Started or stopped.
    Status,
    /// Callbacks.
    Notifies,
    /// What became of commands.
    Operations,
    /// The cluster at a glance.
    Cluster,
    /// Read-only and maintenance.
    EngineConfig,
    /// Maintenance alone.
    Maintenance,
    /// Whether missing instances are made anew.
    Guard,
    /// What every placement keeps to.
    Constraints,
    /// Counts of requests.
    DebugVars,
    /// Stream ports.
    Ports,
    /// Starts and stops.
    History,
    /// What happened and why.
    Events,
    /// What nobody could read or deliver.
    DeadLetters,
    /// Where releases stand.
    Rollouts,
    /// What groups were before.
    Revisions,
    /// What a spec would do.
    Plan,
    /// Everything stored.
    Backup,
    /// A backup that is put back.
    Restore,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 22] = [
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
    ];

    /// The one path; for one of many, with what stands for its name.
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
            Self::DeadLetters => "/api/deadletters",
            Self::Rollouts => "/api/rollouts",
            Self::Revisions => "/api/revisions",
            Self::Plan => "/api/podgroups/plan",
            Self::Backup => "/api/backup",
            Self::Restore => "/api/restore",
        }
    }
}

impl Resource {
    /// Methods named in `Allow`.
    pub fn allow(self) -> &'static str {
        if self == Self::DebugVars { "GET, OPTIONS" } else { "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS" }
    }
}

/// Paths below this may be changed even while changes are refused.
pub const ALWAYS_OPEN: &str = "/api/engine/";

/// A method resources may implement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// GET.
    Get,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Verb {
    /// The word in refusals.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "Get",
            Self::Post => "Post",
            Self::Put => "Put",
            Self::Patch => "Patch",
            Self::Delete => "Delete",
        }
    }
    /// True when the body may carry parameters or a document.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// What a request means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Ask the resource.
    Call(Resource, Verb),
    /// HEAD: routed, never implemented.
    Head,
    /// OPTIONS: say what is allowed.
    Options(Resource),
    /// A method nobody knows.
    NotAllowed(Resource),
    /// The right path is this one.
    Redirect(&'static str),
    /// No such path.
    Unknown,
}

/// What `method` on `path` means.
pub fn route(method: &Method, path: &str) -> Route {
    let known = Resource::ALL.into_iter().find(|resource| resource.path() == path);
    let Some(resource) = known.or_else(|| (!rest(path).is_empty()).then_some(Resource::Node)) else {
        let cleaned = clean(path);
        let meant = Resource::ALL.into_iter().map(Resource::path).find(|right| right.eq_ignore_ascii_case(&cleaned));
        return meant.map_or(Route::Unknown, Route::Redirect);
    };
    match method.as_str() {
        "GET" => Route::Call(resource, Verb::Get),
        "OPTIONS" => Route::Options(resource),
        _ if resource == Resource::DebugVars => Route::NotAllowed(resource),
        "POST" => Route::Call(resource, Verb::Post),
        "PUT" => Route::Call(resource, Verb::Put),
        "PATCH" => Route::Call(resource, Verb::Patch),
        "DELETE" => Route::Call(resource, Verb::Delete),
        "HEAD" => Route::Head,
        _ => Route::NotAllowed(resource),
    }
}

/// The name at the end of a path that names one of many; empty for every other path.
pub fn rest(path: &str) -> &str {
    path.strip_prefix("/api/nodes/")
        .filter(|name| !name.contains('/') && ![".", ".."].contains(name))
        .unwrap_or_default()
}

/// The path without empty parts, `.` and `..`.
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
    use super::*;

    #[test]
    fn every_method_is_routed_on_every_resource() {
        for resource in Resource::ALL.into_iter().filter(|resource| *resource != Resource::DebugVars) {
            for (method, verb) in [
                (Method::GET, Verb::Get),
                (Method::POST, Verb::Post),
                (Method::PUT, Verb::Put),
                (Method::PATCH, Verb::Patch),
                (Method::DELETE, Verb::Delete),
            ] {
                assert_eq!(route(&method, resource.path()), Route::Call(resource, verb));
            }
            assert_eq!(route(&Method::HEAD, resource.path()), Route::Head);
            assert_eq!(route(&Method::OPTIONS, resource.path()), Route::Options(resource));
            assert_eq!(route(&Method::TRACE, resource.path()), Route::NotAllowed(resource));
        }
    }

    #[test]
    fn counters_are_only_read() {
        let debug_vars = Resource::DebugVars;
        assert_eq!(route(&Method::GET, debug_vars.path()), Route::Call(debug_vars, Verb::Get));
        assert_eq!(route(&Method::OPTIONS, debug_vars.path()), Route::Options(debug_vars));
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::TRACE] {
            assert_eq!(route(&method, debug_vars.path()), Route::NotAllowed(debug_vars), "{method}");
        }
    }

    #[test]
    fn a_path_that_is_nearly_right_is_redirected() {
        for path in
            ["/api/podgroups/", "/API/PodGroups", "//api//podgroups", "/api/./podgroups", "/api/x/../podgroups///"]
        {
            assert_eq!(route(&Method::GET, path), Route::Redirect("/api/podgroups"), "{path}");
        }
    }

    #[test]
    fn a_node_is_named_by_the_end_of_its_path() {
        assert_eq!(route(&Method::DELETE, "/api/nodes/node-1.example"), Route::Call(Resource::Node, Verb::Delete));
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
