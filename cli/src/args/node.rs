//! The flags of `node`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use contract::name::NodeName;

use super::{Listing, Output, Selector};

/// `deployctl node`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A cordoned node gets no new instances; its instances keep running and restart there. Draining a node cordons it and moves its \
instances elsewhere. Removing a node deletes it and ends the access of its agent, if it joined with a token; an agent that joins \
under its name is a new node.

Examples:
  deployctl node list --selector zone=a --watch
  deployctl node show node-1
  deployctl node cordon node-1 --why disk-swap
  deployctl node uncordon node-1
  deployctl node drain node-1 --why kernel-update --timeout 30m
  deployctl node label node-1 rack=3 old-
  deployctl node remove node-1
  deployctl node token create --names 'rack-3-*' --uses 20 --output join.token")]
pub struct Node {
    #[command(subcommand)]
    pub what: NodeWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum NodeWhat {
    /// List nodes with state, resources and labels
    #[command(alias = "ls")]
    List {
        /// Only nodes whose labels match, such as zone=a,disk!=hdd
        #[arg(long, short = 'l', value_name = "LABELS")]
        selector: Option<Selector>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Show one node with its instances and recent events
    Show {
        /// Name of the node
        node: NodeName,
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Stop placing instances on a node
    Cordon {
        /// Name of the node
        node: NodeName,
        /// Reason; `node show` and events show it
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    /// Place instances on a node again
    Uncordon {
        /// Name of the node
        node: NodeName,
    },
    /// Accept a node that waits for approval (`pending` in `node list`)
    Approve {
        /// Name of the node
        node: NodeName,
    },
    /// Cordon a node and move its instances elsewhere
    Drain(Drain),
    /// Set (key=value) or remove (key-) labels of a node
    Label {
        /// Name of the node
        node: NodeName,
        /// key=value sets a label, key- removes it
        #[arg(required = true, value_parser = label, value_name = "KEY=VALUE|KEY-")]
        labels: Vec<Label>,
    },
    /// Create, list and revoke tokens with which nodes join
    Token(JoinTokenArgs),
    /// Remove a node, and end the access of its agent if it joined with a token
    Remove {
        /// Name of the node
        node: NodeName,
        /// Also remove a node with instances: they move, and their local data is lost
        #[arg(long)]
        force: bool,
    },
}

/// `deployctl node token`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A node joins with a token (`deployd-agent join`, or `deploy/install-agent --join`): it makes a key of its own, and NATS lets its agent \
in. The token names the cluster's CA, which nodes may join, their labels, and how many may join until when. It is shown once.

Examples:
  deployctl node token create --names 'rack-3-*' --labels unit=cell-a --uses 20 --ttl 1h --output join.token
  deployctl node token create --names node-7 --replace
  deployctl node token list
  deployctl node token revoke 0001020304050607")]
pub struct JoinTokenArgs {
    #[command(subcommand)]
    pub what: JoinTokenWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum JoinTokenWhat {
    /// Create a join token and print it
    Create(NewJoinToken),
    /// List all join tokens, without their secrets
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        listing: Listing,
    },
    /// End a join token; nodes that joined with it stay
    Revoke {
        /// Id of the token, as `deployctl node token list` shows it
        id: String,
    },
}

#[derive(Debug, Clone, ClapArgs)]
pub struct NewJoinToken {
    /// Which nodes may join: a name, or a beginning with `*` such as 'rack-3-*'
    #[arg(long, value_name = "NAMES", default_value = "*")]
    pub names: String,
    /// Labels that the nodes get, as KEY=VALUE, comma separated
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    pub labels: Vec<Label>,
    /// How many nodes may join
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub uses: u32,
    /// How long the token is valid, such as 1h or 7d; at most 30d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = super::access::days)]
    pub ttl: Duration,
    /// Also let a node join whose name is known with another key: the present agent of that name loses its access. That of a
    /// node of `deployctl bus-keys` does not: remove its key first (deployctl bus-keys DIR --remove agent.NAME)
    #[arg(long)]
    pub replace: bool,
    /// Write the token to a new file that only you can read, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `deployctl node drain`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Cordons the node and moves its instances elsewhere; `deployctl node uncordon` ends that. (`deployctl drift` moves without a \
cordon; `deployctl evacuate` sets a constraint instead of a cordon and moves instances with local data too.)
deployctl waits until the node is empty and shows which instances are left. After Ctrl-C the node stays cordoned and the drain \
continues. Instances with local data stay unless --force moves them without it.")]
pub struct Drain {
    /// Name of the node
    pub node: NodeName,
    /// Reason; `node show` and events show it
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Also move instances with local data (data is lost)
    #[arg(long)]
    pub force: bool,
    /// Do not wait until the node is empty
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
    /// How long to wait
    #[arg(long, default_value = "10m", value_parser = fabric::duration::parse, value_name = "TIME")]
    pub timeout: Duration,
}

/// A label to set, or to remove when it has no value.
pub type Label = (String, Option<String>);

/// Labels by key; the last of several values of one key counts.
pub fn labels(given: &[Label]) -> BTreeMap<String, Option<String>> {
    given.iter().cloned().collect()
}

fn label(text: &str) -> Result<Label, String> {
    let (key, value) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) => (key, Some(value.to_owned())),
        (None, Some(key)) => (key, None),
        (None, None) => return Err(format!("{text:?} is not a label; write KEY=VALUE to set it, KEY- to remove it")),
    };
    if key.is_empty() { Err(format!("{text:?} has no key")) } else { Ok((key.to_owned(), value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_use_the_syntax_of_kubectl() {
        assert_eq!(label("rack=3"), Ok(("rack".to_owned(), Some("3".to_owned()))));
        assert_eq!(label("rack="), Ok(("rack".to_owned(), Some(String::new()))));
        assert_eq!(label("a=b-"), Ok(("a".to_owned(), Some("b-".to_owned()))));
        assert_eq!(label("rack-"), Ok(("rack".to_owned(), None)));
        for wrong in ["rack", "=3", "-", ""] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }
}
