//! `delete`: deletes a PodGroup.

use crate::api::{self, Api, Deadline, Retry};
use crate::args::{self, Mode};
use crate::commands::wait::{self, finish, retry};
use crate::output::progress::Progress;

/// `deployctl delete podgroup`
pub async fn delete(api: &Api, name: &str, mode: Mode, waiting: &args::Waiting) -> Result<(), api::Error> {
    let progress = Progress::start(&format!("PodGroup {name}: deleting"));
    let deadline = Deadline::after(waiting.timeout);
    let api = &api.until(deadline);
    let mut retry = retry(&progress, deadline);
    let waits = waiting.waits();
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
