//! One cluster per directory: a lock that the supervisor holds for its whole life.
//!
//! The kernel lets go of it when the holder dies, however it dies, so a lock that cannot be had means a living
//! cluster. It is tied to the open file, not to the process: `up --detach` takes it, hands the open file to the
//! background supervisor as its standard input and exits, and there is no moment in which nobody holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Name of the file in the cluster's directory.
pub const FILE: &str = "lock";

/// Takes the lock of `dir`; none when a living cluster holds it.
pub fn take(dir: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join(FILE))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_one_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path()).unwrap();
        assert!(first.is_some());
        assert!(take(dir.path()).unwrap().is_none());
        drop(first);
        assert!(take(dir.path()).unwrap().is_some());
    }

    #[test]
    fn a_child_holds_what_it_was_given_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let lock = take(dir.path()).unwrap().unwrap();
        let mut child = Command::new("/bin/sleep").arg("1000").stdin(Stdio::from(lock)).spawn().unwrap();
        assert!(take(dir.path()).unwrap().is_none(), "the child has it");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(take(dir.path()).unwrap().is_some());
    }
}
