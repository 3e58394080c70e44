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
    /// Nodes.
    Nodes,
    /// Started or stopped.
    Status,
    /// Callbacks.
    Notifies,
    /// What became of commands.
    Operations,
    /// The cluster at a glance.
    Cluster,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::PodGroups, Self::Nodes, Self::Status, Self::Notifies, Self::Operations, Self::Cluster];

    /// The one path.
    pub fn path(self) -> &'static str {
        match self {
            Self::PodGroups => "/api/podgroups",
            Self::Nodes => "/api/nodes",
            Self::Status => "/api/status",
            Self::Notifies => "/api/notifies",
            Self::Operations => "/api/operations",
            Self::Cluster => "/api/cluster",
        }
    }
}

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
    Options,
    /// A method nobody knows.
    NotAllowed,
    /// The right path is this one.
    Redirect(&'static str),
    /// No such path.
    Unknown,
}

/// Methods named in `Allow`.
pub const ALLOW: &str = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS";

/// What `method` on `path` means.
pub fn route(method: &Method, path: &str) -> Route {
    let Some(resource) = Resource::ALL.into_iter().find(|resource| resource.path() == path) else {
        let cleaned = clean(path);
        let meant = Resource::ALL.into_iter().map(Resource::path).find(|right| right.eq_ignore_ascii_case(&cleaned));
        return meant.map_or(Route::Unknown, Route::Redirect);
    };
    match method.as_str() {
        "GET" => Route::Call(resource, Verb::Get),
        "POST" => Route::Call(resource, Verb::Post),
        "PUT" => Route::Call(resource, Verb::Put),
        "PATCH" => Route::Call(resource, Verb::Patch),
        "DELETE" => Route::Call(resource, Verb::Delete),
        "HEAD" => Route::Head,
        "OPTIONS" => Route::Options,
        _ => Route::NotAllowed,
    }
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
        for resource in Resource::ALL {
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
            assert_eq!(route(&Method::OPTIONS, resource.path()), Route::Options);
            assert_eq!(route(&Method::TRACE, resource.path()), Route::NotAllowed);
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
    fn any_other_path_is_unknown() {
        for path in ["/", "/api", "/api/podgroup", "/api/podgroups/a", "/../..", "/api/podgroups%2f"] {
            assert_eq!(route(&Method::GET, path), Route::Unknown, "{path}");
        }
    }
}
