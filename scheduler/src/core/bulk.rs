//! Judges whether the spec of a group fits one stored value.
//!
//! etcd refuses requests above 1.5 MiB. Instances, revisions and specs have keys of their own (`contract::layout`), so the spec
//! is the one value of a group that a user makes large. The specs that instances run at the same time are bounded together.

use contract::command::Refusal;
use contract::record::GroupRecord;
use serde::Serialize;

/// Bytes of a group's spec at most. A value stays below 1 MiB with it, and two of them fit one transaction of 1.5 MiB.
const LARGEST_SPEC: usize = 640 * 1024;

/// Bytes of the specs that a group's instances run at the same time: ten of the largest that one request holds.
const MOST_SPECS: usize = 2560 * 1024;

/// Refuses a group whose spec is too large, or that runs too many large ones.
pub(super) fn judge(record: &GroupRecord) -> Result<(), Refusal> {
    let limit = |what: &str, limit: usize| Refusal::Limit { what: what.to_owned(), limit: limit as u64 };
    let present = bytes(&record.spec);
    if present > LARGEST_SPEC {
        return Err(limit("bytes of a PodGroup's spec", LARGEST_SPEC));
    }
    let former: usize = record.former.values().map(bytes).sum();
    if present + former > MOST_SPECS {
        return Err(limit("bytes of a PodGroup's specs while it is upgraded", MOST_SPECS));
    }
    Ok(())
}

fn bytes<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX / 8, |text| text.len())
}
