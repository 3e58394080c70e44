//! The flags of what operators say of nodes: list, show, cordon, drain, label, remove.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use contract::name::NodeName;

use super::Output;

/// `deployctl node`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A cordoned node gets nothing new; what runs there stays and is restarted there. A drained one is cordoned and left by
everything that can run elsewhere. A removed one is forgotten; an agent that joins under its name is a new node.

Examples:
  deployctl node list
  deployctl node show node-1
  deployctl node cordon node-1 --why disk-swap
  deployctl node uncordon node-1
  deployctl node drain node-1 --why kernel-update --timeout 30m
  deployctl node label node-1 rack=3 old-
  deployctl node remove node-1")]
pub struct Node {
    /// What to do.
    #[command(subcommand)]
    pub what: NodeWhat,
}

/// What `node` does.
#[derive(Debug, Clone, Subcommand)]
pub enum NodeWhat {
    /// All nodes with their state, room and labels
    #[command(alias = "ls")]
    List {
        /// Form of the answer
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Everything about one node: who runs there, and what happened lately
    Show {
        /// Name of the node
        node: NodeName,
        /// Form of the answer
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Place nothing new on a node
    Cordon {
        /// Name of the node
        node: NodeName,
        /// Why, in your words; status and events say it
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    /// Place new work on a node again
    Uncordon {
        /// Name of the node
        node: NodeName,
    },
    /// Cordon a node and move what runs there elsewhere
    Drain(Drain),
    /// Set labels (key=value) of a node, or take them away (key-)
    Label {
        /// Name of the node
        node: NodeName,
        /// key=value sets a label, key- takes it away
        #[arg(required = true, value_parser = label, value_name = "KEY=VALUE|KEY-")]
        labels: Vec<Label>,
    },
    /// Forget a node that is gone
    Remove {
        /// Name of the node
        node: NodeName,
        /// Even though instances are placed there: it will not return, nor will the data they are bound to
        #[arg(long)]
        force: bool,
    },
}

/// `deployctl node drain`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
It waits until the node is empty and says what is left. Ctrl-C leaves the node cordoned, and what is under way goes on.
Instances that are bound to their data stay, unless forced: they start without it elsewhere.")]
pub struct Drain {
    /// Name of the node
    pub node: NodeName,
    /// Why, in your words; status and events say it
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Even instances that are bound to their data
    #[arg(long)]
    pub force: bool,
    /// Do not wait until the node is empty
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
    /// How long to wait
    #[arg(long, default_value = "10m", value_parser = fabric::duration::parse, value_name = "TIME")]
    pub timeout: Duration,
}

/// A label that is set, or taken away when it has no value.
pub type Label = (String, Option<String>);

/// Labels by their keys; of one that is named twice the last word counts.
pub fn labels(given: &[Label]) -> BTreeMap<String, Option<String>> {
    given.iter().cloned().collect()
}

fn label(text: &str) -> Result<Label, String> {
    let (key, value) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) => (key, Some(value.to_owned())),
        (None, Some(key)) => (key, None),
        (None, None) => return Err(format!("{text:?} is no label; write KEY=VALUE to set it, KEY- to take it away")),
    };
    if key.is_empty() { Err(format!("{text:?} has no key")) } else { Ok((key.to_owned(), value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_written_as_operators_know_them() {
        assert_eq!(label("rack=3"), Ok(("rack".to_owned(), Some("3".to_owned()))));
        assert_eq!(label("rack="), Ok(("rack".to_owned(), Some(String::new()))));
        assert_eq!(label("a=b-"), Ok(("a".to_owned(), Some("b-".to_owned()))));
        assert_eq!(label("rack-"), Ok(("rack".to_owned(), None)));
        for wrong in ["rack", "=3", "-", ""] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }
}
