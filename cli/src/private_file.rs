//! Files that hold tokens: only their owner may read them.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Longer files hold no token, and no contexts either.
const LONGEST: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} can be read by other users, who could then act as you; `chmod 600 {path}` makes it acceptable")]
    Public { path: PathBuf },
    #[error("{path} belongs to user {owner}; only files of root or of the current user are used")]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{path} is longer than {LONGEST} bytes")]
    TooLong { path: PathBuf },
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} exists already; name another file, or remove it")]
    Exists { path: PathBuf },
}

/// The text of a file that other users cannot read; none when there is no such file.
pub fn read(path: &Path) -> Result<Option<String>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    // The open file is checked, so that another one cannot take its place in between.
    let meta = file.metadata().map_err(failed)?;
    let (owner, mode) = (meta.uid(), meta.mode());
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Error::Foreign { path: path.to_owned(), owner });
    }
    // systemd gives a service its credentials by an ACL, which shows as rights of the group root.
    let of_group = if meta.gid() == 0 { 0 } else { 0o070 };
    if mode & (0o007 | of_group) != 0 {
        return Err(Error::Public { path: path.to_owned() });
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST {
        return Err(Error::TooLong { path: path.to_owned() });
    }
    Ok(Some(text))
}

/// Replaces the file as a whole. Creates its directory, which other users cannot read either.
pub fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let draft = folder.join(format!(".{}.new", std::process::id()));
    let write = || {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        // A draft of a process that was killed is not written into: its name may lead elsewhere.
        drop(fs::remove_file(&draft));
        fill(&draft, text)?;
        fs::rename(&draft, path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Creates an empty file that only its owner can read.
pub fn create(path: &Path) -> Result<File, Error> {
    fresh(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::Write { path: path.to_owned(), source },
    })
}

fn fresh(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn fill(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fresh(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_back_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/contexts.json");
        assert!(matches!(read(&path), Ok(None)));
        for text in ["one", "two"] {
            replace(&path, text).unwrap();
            assert_eq!(read(&path).unwrap().as_deref(), Some(text));
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        replace(&path, "secret").unwrap();
        for mode in [0o604, 0o602, 0o644] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && !error.contains("secret"), "{mode:o}: {error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        assert!(read(&path).is_ok());
    }

    #[test]
    fn a_file_is_not_created_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        drop(create(&path).unwrap());
        assert!(matches!(create(&path), Err(Error::Exists { .. })));
    }
}
