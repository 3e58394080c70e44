//! Where the local cluster lives and which API to speak to, when the user does not say.

use std::path::{Path, PathBuf};

use crate::args::Endpoint;
use devcluster::state::{self, Cluster};

/// Why a named directory leads to no API.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No cluster runs there.
    #[error("no cluster runs in {0}; `deployctl up --dir {0}` starts one, --api names another API", dir.display())]
    Stopped {
        /// The directory.
        dir: PathBuf,
    },
    /// Its state cannot be read.
    #[error(transparent)]
    State(#[from] state::Error),
}

/// Where a checkout keeps its cluster.
const RUN: &str = ".deployd/run";
/// Where an apiserver listens unless told otherwise.
const USUAL: &str = "http://127.0.0.1:9003";

/// Directory of the local cluster, absolute.
pub fn directory(endpoint: &Endpoint) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    if let Some(dir) = &endpoint.dir {
        return here.join(dir);
    }
    let executable = std::env::current_exe().unwrap_or_default();
    let above: Vec<&Path> = here.ancestors().chain(executable.ancestors()).collect();
    let with = |file: &str| above.iter().find(|dir| dir.join(file).is_file()).map(|dir| dir.join(RUN));
    with(&format!("{RUN}/{}", state::FILE)).or_else(|| with("deploy/up")).unwrap_or_else(|| here.join(RUN))
}

/// URLs of the API: those that the user names, else those of the local cluster, else the usual one.
///
/// A directory that the user names must hold a running cluster: a command meant for it never reaches another cluster.
pub fn api(endpoint: &Endpoint) -> Result<Vec<String>, Error> {
    let given: Vec<String> = endpoint.api.iter().filter(|url| !url.trim().is_empty()).cloned().collect();
    if !given.is_empty() {
        return Ok(given);
    }
    let dir = directory(endpoint);
    let running = |cluster: Option<Cluster>| cluster.filter(|cluster| cluster.supervisor.is_some());
    match (Cluster::load(&dir).map(running), endpoint.dir.is_some()) {
        (Ok(Some(cluster)), _) => Ok(cluster.api),
        (Ok(None), true) => Err(Error::Stopped { dir }),
        (Err(error), true) => Err(error.into()),
        (Ok(None) | Err(_), false) => Ok(vec![USUAL.to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_says_counts() {
        let endpoint = Endpoint { api: vec!["http://a".to_owned(), " ".to_owned()], dir: Some("/tmp/x".into()) };
        assert_eq!(api(&endpoint).unwrap(), ["http://a"]);
        assert_eq!(directory(&endpoint), Path::new("/tmp/x"));
    }

    #[test]
    fn a_named_directory_must_hold_a_running_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint { api: Vec::new(), dir: Some(dir.path().to_owned()) };
        let error = api(&endpoint).unwrap_err().to_string();
        assert!(error.contains(dir.path().to_str().unwrap()) && error.contains("deployctl up --dir"), "{error}");
        std::fs::write(dir.path().join(state::FILE), "{}").unwrap();
        assert!(matches!(api(&endpoint), Err(Error::State(_))));
    }
}
