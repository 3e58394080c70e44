//! `depends`: manages dependency pods.

use std::path::Path;
use std::time::Duration;

use contract::api::NamespacePodsWithSpec;
use contract::spec::PodSpec;

use crate::api::{self, Api, Retry};
use crate::args::DependsWhat;
use crate::commands::apply::{self, Error};
use crate::document;
use crate::document::difference;
use crate::output::show;
use crate::output::table;

const RETRY_FOR: Duration = Duration::from_secs(30);

/// `deployctl depends`
pub async fn depends(api: &Api, what: &DependsWhat) -> Result<(), Error> {
    match what {
        DependsWhat::Get { name, output } => {
            let dependency = api.dependency(name).await?.ok_or_else(|| unknown(name))?;
            show(*output, &dependency, || shown(&dependency));
            Ok(())
        }
        DependsWhat::Apply { file } => apply_all(api, file).await,
        DependsWhat::Delete { name, force } => {
            let deleted = api.delete_dependency(name, *force, &mut retry()).await;
            deleted.map_err(|error| if matches!(error, api::Error::NotFound(_)) { unknown(name) } else { error })?;
            let when = if *force { "is deleted" } else { "will be deleted when no instance depends on it" };
            println!("dependency pod {name} {when}");
            Ok(())
        }
    }
}

async fn apply_all(api: &Api, file: &Path) -> Result<(), Error> {
    for spec in &apply::documents(file, document::read_pods)? {
        let done = apply_one(api, spec).await?;
        println!("dependency pod {} {done}", spec.name);
    }
    Ok(())
}

async fn apply_one(api: &Api, spec: &PodSpec) -> Result<String, Error> {
    let Some(current) = api.dependency(&spec.name).await? else {
        api.create_dependency(spec, &mut retry()).await?;
        return Ok("created".to_owned());
    };
    let difference = difference::of_pod(&current.spec, spec);
    if !difference.fixed.is_empty() {
        return Err(Error::Fixed { name: spec.name.clone(), fields: difference.fixed.join(", ") });
    }
    if difference.pod.is_empty() {
        return Ok("is unchanged".to_owned());
    }
    api.update_dependency(spec, &mut retry()).await?;
    Ok(format!("updated: {}", difference::paths(&difference.pod)))
}

fn shown(dependency: &NamespacePodsWithSpec) -> String {
    let spec = &dependency.spec;
    let image = spec.containers.first().map_or("", |container| container.image.as_str());
    let head = format!("{}: version {}, {image}", spec.name, spec.version);
    if dependency.pods.values().all(Vec::is_empty) {
        return format!("{head}\nno instance depends on it");
    }
    format!("{head}\n{}", table::dependency(&dependency.pods))
}

fn unknown(name: &str) -> api::Error {
    api::Error::NotFound(format!("no dependency pod {name:?}"))
}

fn retry() -> Retry {
    Retry::for_span(RETRY_FOR, |_| {})
}
