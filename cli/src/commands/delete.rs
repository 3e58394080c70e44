//! `delete`: deletes a PodGroup.

use crate::api::{self, Api, Deadline, Patience};
use crate::args::{self, Mode};
use crate::commands::wait::{self, finish, patience};
use crate::output::progress::{Progress, on_terminal};

/// `deployctl delete podgroup`
pub async fn delete(api: &Api, name: &str, mode: Mode, waiting: &args::Waiting) -> Result<(), api::Error> {
    let progress = Progress::start(&format!("PodGroup {name}: deleting"));
    let deadline = Deadline::after(waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
    let waits = waiting.wanted(on_terminal());
    let (word, done) = match mode {
        Mode::Foreground if waits => (None, "deleted"),
        Mode::Foreground => (None, "deletion accepted; the name is free when its containers are removed"),
        // In these modes the name is free as soon as the API accepts the deletion.
        Mode::Background => (Some("background"), "deleted; its containers are being removed"),
        Mode::Orphan => (Some("orphan"), "deleted; its containers run on until a PodGroup of that name adopts them"),
    };
    let mut deleted = api.delete(name, word, &mut patience).await;
    if mode == Mode::Foreground && waits && deleted.is_ok() {
        deleted = until_gone(api, name, &mut patience).await;
    }
    finish(&progress, deleted, &format!("PodGroup {name} {done}"))
}

/// The name answers 404 at once; its containers are gone when the list does not show the group any more.
async fn until_gone(api: &Api, name: &str, patience: &mut Patience) -> Result<(), api::Error> {
    loop {
        let listed =
            async { Ok(api.group(name).await?.is_some() || api.groups().await?.iter().any(|line| line.name == name)) };
        match wait::patiently(listed.await, patience).await? {
            Some(true) => patience.pause("its containers are being removed").await?,
            Some(false) => return Ok(()),
            None => {}
        }
    }
}
