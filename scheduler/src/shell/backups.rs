//! Answers requests for pages of a backup or of the audit log. They are read from etcd, not from memory.
//!
//! All pages of a backup are read at one etcd revision, so the backup is a consistent snapshot, also when it takes long and the
//! leader changes. Leader and standbys give the same answer.

use contract::access::audit::Chain;
use contract::backup::{Entry, Page};
use contract::keys;
use contract::query::{Answer, Query, Reply};
use contract::record::{SCHEMA_VERSION, SchemaRecord};
use fabric::etcd::{self, Store};
use fabric::nats::Bus;
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::mpsc;

use super::audit;
use super::publish::QueueFull;
use super::subscriptions::QueryRequest;

/// Requests that wait. When full, the next one is dropped and counted; the client repeats it.
const QUEUE: usize = 64;
/// Keys of one read. A value may have 1.5 MiB, and all values of a read are in memory.
const MAX_KEYS: i64 = 64;
/// Bytes of a page. A page has more only when a single value does.
const MAX_BYTES: usize = 512 * 1024;

pub(super) struct PageRequest {
    what: What,
    reply: String,
}

enum What {
    Backup { revision: Option<i64>, after: Option<String> },
    Audit { chain: Chain, after: u64, limit: u32 },
}

pub(super) struct BackupQueue {
    sender: mpsc::Sender<PageRequest>,
}

/// The page request in a query, or the query itself when it is another one.
pub(super) fn page_request(request: QueryRequest) -> Result<PageRequest, QueryRequest> {
    match request {
        QueryRequest { query: Query::Backup { revision, after }, reply, .. } => {
            Ok(PageRequest { what: What::Backup { revision, after }, reply })
        }
        QueryRequest { query: Query::Audit { after, limit, refused }, reply, .. } => {
            let chain = if refused { Chain::Refused } else { Chain::Commands };
            Ok(PageRequest { what: What::Audit { chain, after, limit }, reply })
        }
        other => Err(other),
    }
}

pub(super) fn start(bus: Bus, store: Store) -> (BackupQueue, Scoped) {
    let (sender, requests) = mpsc::channel(QUEUE);
    (BackupQueue { sender }, spawn_scoped("backups", run(bus, store, requests)))
}

impl BackupQueue {
    pub(super) fn try_send(&self, request: PageRequest) -> Result<(), QueueFull> {
        self.sender.try_send(request).map_err(|_| QueueFull)
    }
}

async fn run(bus: Bus, store: Store, mut requests: mpsc::Receiver<PageRequest>) {
    while let Some(request) = requests.recv().await {
        let answer = match &request.what {
            What::Backup { revision, after } => {
                let page = page(&store, *revision, after.as_deref()).await;
                Answer::Backup(page.map(Box::new).map_err(|error| describe(&error)))
            }
            What::Audit { chain, after, limit } => {
                let page = audit::page(&store, *chain, *after, *limit).await;
                Answer::Audit(page.map(Box::new).map_err(|error| describe(&error)))
            }
        };
        if let Err(error) = bus.answer(&request.reply, &Reply::new(false, answer)).await {
            tracing::warn!(%error, "cannot send a page of a backup or of the audit log");
        }
    }
}

async fn page(store: &Store, revision: Option<i64>, after: Option<&str>) -> Result<Page, etcd::Error> {
    let request = etcd::PageRequest { after, revision, limit: MAX_KEYS };
    let read = store.page(keys::STATE, request).await?;
    let (mut entries, mut next, mut bytes) = (Vec::new(), None, 0);
    let mut more = read.more;
    for (key, value) in read.pairs {
        if bytes > 0 && bytes + value.len() > MAX_BYTES {
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

/// The schema version at a revision. During a migration this is the old version: after a restore the leader migrates the state
/// again, and a migration leaves values alone that it has already converted.
async fn schema_at(store: &Store, revision: i64) -> Result<u32, etcd::Error> {
    let request = etcd::PageRequest { after: None, revision: Some(revision), limit: 1 };
    let found = store.page(keys::SCHEMA, request).await?.pairs.into_iter().next();
    let record = found.and_then(|(_, value)| serde_json::from_slice::<SchemaRecord>(&value).ok());
    Ok(record.map_or(SCHEMA_VERSION, |record| record.version))
}

fn describe(error: &etcd::Error) -> String {
    match error {
        etcd::Error::NoRevision { .. } => format!("{error}; begin the backup again"),
        other => format!("{other}; try again in a moment"),
    }
}
