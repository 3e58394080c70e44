//! `describe`: one group or node in full.

use contract::name::NodeName;

use crate::api::{self, Api};
use crate::args::DescribeWhat;
use crate::output::{self, table};

/// Events that are shown.
const EVENTS: &str = "10";

/// `deployctl describe`
pub async fn describe(api: &Api, what: &DescribeWhat) -> Result<(), api::Error> {
    match what {
        DescribeWhat::Podgroup { name } => group(api, name).await,
        DescribeWhat::Node { name } => node(api, name).await,
    }
}

async fn group(api: &Api, name: &str) -> Result<(), api::Error> {
    let group = api.group(name).await?.ok_or_else(|| api::Error::no_group(name))?;
    // Rollout and events only explain; the group is shown without them if they cannot be read.
    let rollout = api.rollout(name).await.ok();
    let events = api.events(&[("group", name), ("limit", EVENTS)]).await.unwrap_or_default();
    let now = table::now();
    println!("{}", output::describe::group(&group, rollout.as_ref(), now));
    if !group.pods.is_empty() {
        println!("instances");
        table::instances(&group).print();
    }
    for problem in output::describe::problems(&group, now) {
        println!("{problem}");
    }
    if !events.is_empty() {
        println!("{}", output::describe::events(&events));
    }
    Ok(())
}

async fn node(api: &Api, name: &NodeName) -> Result<(), api::Error> {
    let status = api.node(name).await?;
    let events = api.events(&[("node", name.as_str()), ("limit", EVENTS)]).await.unwrap_or_default();
    println!("{}", output::node::page(&status, &events));
    Ok(())
}
