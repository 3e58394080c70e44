//! The demo: a PodGroup, and its image, which is built from our own static binary without a registry.

use std::path::PathBuf;
use std::time::Duration;

use contract::api::PodGroupWithSpec;

use crate::api::{self, Api, Retry};
use crate::commands::wait;
use crate::document;
use crate::output::progress::Progress;
use devcluster::docker::{self, Engine};

pub const DOCUMENT: &str = include_str!("../../../../deploy/demo-podgroup.json");

const REPOSITORY: &str = "deployd/demo";
const TAG: &str = "1";
/// How long the demo may take to start.
const RETRY_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the demo binary {0} is not there; build it with ./deploy/build-demo, or go without: --no-demo")]
    NotBuilt(PathBuf),
    #[error("cannot read the demo binary {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Engine(#[from] docker::Error),
    #[error("deploy/demo-podgroup.json cannot be read")]
    Document(#[from] document::Error),
    #[error("the demo does not run")]
    Api(#[from] api::Error),
}

/// Whether the image can be made, before anything is started.
pub fn check() -> Result<(), Error> {
    let path = binary();
    if path.is_file() { Ok(()) } else { Err(Error::NotBuilt(path)) }
}

/// Imports the image unless the engine has it.
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

/// Deploys the group unless it exists; returns it once it is ready.
pub async fn deploy(api: &Api, progress: &Progress) -> Result<PodGroupWithSpec, Error> {
    let spec = document::read(DOCUMENT)?.swap_remove(0).spec;
    let shown = progress.clone();
    let mut retry = Retry::for_span(RETRY_FOR, move |why| shown.update(&format!("demo: {why}")));
    let instances = match api.group(&spec.name).await? {
        // The user may have changed it; it stays as it is.
        Some(group) => group.spec.num_instances,
        None => {
            api.create(&spec, &mut retry).await?;
            spec.num_instances
        }
    };
    Ok(wait::running(api, &spec.name, instances, &mut retry).await?)
}

/// `target/demo/demo` beside the directory of this program.
fn binary() -> PathBuf {
    let target = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_owned()));
    target.unwrap_or_else(|| PathBuf::from("target")).join("demo").join("demo")
}
