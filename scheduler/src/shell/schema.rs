//! Checks the schema version of the stored state, and migrates an older state before this process leads.
//!
//! The migration runs under the guard of the election key, before the state is loaded. It first stores the version to which it
//! migrates, so that no older scheduler leads over a half-migrated state, and raises the version last. When it is interrupted, the
//! next leader starts it again (`migration`).

use contract::keys;
use contract::record::SchemaRecord;
use fabric::election::Guard;
use fabric::etcd::{self, CommitResult, Op, Store, Writer};

use crate::migration::{self, CURRENT, Schema};

/// Why this scheduler must not use the stored state.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "etcd holds schema version {found}, this scheduler understands up to {understood}: a newer deployd wrote it; \
         run that version or newer, or restore a backup of the older one"
    )]
    Newer { found: u32, understood: u32 },
    #[error("the schema record at {} in etcd cannot be read", keys::SCHEMA)]
    Unreadable(#[source] serde_json::Error),
    #[error(
        "etcd holds schema version {found}, from which this scheduler cannot migrate; run a deployd version in between first"
    )]
    NoMigration { found: u32 },
    #[error("another scheduler leads now and migrates the schema")]
    Deposed,
    #[error("etcd refuses a record: {reason}")]
    Invalid { reason: String },
    #[error("cannot read or write the schema version")]
    Store(#[source] etcd::Error),
}

/// Checks that this scheduler understands the stored state. Writes nothing.
pub(crate) async fn check(store: &Store) -> Result<(), Error> {
    let value = store.get(keys::SCHEMA).await.map_err(Error::Store)?;
    check_version(value.as_deref(), &CURRENT).map(drop)
}

/// The version in a stored schema record; `None` for an empty store.
pub(crate) fn check_version(value: Option<&[u8]>, schema: &Schema) -> Result<Option<u32>, Error> {
    let Some(value) = value else { return Ok(None) };
    let record: SchemaRecord = serde_json::from_slice(value).map_err(Error::Unreadable)?;
    // An interrupted migration has converted a part of the state already.
    let found = record.version.max(record.migrating_to.unwrap_or(0));
    match found > schema.version {
        true => Err(Error::Newer { found, understood: schema.version }),
        false => Ok(Some(record.version)),
    }
}

/// Migrates the stored state to `schema`; writes nothing when it has that version. `guard` proves that this process leads.
pub async fn prepare(store: &Store, guard: &Guard, name: &str, schema: &Schema) -> Result<(), Error> {
    let mut migrator = Migrator { store, writer: Writer::new(store.clone(), guard.clone(), name) };
    let value = store.get(keys::SCHEMA).await.map_err(Error::Store)?;
    let mut version = match check_version(value.as_deref(), schema)? {
        Some(version) => version,
        None => return migrator.record(SchemaRecord { version: schema.version, migrating_to: None }).await,
    };
    while version < schema.version {
        migrator.migrate(version, schema).await?;
        version += 1;
    }
    Ok(())
}

struct Migrator<'a> {
    store: &'a Store,
    writer: Writer,
}

impl Migrator<'_> {
    /// Migrates from `version` to the next one.
    async fn migrate(&mut self, version: u32, schema: &Schema) -> Result<(), Error> {
        let found = schema.migrations.iter().find(|migration| migration.from == version);
        let migration = found.ok_or(Error::NoMigration { found: version })?;
        let to = version + 1;
        self.record(SchemaRecord { version, migrating_to: Some(to) }).await?;
        let pairs = self.store.list(keys::STATE).await.map_err(Error::Store)?.pairs;
        let transactions = migration::transactions(migration, &pairs);
        let (records, all) = (pairs.len(), transactions.len());
        tracing::info!(from = version, to, records, transactions = all, "migrating the stored state");
        for (done, transaction) in transactions.iter().enumerate() {
            self.commit(transaction).await?;
            tracing::info!(to, done = done + 1, of = all, "committed a part of the migration");
        }
        self.record(SchemaRecord { version: to, migrating_to: None }).await?;
        tracing::info!(version = to, "migrated the stored state");
        Ok(())
    }

    async fn record(&mut self, record: SchemaRecord) -> Result<(), Error> {
        let value = serde_json::to_vec(&record).map_err(Error::Unreadable)?;
        self.commit(&[Op::Put { key: keys::SCHEMA.to_owned(), value, lease: None }]).await
    }

    async fn commit(&mut self, ops: &[Op]) -> Result<(), Error> {
        match self.writer.commit(ops).await.map_err(Error::Store)? {
            CommitResult::Stored => Ok(()),
            CommitResult::Fenced | CommitResult::WentBack => Err(Error::Deposed),
            CommitResult::Invalid { reason } => Err(Error::Invalid { reason }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_is_refused_also_in_the_middle_of_its_migration() {
        let schema = Schema { version: 2, migrations: &[] };
        let checked = |text: &str| check_version(Some(text.as_bytes()), &schema).map_err(|error| error.to_string());
        assert_eq!(check_version(None, &schema).unwrap(), None);
        assert_eq!(checked(r#"{"version":1}"#), Ok(Some(1)));
        assert_eq!(checked(r#"{"version":1,"migrating_to":2}"#), Ok(Some(1)));
        for newer in [r#"{"version":3}"#, r#"{"version":2,"migrating_to":3}"#] {
            assert!(
                checked(newer)
                    .unwrap_err()
                    .starts_with("etcd holds schema version 3, this scheduler understands up to 2")
            );
        }
        assert!(checked("[]").unwrap_err().contains("/deployd/schema"));
    }
}
