//! The demo: an image made from our own static binary, and a PodGroup that runs it.
//!
//! No registry is asked: the binary is handed to the engine as the whole file system of an image.

use std::path::PathBuf;
use std::time::Duration;

use contract::api::PodGroupWithSpec;

use crate::api::{self, Api, Patience};
use crate::commands::wait;
use crate::document;
use crate::output::progress::Progress;
use devcluster::docker::{self, Engine};

/// The PodGroup, as a file that `deployctl apply` takes too.
pub const DOCUMENT: &str = include_str!("../../../../deploy/demo-podgroup.json");

const REPOSITORY: &str = "deployd/demo";
const TAG: &str = "1";
/// How long the demo may take; an engine on a busy machine needs a second per container.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The binary has not been built.
    #[error("the demo binary {0} is not there; build it with ./deploy/build-demo, or go without: --no-demo")]
    NotBuilt(PathBuf),
    /// The binary cannot be read.
    #[error("cannot read the demo binary {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The engine did not take the image.
    #[error(transparent)]
    Engine(#[from] docker::Error),
    /// The document is broken.
    #[error("deploy/demo-podgroup.json cannot be read")]
    Document(#[from] document::Error),
    /// The API did not take the group, or it does not run.
    #[error("the demo does not run")]
    Api(#[from] api::Error),
}

/// Makes the image unless the engine has it.
pub async fn import(engine: &Engine) -> Result<(), Error> {
    let path = binary();
    let bytes = match tokio::fs::read(&path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Error::NotBuilt(path)),
        Err(source) => return Err(Error::Read { path, source }),
    };
    engine.ensure_image(REPOSITORY, TAG, &bytes).await?;
    Ok(())
}

/// Deploys the group unless it is there already; returns it once it runs.
pub async fn deploy(api: &Api, progress: &Progress) -> Result<PodGroupWithSpec, Error> {
    let spec = document::read(DOCUMENT)?.swap_remove(0).spec;
    let shown = progress.clone();
    let mut patience = Patience::for_span(PATIENCE, move |why| shown.update(&format!("demo: {why}")));
    let instances = match api.group(&spec.name).await? {
        // Whatever somebody has made of it since: it stays as they want it.
        Some(group) => group.spec.num_instances,
        None => {
            api.create(&spec, &mut patience).await?;
            spec.num_instances
        }
    };
    Ok(wait::running(api, &spec.name, instances, &mut patience).await?)
}

/// `target/demo/demo` beside the directory this program lies in.
fn binary() -> PathBuf {
    let target = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_owned()));
    target.unwrap_or_else(|| PathBuf::from("target")).join("demo").join("demo")
}
