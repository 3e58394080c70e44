//! Finds the servers' programs, and refuses files that another user could have planted.
//!
//! The working directory and its parents are never searched: `cd` into a directory of another user must not run that
//! user's programs.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program that was not found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{program} is not installed; `./deploy/need` gets it, or put it on PATH or into $DEPLOYD_BIN_DIR{}",
    list(refused)
)]
pub struct Missing {
    program: String,
    /// Files of that name that are not used, each with the reason.
    refused: Vec<String>,
}

fn list(refused: &[String]) -> String {
    refused.iter().map(|reason| format!("; not used: {reason}")).collect()
}

/// Path of a program: in `$DEPLOYD_BIN_DIR`, in `.deployd/bin` of [`installation`], or in `PATH`.
pub fn find(program: &str) -> Result<PathBuf, Missing> {
    let chosen = std::env::var_os("DEPLOYD_BIN_DIR").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A minimal PATH may lack /usr/local/bin, where administrators install servers.
    let usual = ["/usr/local/bin", "/usr/bin"].map(PathBuf::from);
    let directories = std::env::split_paths(&path).chain(usual);
    find_in(program, chosen.into_iter().chain(installation().as_deref().map(ours)).chain(directories))
}

fn ours(installation: &Path) -> PathBuf {
    installation.join(".deployd/bin")
}

/// The first trustworthy program of that name. Relative directories depend on the working directory and are left out.
fn find_in(program: &str, directories: impl Iterator<Item = PathBuf>) -> Result<PathBuf, Missing> {
    let mut refused = Vec::new();
    for directory in directories.filter(|directory| directory.is_absolute()) {
        let candidate = directory.join(program);
        if !is_program(&candidate) {
            continue;
        }
        // Who may rename files in .deployd/bin decides what runs; directories of PATH are the user's choice.
        let folders = directory.ends_with(".deployd/bin").then(|| directory.ancestors().take(2)).into_iter().flatten();
        let reason = folders.chain([candidate.as_path()]).find_map(distrust);
        match reason {
            None => return Ok(candidate),
            Some(reason) => refused.push(reason),
        }
    }
    Err(Missing { program: program.to_owned(), refused })
}

/// The checkout or package that holds the running executable: `ROOT/target/PROFILE/deployctl` or `ROOT/bin/deployctl`.
pub fn installation() -> Option<PathBuf> {
    root_of(&std::env::current_exe().ok()?)
}

fn root_of(executable: &Path) -> Option<PathBuf> {
    let is_named = |directory: &&Path, name: &str| directory.file_name() == Some(OsStr::new(name));
    let folder = executable.parent()?;
    // Tests are in target/PROFILE/deps, or with a target triple in target/TRIPLE/PROFILE/deps.
    let build = || folder.ancestors().take(4).find(|directory| is_named(directory, "target"));
    let below = Some(folder).filter(|directory| is_named(directory, "bin")).or_else(build)?;
    below.parent().map(Path::to_owned)
}

/// Why a file or directory is not to be trusted: another user than root or this process's own can change it.
pub fn distrust(path: &Path) -> Option<String> {
    let own = |uid: u32| uid == 0 || uid == rustix::process::geteuid().as_raw();
    let (link, target) = (path.symlink_metadata().ok()?, path.metadata().ok()?);
    let path = path.display();
    match [link.uid(), target.uid()].into_iter().find(|uid| !own(*uid)) {
        Some(uid) => Some(format!("{path} belongs to user {uid}; only files of root or of the current user are used")),
        None if target.mode() & 0o022 != 0 => {
            Some(format!("{path} can be changed by other users; `chmod go-w {path}` makes it acceptable"))
        }
        None => None,
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// `ROOT/.deployd/bin/etcd`, as `./deploy/need` leaves it.
    fn planted(root: &Path) -> PathBuf {
        let directory = ours(root);
        fs::create_dir_all(&directory).unwrap();
        let program = directory.join("etcd");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        for path in [root.join(".deployd").as_path(), &directory, &program] {
            mode(path, 0o755);
        }
        program
    }

    fn search(root: &Path) -> Result<PathBuf, Missing> {
        find_in("etcd", [ours(root)].into_iter())
    }

    #[test]
    fn a_program_beside_the_executable_is_found() {
        let root = tempfile::tempdir().unwrap();
        let program = planted(root.path());
        assert_eq!(search(root.path()), Ok(program));
        let reason = search(&root.path().join("other")).unwrap_err().to_string();
        assert!(reason.contains("./deploy/need") && !reason.contains("not used"), "{reason}");
    }

    #[test]
    fn the_installation_is_the_checkout_or_package_of_the_executable_and_nothing_above_it() {
        let root = |path: &str| root_of(Path::new(path));
        let found = |path: &str| Some(PathBuf::from(path));
        assert_eq!(root("/src/deployd/target/trial/deployctl"), found("/src/deployd"));
        assert_eq!(root("/src/deployd/target/debug/deps/cli-0123"), found("/src/deployd"));
        assert_eq!(root("/src/deployd/target/x86_64-unknown-linux-gnu/debug/deps/cli-0123"), found("/src/deployd"));
        assert_eq!(root("/opt/deployd-1/bin/deployctl"), found("/opt/deployd-1"));
        assert_eq!(root("/home/a/downloads/deployctl"), None);
    }

    #[test]
    fn a_program_that_others_can_change_is_refused_with_the_remedy() {
        for writable in [".deployd", ".deployd/bin", ".deployd/bin/etcd"] {
            let root = tempfile::tempdir().unwrap();
            planted(root.path());
            mode(&root.path().join(writable), 0o775);
            let reason = search(root.path()).unwrap_err().to_string();
            assert!(reason.contains("chmod go-w") && reason.contains(writable), "{writable}: {reason}");
        }
    }

    #[test]
    fn a_program_of_another_user_is_refused_and_the_next_directory_is_searched() {
        let (theirs, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let stolen = planted(theirs.path());
        // Only root can give a file away; for other users this test covers only the order of the search.
        let is_given = std::os::unix::fs::chown(&stolen, Some(4321), None).is_ok();
        let own = planted(root.path());
        let directories = || [theirs.path(), root.path()].map(ours).into_iter();
        assert_eq!(find_in("etcd", directories()), Ok(if is_given { own } else { stolen }));
        if is_given {
            let reason = search(theirs.path()).unwrap_err().to_string();
            assert!(reason.contains("belongs to user 4321"), "{reason}");
        }
    }

    #[test]
    fn a_relative_directory_of_path_is_left_out() {
        assert!(find_in("Cargo.toml", [PathBuf::from("."), PathBuf::new()].into_iter()).is_err());
        assert!(find_in("sh", [PathBuf::from("../../../../../../../../../bin")].into_iter()).is_err());
    }
}
