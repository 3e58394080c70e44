//! How what an older scheduler stored becomes what this one reads: one step per version of the schema, each a pure function of a
//! key and its value.
//!
//! A step meets what it has made already when a migration was cut off in the middle and is begun again, so it must leave that as it
//! is. A value it cannot read stays as it is too: unknown is not unwanted, and the core spares what it cannot read. Only what a
//! leader loads is migrated (`keys::STATE`): outcomes are gone within the hour by themselves.

use contract::layout;
use contract::record::SCHEMA_VERSION;
use fabric::etcd::Op;

/// Writes of one transaction: below what etcd takes (127, one of them is the writer's own).
const MOST_WRITES: usize = 100;
/// Bytes of one transaction: etcd refuses requests above 1.5 MiB, and one value may be nearly that.
const MOST_BYTES: usize = 512 << 10;

/// The shape of everything stored, and the steps that lead to it.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The version.
    pub version: u32,
    /// One step for each version before it.
    pub steps: &'static [Step],
}

/// Leads from one version to the next.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The version it begins with.
    pub from: u32,
    /// What becomes of a value.
    pub change: fn(key: &str, value: &[u8]) -> Change,
}

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It stays as it is.
    Keep,
    /// It is written anew.
    Put(Vec<u8>),
    /// These take its place, in the order to write them; the key goes unless it is one of them.
    Become(Vec<(String, Vec<u8>)>),
    /// It goes.
    Remove,
}

/// The shape this build reads and writes. Version 1 is the first, so no step leads to it: what was added since may be absent.
/// Version 2 stores specs by digest and instances in pages (`contract::layout`).
pub const PRESENT: Shape = Shape { version: SCHEMA_VERSION, steps: &[Step { from: 1, change: to_schema_2 }] };

fn to_schema_2(key: &str, value: &[u8]) -> Change {
    layout::from_schema_1(key, value).map_or(Change::Keep, Change::Become)
}

/// The writes that make the step for `pairs`, in transactions that etcd takes.
pub fn transactions(step: &Step, pairs: &[(String, Vec<u8>)]) -> Vec<Vec<Op>> {
    let mut transactions: Vec<Vec<Op>> = Vec::new();
    let mut bytes = 0;
    for op in pairs.iter().flat_map(|(key, value)| ops(step, key, value)) {
        let size = size(&op);
        let last = transactions.last_mut();
        // etcd takes a key once in a transaction. Records that share a spec put the same value.
        if last.as_ref().is_some_and(|last| last.contains(&op)) {
            continue;
        }
        let fits = |last: &&mut Vec<Op>| {
            last.len() < MOST_WRITES && bytes + size <= MOST_BYTES && last.iter().all(|other| key(other) != key(&op))
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

fn ops(step: &Step, key: &str, value: &[u8]) -> Vec<Op> {
    let put = |(key, value): (String, Vec<u8>)| Op::Put { key, value, lease: None };
    match (step.change)(key, value) {
        Change::Keep => Vec::new(),
        Change::Put(value) => vec![put((key.to_owned(), value))],
        Change::Become(entries) => {
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
    fn there_is_a_step_from_every_version_to_the_present_one() {
        let from: Vec<u32> = PRESENT.steps.iter().map(|step| step.from).collect();
        assert_eq!(from, (1..PRESENT.version).collect::<Vec<_>>());
    }

    #[test]
    fn transactions_hold_what_etcd_takes_and_nothing_that_stays() {
        let grow = Step {
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
        pairs.extend((0..3).map(|n| (format!("/large{n}"), vec![0; MOST_BYTES - 100])));
        let made = transactions(&grow, &pairs);
        assert_eq!(made.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 51, 1, 1, 1]);
        assert_eq!(made[2][50], Op::Delete { key: "/empty".to_owned() });
        assert_eq!(transactions(&Step { from: 1, change: |_, _| Change::Keep }, &pairs), Vec::<Vec<Op>>::new());
    }
}
