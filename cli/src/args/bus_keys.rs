//! The flags of `bus-keys`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use contract::bus::{Identity, Member};
use contract::name::NodeName;

/// `deployctl bus-keys`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Writes to the folder, for each process and only where a file is missing:
  bus/KIND.NAME      its key for NATS (--nats-credentials-file)
  orders/SCHEDULER   the key that a scheduler signs orders with (--order-key-file)
  orders.pub         the public keys of the schedulers, for every agent and scheduler (--order-keys-file)
  nats-accounts.conf accounts, users and permissions for the NATS servers; it holds no secret
  nats-agents.conf   the users of agents, which nats-accounts.conf includes; schedulers add the nodes that join with a token
                     (--bus-agents-file)
Include nats-accounts.conf in the configuration of every NATS server, with nats-agents.conf in the same folder, and reload it: \
`include nats-accounts.conf`, `nats-server --signal reload`. Processes that have a key in the folder keep their access; --remove ends it.

Examples:
  deployctl bus-keys keys --scheduler s1,s2,s3 --apiserver a1,a2 --agent node-1,node-2
  deployctl bus-keys keys --agent node-3
  deployctl bus-keys keys --remove agent.node-2")]
pub struct BusKeys {
    /// Folder of the keys; only its owner may read it
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Names of the schedulers, comma separated
    #[arg(long = "scheduler", value_name = "NAME", value_delimiter = ',')]
    pub schedulers: Vec<NodeName>,
    /// Names of the apiservers
    #[arg(long = "apiserver", value_name = "NAME", value_delimiter = ',')]
    pub apiservers: Vec<NodeName>,
    /// Names of the notifiers
    #[arg(long = "notifier", value_name = "NAME", value_delimiter = ',')]
    pub notifiers: Vec<NodeName>,
    /// Names of the nodes
    #[arg(long = "agent", value_name = "NODE", value_delimiter = ',')]
    pub agents: Vec<NodeName>,
    /// Processes whose keys to remove, as KIND.NAME
    #[arg(long = "remove", value_name = "KIND.NAME", value_delimiter = ',', value_parser = user)]
    pub removed: Vec<Identity>,
}

fn user(text: &str) -> Result<Identity, String> {
    let kinds = Member::ALL.map(Member::word).join(", ");
    Identity::of_user(text).ok_or_else(|| format!("{text:?} is not KIND.NAME, with a KIND of {kinds}"))
}

impl BusKeys {
    pub fn identities(&self) -> Vec<Identity> {
        let of = |member: Member, names: &[NodeName]| -> Vec<Identity> {
            names.iter().map(|name| Identity { member, name: name.clone() }).collect()
        };
        [
            of(Member::Scheduler, &self.schedulers),
            of(Member::Apiserver, &self.apiservers),
            of(Member::Notifier, &self.notifiers),
            of(Member::Agent, &self.agents),
        ]
        .concat()
    }
}
