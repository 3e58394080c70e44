//! The ledger on disk: what the agent obeys and remembers over its own death.
//!
//! A write goes to a second file, is synced, takes the place of the first, and the directory is synced: after any
//! crash there is the old ledger or the new one. A ledger that cannot be read is put aside and said so loudly; the
//! agent then starts like a new one, which adopts what runs and waits for an order.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tracing::{error, info};

use crate::core::io::Ledger;

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The state directory cannot be made.
    #[error("cannot make the state directory {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another agent uses the directory.
    #[error("another agent uses the state directory {path}; give each agent its own --state-dir")]
    InUse {
        /// Which.
        path: PathBuf,
    },
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
    /// The ledger could not be turned into text.
    #[error("cannot encode the ledger")]
    Encode(#[source] serde_json::Error),
}

/// The state directory, held by this process alone.
#[derive(Debug)]
pub struct LedgerFile {
    directory: PathBuf,
    /// Held open: the lock goes with it.
    _lock: File,
}

impl LedgerFile {
    /// Takes the directory and reads what is there; an empty ledger when there is none or it cannot be read.
    pub fn open(directory: &Path) -> Result<(Self, Ledger), Error> {
        fs::create_dir_all(directory).map_err(|source| Error::Directory { path: directory.to_owned(), source })?;
        let file = Self { directory: directory.to_owned(), _lock: lock(directory)? };
        let ledger = file.load()?;
        Ok((file, ledger))
    }

    /// Puts the ledger on disk; it is there when this returns.
    pub fn store(&self, ledger: &Ledger) -> Result<(), Error> {
        let text = serde_json::to_vec(ledger).map_err(Error::Encode)?;
        let (path, draft) = (self.path(), self.directory.join("ledger.json.new"));
        // Specs may hold secrets in their environment: nobody else reads this file.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&draft).map_err(failed("open", &draft))?;
        file.write_all(&text).map_err(failed("write", &draft))?;
        file.sync_all().map_err(failed("sync", &draft))?;
        fs::rename(&draft, &path).map_err(failed("replace", &path))?;
        sync_directory(&self.directory)
    }

    fn path(&self) -> PathBuf {
        self.directory.join("ledger.json")
    }

    fn load(&self) -> Result<Ledger, Error> {
        let path = self.path();
        let text = match fs::read(&path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                info!(path = %path.display(), "there is no ledger yet");
                return Ok(Ledger::default());
            }
            read => read.map_err(failed("read", &path))?,
        };
        match serde_json::from_slice::<Ledger>(&text) {
            Ok(ledger) => {
                info!(path = %path.display(), fence = %ledger.order.fence, pods = ledger.order.pods.len(), "ledger read");
                Ok(ledger)
            }
            Err(reason) => {
                let aside = self.put_aside()?;
                error!(%reason, kept = %aside.display(), "the ledger cannot be read; starting without it");
                Ok(Ledger::default())
            }
        }
    }

    fn put_aside(&self) -> Result<PathBuf, Error> {
        let free = |number: &u32| !self.directory.join(format!("ledger.json.unreadable-{number}")).exists();
        // A thousand kept files are a sign of something else; then the last one is overwritten.
        let number = (1..1000).find(free).unwrap_or(1000);
        let aside = self.directory.join(format!("ledger.json.unreadable-{number}"));
        fs::rename(self.path(), &aside).map_err(failed("put aside", &self.path()))?;
        sync_directory(&self.directory)?;
        Ok(aside)
    }
}

fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join("lock");
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: directory.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
    }
}

fn sync_directory(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|handle| handle.sync_all()).map_err(failed("sync", directory))
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use contract::fence::{Fence, Term};
    use contract::order::Order;

    use super::*;
    use crate::core::io::PodMemory;

    fn ledger(generation: u64) -> Ledger {
        let pod = "a.v1-i1-d0".parse().expect("a pod");
        let memory = PodMemory { created: true, restarts: 2, stopped_by_order: [0, 1].into(), ..PodMemory::default() };
        Ledger {
            order: Order { fence: Fence { term: Term(3), generation }, ..Order::default() }.into(),
            memory: std::sync::Arc::new([(pod, memory)].into()),
            ..Ledger::default()
        }
    }

    #[test]
    fn what_was_stored_is_there_after_a_restart() {
        let home = tempfile::tempdir().expect("a directory");
        let (file, first) = LedgerFile::open(home.path()).expect("opens");
        assert_eq!(first, Ledger::default());
        file.store(&ledger(1)).expect("stores");
        file.store(&ledger(2)).expect("stores");
        drop(file);
        assert_eq!(LedgerFile::open(home.path()).expect("opens").1, ledger(2));
    }

    #[test]
    fn two_agents_cannot_share_a_directory() {
        let home = tempfile::tempdir().expect("a directory");
        let held = LedgerFile::open(home.path()).expect("opens");
        assert!(matches!(LedgerFile::open(home.path()), Err(Error::InUse { .. })));
        drop(held);
        assert!(LedgerFile::open(home.path()).is_ok());
    }

    #[test]
    fn an_unreadable_ledger_is_put_aside_and_the_agent_starts_without() {
        let home = tempfile::tempdir().expect("a directory");
        for number in 1..=2 {
            fs::write(home.path().join("ledger.json"), b"{\"order\": \xff").expect("writes");
            assert_eq!(LedgerFile::open(home.path()).expect("opens").1, Ledger::default());
            assert!(home.path().join(format!("ledger.json.unreadable-{number}")).exists());
        }
        assert!(!home.path().join("ledger.json").exists());
    }

    #[test]
    fn a_write_cut_short_leaves_the_old_ledger() {
        let home = tempfile::tempdir().expect("a directory");
        let (file, _) = LedgerFile::open(home.path()).expect("opens");
        file.store(&ledger(1)).expect("stores");
        fs::write(home.path().join("ledger.json.new"), b"{\"order\"").expect("writes");
        drop(file);
        assert_eq!(LedgerFile::open(home.path()).expect("opens").1, ledger(1));
    }

    #[test]
    fn a_directory_that_is_gone_is_an_error_that_names_it() {
        let home = tempfile::tempdir().expect("a directory");
        let inner = home.path().join("state");
        let (file, _) = LedgerFile::open(&inner).expect("opens");
        fs::remove_dir_all(&inner).expect("removes");
        let error = file.store(&ledger(1)).expect_err("there is no directory");
        assert!(error.to_string().contains("ledger.json.new"), "{error}");
    }
}
