//! `node`: shows nodes, and says what operators want of them.

mod drain;
pub(crate) mod leaving;

use std::time::Duration;

use contract::name::NodeName;

use crate::api::{self, Api, Patience};
use crate::args::{NodeWhat, labels};
use crate::commands::wait;
use crate::output::{self, show};

/// How long to try; what is said of a node is in effect at once or not at all.
const PATIENCE: Duration = Duration::from_secs(30);
/// Events of a node that are shown.
const EVENTS: &str = "10";

/// Why a command about a node failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API.
    #[error(transparent)]
    Api(#[from] api::Error),
    /// Somebody does not want to wait any longer.
    #[error(
        "nobody waits any longer: {node} stays cordoned and what is under way goes on; \
         `deployctl node drain {node}` waits again, `deployctl node uncordon {node}` takes it back"
    )]
    Interrupted {
        /// Which node.
        node: NodeName,
    },
    /// Something does not leave.
    #[error("{node} is not empty: {why}")]
    Stays {
        /// Which node.
        node: NodeName,
        /// Who stays, why, and what would help.
        why: String,
    },
}

/// `deployctl node`
pub async fn node(api: &Api, what: &NodeWhat) -> Result<(), Error> {
    match what {
        NodeWhat::List { output } => {
            let nodes = api.nodes().await?;
            show(*output, &nodes, || if nodes.is_empty() { "no nodes".to_owned() } else { output::node::list(&nodes) });
        }
        NodeWhat::Show { node, output } => {
            let status = api.node(node).await?;
            // What happened is an explanation: a cluster whose events cannot be read still has nodes.
            let events = api.events(&[("node", node.as_str()), ("limit", EVENTS)]).await.unwrap_or_default();
            show(*output, &status, || output::node::page(&status, &events));
        }
        NodeWhat::Cordon { node, why } => {
            let with: Vec<(&'static str, &str)> = why.iter().map(|why| ("why", why.as_str())).collect();
            api.change_node(node, "cordon", &with, &mut patience()).await?;
            println!("{node} is cordoned: nothing new is placed there until `deployctl node uncordon {node}`");
        }
        NodeWhat::Uncordon { node } => {
            api.change_node(node, "uncordon", &[], &mut patience()).await?;
            println!("{node} may get new work");
        }
        NodeWhat::Drain(asked) => drain::drain(api, asked).await?,
        NodeWhat::Label { node, labels: given } => {
            api.label_node(node, &labels(given), &mut patience()).await?;
            println!("{node}: {}", output::node::labels(&api.node(node).await?.node.labels));
        }
        NodeWhat::Remove { node, force } => remove(api, node, *force).await?,
    }
    Ok(())
}

/// With force instances must find another place first; without, the node is empty and gone at once.
async fn remove(api: &Api, node: &NodeName, force: bool) -> Result<(), Error> {
    api.remove_node(node, force, &mut patience()).await?;
    match wait::read(&mut patience(), async || api.node(node).await).await {
        Err(api::Error::NotFound(_)) => println!("{node} is removed"),
        Ok(status) => {
            println!("{node} is being removed: {} instances look for another place first", status.pods.len());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn patience() -> Patience {
    Patience::for_span(PATIENCE, |_| {})
}
