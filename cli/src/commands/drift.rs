//! `drift` and `evacuate`: moves instances off a node.
//!
//! The API accepts names that do not exist and does nothing, as the original did; `deployctl` refuses them.

use std::collections::BTreeSet;

use contract::name::NodeName;
use contract::node_view::{NodeStatus, PodOnNode};

use crate::api::{self, Api, Deadline, Retry};
use crate::args;
use crate::commands::confirm;
use crate::commands::node;
use crate::commands::node::remaining::{Remaining, names, remaining};
use crate::commands::operate::known_group;
use crate::commands::wait::{finish, first_read, read, retry};
use crate::output::progress::Progress;

/// `deployctl drift`
pub async fn drift(api: &Api, asked: &args::Drift) -> Result<(), node::Error> {
    if asked.group.is_none() && !asked.all {
        let what = format!("moves the instances of every PodGroup off {} in {}", asked.from, api.target().describe());
        confirm::ask(&what, "--all")?;
    }
    let progress = Progress::start(&format!("moving instances off {}", asked.from));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut retry = retry(&progress, deadline);
    let number = asked.instance.map(|number| number.to_string());
    let mut params = vec![("cmd", "drift"), ("from", asked.from.as_str())];
    params.extend(asked.to.as_deref().map(|to| ("to", to)));
    params.extend(asked.group.as_deref().map(|group| ("pg", group)));
    params.extend(number.as_deref().map(|number| ("pg_instance", number)));
    params.extend(asked.force.then_some(("force", "true")));
    let is_asked = |pod: &PodOnNode| {
        asked.group.as_ref().is_none_or(|group| *group == pod.pod_group)
            && asked.instance.is_none_or(|number| number == pod.instance)
    };
    let work = async {
        let node = known_nodes(api, &asked.from, asked.to.as_deref(), &mut retry).await?;
        if let Some(group) = &asked.group {
            known_group(api, group, asked.instance, &mut retry).await?;
        }
        let waits = asked.waiting.waits();
        let leaving = if waits { Some(Leaving::of(api, node, is_asked, &mut retry).await?) } else { None };
        api.drift(&params, &mut retry).await?;
        let Some(leaving) = leaving else { return Ok(None) };
        let remedy = format!("deployctl drift --from {} --force", asked.from);
        leaving.until_left(api, asked.force, &remedy, &mut retry).await.map(Some)
    };
    let result = work.await;
    let verb = if matches!(result, Ok(None)) { "instances will move off" } else { "instances moved off" };
    show_rest(finish(&progress, result, &format!("{verb} {}", asked.from))?);
    Ok(())
}

/// `deployctl evacuate`
pub async fn evacuate(api: &Api, asked: &args::Evacuate) -> Result<(), node::Error> {
    let name = asked.node.as_str();
    if !asked.yes {
        let what = format!("moves every instance off {name} in {}, and local data is lost", api.target().describe());
        confirm::ask(&what, "--yes")?;
    }
    let progress = Progress::start(&format!("{name}: evacuating"));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut retry = retry(&progress, deadline);
    let work = async {
        let node = known_nodes(api, name, None, &mut retry).await?;
        let waits = asked.waiting.waits();
        let leaving = if waits { Some(Leaving::of(api, node, |_| true, &mut retry).await?) } else { None };
        api.evacuate(name, &mut retry).await?;
        let Some(leaving) = leaving else { return Ok(None) };
        leaving.until_left(api, true, "", &mut retry).await.map(Some)
    };
    let result = work.await;
    let text = if matches!(result, Ok(None)) { "will be evacuated" } else { "is evacuated" };
    let status = finish(&progress, result, &format!("{name} {text}"))?;
    eprintln!("no new instances are placed there until `deployctl constraints delete node`");
    show_rest(status);
    Ok(())
}

/// Pods that shall leave a node. A pod that is placed there later has another name.
struct Leaving {
    node: NodeName,
    pods: BTreeSet<String>,
}

impl Leaving {
    /// The selected pods that are on the node now.
    async fn of(
        api: &Api,
        node: NodeName,
        is_asked: impl Fn(&PodOnNode) -> bool,
        retry: &mut Retry,
    ) -> Result<Self, api::Error> {
        let status = read(retry, async || api.node(&node).await).await?;
        let pods = status.pods.iter().filter(|pod| is_asked(pod)).map(|pod| pod.name.clone()).collect();
        Ok(Self { node, pods })
    }

    /// Waits until the node has none of them and returns its status. The locks of their groups prove nothing: a drift waits
    /// for the lock, and releases it when no node fits an instance.
    async fn until_left(
        &self,
        api: &Api,
        force: bool,
        remedy: &str,
        retry: &mut Retry,
    ) -> Result<NodeStatus, node::Error> {
        loop {
            let status = read(retry, async || api.node(&self.node).await).await?;
            let Remaining { bound, moving } = remaining(&status, force, |pod| self.pods.contains(&pod.name));
            match (moving.is_empty(), bound.is_empty()) {
                (true, true) => return Ok(status),
                (true, false) => {
                    let why =
                        format!("instances with local data stay: {}; `{remedy}` moves them without it", names(&bound));
                    return Err(node::Error::Stays { node: self.node.clone(), why });
                }
                (false, _) => {
                    let (moving, all) = (names(&moving), self.pods.len());
                    retry.pause(&format!("waiting for {moving} (of {all} instances)")).await?;
                }
            }
        }
    }
}

fn show_rest(status: Option<NodeStatus>) {
    if let Some(NodeStatus { node, .. }) = status {
        println!("{} containers are on {} now", node.containers, node.name);
    }
}

/// The node `from`, when it and the node `to` exist.
async fn known_nodes(api: &Api, from: &str, to: Option<&str>, retry: &mut Retry) -> Result<NodeName, api::Error> {
    let unknown = |name: &str| api::Error::NoNode(name.to_owned());
    let nodes = first_read(retry, async || api.nodes().await).await?;
    for name in [Some(from), to].into_iter().flatten() {
        if !nodes.iter().any(|node| node.name == name) {
            return Err(unknown(name));
        }
    }
    from.parse().map_err(|_| unknown(from))
}
