//! `apply`, `scale` and `delete`: changes the API and waits until they are true.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::api::PodGroupWithSpec;
use contract::spec::PodGroupSpec;
use contract::state::RunState;

use crate::api::{self, Api, Patience};
use crate::args;
use crate::document::{self, Change};
use crate::progress::{Progress, on_terminal};
use crate::table;

/// Why something was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}; name a file with -f, or - for standard input")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no good.
    #[error("{path} cannot be applied")]
    Document {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: document::Error,
    },
    /// The group exists and differs.
    #[error(
        "PodGroup {name} exists and differs in {fields}; changing the spec of a running group is not supported yet: \
         `deployctl delete podgroup {name} --wait`, then apply it again"
    )]
    Differs {
        /// Which.
        name: String,
        /// In what.
        fields: String,
    },
    /// The API did not do it.
    #[error(transparent)]
    Api(#[from] api::Error),
}

/// `deployctl apply`
pub async fn apply(api: &Api, asked: &args::Apply) -> Result<(), Error> {
    let text = read(&asked.file)?;
    let documents = document::read(&text).map_err(|source| Error::Document { path: asked.file.clone(), source })?;
    for document in &documents {
        for field in &document.ignored {
            eprintln!("warning: {}: field {field} is unknown and means nothing; is it misspelt?", document.spec.name);
        }
    }
    for document in &documents {
        apply_one(api, &document.spec, &asked.waiting).await?;
    }
    Ok(())
}

async fn apply_one(api: &Api, spec: &PodGroupSpec, waiting: &args::Waiting) -> Result<(), Error> {
    let name = &spec.name;
    let progress = Progress::start(&format!("PodGroup {name}: applying"));
    let mut patience = patience(&progress, waiting.timeout);
    let outcome = change(api, spec, &mut patience).await;
    let said = match outcome {
        Ok(said) => said,
        Err(error) => {
            progress.abandon();
            return Err(error);
        }
    };
    progress.done(&format!("PodGroup {name} {said}"));
    if waiting.wanted(on_terminal()) {
        until_running(api, name, spec.num_instances, waiting.timeout).await
    } else {
        Ok(())
    }
}

async fn change(api: &Api, spec: &PodGroupSpec, patience: &mut Patience) -> Result<String, Error> {
    let Some(current) = api.group(&spec.name).await? else {
        api.create(spec, patience).await?;
        return Ok("created".to_owned());
    };
    match document::change(&current.spec, spec) {
        Change::Nothing => Ok("is unchanged".to_owned()),
        Change::Scale(number) => {
            api.scale(&spec.name, number, patience).await?;
            Ok(format!("scaled from {} to {number} instances", current.spec.num_instances))
        }
        Change::Unsupported(fields) => Err(Error::Differs { name: spec.name.clone(), fields: fields.join(", ") }),
    }
}

/// `deployctl scale`
pub async fn scale(api: &Api, asked: &args::Scale) -> Result<(), Error> {
    let progress = Progress::start(&format!("PodGroup {}: scaling to {} instances", asked.name, asked.instances));
    let mut patience = patience(&progress, asked.waiting.timeout);
    let scaled = api.scale(&asked.name, asked.instances, &mut patience).await;
    finish(&progress, scaled, &format!("PodGroup {} scaled to {} instances", asked.name, asked.instances))?;
    if !asked.waiting.wanted(on_terminal()) {
        return Ok(());
    }
    until_running(api, &asked.name, i64::from(asked.instances), asked.waiting.timeout).await
}

/// `deployctl delete podgroup`
pub async fn delete(api: &Api, name: &str, waiting: &args::Waiting) -> Result<(), Error> {
    let progress = Progress::start(&format!("PodGroup {name}: deleting"));
    let mut patience = patience(&progress, waiting.timeout);
    let mut deleted = api.delete(name, &mut patience).await;
    if waiting.wanted(on_terminal()) && deleted.is_ok() {
        deleted = until_gone(api, name, &mut patience).await;
    }
    finish(&progress, deleted, &format!("PodGroup {name} deleted"))
}

/// The name answers 404 at once; its containers are gone when the list does not show it any more.
async fn until_gone(api: &Api, name: &str, patience: &mut Patience) -> Result<(), api::Error> {
    while api.group(name).await?.is_some() || api.groups().await?.iter().any(|line| line.name == name) {
        patience.pause("its containers are being removed").await?;
    }
    Ok(())
}

/// Waits until a group runs with `instances` instances, and shows them.
pub async fn until_running(api: &Api, name: &str, instances: i64, timeout: Duration) -> Result<(), Error> {
    let progress = Progress::start(&format!("PodGroup {name}: waiting until it runs"));
    let mut patience = patience(&progress, timeout);
    let group = match running(api, name, instances, &mut patience).await {
        Ok(group) => group,
        Err(error) => {
            progress.abandon();
            return Err(error.into());
        }
    };
    progress.done(&format!("PodGroup {name} runs"));
    println!("{}", table::instances(&group));
    Ok(())
}

/// The group once all its instances run.
pub async fn running(
    api: &Api,
    name: &str,
    instances: i64,
    patience: &mut Patience,
) -> Result<PodGroupWithSpec, api::Error> {
    loop {
        let group = match api.group(name).await {
            Ok(group) => group,
            // A fail-over or a restarted apiserver is over in seconds; the patience bounds it.
            Err(error @ (api::Error::Unreachable { .. } | api::Error::Refused { status: 500.., .. })) => {
                patience.pause(&error.to_string()).await?;
                continue;
            }
            Err(error) => return Err(error),
        };
        match group {
            Some(group) if runs(&group, instances) => return Ok(group),
            Some(group) => patience.pause(&why_not(&group, instances)).await?,
            None => patience.pause("it is not there yet").await?,
        }
    }
}

fn runs(group: &PodGroupWithSpec, instances: i64) -> bool {
    let all = i64::try_from(group.pods.len()).is_ok_and(|count| count == instances);
    all && group.pods.iter().all(|pod| pod.state == RunState::Success)
}

fn why_not(group: &PodGroupWithSpec, instances: i64) -> String {
    let running = group.pods.iter().filter(|pod| pod.state == RunState::Success).count();
    let errors = group.pods.iter().map(|pod| pod.last_error.as_str());
    let error = std::iter::once(group.last_error.as_str()).chain(errors).find(|error| !error.is_empty());
    match error {
        Some(error) => format!("{running} of {instances} instances run; {error}"),
        None => format!("{running} of {instances} instances run"),
    }
}

fn patience(progress: &Progress, timeout: Duration) -> Patience {
    let progress = progress.clone();
    Patience::for_span(timeout, move |why| progress.update(why))
}

fn finish(progress: &Progress, result: Result<(), api::Error>, text: &str) -> Result<(), Error> {
    match result {
        Ok(()) => progress.done(text),
        Err(_) => progress.abandon(),
    }
    Ok(result?)
}

fn read(path: &Path) -> Result<String, Error> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|source| Error::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use contract::api::Pod;

    use super::*;

    fn group(states: &[RunState]) -> PodGroupWithSpec {
        let pod = |state: &RunState| Pod { state: *state, ..Pod::default() };
        PodGroupWithSpec { pods: states.iter().map(pod).collect(), ..Default::default() }
    }

    #[test]
    fn a_group_runs_when_every_wanted_instance_does() {
        assert!(runs(&group(&[RunState::Success, RunState::Success]), 2));
        assert!(!runs(&group(&[RunState::Success]), 2), "one is not there yet");
        assert!(!runs(&group(&[RunState::Success, RunState::Exit]), 2));
        assert!(!runs(&group(&[RunState::Success, RunState::Success, RunState::Success]), 2), "one is still going");
        assert!(runs(&group(&[]), 0));
    }

    #[test]
    fn waiting_says_what_went_wrong() {
        let mut group = group(&[RunState::Success, RunState::Pending]);
        assert_eq!(why_not(&group, 2), "1 of 2 instances run");
        group.pods[1].last_error = "no such image".to_owned();
        assert_eq!(why_not(&group, 2), "1 of 2 instances run; no such image");
    }
}
