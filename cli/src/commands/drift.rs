//! `drift` and `evacuate`: moves instances off a node.
//!
//! The API accepts names that do not exist and does nothing, as the original did; `deployctl` refuses them.

use std::collections::BTreeSet;

use contract::name::NodeName;
use contract::node_view::{NodeStatus, PodOnNode};

use crate::api::{self, Api, Deadline, Patience};
use crate::args;
use crate::commands::node;
use crate::commands::node::leaving::{Left, left, names};
use crate::commands::operate::known_group;
use crate::commands::wait::{finish, first_read, patience, read};
use crate::output::progress::{Progress, on_terminal};

/// `deployctl drift`
pub async fn drift(api: &Api, asked: &args::Drift) -> Result<(), node::Error> {
    let progress = Progress::start(&format!("instances leave {}", asked.from));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
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
        let node = known_nodes(api, &asked.from, asked.to.as_deref(), &mut patience).await?;
        if let Some(group) = &asked.group {
            known_group(api, group, asked.instance, &mut patience).await?;
        }
        let waits = asked.waiting.wanted(on_terminal());
        let leaving = if waits { Some(Leaving::of(api, node, is_asked, &mut patience).await?) } else { None };
        api.drift(&params, &mut patience).await?;
        let Some(leaving) = leaving else { return Ok(None) };
        let remedy = format!("deployctl drift --from {} --force", asked.from);
        leaving.until_left(api, asked.force, &remedy, &mut patience).await.map(Some)
    };
    let result = work.await;
    let verb = if matches!(result, Ok(None)) { "instances will leave" } else { "instances left" };
    show_rest(finish(&progress, result, &format!("{verb} {}", asked.from))?);
    Ok(())
}

/// `deployctl evacuate`
pub async fn evacuate(api: &Api, asked: &args::Evacuate) -> Result<(), node::Error> {
    let name = asked.node.as_str();
    let progress = Progress::start(&format!("{name}: everything leaves it"));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
    let work = async {
        let node = known_nodes(api, name, None, &mut patience).await?;
        let waits = asked.waiting.wanted(on_terminal());
        let leaving = if waits { Some(Leaving::of(api, node, |_| true, &mut patience).await?) } else { None };
        api.evacuate(name, &mut patience).await?;
        let Some(leaving) = leaving else { return Ok(None) };
        leaving.until_left(api, true, "", &mut patience).await.map(Some)
    };
    let result = work.await;
    let text = if matches!(result, Ok(None)) { "will be evacuated" } else { "is evacuated" };
    let status = finish(&progress, result, &format!("{name} {text}"))?;
    eprintln!("new work stays away from it until `deployctl constraints delete node`");
    show_rest(status);
    Ok(())
}

/// Pods that are asked to leave a node. One that is placed there later has another name.
struct Leaving {
    node: NodeName,
    pods: BTreeSet<String>,
}

impl Leaving {
    /// The addressed pods that are there now.
    async fn of(
        api: &Api,
        node: NodeName,
        is_asked: impl Fn(&PodOnNode) -> bool,
        patience: &mut Patience,
    ) -> Result<Self, api::Error> {
        let status = read(patience, async || api.node(&node).await).await?;
        let pods = status.pods.iter().filter(|pod| is_asked(pod)).map(|pod| pod.name.clone()).collect();
        Ok(Self { node, pods })
    }

    /// Waits until the node has none of them; the node as it is then. Whether their groups are locked says nothing: a drift
    /// waits for the lock, and gives it back when an instance finds no place.
    async fn until_left(
        &self,
        api: &Api,
        force: bool,
        remedy: &str,
        patience: &mut Patience,
    ) -> Result<NodeStatus, node::Error> {
        loop {
            let status = read(patience, async || api.node(&self.node).await).await?;
            let Left { bound, moving } = left(&status, force, |pod| self.pods.contains(&pod.name));
            match (moving.is_empty(), bound.is_empty()) {
                (true, true) => return Ok(status),
                (true, false) => {
                    let why = format!("bound to their data: {}; `{remedy}` moves them without it", names(&bound));
                    return Err(node::Error::Stays { node: self.node.clone(), why });
                }
                (false, _) => {
                    let (moving, all) = (names(&moving), self.pods.len());
                    patience.pause(&format!("of {all} instances these are still there: {moving}")).await?;
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
async fn known_nodes(api: &Api, from: &str, to: Option<&str>, patience: &mut Patience) -> Result<NodeName, api::Error> {
    let unknown =
        |name: &str| api::Error::NotFound(format!("no node is called {name:?}; `deployctl get nodes` lists them"));
    let nodes = first_read(patience, async || api.nodes().await).await?;
    for name in [Some(from), to].into_iter().flatten() {
        if !nodes.iter().any(|node| node.name == name) {
            return Err(unknown(name));
        }
    }
    from.parse().map_err(|_| unknown(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::server;
    use crate::commands::operate::tests::{GROUP, NODES, first_words, waiting};

    #[tokio::test]
    async fn a_drift_brings_every_flag() {
        let answers = [(202, NODES), (200, GROUP), (202, "{\"message\":\"ok\"}")];
        let (url, served) = server(&answers).await;
        let asked = args::Drift {
            from: "n1".to_owned(),
            to: Some("n2".to_owned()),
            group: Some("a.web.web".to_owned()),
            instance: Some(2),
            force: true,
            waiting: waiting(false),
        };
        drift(&Api::new(&[url]).unwrap(), &asked).await.unwrap();
        let expected = "PATCH /api/nodes?cmd=drift&from=n1&to=n2&pg=a.web.web&pg_instance=2&force=true";
        assert_eq!(first_words(served.await.unwrap())[2], expected);
    }
}
