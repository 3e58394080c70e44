//! Is what is stored written in a shape this build understands? If it is an older one, the leader-to-be makes it ours.
//!
//! The migration runs under the guard of the election key, before anything is loaded. First the record says what it is being
//! migrated to, so that no older scheduler leads over half of it; the version is raised last. Cut off in between, the next leader
//! begins it again, and its steps leave alone what is made already (`migration`).

use contract::keys;
use contract::record::SchemaRecord;
use fabric::election::Guard;
use fabric::etcd::{self, CommitResult, Op, Store, Writer};

use crate::migration::{self, PRESENT, Shape};

/// Why this build must not touch what is stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A newer build wrote it.
    #[error(
        "etcd holds schema version {found}, this scheduler understands up to {understood}: a newer deployd wrote it; \
         run that version or newer, or restore a backup of the older one"
    )]
    Newer {
        /// The version found.
        found: u32,
        /// The newest we understand.
        understood: u32,
    },
    /// It is no schema record.
    #[error("the schema record at {} in etcd cannot be read", keys::SCHEMA)]
    Unreadable(#[source] serde_json::Error),
    /// Nobody knows how to go on from this version.
    #[error(
        "etcd holds schema version {found}, and this scheduler has no step from it; run the version in between first"
    )]
    NoStep {
        /// The version found.
        found: u32,
    },
    /// Somebody else leads by now.
    #[error("somebody else leads by now, so the schema is theirs to migrate")]
    Deposed,
    /// etcd refuses what is written.
    #[error("etcd refuses a record: {reason}")]
    Invalid {
        /// What etcd said.
        reason: String,
    },
    /// etcd.
    #[error("cannot read or write the schema version")]
    Store(#[source] etcd::Error),
}

/// Whether this build may read what is stored; nothing is written.
pub(crate) async fn check(store: &Store) -> Result<(), Error> {
    let value = store.get(keys::SCHEMA).await.map_err(Error::Store)?;
    judge(value.as_deref(), &PRESENT).map(drop)
}

/// The version a stored record tells; none where nothing is stored yet.
pub(crate) fn judge(value: Option<&[u8]>, shape: &Shape) -> Result<Option<u32>, Error> {
    let Some(value) = value else { return Ok(None) };
    let record: SchemaRecord = serde_json::from_slice(value).map_err(Error::Unreadable)?;
    // Half of it may be newer already.
    let found = record.version.max(record.migrating_to.unwrap_or(0));
    match found > shape.version {
        true => Err(Error::Newer { found, understood: shape.version }),
        false => Ok(Some(record.version)),
    }
}

/// Brings what is stored into `shape`, as the leader that `guard` proves. Nothing is written when it has that shape.
pub async fn prepare(store: &Store, guard: &Guard, name: &str, shape: &Shape) -> Result<(), Error> {
    let mut scribe = Scribe { store, writer: Writer::new(store.clone(), guard.clone(), name) };
    let value = store.get(keys::SCHEMA).await.map_err(Error::Store)?;
    let mut version = match judge(value.as_deref(), shape)? {
        Some(version) => version,
        None => return scribe.record(SchemaRecord { version: shape.version, migrating_to: None }).await,
    };
    while version < shape.version {
        scribe.step(version, shape).await?;
        version += 1;
    }
    Ok(())
}

/// Writes as the leader.
struct Scribe<'a> {
    store: &'a Store,
    writer: Writer,
}

impl Scribe<'_> {
    /// Makes the step from `version` to the next.
    async fn step(&mut self, version: u32, shape: &Shape) -> Result<(), Error> {
        let step = shape.steps.iter().find(|step| step.from == version).ok_or(Error::NoStep { found: version })?;
        let to = version + 1;
        self.record(SchemaRecord { version, migrating_to: Some(to) }).await?;
        let pairs = self.store.list(keys::STATE).await.map_err(Error::Store)?.pairs;
        let transactions = migration::transactions(step, &pairs);
        let (records, all) = (pairs.len(), transactions.len());
        tracing::info!(from = version, to, records, transactions = all, "migrates what is stored");
        for (done, transaction) in transactions.iter().enumerate() {
            self.commit(transaction).await?;
            tracing::info!(to, done = done + 1, of = all, "migrates");
        }
        self.record(SchemaRecord { version: to, migrating_to: None }).await?;
        tracing::info!(version = to, "what is stored is migrated");
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
    fn a_newer_version_is_refused_also_when_only_half_of_it_is_there() {
        let shape = Shape { version: 2, steps: &[] };
        let judged = |text: &str| judge(Some(text.as_bytes()), &shape).map_err(|error| error.to_string());
        assert_eq!(judge(None, &shape).unwrap(), None);
        assert_eq!(judged(r#"{"version":1}"#), Ok(Some(1)));
        assert_eq!(judged(r#"{"version":1,"migrating_to":2}"#), Ok(Some(1)));
        for newer in [r#"{"version":3}"#, r#"{"version":2,"migrating_to":3}"#] {
            assert!(
                judged(newer)
                    .unwrap_err()
                    .starts_with("etcd holds schema version 3, this scheduler understands up to 2")
            );
        }
        assert!(judged("[]").unwrap_err().contains("/deployd/schema"));
    }
}
