//! Who this agent is: made once, kept in its state directory, the same after every restart.
//!
//! A node is known by its name, and names are given by people. The identity tells two agents apart that were given one name,
//! and tells a machine that was installed anew from the one before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The file, beside the ledger.
const FILE: &str = "identity";

/// Why the agent does not know who it is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It holds something else.
    #[error("{path} is not an identity; remove it and the agent makes a new one")]
    Malformed {
        /// Which.
        path: PathBuf,
    },
}

/// The identity kept in a state directory that is held by this process; a new one when there is none.
pub fn of(directory: &Path) -> Result<String, Error> {
    let path = directory.join(FILE);
    let failed = |action| {
        let path = path.clone();
        move |source| Error::File { action, path, source }
    };
    match fs::read_to_string(&path) {
        // A crash between making and writing leaves an empty file, which nobody has used yet.
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
    fn it_is_made_once_for_each_directory() {
        let (one, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let first = of(one.path()).expect("made");
        assert_eq!(of(one.path()).expect("read"), first);
        assert_ne!(of(other.path()).expect("made"), first);
    }

    #[test]
    fn an_empty_file_is_written_and_a_strange_one_is_named() {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join(FILE), "").expect("writes");
        let made = of(home.path()).expect("made");
        assert_eq!(of(home.path()).expect("read"), made);
        fs::write(home.path().join(FILE), "somebody").expect("writes");
        let error = of(home.path()).expect_err("no identity").to_string();
        assert!(error.contains("identity") && error.contains("remove it"), "{error}");
    }
}
