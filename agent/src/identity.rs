//! The agent's permanent id, created once and stored in the state directory.
//!
//! Operators choose node names; the identity distinguishes two agents with one name, and a reinstalled machine from the one
//! before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const FILE: &str = "identity";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not an identity; remove it and the agent creates a new one")]
    Malformed { path: PathBuf },
}

/// Reads or creates the identity in a state directory that this process has locked.
pub fn of(directory: &Path) -> Result<String, Error> {
    let path = directory.join(FILE);
    let failed = |action| {
        let path = path.clone();
        move |source| Error::File { action, path, source }
    };
    match fs::read_to_string(&path) {
        // A crash between create and write leaves an empty file: no identity was used yet.
        Ok(text) if text.trim().is_empty() => {}
        Ok(text) if text.trim().parse::<ulid::Ulid>().is_ok() => return Ok(text.trim().to_owned()),
        Ok(_) => return Err(Error::Malformed { path }),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(failed("read")(source)),
    }
    let identity = ulid::Ulid::generate().to_string();
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).open(&path).map_err(failed("open"))?;
    writeln!(file, "{identity}").map_err(failed("write"))?;
    file.sync_all().map_err(failed("sync"))?;
    File::open(directory).and_then(|handle| handle.sync_all()).map_err(failed("sync"))?;
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_created_once_per_directory() {
        let (one, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let first = of(one.path()).expect("made");
        assert_eq!(of(one.path()).expect("read"), first);
        assert_ne!(of(other.path()).expect("made"), first);
    }

    #[test]
    fn an_empty_file_is_filled_and_an_invalid_one_is_an_error() {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join(FILE), "").expect("writes");
        let made = of(home.path()).expect("made");
        assert_eq!(of(home.path()).expect("read"), made);
        fs::write(home.path().join(FILE), "not an identity").expect("writes");
        let error = of(home.path()).expect_err("no identity").to_string();
        assert!(error.contains("identity") && error.contains("remove it"), "{error}");
    }
}
