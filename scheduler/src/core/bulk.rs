//! Judges whether what is stored of a group fits one transaction, now and after what may follow by itself.
//!
//! A transaction that etcd refuses for its size would be tried for ever, and everything behind it would wait. So a spec that
//! could lead to one is refused before it is stored.

use contract::command::Refusal;
use contract::record::GroupRecord;
use serde::Serialize;

/// Bytes of a group's record at most, while several versions of its spec are in use.
const LARGEST_RECORD: usize = 640 * 1024;
/// Bytes of one transaction at most: etcd takes 1.5 MiB, and an outcome and a cursor go with it.
pub(super) const LARGEST_TRANSACTION: usize = 1400 * 1024;
/// Bytes of one slot of a serial group: node, version, address and a few counters.
const SERIAL_SLOT: usize = 130;
/// Bytes of one slot of a conducted group: it may have two pods, with gates and addresses.
const CONDUCTED_SLOT: usize = 600;

/// A new group is stored with its first revision, which holds its spec again.
pub(super) fn judge_new(record: &GroupRecord) -> Result<(), Refusal> {
    judge(record, bytes(record) + bytes(&record.spec.pod))
}

/// A group with another spec is stored with two revisions at least, and a rollback adds one more spec to the record.
pub(super) fn judge_next(record: &GroupRecord) -> Result<(), Refusal> {
    let record_bytes = bytes(record);
    if record_bytes > LARGEST_RECORD {
        return Err(limit(LARGEST_RECORD));
    }
    let largest = record.former.values().chain([&record.spec.pod]).map(bytes).max().unwrap_or(0);
    judge(record, record_bytes + 3 * largest)
}

fn judge(record: &GroupRecord, specs: usize) -> Result<(), Refusal> {
    let slot = if record.spec.is_conducted() { CONDUCTED_SLOT } else { SERIAL_SLOT };
    let slots = usize::try_from(record.spec.num_instances).unwrap_or(0).saturating_mul(slot);
    if specs.saturating_add(slots) > LARGEST_TRANSACTION { Err(limit(LARGEST_TRANSACTION)) } else { Ok(()) }
}

fn limit(limit: usize) -> Refusal {
    Refusal::Limit { what: "bytes of a PodGroup's specs while it is upgraded".to_owned(), limit: limit as u64 }
}

fn bytes<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX / 8, |text| text.len())
}
