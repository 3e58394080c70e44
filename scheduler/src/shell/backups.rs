//! The backup lane: pages of everything stored, read from the store itself and not from memory.
//!
//! All pages of a backup are read at one revision, so that it is what was stored at one moment, however long it takes and
//! whoever leads meanwhile. Leader and standbys give the same answer.

use contract::backup::{Entry, Page};
use contract::keys;
use contract::query::{Answer, Query, Reply};
use contract::record::{SCHEMA_VERSION, SchemaRecord};
use fabric::etcd::{self, Ask, Store};
use fabric::nats::Bus;
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::mpsc;

use super::ears::Asked;
use super::post::Full;

/// Pages that wait. When full a question is dropped and counted; its asker asks again.
const QUEUE: usize = 64;
/// Keys read at once: values may have 1.5 MiB, and all of them are in memory for a moment.
const MOST_KEYS: i64 = 64;
/// Bytes of a page, but for one value that has more.
const MOST_BYTES: usize = 512 * 1024;

/// Which page is asked for, and where it goes.
pub(super) struct Wanted {
    revision: Option<i64>,
    after: Option<String>,
    reply: String,
}

/// The loop's end of the lane.
pub(super) struct Lane {
    sender: mpsc::Sender<Wanted>,
}

/// The page that is asked for; or the question, when it is about something else.
pub(super) fn pages(asked: Asked) -> Result<Wanted, Asked> {
    match asked {
        Asked { query: Query::Backup { revision, after }, reply, .. } => Ok(Wanted { revision, after, reply }),
        other => Err(other),
    }
}

pub(super) fn start(bus: Bus, store: Store) -> (Lane, Scoped) {
    let (sender, wanted) = mpsc::channel(QUEUE);
    (Lane { sender }, spawn_scoped("backups", run(bus, store, wanted)))
}

impl Lane {
    pub(super) fn hand_over(&self, wanted: Wanted) -> Result<(), Full> {
        self.sender.try_send(wanted).map_err(|_| Full)
    }
}

async fn run(bus: Bus, store: Store, mut questions: mpsc::Receiver<Wanted>) {
    while let Some(wanted) = questions.recv().await {
        let page = page(&store, &wanted).await.map(Box::new).map_err(|error| describe(&error));
        let reply = Reply::new(false, Answer::Backup(page));
        if let Err(error) = bus.answer(&wanted.reply, &reply).await {
            tracing::warn!(%error, "a page of a backup was not sent");
        }
    }
}

async fn page(store: &Store, wanted: &Wanted) -> Result<Page, etcd::Error> {
    let ask = Ask { after: wanted.after.as_deref(), revision: wanted.revision, limit: MOST_KEYS };
    let read = store.page(keys::STATE, ask).await?;
    let (mut entries, mut next, mut bytes) = (Vec::new(), None, 0);
    let mut more = read.more;
    for (key, value) in read.pairs {
        if bytes > 0 && bytes + value.len() > MOST_BYTES {
            more = true;
            break;
        }
        bytes += key.len() + value.len();
        next = Some(key.clone());
        if keys::is_backed_up(&key) {
            entries.push(Entry::new(key, value));
        }
    }
    let schema = schema_at(store, read.revision).await?;
    Ok(Page { revision: read.revision, schema, entries, next: next.filter(|_| more) })
}

/// The schema at a revision. What is being migrated counts as what it was: the steps leave alone what is made already.
async fn schema_at(store: &Store, revision: i64) -> Result<u32, etcd::Error> {
    let ask = Ask { after: None, revision: Some(revision), limit: 1 };
    let found = store.page(keys::SCHEMA, ask).await?.pairs.into_iter().next();
    let record = found.and_then(|(_, value)| serde_json::from_slice::<SchemaRecord>(&value).ok());
    Ok(record.map_or(SCHEMA_VERSION, |record| record.version))
}

fn describe(error: &etcd::Error) -> String {
    match error {
        etcd::Error::NoRevision { .. } => format!("{error}; begin the backup again"),
        other => format!("{other}; try again in a moment"),
    }
}
