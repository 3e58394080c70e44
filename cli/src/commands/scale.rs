//! `scale`: changes the number of instances of a PodGroup.

use crate::api::{self, Api, Deadline};
use crate::args;
use crate::commands::wait::{self, finish, retry};
use crate::output::progress::Progress;

/// `deployctl scale`
pub async fn scale(api: &Api, asked: &args::Scale) -> Result<(), api::Error> {
    let progress = Progress::start(&format!("PodGroup {}: scaling to {} instances", asked.name, asked.instances));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut retry = retry(&progress, deadline);
    let scaled = api.scale(&asked.name, asked.instances, None, &mut retry).await;
    finish(&progress, scaled, &format!("PodGroup {} scales to {} instances", asked.name, asked.instances))?;
    if !asked.waiting.waits() {
        return Ok(());
    }
    wait::until_running(api, &asked.name, i64::from(asked.instances), deadline).await
}
