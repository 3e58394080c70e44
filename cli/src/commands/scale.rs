//! `scale`: changes the number of instances of a PodGroup.

use crate::api::{self, Api, Deadline};
use crate::args;
use crate::commands::wait::{self, finish, patience};
use crate::output::progress::{Progress, on_terminal};

/// `deployctl scale`
pub async fn scale(api: &Api, asked: &args::Scale) -> Result<(), api::Error> {
    let progress = Progress::start(&format!("PodGroup {}: scaling to {} instances", asked.name, asked.instances));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
    let scaled = api.scale(&asked.name, asked.instances, None, &mut patience).await;
    finish(&progress, scaled, &format!("PodGroup {} will have {} instances", asked.name, asked.instances))?;
    if !asked.waiting.wanted(on_terminal()) {
        return Ok(());
    }
    wait::until_running(api, &asked.name, i64::from(asked.instances), deadline).await
}
