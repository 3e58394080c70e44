//! Which directory and which API to use.

use std::path::PathBuf;

use crate::api::url_of_socket;
use crate::args::Endpoint;
use devcluster::state::{self, Cluster};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no cluster runs in {0}; `deployctl up --dir {0}` starts one, --api names another API", dir.display())]
    Stopped { dir: PathBuf },
    #[error(transparent)]
    State(#[from] state::Error),
}

/// Where a checkout keeps its cluster.
const RUN: &str = ".deployd/run";
/// Where an apiserver listens by default.
const DEFAULT_API: &str = "http://127.0.0.1:9003";

/// Directory of the local cluster, absolute: that of --dir, else that of the checkout or package of this program, else
/// that of the working directory. Parents of the working directory are not searched: another user may own them.
pub fn directory(endpoint: &Endpoint) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    if let Some(dir) = &endpoint.dir {
        return here.join(dir);
    }
    let checkout = fabric::local::installation().filter(|root| root.join("deploy/up").is_file());
    checkout.unwrap_or(here).join(RUN)
}

/// URLs of the API of a local cluster: its sockets first, where the kernel says who calls.
pub fn urls(cluster: &Cluster) -> Vec<String> {
    cluster.sockets.iter().map(|path| url_of_socket(path)).chain(cluster.api.iter().cloned()).collect()
}

/// URLs of the API: those of --api, else those of the local cluster, else the default.
///
/// A directory named by --dir must hold a running cluster, so that a command never reaches another cluster by mistake.
pub fn api(endpoint: &Endpoint) -> Result<Vec<String>, Error> {
    let given: Vec<String> = endpoint.api.iter().filter(|url| !url.trim().is_empty()).cloned().collect();
    if !given.is_empty() {
        return Ok(given);
    }
    let dir = directory(endpoint);
    let running = |cluster: Option<Cluster>| cluster.filter(|cluster| cluster.supervisor.is_some());
    match (Cluster::load(&dir).map(running), endpoint.dir.is_some()) {
        (Ok(Some(cluster)), _) => Ok(urls(&cluster)),
        (Ok(None), true) => Err(Error::Stopped { dir }),
        (Err(error @ state::Error::Untrusted(_)), _) | (Err(error), true) => Err(error.into()),
        (Ok(None) | Err(_), false) => Ok(vec![DEFAULT_API.to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn flags_take_precedence() {
        let endpoint =
            Endpoint { api: vec!["http://a".to_owned(), " ".to_owned()], dir: Some("/tmp/x".into()), ca: None };
        assert_eq!(api(&endpoint).unwrap(), ["http://a"]);
        assert_eq!(directory(&endpoint), Path::new("/tmp/x"));
    }

    #[test]
    fn a_named_directory_must_hold_a_running_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint { api: Vec::new(), dir: Some(dir.path().to_owned()), ca: None };
        let error = api(&endpoint).unwrap_err().to_string();
        assert!(error.contains(dir.path().to_str().unwrap()) && error.contains("deployctl up --dir"), "{error}");
        std::fs::write(dir.path().join(state::FILE), "{}").unwrap();
        assert!(matches!(api(&endpoint), Err(Error::State(_))));
    }
}
