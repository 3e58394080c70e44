//! Where the local cluster lives and which API to speak to, when the user does not say.

use std::path::{Path, PathBuf};

use crate::args::Place;
use crate::up::state::{self, Cluster};

/// Where a checkout keeps its cluster.
const RUN: &str = ".deployd/run";
/// Where an apiserver listens unless told otherwise.
const USUAL: &str = "http://127.0.0.1:9003";

/// Directory of the local cluster, absolute.
pub fn directory(place: &Place) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    if let Some(dir) = &place.dir {
        return here.join(dir);
    }
    let executable = std::env::current_exe().unwrap_or_default();
    let above: Vec<&Path> = here.ancestors().chain(executable.ancestors()).collect();
    let with = |file: &str| above.iter().find(|dir| dir.join(file).is_file()).map(|dir| dir.join(RUN));
    with(&format!("{RUN}/{}", state::FILE)).or_else(|| with("deploy/up")).unwrap_or_else(|| here.join(RUN))
}

/// URLs of the API: as the user says, else those of the local cluster, else the usual one.
pub fn api(place: &Place) -> Vec<String> {
    let given: Vec<String> = place.api.iter().filter(|url| !url.trim().is_empty()).cloned().collect();
    if !given.is_empty() {
        return given;
    }
    match Cluster::load(&directory(place)) {
        Ok(Some(cluster)) if cluster.supervisor.is_some() => cluster.api,
        Ok(_) | Err(_) => vec![USUAL.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_says_counts() {
        let place = Place { api: vec!["http://a".to_owned(), " ".to_owned()], dir: Some("/tmp/x".into()) };
        assert_eq!(api(&place), ["http://a"]);
        assert_eq!(directory(&place), Path::new("/tmp/x"));
    }

    #[test]
    fn without_a_running_cluster_the_usual_port_is_tried() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(api(&Place { api: Vec::new(), dir: Some(dir.path().to_owned()) }), [USUAL]);
    }
}
