//! Is what is stored written in a shape this build understands?

use contract::keys;
use contract::record::{SCHEMA_VERSION, SchemaRecord};
use fabric::etcd::{self, Op, Store};

/// Why this build must not touch what is stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A newer build wrote it.
    #[error(
        "etcd holds schema version {found}, this scheduler understands up to {SCHEMA_VERSION}: \
         a newer deployd wrote it; run that version or newer"
    )]
    Newer {
        /// The version found.
        found: u32,
    },
    /// It is no schema record.
    #[error("the schema record at {} in etcd cannot be read", keys::SCHEMA)]
    Unreadable(#[source] serde_json::Error),
    /// etcd.
    #[error("cannot check the schema version")]
    Store(#[source] etcd::Error),
}

/// Checks the version, and writes it where there is none yet.
pub(crate) async fn check(store: &Store) -> Result<(), Error> {
    let Some(value) = store.get(keys::SCHEMA).await.map_err(Error::Store)? else {
        let record = SchemaRecord { version: SCHEMA_VERSION };
        let value = serde_json::to_vec(&record).map_err(Error::Unreadable)?;
        let put = Op::Put { key: keys::SCHEMA.to_owned(), value, lease: None };
        // Two first schedulers write the same value.
        store.commit(None, &[put]).await.map_err(Error::Store)?;
        return Ok(());
    };
    let record: SchemaRecord = serde_json::from_slice(&value).map_err(Error::Unreadable)?;
    if record.version > SCHEMA_VERSION {
        return Err(Error::Newer { found: record.version });
    }
    Ok(())
}
