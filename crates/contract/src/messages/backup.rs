//! Backup files: the stored state of a cluster as lines of JSON, and the steps of a restore.
//!
//! The first line is a [`Header`], each following line one key with its value ([`Entry`]), and the last line holds a
//! count and a digest of everything before it. A truncated or edited file is therefore rejected before anything
//! changes. `deployctl` sends the same text in parts, so the leader checks the same digest again.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::keys;
use crate::name::CommandId;
use crate::record::SCHEMA_VERSION;
use crate::time::{Timestamp, rfc3339};

/// Version of the file format that this build reads and writes.
pub const FORMAT: u32 = 1;

/// Size limit of one part, in bytes. JSON escaping may double the text, and the API accepts bodies up to 256 KiB.
pub const LARGEST_PART: usize = 96 * 1024;

/// Limit of parts per restore: 4,000 × 96 KiB = 375 MiB, more than the command stream accepts at a time.
pub const MOST_PARTS: u32 = 4_000;

/// First line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Marks the file as a backup and holds its format: [`FORMAT`].
    #[serde(rename = "deployd_backup")]
    pub format: u32,
    /// Schema version of the stored values: [`SCHEMA_VERSION`] of the deployd that wrote them.
    pub schema: u32,
    /// The etcd revision at which all values were read.
    pub revision: i64,
    /// When the backup was taken.
    #[serde(with = "rfc3339")]
    pub taken_at: Timestamp,
    /// Version of the deployd that wrote it.
    pub version: String,
}

/// One stored key and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The full etcd key.
    pub key: String,
    /// The value.
    #[serde(flatten)]
    pub content: Content,
}

/// A stored value. Nearly all values are JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// A value that is valid UTF-8.
    Text(String),
    /// Any other value: two hexadecimal digits per byte.
    Hex(String),
}

/// Last line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    /// Number of entries: the lines between the first and this one.
    entries: u64,
    /// Digest of every line before this one.
    digest: Digest,
}

/// One page of a backup, as a scheduler answers [`crate::query::Query::Backup`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The etcd revision it was read at. `deployctl` passes it along, so that all pages are read at the same revision.
    pub revision: i64,
    /// Schema version of the stored values.
    pub schema: u32,
    /// Keys and values in key order.
    pub entries: Vec<Entry>,
    /// The key after which the next page starts; none on the last page.
    pub next: Option<String>,
}

/// One step of a restore, sent as [`crate::command::Verb::Restore`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Stores one part of the file under `/deployd/state/restore/part/`. Nothing else changes.
    Stage {
        /// Id of this restore. The leader deletes parts of any other restore.
        restore: CommandId,
        /// Index of the part, from 0.
        part: u32,
        /// The text of the part, at most [`LARGEST_PART`] bytes.
        text: String,
    },
    /// Replaces everything stored by the content of the parts.
    Finish {
        /// Id of this restore.
        restore: CommandId,
        /// Number of parts.
        parts: u32,
        /// Restore even if PodGroups exist now. Otherwise the leader refuses.
        replace: bool,
    },
    /// Deletes the parts.
    Abort,
}

/// A restore that the leader is applying: `/deployd/state/restore/record`. It lets the next leader finish it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreRecord {
    /// Id of the restore.
    pub restore: CommandId,
    /// Number of parts.
    pub parts: u32,
    /// When the leader accepted [`Step::Finish`].
    pub at: Timestamp,
}

/// Why a text cannot be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first line is not a [`Header`].
    #[error("this is not a backup of deployd: its first line is not a header")]
    NoBackup,
    /// The file format is not [`FORMAT`].
    #[error("the backup has format {found}, this deployd reads format {FORMAT}; use the deployd that wrote it")]
    Format {
        /// Format of the file.
        found: u32,
    },
    /// The values have a newer schema than this build knows.
    #[error(
        "the backup holds schema version {found}, this deployd understands up to {SCHEMA_VERSION}: \
         upgrade deployd first, then restore"
    )]
    Schema {
        /// Schema version of the file.
        found: u32,
    },
    /// The last line is missing.
    #[error("the backup is cut off: its last line is missing; take it from another copy")]
    Truncated,
    /// The digest or the count does not match.
    #[error("the backup was changed after it was written: its digest does not fit; take it from another copy")]
    Altered,
    /// A line is not an [`Entry`].
    #[error("line {line} of the backup cannot be read: {reason}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A line holds a key that backups do not contain; see [`keys::is_backed_up`].
    #[error("line {line} of the backup holds the key {key:?}, which backups do not contain")]
    Key {
        /// Line number, from 1.
        line: usize,
        /// The key found.
        key: String,
    },
}

impl Entry {
    /// Encodes a stored value: as text if it is UTF-8, as hexadecimal digits otherwise.
    pub fn new(key: String, value: Vec<u8>) -> Self {
        let content = match String::from_utf8(value) {
            Ok(text) => Content::Text(text),
            Err(odd) => Content::Hex(odd.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()),
        };
        Self { key, content }
    }

    /// Decodes the value; none when the hexadecimal digits are malformed.
    pub fn value(&self) -> Option<Vec<u8>> {
        match &self.content {
            Content::Text(text) => Some(text.clone().into_bytes()),
            Content::Hex(digits) => {
                let pairs = digits.as_bytes().chunks(2);
                pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
            }
        }
    }
}

/// Produces the lines of a file and computes their digest.
#[derive(Debug, Default)]
pub struct Writer {
    lines: u64,
    digest: Digest,
}

impl Writer {
    /// The first line of the file.
    pub fn header(&mut self, header: &Header) -> String {
        self.line(header)
    }
    /// The line of one key.
    pub fn entry(&mut self, entry: &Entry) -> String {
        self.line(entry)
    }
    /// The last line, with count and digest.
    pub fn end(self) -> String {
        let end = End { entries: self.lines.saturating_sub(1), digest: self.digest };
        format!("{}\n", text(&end))
    }

    fn line<T: Serialize>(&mut self, value: &T) -> String {
        let line = text(value);
        self.digest = self.digest.with(Digest::of(&(self.lines, &line)));
        self.lines += 1;
        format!("{line}\n")
    }
}

fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("lines of a backup have string keys only")
}

/// A backup that was read and verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The first line.
    pub header: Header,
    /// All keys with their values.
    pub entries: Vec<Entry>,
}

/// Reads and verifies a whole backup.
pub fn read(text: &str) -> Result<Backup, Error> {
    let first = text.lines().next().unwrap_or_default();
    let header: Header = serde_json::from_str(first).map_err(|_| Error::NoBackup)?;
    if header.format != FORMAT {
        return Err(Error::Format { found: header.format });
    }
    if header.schema > SCHEMA_VERSION {
        return Err(Error::Schema { found: header.schema });
    }
    let body = text.strip_suffix('\n').ok_or(Error::Truncated)?;
    let (body, last) = body.rsplit_once('\n').ok_or(Error::Truncated)?;
    let end: End = serde_json::from_str(last).map_err(|_| Error::Truncated)?;
    let lines = || body.split('\n').zip(0u64..);
    let digest = lines().fold(Digest::default(), |sum, (line, number)| sum.with(Digest::of(&(number, line))));
    let entries = lines().skip(1).map(|(line, number)| entry(line, number)).collect::<Result<Vec<Entry>, Error>>()?;
    if digest != end.digest || entries.len() as u64 != end.entries {
        return Err(Error::Altered);
    }
    Ok(Backup { header, entries })
}

fn entry(line: &str, number: u64) -> Result<Entry, Error> {
    let place = usize::try_from(number).unwrap_or(usize::MAX).saturating_add(1);
    let entry: Entry =
        serde_json::from_str(line).map_err(|error| Error::Line { line: place, reason: error.to_string() })?;
    if !keys::is_backed_up(&entry.key) {
        return Err(Error::Key { line: place, key: entry.key });
    }
    if entry.value().is_none() {
        return Err(Error::Line {
            line: place,
            reason: "its value is not a sequence of hexadecimal digits".to_owned(),
        });
    }
    Ok(entry)
}

/// Cuts the text into parts of at most [`LARGEST_PART`] bytes.
pub fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.floor_char_boundary(LARGEST_PART));
        parts.push(part);
        rest = after;
    }
    parts
}
