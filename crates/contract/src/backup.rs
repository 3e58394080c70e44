//! A backup: everything stored that a cluster is made of, as lines of text, and the steps that bring it back.
//!
//! The first line says what the file is, each further line is one key with its value, and the last line holds a count and a
//! digest of all before it: a file that was cut off or edited is known for it before anything is changed. Who restores sends
//! the very text in parts, so that the leader checks the same digest again.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::keys;
use crate::name::CommandId;
use crate::record::SCHEMA_VERSION;
use crate::time::{Timestamp, rfc3339};

/// The form of the file this build reads and writes.
pub const FORMAT: u32 = 1;

/// Bytes of one part at most. Quotes double when text is put in JSON, and the API reads 256 KiB.
pub const LARGEST_PART: usize = 96 * 1024;

/// Parts of one restore at most: some 380 MiB, more than the stream of commands takes at once.
pub const MOST_PARTS: u32 = 4_000;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Says that this is a backup, and in which form.
    #[serde(rename = "deployd_backup")]
    pub format: u32,
    /// The schema of the stored values.
    pub schema: u32,
    /// The revision of the store they were all read at.
    pub revision: i64,
    /// When that was.
    #[serde(with = "rfc3339")]
    pub taken_at: Timestamp,
    /// The deployd that wrote it.
    pub version: String,
}

/// One stored key and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(flatten)]
    pub content: Content,
}

/// A value; nearly all are text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// As it is.
    Text(String),
    /// Two digits for each byte.
    Hex(String),
}

/// The last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    /// Lines between the first and this one.
    entries: u64,
    /// Of every line before this one.
    digest: Digest,
}

/// One page of a backup as a scheduler gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The revision it was read at; the next page must be read at the same.
    pub revision: i64,
    /// The schema of the stored values.
    pub schema: u32,
    /// Keys and values in key order.
    pub entries: Vec<Entry>,
    /// The key to go on after; none when this is the last page.
    pub next: Option<String>,
}

/// A step of bringing a backup back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Keep a piece of the file aside. Nothing else changes.
    Stage {
        /// Names this attempt; parts of another one are thrown away.
        restore: CommandId,
        /// Its place, from 0.
        part: u32,
        /// The piece.
        text: String,
    },
    /// Put what the parts hold in the place of everything stored.
    Finish {
        /// Names this attempt.
        restore: CommandId,
        /// How many parts there are.
        parts: u32,
        /// Even if there are PodGroups now.
        replace: bool,
    },
    /// Forget the parts.
    Abort,
}

/// How far a restore is whose parts are all there: `state/restore/record`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreRecord {
    /// Which.
    pub restore: CommandId,
    /// How many parts there are.
    pub parts: u32,
    /// When it was decided.
    pub at: Timestamp,
}

/// Why a text is no backup that can be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something else.
    #[error("this is not a backup of deployd: its first line is no header")]
    NoBackup,
    /// A form of the future.
    #[error("the backup has form {found}, this deployd reads form {FORMAT}; use the deployd that wrote it")]
    Format {
        /// The form found.
        found: u32,
    },
    /// Records of the future.
    #[error(
        "the backup holds schema version {found}, this deployd understands up to {SCHEMA_VERSION}: \
         upgrade deployd first, then restore"
    )]
    Schema {
        /// The version found.
        found: u32,
    },
    /// Its end is not there.
    #[error("the backup is cut off: its last line is missing; take it from another copy")]
    Truncated,
    /// Not what was written.
    #[error("the backup was changed after it was written: its digest does not fit; take it from another copy")]
    Altered,
    /// A line that is none.
    #[error("line {line} of the backup cannot be read: {reason}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// A key that is not the cluster's.
    #[error("line {line} of the backup holds the key {key:?}, which is no part of a backup")]
    Key {
        /// Which, from 1.
        line: usize,
        /// The key.
        key: String,
    },
}

impl Entry {
    /// One stored key and its value.
    pub fn new(key: String, value: Vec<u8>) -> Self {
        let content = match String::from_utf8(value) {
            Ok(text) => Content::Text(text),
            Err(odd) => Content::Hex(odd.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()),
        };
        Self { key, content }
    }

    /// The value; none when it is neither text nor pairs of digits.
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

/// Writes the lines and keeps their sum.
#[derive(Debug, Default)]
pub struct Writer {
    lines: u64,
    digest: Digest,
}

impl Writer {
    /// The first line.
    pub fn header(&mut self, header: &Header) -> String {
        self.line(header)
    }
    /// The line of one entry.
    pub fn entry(&mut self, entry: &Entry) -> String {
        self.line(entry)
    }
    /// The last line.
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

/// A backup that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// What it is.
    pub header: Header,
    /// What it holds.
    pub entries: Vec<Entry>,
}

/// Reads a whole backup; anything that is not as it was written is an error.
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
        return Err(Error::Line { line: place, reason: "its value is no row of hexadecimal digits".to_owned() });
    }
    Ok(entry)
}

/// The text in pieces that each fit one command.
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
