//! Migrations of the stored state: one per schema version, each a pure function of a key and its value.
//!
//! A migration that was interrupted runs again from its start, so it must leave values unchanged that it has already converted. It
//! also leaves values unchanged that it cannot read; the core quarantines them. Migrations apply to the keys that a leader loads
//! (`keys::STATE`), not to outcomes, which expire within the hour.

use contract::layout;
use contract::record::SCHEMA_VERSION;
use fabric::etcd::Op;

/// Writes of one transaction. etcd accepts 127, one of which the writer adds.
const MAX_WRITES: usize = 100;
/// Bytes of one transaction, unless a single value has more. etcd refuses requests above 1.5 MiB.
const MAX_BYTES: usize = 512 << 10;

/// A schema version and the migrations that lead to it.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    pub version: u32,
    pub migrations: &'static [Migration],
}

/// Converts the stored state from one version to the next.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub from: u32,
    pub change: fn(key: &str, value: &[u8]) -> Change,
}

/// What a migration does to one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Keep,
    Put(Vec<u8>),
    /// Writes these keys in this order, and deletes the old key unless it is one of them.
    Replace(Vec<(String, Vec<u8>)>),
    Remove,
}

/// The schema that this build reads and writes. Version 2 stores specs by digest and instances in pages (`contract::layout`).
pub const CURRENT: Schema =
    Schema { version: SCHEMA_VERSION, migrations: &[Migration { from: 1, change: to_schema_2 }] };

fn to_schema_2(key: &str, value: &[u8]) -> Change {
    layout::from_schema_1(key, value).map_or(Change::Keep, Change::Replace)
}

/// The writes of a migration of `pairs`, in transactions that etcd accepts.
pub fn transactions(migration: &Migration, pairs: &[(String, Vec<u8>)]) -> Vec<Vec<Op>> {
    let mut transactions: Vec<Vec<Op>> = Vec::new();
    let mut bytes = 0;
    for op in pairs.iter().flat_map(|(key, value)| ops(migration, key, value)) {
        let size = size(&op);
        let last = transactions.last_mut();
        // etcd accepts a key once in a transaction. Records that share a spec put the same value.
        if last.as_ref().is_some_and(|last| last.contains(&op)) {
            continue;
        }
        let fits = |last: &&mut Vec<Op>| {
            last.len() < MAX_WRITES && bytes + size <= MAX_BYTES && last.iter().all(|other| key(other) != key(&op))
        };
        match last.filter(fits) {
            Some(last) => {
                last.push(op);
                bytes += size;
            }
            None => {
                transactions.push(vec![op]);
                bytes = size;
            }
        }
    }
    transactions
}

fn ops(migration: &Migration, key: &str, value: &[u8]) -> Vec<Op> {
    let put = |(key, value): (String, Vec<u8>)| Op::Put { key, value, lease: None };
    match (migration.change)(key, value) {
        Change::Keep => Vec::new(),
        Change::Put(value) => vec![put((key.to_owned(), value))],
        Change::Replace(entries) => {
            let stays = entries.iter().any(|(entry, _)| entry == key);
            let gone = (!stays).then(|| Op::Delete { key: key.to_owned() });
            entries.into_iter().map(put).chain(gone).collect()
        }
        Change::Remove => vec![Op::Delete { key: key.to_owned() }],
    }
}

fn key(op: &Op) -> &str {
    match op {
        Op::Put { key, .. } | Op::Delete { key } => key,
    }
}

fn size(op: &Op) -> usize {
    match op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Delete { key } => key.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_older_version_has_a_migration() {
        let from: Vec<u32> = CURRENT.migrations.iter().map(|migration| migration.from).collect();
        assert_eq!(from, (1..CURRENT.version).collect::<Vec<_>>());
    }

    #[test]
    fn transactions_respect_the_limits_of_etcd_and_omit_unchanged_values() {
        let grow = Migration {
            from: 1,
            change: |key, value| match value.len() {
                0 => Change::Remove,
                _ if key.starts_with("/keep") => Change::Keep,
                length => Change::Put(vec![b'x'; length]),
            },
        };
        let small = |n: usize| (format!("/a{n}"), vec![b'a'; 10]);
        let mut pairs: Vec<(String, Vec<u8>)> = (0..250).map(small).collect();
        pairs.push(("/keep".to_owned(), vec![1; 5]));
        pairs.push(("/empty".to_owned(), Vec::new()));
        pairs.extend((0..3).map(|n| (format!("/large{n}"), vec![0; MAX_BYTES - 100])));
        let made = transactions(&grow, &pairs);
        assert_eq!(made.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 51, 1, 1, 1]);
        assert_eq!(made[2][50], Op::Delete { key: "/empty".to_owned() });
        assert_eq!(transactions(&Migration { from: 1, change: |_, _| Change::Keep }, &pairs), Vec::<Vec<Op>>::new());
    }
}
