//! Paths of the node in bind mounts.

/// Paths that no pod may bind at any level, with everything below them: the sockets of the container engines, the
/// kernel's file systems, deployd's own state, and the default directories of volumes. An agent adds its own settings.
pub const NEVER: [&str; 9] = [
    "/proc",
    "/sys",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd",
    "/var/run/containerd",
    "/var/lib/deployd",
    "/data/lain/volumes",
    "/data/lain/cloud-volumes",
];

/// Files that LAIN's console binds read-only in every spec. They hold no secret and no workload can change them.
const ALWAYS_READABLE: [&str; 2] = ["/etc/localtime", "/etc/timezone"];

/// One entry of `SystemVolumes`, read as Docker reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// Path on the node, normalized.
    pub source: String,
    /// Path in the container.
    pub target: String,
    /// `ro`, `rw`, propagation and labels.
    pub options: Vec<String>,
}

impl Bind {
    /// Reads `HOST:CONTAINER[:OPTIONS]`; none for named and anonymous volumes and for what Docker refuses.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (source, target, options) = match parts.as_slice() {
            [source, target] => (source, target, ""),
            [source, target, options] => (source, target, *options),
            _ => return None,
        };
        if !source.starts_with('/') || !target.starts_with('/') || text.contains('\0') {
            return None;
        }
        let options = options.split(',').filter(|option| !option.is_empty()).map(str::to_owned).collect();
        Some(Self { source: normalized(source), target: normalized(target), options })
    }

    /// Whether the container cannot write to it.
    pub fn is_read_only(&self) -> bool {
        self.options.iter().any(|option| option == "ro") && !self.options.iter().any(|option| option == "rw")
    }

    /// Whether it only chooses between reading and writing: others change the mounts or labels of the node.
    pub fn is_plain(&self) -> bool {
        self.options.iter().all(|option| matches!(option.as_str(), "ro" | "rw"))
    }

    /// Whether every level allows it. These files may be links: only root of the node can change them.
    pub fn is_always_allowed(&self) -> bool {
        ALWAYS_READABLE.contains(&self.source.as_str()) && self.is_read_only() && self.is_plain()
    }
}

/// The path without `.`, `..`, empty parts and a slash at its end, as Docker simplifies it before it binds.
pub fn normalized(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether a normalized path is `parent` or below it.
pub fn lies_in(path: &str, parent: &str) -> bool {
    parent == "/" || path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Why a path cannot be allowed by a policy.
pub(super) fn problem_of_entry(path: &str) -> Option<String> {
    if !path.starts_with('/') || path != normalized(path) || path.contains([':', '\0']) {
        return Some(format!("{path:?} must be an absolute path without '.', '..', '//', ':' and a slash at its end"));
    }
    let never = NEVER.into_iter().find(|never| lies_in(path, never) || lies_in(never, path))?;
    Some(format!("{path} cannot be allowed: it is, contains or lies in {never}; name the directories that pods need"))
}
