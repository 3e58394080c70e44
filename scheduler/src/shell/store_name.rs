//! Gives etcd a store name when it has none: a new store, a wiped one, or one from before stores had names.

use contract::keys;
use contract::store::StoreRecord;
use fabric::election::Guard;
use fabric::etcd::{CommitResult, Op, Store, Writer};

use super::schema::Error;

/// Names the store if it has no name. `guard` proves that this process leads.
pub(super) async fn ensure(store: &Store, guard: &Guard, leader: &str) -> Result<(), Error> {
    if store.get(keys::STORE).await.map_err(Error::Store)?.is_some() {
        return Ok(());
    }
    let name = ulid::Ulid::generate().to_string();
    tracing::info!(name, "named the store");
    let record = StoreRecord { stores: [name].into(), ..StoreRecord::default() };
    let value = serde_json::to_vec(&record).map_err(Error::Unreadable)?;
    let put = Op::Put { key: keys::STORE.to_owned(), value, lease: None };
    // Only the leader names the store. When the result of the commit is unknown, the caller retries and reads the name again.
    match Writer::new(store.clone(), guard.clone(), leader).commit(&[put]).await.map_err(Error::Store)? {
        CommitResult::Stored => Ok(()),
        CommitResult::Fenced | CommitResult::WentBack => Err(Error::Deposed),
        CommitResult::Invalid { reason } => Err(Error::Invalid { reason }),
    }
}

/// The stored record. The core refuses to lead when it cannot read this record, so the default here has no effect.
pub(super) fn read(stored: &[(String, Vec<u8>)]) -> StoreRecord {
    let value = stored.iter().find(|(key, _)| key == keys::STORE).map(|(_, value)| value);
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}
