//! Gives a store its name when it has none: a fresh one, one that was wiped, or one from before stores had names.

use contract::keys;
use contract::store::StoreRecord;
use fabric::election::Guard;
use fabric::etcd::{CommitResult, Op, Store, Writer};

use super::schema::Error;

/// Sees to it that the store has a name, as the leader that `guard` proves.
pub(super) async fn ensure(store: &Store, guard: &Guard, leader: &str) -> Result<(), Error> {
    if store.get(keys::STORE).await.map_err(Error::Store)?.is_some() {
        return Ok(());
    }
    let name = ulid::Ulid::generate().to_string();
    tracing::info!(name, "the store gets a name");
    let record = StoreRecord { stores: [name].into(), ..StoreRecord::default() };
    let value = serde_json::to_vec(&record).map_err(Error::Unreadable)?;
    let put = Op::Put { key: keys::STORE.to_owned(), value, lease: None };
    // Only one leads: nobody else names it meanwhile, and whoever cannot know whether it is stored looks again.
    match Writer::new(store.clone(), guard.clone(), leader).commit(&[put]).await.map_err(Error::Store)? {
        CommitResult::Stored => Ok(()),
        CommitResult::Fenced | CommitResult::WentBack => Err(Error::Deposed),
        CommitResult::Invalid { reason } => Err(Error::Invalid { reason }),
    }
}

/// Which store this is, as stored; the core does not lead over a record it cannot read.
pub(super) fn read(stored: &[(String, Vec<u8>)]) -> StoreRecord {
    let value = stored.iter().find(|(key, _)| key == keys::STORE).map(|(_, value)| value);
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}
