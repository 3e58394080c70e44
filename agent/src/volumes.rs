//! Directories of volumes that no link can lead elsewhere.
//!
//! Docker follows links in the source of a bind mount. A container that can write a directory above a volume of another revision
//! could replace that volume by a link to `/etc`. So the agent opens each component below the root without following links
//! (`openat` with `O_NOFOLLOW` on one name at a time, which equals `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS` and
//! also works on kernels before 5.6), creates what is missing, and refuses a component that is not a directory.
//!
//! Docker resolves the path again when it starts the container. Nothing can change the path in between: the check runs
//! immediately before each start, the container itself is stopped then, and policies refuse specs whose volumes lie in volumes
//! of the same pod or of revisions that may run at the same time. A directory with a link at its old place would need no such
//! argument, but readers of logs and backups use the old places.
//!
//! The argument does not hold for binds of the node's own paths, which containers of other groups may write. There the policies
//! refuse every path below a directory that containers may write (`contract::policy`), so only root of the node can change the
//! path. [`check_host_path`] refuses links that are there anyway. The agent must see the path for that, and Docker resolves it
//! in the host's mount namespace: a path that the agent does not see is refused.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use contract::policy::Bind;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmodat, mkdirat, openat};

/// As Docker creates them.
const MODE: u32 = 0o755;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot use the directory of volumes {root}: {source}; create it, and let the agent write it (ReadWritePaths= of its unit, \
         or a mount of the same path into its container)"
    )]
    Root { root: String, source: io::Error },
    #[error("the volume {root}{path} is refused: {component:?} is a link or not a directory; remove it")]
    Link { root: String, path: String, component: String },
    #[error("cannot create the volume {root}{path} at {component:?}: {source}")]
    Create { root: String, path: String, component: String, source: io::Error },
    #[error(
        "the bind of {path} is refused: {link} is a link, and what it points to is not allowed; bind the target itself"
    )]
    HostLink { path: String, link: String },
    #[error(
        "the bind of {path} is refused: the agent cannot see whether {part} is a link: {source}; create it, and let the agent read it \
         (a drop-in for its unit with ProtectHome=read-only or PrivateTmp=no, or a mount of the same path into its container)"
    )]
    Unseen { path: String, part: String, source: io::Error },
}

/// The directory of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeDir {
    /// Setting of the agent; may be a link.
    pub root: String,
    /// Below the root.
    pub path: String,
}

impl VolumeDir {
    /// Creates the directory unless it exists; an error when a component is a link.
    pub fn ensure(&self) -> Result<(), Error> {
        let unusable = |source: io::Error| Error::Root { root: self.root.clone(), source };
        std::fs::create_dir_all(&self.root).map_err(unusable)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut place =
            openat(CWD, self.root.as_str(), flags, Mode::empty()).map_err(|error| unusable(error.into()))?;
        for component in self.path.split('/').filter(|part| !part.is_empty()) {
            place = self.enter(&place, component)?;
        }
        Ok(())
    }

    fn enter(&self, place: &OwnedFd, component: &str) -> Result<OwnedFd, Error> {
        let (root, path, component) = (self.root.clone(), self.path.clone(), component.to_owned());
        if component == ".." {
            return Err(Error::Link { root, path, component });
        }
        let mode = Mode::from_raw_mode(MODE);
        let made = match mkdirat(place, component.as_str(), mode) {
            // The mask of the agent would hide the directory from users of the container.
            Ok(()) => chmodat(place, component.as_str(), mode, AtFlags::empty()),
            Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        };
        // A read-only file system says so before it says that the directory exists.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(place, component.as_str(), flags, Mode::empty()) {
            Ok(next) => Ok(next),
            Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => Err(Error::Link { root, path, component }),
            Err(error) => {
                let source = made.err().unwrap_or(error).into();
                Err(Error::Create { root, path, component, source })
            }
        }
    }
}

/// Refuses a bind of the node whose path contains a link, because policies compare the path as written, and one that the agent
/// cannot see.
pub fn check_host_path(bind: &Bind) -> Result<(), Error> {
    if bind.is_always_allowed() {
        return Ok(());
    }
    let mut paths: Vec<&Path> = Path::new(&bind.source).ancestors().collect();
    paths.reverse();
    for place in paths {
        let (path, part) = (bind.source.clone(), place.display().to_string());
        let found = place.symlink_metadata().map_err(|source| Error::Unseen {
            path: path.clone(),
            part: part.clone(),
            source,
        })?;
        if found.is_symlink() {
            return Err(Error::HostLink { path, link: part });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn dir(root: &Path, path: &str) -> VolumeDir {
        VolumeDir { root: root.display().to_string(), path: path.to_owned() }
    }

    #[test]
    fn a_volume_is_created_once_at_its_old_place_and_readable() {
        let home = tempfile::tempdir().expect("a directory");
        let volume = dir(&home.path().join("volumes"), "/shop/web/1//lain/logs");
        volume.ensure().expect("made");
        let place = home.path().join("volumes/shop/web/1/lain/logs");
        std::fs::write(place.join("a.log"), "x").expect("written");
        volume.ensure().expect("there");
        assert!(place.join("a.log").exists());
        assert_eq!(place.metadata().expect("there").permissions().mode() & 0o777, MODE);
    }

    #[test]
    fn a_link_at_any_component_is_refused_and_nothing_is_created_behind_it() {
        let home = tempfile::tempdir().expect("a directory");
        let root = home.path().join("volumes");
        let outside = home.path().join("outside");
        std::fs::create_dir_all(&outside).expect("made");
        dir(&root, "/shop/web/1/data").ensure().expect("made");
        symlink(&outside, root.join("shop/web/1/data/x")).expect("linked");
        symlink("../../../../outside", root.join("shop/web/1/data/relative")).expect("linked");
        symlink("/nowhere", root.join("shop/web/1/data/dangling")).expect("linked");
        std::fs::write(root.join("shop/web/1/data/file"), "").expect("written");
        for path in ["data/x", "data/x/y", "data/relative", "data/dangling", "data/file", "data/.."] {
            let refused = dir(&root, &format!("/shop/web/1/{path}")).ensure();
            assert!(matches!(refused, Err(Error::Link { .. })), "{path}: {refused:?}");
        }
        assert_eq!(std::fs::read_dir(&outside).expect("there").count(), 0);
        assert!(!Path::new("/nowhere").exists());
    }

    #[test]
    fn the_root_may_be_a_link_of_the_operator() {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(home.path().join("disk")).expect("made");
        symlink(home.path().join("disk"), home.path().join("volumes")).expect("linked");
        dir(&home.path().join("volumes"), "/shop/web/1/data").ensure().expect("made");
        assert!(home.path().join("disk/shop/web/1/data").is_dir());
    }

    #[test]
    fn a_bind_through_a_link_or_to_a_path_that_the_agent_cannot_see_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path().canonicalize().expect("there");
        std::fs::create_dir_all(home.join("shared")).expect("made");
        symlink("/etc", home.join("shared/x")).expect("linked");
        let check =
            |path: &str| check_host_path(&Bind::parse(&format!("{}/{path}:/x", home.display())).expect("a bind"));
        std::fs::write(home.join("shared/file"), "").expect("written");
        assert!(check("shared").is_ok() && check("shared/file").is_ok());
        for unseen in ["shared/later", "shared/later/x", "shared/file/x"] {
            assert!(matches!(check(unseen), Err(Error::Unseen { .. })), "{unseen}");
        }
        assert!(matches!(check("shared/x"), Err(Error::HostLink { .. })));
        assert!(matches!(check("shared/x/passwd"), Err(Error::HostLink { .. })));
        assert!(check_host_path(&Bind::parse("/etc/localtime:/x:ro").expect("a bind")).is_ok());
    }
}
