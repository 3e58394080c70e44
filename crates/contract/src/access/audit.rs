//! The audit logs: one record for each command, written in the transaction of its outcome, and in a log of its own one record for
//! each report of an apiserver about the requests that it refused. So requests of strangers push no command out of the first.
//!
//! Each record contains the hash of the one before it, so a record that was changed or removed shows. When the log is full, the
//! leader drops the oldest records after it noted the hash of the last one that it drops ([`AuditHead::dropped`]), with its
//! signature: what remains can still be verified from there.
//!
//! Example: records 1, 2, 3 with hashes a, b, c. `verify` computes a from record 1 and "", b from record 2 and a, c from record 3 and b.
//! If record 2 is edited, its computed hash differs from `b`.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::keys;
use crate::name::CommandId;
use crate::time::{Timestamp, rfc3339};

/// Records that are dropped together.
pub const DROPPED_AT_ONCE: u64 = 100;

/// Limit of rows that an apiserver reports at a time; the last one counts all others.
pub const MOST_REFUSED: usize = 50;

/// The two logs. Each is a chain of hashes of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// Every command.
    Commands,
    /// Requests that apiservers refused.
    Refused,
}

impl Chain {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Commands, Self::Refused];

    /// Where [`AuditHead`] is stored.
    pub fn head_key(self) -> &'static str {
        match self {
            Self::Commands => keys::AUDIT_HEAD,
            Self::Refused => keys::REFUSED_HEAD,
        }
    }

    /// Prefix of the records.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Commands => keys::AUDIT,
            Self::Refused => keys::REFUSED,
        }
    }

    /// Where a record is stored.
    pub fn key(self, number: u64) -> String {
        match self {
            Self::Commands => keys::audit(number),
            Self::Refused => keys::refused(number),
        }
    }

    /// Limit of records; the leader drops the oldest [`DROPPED_AT_ONCE`] beyond it. A record of refused requests has up to 35 KB.
    pub fn most_records(self) -> u64 {
        match self {
            Self::Commands => 20_000,
            Self::Refused => 2_000,
        }
    }

    /// What a scheduler signs when it drops the records up to this one.
    pub fn checkpoint(self, number: u64, hash: &str) -> String {
        match self {
            Self::Commands => format!("deployd-audit-1 {number} {hash}"),
            Self::Refused => format!("deployd-refused-1 {number} {hash}"),
        }
    }
}

/// Requests that an apiserver refused because of who sent them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RefusedRequests {
    /// Address of the clients, or `uid:N`; empty in the row that counts all others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub peer: String,
    /// The principal, if it was known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// Method and path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub route: String,
    /// Status of the answer: 401, 403 or 429.
    pub status: u16,
    /// How many requests.
    pub count: u64,
}

/// One audited command: `/deployd/audit/<number>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AuditRecord {
    /// Number, from 1 without gaps.
    pub number: u64,
    /// When the leader decided the command.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// The principal: owner of the token, or the anonymous binding, or nothing while the cluster is open.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// Id of the token, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The user that the client stated; not checked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said_by: String,
    /// Address of the client, or `uid:N`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub peer: String,
    /// The apiserver that took the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub apiserver: String,
    /// The command, for example `CreateGroup`.
    pub verb: String,
    /// The object that it concerns: a group, a node, a namespace; empty for the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Why the command was refused; none when it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What an apiserver refused since its last report, for `ReportRefused`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RefusedRequests>,
    /// Id of the command.
    pub command: CommandId,
    /// What the command requested, in short ([`Verb::details`](crate::command::Verb::details)).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// Fields of a later version, which the hash covers: an apiserver or a deployctl that is older than the leader passes them on and
    /// verifies them. So a new field stands between `command` and `hash`, in alphabetical order, and so do the fields of an object in it.
    #[serde(flatten)]
    pub later: BTreeMap<String, Value>,
    /// Hash of this record and the one before it.
    #[serde(default)]
    pub hash: String,
}

impl AuditRecord {
    /// The hash of this record after a record with the hash `previous`.
    pub fn hash_after(&self, previous: &str) -> String {
        let bare = Self { hash: String::new(), ..self.clone() };
        // A record of texts and numbers serialises.
        let text = serde_json::to_string(&bare).unwrap_or_default();
        let hash = digest(&SHA256, format!("{previous}\n{text}").as_bytes());
        hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The end and the beginning of the log: `/deployd/state/access/audit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AuditHead {
    /// Number of the last record; 0 when there is none.
    pub last: u64,
    /// Hash of the last record.
    pub hash: String,
    /// Number of the last record that was dropped; 0 when none was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Hash of that record.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dropped_hash: String,
    /// Signature of a scheduler over number and hash of the last record that was dropped; none when it has no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl AuditHead {
    /// The next record of the log: numbers it, and becomes its end.
    pub fn append(&mut self, mut record: AuditRecord) -> AuditRecord {
        record.number = self.last + 1;
        record.hash = record.hash_after(&self.hash);
        (self.last, self.hash) = (record.number, record.hash.clone());
        record
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A page of the log: the answer of `GET /api/audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AuditPage {
    /// The beginning and the end of the log.
    pub head: AuditHead,
    /// Records in order of their numbers.
    pub records: Vec<AuditRecord>,
    /// The number after which the next page starts; none on the last page.
    pub next: Option<u64>,
}

/// Where a log is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A number is missing.
    #[error("record {expected} is missing; record {found} follows")]
    Missing {
        /// The expected number.
        expected: u64,
        /// The number that was found.
        found: u64,
    },
    /// A record does not have the hash that it should have.
    #[error("record {number} was changed, or one before it: its hash does not match")]
    Changed {
        /// Number of the record.
        number: u64,
    },
    /// The last record is not the one that the head names.
    #[error("the log ends at record {found}, and the head names record {expected}")]
    Ends {
        /// The number in the head.
        expected: u64,
        /// The last number found.
        found: u64,
    },
}

/// Verifies records page by page.
#[derive(Debug, Clone)]
pub struct Verifier {
    number: u64,
    hash: String,
}

impl Verifier {
    /// Starts after the records that were dropped.
    pub fn new(head: &AuditHead) -> Self {
        Self { number: head.dropped, hash: head.dropped_hash.clone() }
    }

    /// Takes the next record.
    pub fn take(&mut self, record: &AuditRecord) -> Result<(), Broken> {
        let expected = self.number + 1;
        if record.number != expected {
            return Err(Broken::Missing { expected, found: record.number });
        }
        let hash = record.hash_after(&self.hash);
        if hash != record.hash {
            return Err(Broken::Changed { number: record.number });
        }
        (self.number, self.hash) = (expected, hash);
        Ok(())
    }

    /// Compares the end with the head; the number of verified records' last one.
    pub fn end(&self, head: &AuditHead) -> Result<u64, Broken> {
        let is_same = self.number == head.last && (head.last == head.dropped || self.hash == head.hash);
        if is_same { Ok(self.number) } else { Err(Broken::Ends { expected: head.last, found: self.number }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(count: u64) -> (AuditHead, Vec<AuditRecord>) {
        let (mut head, mut records) = (AuditHead::default(), Vec::new());
        for _ in 0..count {
            let record = AuditRecord {
                number: 0,
                at: Timestamp::from_millis(1_000),
                principal: "alice".to_owned(),
                token: None,
                said_by: String::new(),
                peer: "127.0.0.1".to_owned(),
                apiserver: "a".to_owned(),
                verb: "RunEngine".to_owned(),
                object: String::new(),
                namespace: String::new(),
                refused: None,
                requests: Vec::new(),
                command: "id".parse().expect("an id"),
                details: String::new(),
                later: BTreeMap::new(),
                hash: String::new(),
            };
            records.push(head.append(record));
        }
        (head, records)
    }

    fn verify(head: &AuditHead, records: &[AuditRecord]) -> Result<u64, Broken> {
        let mut verifier = Verifier::new(head);
        records.iter().try_for_each(|record| verifier.take(record))?;
        verifier.end(head)
    }

    #[test]
    fn a_log_verifies_until_a_record_is_changed_removed_or_cut_off() {
        let (head, records) = log(4);
        assert_eq!(verify(&head, &records), Ok(4));
        let mut changed = records.clone();
        changed[1].principal = "mallory".to_owned();
        assert_eq!(verify(&head, &changed), Err(Broken::Changed { number: 2 }));
        let without: Vec<AuditRecord> = records.iter().filter(|record| record.number != 2).cloned().collect();
        assert_eq!(verify(&head, &without), Err(Broken::Missing { expected: 2, found: 3 }));
        assert_eq!(verify(&head, &records[..3]), Err(Broken::Ends { expected: 4, found: 3 }));
    }

    #[test]
    fn a_log_with_fields_of_a_later_version_verifies() {
        let (mut head, mut records) = log(1);
        // As a later version writes it.
        let later = r#","Reason":"rollout","Sizes":[1,{"Bytes":2.5}],"Trace":null,"Hash":""#;
        let bare = AuditRecord { number: 2, hash: String::new(), ..records[0].clone() };
        let bare = serde_json::to_string(&bare).expect("a record").replace(r#","Hash":""#, later);
        let text = format!("{}\n{bare}", head.hash);
        let hash: String = digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let stored = bare.replace(r#""Hash":""#, &format!(r#""Hash":"{hash}"#));
        let read: AuditRecord = serde_json::from_str(&stored).expect("a record");
        assert_eq!(serde_json::to_string(&read).expect("a record"), stored, "it is passed on as it is");
        records.push(read);
        (head.last, head.hash) = (2, hash);
        assert_eq!(verify(&head, &records), Ok(2));
    }

    #[test]
    fn a_log_verifies_after_its_oldest_records_were_dropped() {
        let (head, records) = log(4);
        let head = AuditHead { dropped: 2, dropped_hash: records[1].hash.clone(), ..head };
        assert_eq!(verify(&head, &records[2..]), Ok(4));
        assert_eq!(verify(&head, &records[3..]), Err(Broken::Missing { expected: 3, found: 4 }));
    }
}
