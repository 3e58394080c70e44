//! `deployctl bus-keys`: the keys and the NATS accounts of a cluster that runs on several machines.

use devcluster::keys::Keys;

use crate::Error;
use crate::args::BusKeys;

const ACCOUNTS: &str = "nats-accounts.conf";

pub fn bus_keys(asked: &BusKeys) -> Result<(), Error> {
    let keys = Keys::in_folder(&asked.folder);
    let schedulers: Vec<String> = asked.schedulers.iter().map(ToString::to_string).collect();
    let users = keys.ensure(&asked.identities(), &schedulers)?;
    let accounts = asked.folder.join(ACCOUNTS);
    let text = fabric::bus_accounts::config(&users);
    std::fs::write(&accounts, text).map_err(|source| devcluster::Error::Prepare { path: accounts.clone(), source })?;
    println!("{} users in {}", users.len(), accounts.display());
    println!("keys in {}; copy each to its machine, and orders.pub to every node", asked.folder.display());
    Ok(())
}
