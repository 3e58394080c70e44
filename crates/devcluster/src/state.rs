//! `state.json`: the plan of a local cluster and its running processes.
//!
//! `up` creates it, then only the supervisor writes it, by rename, so a reader never sees a partial file. It outlives the
//! processes: the next `up` reads its ports, its cluster id and, after a crash, the processes that were left behind.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the file in the cluster's directory.
pub const FILE: &str = "state.json";

/// A local cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Id of the cluster: value of the label that every container of it carries.
    pub cluster: String,
    /// URLs of the apiservers.
    pub api: Vec<String>,
    /// Unix sockets of the apiservers.
    #[serde(default)]
    pub sockets: Vec<PathBuf>,
    /// URL of the NATS server.
    pub nats: String,
    /// URL of the etcd server.
    pub etcd: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// The supervisor; absent when the cluster does not run.
    pub supervisor: Option<Process>,
    /// The processes in the order in which they are started.
    pub children: Vec<Child>,
    /// Every port, by what it is for; kept for the next run.
    pub ports: BTreeMap<String, u16>,
}

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Program and arguments; a process with another command line is another process.
    pub command: Vec<String>,
}

/// One supervised process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// Name, such as `scheduler-1`; its log is `logs/NAME.log`.
    pub name: String,
    /// What it is.
    pub role: ProcessKind,
    /// Address it serves on: the API, the admin routes, or the server's own port.
    pub listen: String,
    /// Process id; absent while it is not running.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u32,
    /// How it ended last, such as `signal: 9 (SIGKILL)`.
    pub last_exit: Option<String>,
    /// Program and arguments.
    pub command: Vec<String>,
}

/// What a process is; in the order in which they are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessKind {
    Etcd,
    Nats,
    Scheduler,
    Agent,
    Apiserver,
    Notifier,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not a state file of this version; `deployctl down --purge` removes the cluster it describes")]
    Malformed {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("{0}")]
    Untrusted(String),
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Cluster {
    /// Reads the state of `dir`; none when there never was a cluster. It names the API that receives our commands and the
    /// processes that `down` ends, so a file that another user can write is refused.
    pub fn load(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(FILE);
        if let Some(reason) = fabric::local::distrust(&path) {
            return Err(Error::Untrusted(reason));
        }
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        serde_json::from_slice(&text).map(Some).map_err(|source| Error::Malformed { path, source })
    }

    /// Writes the state of `dir` whole.
    pub fn store(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(FILE);
        let text = serde_json::to_vec_pretty(self).expect("a state has string keys only");
        let fresh = dir.join(format!("{FILE}.new"));
        let write = || {
            let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            file.write_all(&text)?;
            file.write_all(b"\n")?;
            fs::rename(&fresh, &path)
        };
        write().map_err(|source| Error::Write { path: path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn cluster() -> Cluster {
        let child = Child {
            name: "etcd".to_owned(),
            role: ProcessKind::Etcd,
            listen: "127.0.0.1:1".to_owned(),
            pid: Some(7),
            restarts: 0,
            last_exit: None,
            command: vec!["etcd".to_owned()],
        };
        Cluster {
            cluster: "local-1".to_owned(),
            api: vec!["http://127.0.0.1:9003".to_owned()],
            sockets: vec!["/run/api.sock".into()],
            nats: "nats://127.0.0.1:2".to_owned(),
            etcd: "http://127.0.0.1:1".to_owned(),
            nodes: vec!["node-1".to_owned()],
            supervisor: Some(Process { pid: 6, command: vec!["deployctl".to_owned()] }),
            children: vec![child.clone(), Child { name: "nats".to_owned(), pid: None, ..child }],
            ports: BTreeMap::from([("etcd".to_owned(), 1)]),
        }
    }

    #[test]
    fn a_state_is_read_back_as_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Cluster::load(dir.path()).unwrap(), None);
        cluster().store(dir.path()).unwrap();
        assert_eq!(Cluster::load(dir.path()).unwrap(), Some(cluster()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing but the state is left");
    }

    #[test]
    fn a_file_that_is_no_state_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "{}").unwrap();
        let error = Cluster::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("down --purge"), "{error}");
    }

    #[test]
    fn a_state_that_others_can_write_is_refused_and_an_own_one_is_private() {
        let dir = tempfile::tempdir().unwrap();
        cluster().store(dir.path()).unwrap();
        let path = dir.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(matches!(Cluster::load(dir.path()), Err(Error::Untrusted(_))));
    }

    #[test]
    fn tests_find_the_fields_they_rely_on() {
        let value = serde_json::to_value(cluster()).unwrap();
        assert_eq!(value["children"][0]["name"], "etcd");
        assert_eq!(value["children"][0]["pid"], 7);
        assert_eq!(value["children"][0]["listen"], "127.0.0.1:1");
        assert_eq!(value["children"][0]["role"], "etcd");
        assert_eq!(value["supervisor"]["pid"], 6);
    }
}
