//! Writes the keys of the nodes that joined into the configuration of NATS, and lets the servers read it again.
//!
//! The leader and standbys do the same, because each may have the file of another server. They write what etcd holds, so nothing
//! that is not committed. The file is compared every few seconds: a file that an operator replaced, and a reload that failed, are repaired.
//! NATS closes the connection of an agent whose key is gone and refuses the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::access::join::NodeKeyRecord;
use contract::bus::{Identity, Member};
use contract::keys::{self, Key};
use contract::name::NodeName;
use contract::store::StoreRecord;
use fabric::bus_accounts::{self, User};
use fabric::etcd::{Change, Store};
use fabric::nats::Bus;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::AsyncWriteExt as _;

/// Nodes that join together are written together.
const SETTLE: Duration = Duration::from_millis(200);
/// How often the file is compared.
const COMPARE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot use the file of --bus-agents-file")]
    File(#[source] std::io::Error),
    #[error("the file of --bus-agents-file is not what `deployctl bus-keys` writes")]
    Malformed,
    #[error("cannot read the name of the store")]
    Store(#[source] fabric::etcd::Error),
    #[error(
        "the file holds nodes of another store and the present store has none: it stays, until `deployctl restore` or a node joins"
    )]
    ForeignStore,
    #[error(
        "the NATS servers did not read it; accounts of an older version must be written again (deployctl bus-keys)"
    )]
    Reload(#[source] fabric::nats::Error),
}

/// Keeps the file up to date until the process ends.
pub(crate) async fn keep(file: PathBuf, bus: Bus, store: Store, pending: Gauge) {
    let mut changes = store.watch(keys::NODE_KEYS);
    let mut nodes = BTreeMap::new();
    // Nothing is written before everything was read.
    let mut is_read = false;
    let mut written = Written { file, reloaded: BTreeSet::new() };
    let mut last_problem = String::new();
    loop {
        match tokio::time::timeout(COMPARE, changes.recv()).await {
            Ok(None) => return,
            Ok(Some(change)) => {
                fold(&mut nodes, change);
                is_read = true;
                tokio::time::sleep(SETTLE).await;
                while let Ok(more) = changes.try_recv() {
                    fold(&mut nodes, more);
                }
            }
            Err(_) => {}
        }
        if !is_read {
            continue;
        }
        let problem = written.update(&nodes, &bus, &store).await.err();
        let text = problem.as_ref().map(described).unwrap_or_default();
        pending.set(i64::from(problem.is_some()));
        if text != last_problem {
            match &problem {
                Some(_) => {
                    tracing::warn!(reason = text, "nodes that joined or were removed are not in effect on NATS yet")
                }
                None => tracing::info!("nodes that joined or were removed are in effect on NATS again"),
            }
            last_problem = text;
        }
    }
}

fn described(error: &Error) -> String {
    let cause = std::error::Error::source(error);
    let causes = std::iter::successors(cause, |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn fold(nodes: &mut BTreeMap<NodeName, String>, change: Change) {
    let mut put = |key: String, value: Option<Vec<u8>>| {
        let Key::NodeKey(node) = keys::parse(&key) else { return };
        // A record that cannot be read lets no agent in.
        match value.and_then(|value| serde_json::from_slice::<NodeKeyRecord>(&value).ok()) {
            Some(record) => drop(nodes.insert(node, record.key)),
            None => drop(nodes.remove(&node)),
        }
    };
    match change {
        Change::Put(key, value) => put(key, Some(value)),
        Change::Delete(key) => put(key, None),
        Change::Reset(pairs) => {
            nodes.clear();
            let mut put = |key: String, value: Vec<u8>| fold(nodes, Change::Put(key, value));
            pairs.into_iter().for_each(|(key, value)| put(key, value));
        }
    }
}

/// The file, and the servers that read it since it changed.
struct Written {
    file: PathBuf,
    reloaded: BTreeSet<String>,
}

impl Written {
    async fn update(&mut self, nodes: &BTreeMap<NodeName, String>, bus: &Bus, store: &Store) -> Result<(), Error> {
        let text = tokio::fs::read_to_string(&self.file).await.map_err(Error::File)?;
        // A new store has no name before its first leader.
        let Some(names) = stores(store).await? else { return Ok(()) };
        let accounts = beside(&self.file).await.map_err(Error::File)?;
        let wanted = wanted((&text, &accounts), &names, nodes)?;
        if wanted != text {
            replace(&self.file, &wanted).await.map_err(Error::File)?;
            self.reloaded.clear();
        }
        if bus.reload_servers(&mut self.reloaded).await.map_err(Error::Reload)? {
            let servers = self.reloaded.len();
            tracing::info!(nodes = nodes.len(), servers, "NATS knows the keys of the nodes that joined");
        }
        Ok(())
    }
}

/// The file with these nodes. An empty store does not cut off the nodes of a lost one: they work until it is restored.
fn wanted(
    (text, accounts): (&str, &str),
    names: &[String],
    nodes: &BTreeMap<NodeName, String>,
) -> Result<String, Error> {
    let is_foreign = bus_accounts::store_of(text).is_some_and(|name| !names.iter().any(|own| own == name));
    if is_foreign && nodes.is_empty() {
        return Err(Error::ForeignStore);
    }
    let name = names.last().map_or("", String::as_str);
    bus_accounts::with_joined(text, accounts, (name, &users(nodes))).ok_or(Error::Malformed)
}

/// The names of the store; none before it has one.
async fn stores(store: &Store) -> Result<Option<Vec<String>>, Error> {
    let value = store.get(keys::STORE).await.map_err(Error::Store)?;
    let record = value.and_then(|value| serde_json::from_slice::<StoreRecord>(&value).ok());
    Ok(record.map(|record| record.stores.into_iter().collect()))
}

fn users(nodes: &BTreeMap<NodeName, String>) -> Vec<User> {
    let user = |(node, key): (&NodeName, &String)| User {
        identity: Identity { member: Member::Agent, name: node.clone() },
        public_key: key.clone(),
    };
    nodes.iter().map(user).collect()
}

/// The other configuration files of the folder: the accounts, with the users of operators.
async fn beside(file: &Path) -> std::io::Result<String> {
    let Some(folder) = file.parent() else { return Ok(String::new()) };
    let (mut entries, mut text) = (tokio::fs::read_dir(folder).await?, String::new());
    while let Some(entry) = entries.next_entry().await? {
        let path = entry.path();
        if path != file && path.extension().is_some_and(|extension| extension == "conf") {
            text.push_str(&tokio::fs::read_to_string(&path).await.unwrap_or_default());
        }
    }
    Ok(text)
}

/// By rename: a server that reads it meanwhile sees the old text or the new one. The new file has the rights of the old one, because
/// the server runs as another user.
async fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let rights = tokio::fs::metadata(file).await?.permissions();
    let mut new = file.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let mut written = tokio::fs::File::create(&new).await?;
    written.write_all(text.as_bytes()).await?;
    // A server would start with an empty file, without any agent.
    written.sync_all().await?;
    tokio::fs::set_permissions(&new, rights).await?;
    tokio::fs::rename(&new, file).await
}

#[cfg(test)]
mod tests {
    use contract::time::Timestamp;

    use super::*;

    fn put(name: &str, key: &str) -> (String, Vec<u8>) {
        let labels = BTreeMap::new();
        let record = NodeKeyRecord { key: key.to_owned(), labels, token: String::new(), at: Timestamp::NEVER };
        (keys::node_key(&name.parse().unwrap()), serde_json::to_vec(&record).unwrap())
    }

    #[test]
    fn the_keys_follow_the_store_and_an_unreadable_one_lets_no_agent_in() {
        let mut nodes = BTreeMap::new();
        fold(&mut nodes, Change::Reset(vec![put("a", "UA"), put("b", "UB")]));
        fold(&mut nodes, Change::Put(put("a", "UC").0, put("a", "UC").1));
        fold(&mut nodes, Change::Delete(put("b", "").0));
        let keys: Vec<String> = users(&nodes).into_iter().map(|user| user.public_key).collect();
        assert_eq!(keys, ["UC"]);
        fold(&mut nodes, Change::Put(put("a", "").0, b"?".to_vec()));
        assert!(nodes.is_empty());
    }

    #[test]
    fn an_empty_store_leaves_the_nodes_of_a_lost_one_and_a_restored_one_has_them_again() {
        let (_, file) = bus_accounts::config_with_agents_file(&[]);
        let key = bus_accounts::generate_key().1;
        let nodes = BTreeMap::from([("a".parse().unwrap(), key.clone())]);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let before = wanted((&file, ""), &names(&["1"]), &nodes).unwrap();
        assert!(before.contains(&key));
        let empty = BTreeMap::new();
        assert!(matches!(wanted((&before, ""), &names(&["2"]), &empty), Err(Error::ForeignStore)));
        assert!(wanted((&before, ""), &names(&["1", "2"]), &nodes).unwrap().contains(&key), "restored");
        assert!(!wanted((&before, ""), &names(&["1"]), &empty).unwrap().contains(&key), "the last node was removed");
        assert!(matches!(wanted(("users: []", ""), &names(&["1"]), &nodes), Err(Error::Malformed)));
    }
}
