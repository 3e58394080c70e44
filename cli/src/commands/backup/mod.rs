//! `deployctl backup`: everything the cluster stores, in one file, as it was at one moment.
//!
//! The file is written beside its place and takes it when it is whole, so that nobody finds half a backup under its name.
//! Specs may hold secrets in their environment: only its owner may read it.

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
use crate::api::{self, Api, BackupPlace, Deadline, Patience};
use crate::args;
use crate::commands::wait;
use crate::output::progress::Progress;

/// A backup whose revision was compacted away meanwhile is begun again so often.
const ATTEMPTS: usize = 3;
/// What stands for standard output, and for standard input.
const DASH: &str = "-";

/// Why there is no backup, or why it is not restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API.
    #[error(transparent)]
    Api(#[from] api::Error),
    /// A file.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It is no backup that can be restored; nothing was changed.
    #[error("{path}: {source}; nothing was changed")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: contract::backup::Error,
    },
    /// It is too large.
    #[error("{path} makes {parts} parts, and a restore takes {most}; nothing was changed")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How many it makes.
        parts: usize,
        /// How many are taken.
        most: u32,
    },
    /// There are groups.
    #[error("the cluster holds {groups} PodGroups, which the restore would replace; --replace says that this is meant")]
    NotEmpty {
        /// How many.
        groups: u64,
    },
    /// PodGroups of the backup are missing in the cluster.
    #[error(
        "{missing} PodGroups of the backup are not in the cluster; `deployctl status` names objects that cannot be read, and the \
         restore can be repeated with --replace"
    )]
    Incomplete {
        /// How many are missing.
        missing: u64,
    },
    /// Nobody said yes.
    #[error("nothing was changed: confirm with `yes`, or say --yes where nobody can be asked")]
    Unconfirmed,
    /// No file is named.
    #[error("which file? `deployctl restore FILE`, or `deployctl restore --abort`")]
    NoFile,
}

/// Takes a backup.
pub async fn backup(api: &Api, asked: &args::Backup) -> Result<(), Error> {
    let progress = Progress::start("reading everything the cluster stores");
    let deadline = Deadline::after(asked.timeout);
    let api = &api.until(deadline);
    let mut patience = wait::patience(&progress, deadline);
    let taken = take(api, &asked.file, &progress, &mut patience).await;
    let (contents, revision) = match taken {
        Ok(taken) => taken,
        Err(error) => {
            progress.abandon();
            return Err(error);
        }
    };
    let to =
        if asked.file == Path::new(DASH) { "standard output".to_owned() } else { asked.file.display().to_string() };
    progress.done(&format!("{contents}, as of revision {revision}, are in {to}"));
    Ok(())
}

async fn take(api: &Api, file: &Path, progress: &Progress, patience: &mut Patience) -> Result<(Contents, i64), Error> {
    let mut attempt = 1;
    loop {
        let mut sink = Sink::open(file)?;
        match pages(api, &mut sink, progress, patience).await {
            // What was written so far is of a revision that is gone. Standard output cannot be taken back.
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

async fn pages(
    api: &Api,
    sink: &mut Sink,
    progress: &Progress,
    patience: &mut Patience,
) -> Result<(Contents, i64), Error> {
    let mut place = BackupPlace::default();
    let (mut writer, mut contents) = (Writer::default(), Contents::default());
    loop {
        let Page { revision, schema, entries, next } = api.backup_page(&place, patience).await?;
        if place.revision.is_none() {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let header = Header { format: FORMAT, schema, revision, taken_at: now(), version };
            sink.write(&writer.header(&header))?;
        }
        for entry in &entries {
            contents.count(entry);
            sink.write(&writer.entry(entry))?;
        }
        progress.update(&format!("{contents} so far"));
        place = BackupPlace { revision: Some(revision), after: next };
        if place.after.is_none() {
            sink.write(&writer.end())?;
            return Ok((contents, revision));
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Where a backup is written.
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

    /// All of it is on disk under its name when this returns.
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
