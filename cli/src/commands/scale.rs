//! `scale`: changes the number of instances of a PodGroup.

use crate::api::{self, Api, Deadline, Retry};
use crate::args::{self, InstanceCount};
use crate::commands::wait::{self, finish, retry};
use crate::output::progress::Progress;

/// `deployctl scale`
pub async fn scale(api: &Api, asked: &args::Scale) -> Result<(), api::Error> {
    let name = asked.name.as_str();
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let instances = match asked.instances {
        InstanceCount::To(number) => number,
        change @ InstanceCount::By(_) => {
            let group = wait::first_read(&mut Retry::until(deadline, |_| {}), async || api.group(name).await).await?;
            change.of(group.ok_or_else(|| api::Error::no_group(name))?.spec.num_instances)
        }
    };
    let progress = Progress::start(&format!("PodGroup {name}: scaling to {instances} instances"));
    let mut retry = retry(&progress, deadline);
    let scaled = api.scale(name, instances, None, &mut retry).await;
    finish(&progress, scaled, &format!("PodGroup {name} scales to {instances} instances"))?;
    if !asked.waiting.waits() {
        return Ok(());
    }
    wait::until_running(api, name, i64::from(instances), deadline).await
}
