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
  orders.pub         the public keys of the schedulers, for every agent (--order-keys-file)
  nats-accounts.conf accounts, users and permissions for the NATS servers; it holds no secret
Include the last file in the configuration of every NATS server and reload it: `include nats-accounts.conf`,
`nats-server --signal reload`. Name all processes each time: users that are not named lose their access.

Examples:
  deployctl bus-keys /etc/deployd/keys --scheduler s1,s2,s3 --apiserver a1,a2 --notifier n1 --agent node-1,node-2")]
pub struct BusKeys {
    /// Folder of the keys; only its owner may read it
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Names of the schedulers, comma separated
    #[arg(long = "scheduler", value_name = "NAME", value_delimiter = ',', required = true)]
    pub schedulers: Vec<NodeName>,
    /// Names of the apiservers
    #[arg(long = "apiserver", value_name = "NAME", value_delimiter = ',', required = true)]
    pub apiservers: Vec<NodeName>,
    /// Names of the notifiers
    #[arg(long = "notifier", value_name = "NAME", value_delimiter = ',')]
    pub notifiers: Vec<NodeName>,
    /// Names of the nodes
    #[arg(long = "agent", value_name = "NODE", value_delimiter = ',')]
    pub agents: Vec<NodeName>,
}

impl BusKeys {
    pub fn identities(&self) -> Vec<Identity> {
        let of = |member: Member, names: &[NodeName]| -> Vec<Identity> {
            names.iter().map(|name| Identity { member, name: name.clone() }).collect()
        };
        let mut all = [
            of(Member::Scheduler, &self.schedulers),
            of(Member::Apiserver, &self.apiservers),
            of(Member::Notifier, &self.notifiers),
            of(Member::Agent, &self.agents),
        ]
        .concat();
        all.sort();
        all.dedup();
        all
    }
}
