//! `deployctl backup`: writes a snapshot of the store to a file.
//!
//! The file is written under another name and renamed when it is complete, so that a file of the final name is never truncated.
//! Specs may hold secrets in their environment, so only the owner may read the file.

mod contents;
mod restore;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use contract::backup::{FORMAT, Header, Page, Writer};
use contract::time::Timestamp;

pub use self::restore::restore;

use self::contents::Contents;
use crate::api::{self, Api, BackupCursor, Deadline, Retry};
use crate::args;
use crate::commands::wait;
use crate::output::progress::Progress;

/// How often to start a backup again when etcd has compacted its revision meanwhile.
const ATTEMPTS: usize = 3;
/// Standard output, or standard input.
const DASH: &str = "-";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error("cannot {action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path}: {source}; nothing was changed")]
    Unfit { path: PathBuf, source: contract::backup::Error },
    #[error("{path} has {parts} parts, more than the {most} of a restore; nothing was changed")]
    TooLarge { path: PathBuf, parts: usize, most: u32 },
    #[error("the cluster has {groups} PodGroups, which the restore would replace; pass --replace to overwrite them")]
    NotEmpty { groups: u64 },
    /// PodGroups of the backup are missing in the cluster.
    #[error(
        "{missing} PodGroups of the backup are not in the cluster; `deployctl status` names objects that cannot be read, and the \
         restore can be repeated with --replace"
    )]
    Incomplete { missing: u64 },
    #[error("nothing was changed: confirm with `yes`, or pass --yes without a terminal")]
    Unconfirmed,
    #[error("no file named; use `deployctl restore FILE` or `deployctl restore --abort`")]
    NoFile,
}

pub async fn backup(api: &Api, asked: &args::Backup) -> Result<(), Error> {
    let progress = Progress::start("reading the store");
    let deadline = Deadline::after(asked.timeout);
    let api = &api.until(deadline);
    let mut retry = wait::retry(&progress, deadline);
    let taken = take(api, &asked.file, &progress, &mut retry).await;
    let (contents, revision) = match taken {
        Ok(taken) => taken,
        Err(error) => {
            progress.abandon();
            return Err(error);
        }
    };
    let to =
        if asked.file == Path::new(DASH) { "standard output".to_owned() } else { asked.file.display().to_string() };
    progress.done(&format!("wrote {contents} of revision {revision} to {to}"));
    Ok(())
}

async fn take(api: &Api, file: &Path, progress: &Progress, retry: &mut Retry) -> Result<(Contents, i64), Error> {
    let mut attempt = 1;
    loop {
        let mut sink = Sink::open(file)?;
        match pages(api, &mut sink, progress, retry).await {
            // The pages so far are of a compacted revision. Standard output cannot be rewritten.
            Err(Error::Api(api::Error::Refused { status: 410, .. })) if attempt < ATTEMPTS && sink.is_file() => {
                attempt += 1;
            }
            Ok(taken) => {
                sink.finish()?;
                return Ok(taken);
            }
            Err(error) => return Err(error),
        }
    }
}

async fn pages(api: &Api, sink: &mut Sink, progress: &Progress, retry: &mut Retry) -> Result<(Contents, i64), Error> {
    let mut cursor = BackupCursor::default();
    let (mut writer, mut contents) = (Writer::default(), Contents::default());
    loop {
        let Page { revision, schema, entries, next } = api.backup_page(&cursor, retry).await?;
        if cursor.revision.is_none() {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let header = Header { format: FORMAT, schema, revision, taken_at: now(), version };
            sink.write(&writer.header(&header))?;
        }
        for entry in &entries {
            contents.count(entry);
            sink.write(&writer.entry(entry))?;
        }
        progress.update(&format!("{contents} so far"));
        cursor = BackupCursor { revision: Some(revision), after: next };
        if cursor.after.is_none() {
            sink.write(&writer.end())?;
            return Ok((contents, revision));
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

enum Sink {
    Standard(io::Stdout),
    File { file: io::BufWriter<File>, draft: PathBuf, path: PathBuf },
}

impl Sink {
    fn open(path: &Path) -> Result<Self, Error> {
        if path == Path::new(DASH) {
            return Ok(Self::Standard(io::stdout()));
        }
        let mut draft = path.as_os_str().to_owned();
        draft.push(".part");
        let draft = PathBuf::from(draft);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file =
            options.open(&draft).map_err(|source| Error::File { action: "write", path: draft.clone(), source })?;
        Ok(Self::File { file: io::BufWriter::new(file), draft, path: path.to_owned() })
    }

    fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        let (written, path) = match self {
            Self::Standard(out) => (out.write_all(text.as_bytes()), Path::new(DASH)),
            Self::File { file, draft, .. } => (file.write_all(text.as_bytes()), draft.as_path()),
        };
        written.map_err(|source| Error::File { action: "write", path: path.to_owned(), source })
    }

    /// Syncs the file and renames it to its final name.
    fn finish(self) -> Result<(), Error> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { action, path, source }
        };
        match self {
            Self::Standard(mut out) => out.flush().map_err(failed("write", Path::new(DASH))),
            Self::File { file, draft, path } => {
                let file =
                    file.into_inner().map_err(io::IntoInnerError::into_error).map_err(failed("write", &draft))?;
                file.sync_all().map_err(failed("write", &draft))?;
                fs::rename(&draft, &path).map_err(failed("make", &path))
            }
        }
    }
}
