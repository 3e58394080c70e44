//! Which directory and which API to use, and the token for it.

use std::path::PathBuf;

use reqwest::Url;

use crate::api::{self, Api, Target, url_of_socket};
use crate::args::Endpoint;
use crate::contexts::{self, Context, Contexts};
use crate::credential::{self, Credential};
use devcluster::state::{self, Cluster};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no cluster runs in {0}; `deployctl up --dir {0}` starts one, --api names another API", dir.display())]
    Stopped { dir: PathBuf },
    #[error(transparent)]
    State(#[from] state::Error),
    #[error(transparent)]
    Contexts(#[from] contexts::Error),
    #[error(transparent)]
    Credential(#[from] credential::Error),
    #[error(transparent)]
    Url(#[from] api::Error),
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

/// The client of the API that the command uses.
pub fn api(endpoint: &Endpoint) -> Result<Api, Error> {
    Ok(Api::at(target(endpoint)?)?)
}

/// The API: that of --api, else with --dir that of the cluster there, else that of the context in use, else the local
/// cluster's, else the default.
///
/// A directory named by --dir must hold a running cluster, so that a command never reaches another cluster by mistake.
pub fn target(endpoint: &Endpoint) -> Result<Target, Error> {
    let named = Credential::named(endpoint.token_file.as_deref())?;
    let authorities = endpoint.ca.as_deref().map(api::authorities).transpose()?;
    let given: Vec<String> = endpoint.api.iter().filter(|url| !url.trim().is_empty()).cloned().collect();
    let mut target = if !given.is_empty() {
        named_by_flag(&given)?
    } else if endpoint.dir.is_some() {
        local(endpoint)?
    } else {
        match Contexts::load()?.current()? {
            Some(context) => of_context(context, context.urls.clone()),
            None => local(endpoint)?,
        }
    };
    target.credential = named.or(target.credential);
    target.authorities = authorities.or(target.authorities);
    Ok(target)
}

/// The URLs of --api, with the token of the context in use if they belong to its cluster.
fn named_by_flag(given: &[String]) -> Result<Target, Error> {
    let urls = api::urls(given)?;
    let contexts = Contexts::load()?;
    let context = contexts.current.as_deref().and_then(|name| contexts.find(name));
    Ok(match context.filter(|context| context.covers(&urls)) {
        Some(context) => of_context(context, urls),
        None => Target::new(urls),
    })
}

fn of_context(context: &Context, urls: Vec<Url>) -> Target {
    Target {
        found: format!("context {}", context.name),
        credential: Some(Credential::of_context(&context.name, context.token.clone(), &context.urls)),
        authorities: context.ca.clone(),
        ..Target::new(urls)
    }
}

/// The cluster of --dir, else the local cluster, else the default.
fn local(endpoint: &Endpoint) -> Result<Target, Error> {
    let dir = directory(endpoint);
    let running = |cluster: Option<Cluster>| cluster.filter(|cluster| cluster.supervisor.is_some());
    match (Cluster::load(&dir).map(running), endpoint.dir.is_some()) {
        (Ok(Some(cluster)), _) => {
            let found = format!("the local cluster in {}", dir.display());
            Ok(Target { found, ..Target::new(api::urls(&urls(&cluster))?) })
        }
        (Ok(None), true) => Err(Error::Stopped { dir }),
        (Err(error @ state::Error::Untrusted(_)), _) | (Err(error), true) => Err(error.into()),
        (Ok(None) | Err(_), false) => {
            let found = "the default, because no local cluster runs".to_owned();
            Ok(Target { found, ..Target::new(api::urls(&[DEFAULT_API.to_owned()])?) })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn flags_take_precedence() {
        let endpoint = Endpoint {
            api: vec!["http://a".to_owned(), " ".to_owned()],
            dir: Some("/tmp/x".into()),
            ..Endpoint::default()
        };
        assert_eq!(target(&endpoint).unwrap().urls, ["http://a".parse().unwrap()]);
        assert_eq!(directory(&endpoint), Path::new("/tmp/x"));
    }

    #[test]
    fn a_named_directory_must_hold_a_running_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint { dir: Some(dir.path().to_owned()), ..Endpoint::default() };
        let error = target(&endpoint).unwrap_err().to_string();
        assert!(error.contains(dir.path().to_str().unwrap()) && error.contains("deployctl up --dir"), "{error}");
        std::fs::write(dir.path().join(state::FILE), "{}").unwrap();
        assert!(matches!(target(&endpoint), Err(Error::State(_))));
    }
}
