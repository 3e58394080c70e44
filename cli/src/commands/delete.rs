//! `delete`: deletes PodGroups.

use crate::api::{self, Api, Deadline, Retry};
use crate::args::{self, Mode};
use crate::commands::apply;
use crate::commands::confirm;
use crate::commands::wait::{self, finish, retry};
use crate::document;
use crate::output::progress::Progress;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] apply::Error),
    #[error(transparent)]
    Unconfirmed(#[from] confirm::Unconfirmed),
}

/// `deployctl delete`
pub async fn delete(api: &Api, asked: &args::DeleteGroups) -> Result<(), Error> {
    let names = names(api, asked).await?;
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    for name in &names {
        match delete_one(api, name, asked, deadline).await {
            Err(api::Error::NoGroup(_)) if asked.names.is_empty() => println!("PodGroup {name} does not exist"),
            deleted => deleted?,
        }
    }
    if names.is_empty() {
        println!("no PodGroups");
    }
    Ok(())
}

/// The groups to delete: those named, those of the file, or all after a confirmation.
async fn names(api: &Api, asked: &args::DeleteGroups) -> Result<Vec<String>, Error> {
    if let Some(file) = &asked.file {
        let documents = apply::documents(file, document::read)?;
        return Ok(documents.into_iter().map(|document| document.spec.name).collect());
    }
    if !asked.all {
        return Ok(asked.names.clone());
    }
    let lines = match &asked.namespace {
        Some(namespace) => api.groups_of(namespace).await?,
        None => api.groups().await?,
    };
    if !asked.yes && !lines.is_empty() {
        let instances: u64 = lines.iter().map(|line| u64::from(line.num_instances)).sum();
        let of = asked.namespace.as_ref().map_or_else(String::new, |name| format!(" of the namespace {name}"));
        let count = lines.len();
        let what =
            format!("deletes all {count} PodGroups{of} with {instances} instances in {}", api.target().describe());
        confirm::ask(&what, "--yes")?;
    }
    Ok(lines.into_iter().map(|line| line.name).collect())
}

async fn delete_one(api: &Api, name: &str, asked: &args::DeleteGroups, deadline: Deadline) -> Result<(), api::Error> {
    let progress = Progress::start(&format!("PodGroup {name}: deleting"));
    let mut retry = retry(&progress, deadline);
    let (mode, waits) = (asked.mode, asked.waiting.waits());
    let (word, done) = match mode {
        Mode::Foreground if waits => (None, "deleted"),
        Mode::Foreground => (None, "deletion accepted; the name is free when its containers are removed"),
        // In these modes the name is free as soon as the API accepts the deletion.
        Mode::Background => (Some("background"), "deleted; its containers are being removed"),
        Mode::Orphan => {
            (Some("orphan"), "deleted; its containers keep running until a PodGroup of that name adopts them")
        }
    };
    let mut deleted = api.delete(name, word, &mut retry).await;
    if mode == Mode::Foreground && waits && deleted.is_ok() {
        deleted = until_gone(api, name, &mut retry).await;
    }
    finish(&progress, deleted, &format!("PodGroup {name} {done}"))
}

/// The API answers 404 for the name immediately; the list shows the group until its containers are removed.
async fn until_gone(api: &Api, name: &str, retry: &mut Retry) -> Result<(), api::Error> {
    loop {
        let listed =
            async { Ok(api.group(name).await?.is_some() || api.groups().await?.iter().any(|line| line.name == name)) };
        match wait::or_wait(listed.await, retry).await? {
            Some(true) => retry.pause("its containers are being removed").await?,
            Some(false) => return Ok(()),
            None => {}
        }
    }
}
