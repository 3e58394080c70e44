//! `deployctl bus-keys`: the keys and the NATS accounts of a cluster that runs on several machines.

use std::collections::BTreeSet;

use contract::bus::{Identity, Member};
use devcluster::keys::Keys;
use fabric::bus_accounts;

use crate::Error;
use crate::args::BusKeys;

const ACCOUNTS: &str = "nats-accounts.conf";

pub fn bus_keys(asked: &BusKeys) -> Result<(), Error> {
    let keys = Keys::in_folder(&asked.folder);
    for identity in &asked.removed {
        keys.remove(identity)?;
    }
    let identities: BTreeSet<Identity> = keys.known().into_iter().chain(asked.identities()).collect();
    let identities: Vec<Identity> = identities.into_iter().collect();
    let of_schedulers = identities.iter().filter(|identity| identity.member == Member::Scheduler);
    let schedulers: Vec<String> = of_schedulers.map(|identity| identity.name.to_string()).collect();
    let users = keys.ensure(&identities, &schedulers)?;
    let (accounts, agents) = bus_accounts::config_with_agents_file(&users);
    for (name, text) in [(bus_accounts::AGENTS_FILE, agents), (ACCOUNTS, accounts)] {
        let path = asked.folder.join(name);
        std::fs::write(&path, text).map_err(|source| devcluster::Error::Prepare { path, source })?;
    }
    println!("{} users in {} and {}", users.len(), asked.folder.join(ACCOUNTS).display(), bus_accounts::AGENTS_FILE);
    println!("keys in {}; copy each to its machine, and orders.pub to every node", asked.folder.display());
    Ok(())
}
