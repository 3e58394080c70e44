//! `node`: shows, cordons, drains, labels and removes nodes.

mod drain;
mod join_token;
pub(crate) mod remaining;

use std::time::Duration;

use contract::name::NodeName;

use crate::api::{self, Api, Retry};
use crate::args::{NodeWhat, labels};
use crate::commands::{confirm, get, token, wait};
use crate::output::{self, list, show};

const RETRY_FOR: Duration = Duration::from_secs(30);
/// Events of a node that are shown.
const EVENTS: &str = "10";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error(transparent)]
    Token(#[from] token::Error),
    #[error(transparent)]
    Unconfirmed(#[from] confirm::Unconfirmed),
    #[error("--labels: {0:?} sets no label; write KEY=VALUE")]
    Label(String),
    #[error(
        "interrupted; {node} stays cordoned and the drain continues; `deployctl node drain {node}` waits again, \
         `deployctl node uncordon {node}` uncordons it"
    )]
    Interrupted { node: NodeName },
    /// Instances stay; `why` names them, the reasons and the remedy.
    #[error("{node} is not empty: {why}")]
    Stays { node: NodeName, why: String },
}

/// `deployctl node`
pub async fn node(api: &Api, what: &NodeWhat) -> Result<(), Error> {
    match what {
        NodeWhat::List { selector, listing } => {
            let read = async || Ok(output::node::list(&get::nodes(api, None, selector.as_ref()).await?));
            list::show(*listing, read).await?;
        }
        NodeWhat::Show { node, output } => {
            let status = api.node(node).await?;
            // Events only explain; the node is shown without them if they cannot be read.
            let events = api.events(&[("node", node.as_str()), ("limit", EVENTS)]).await.unwrap_or_default();
            show(*output, &status, || output::node::page(&status, &events));
        }
        NodeWhat::Cordon { node, why } => {
            let with: Vec<(&'static str, &str)> = why.iter().map(|why| ("why", why.as_str())).collect();
            api.change_node(node, "cordon", &with, &mut retry()).await?;
            println!("{node} is cordoned: no new instances until `deployctl node uncordon {node}`");
        }
        NodeWhat::Uncordon { node } => {
            api.change_node(node, "uncordon", &[], &mut retry()).await?;
            println!("{node} is uncordoned");
        }
        NodeWhat::Approve { node } => {
            api.change_node(node, "approve", &[], &mut retry()).await?;
            println!("{node} is approved: it gets orders with its next report");
        }
        NodeWhat::Drain(asked) => drain::drain(api, asked).await?,
        NodeWhat::Label { node, labels: given } => {
            api.label_node(node, &labels(given), &mut retry()).await?;
            println!("{node}: {}", output::node::labels(&api.node(node).await?.node.labels));
        }
        NodeWhat::Token(asked) => join_token::token(api, &asked.what).await?,
        NodeWhat::Remove { node, force } => remove(api, node, *force).await?,
    }
    Ok(())
}

/// With force the instances move first; without, the node is empty and removed immediately.
async fn remove(api: &Api, node: &NodeName, force: bool) -> Result<(), Error> {
    api.remove_node(node, force, &mut retry()).await?;
    match wait::read(&mut retry(), async || api.node(node).await).await {
        Err(api::Error::NoNode(_)) => println!("{node} is removed"),
        Ok(status) => {
            println!("{node} is being removed after {} instances have moved", status.pods.len());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn retry() -> Retry {
    Retry::for_span(RETRY_FOR, |_| {})
}
