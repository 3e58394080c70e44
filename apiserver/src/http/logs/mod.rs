//! `/api/logs`: what the containers of a group wrote, looked up or followed (ours).
//!
//! The answer is one JSON object a line ([`LogRecord`]): a line of a container, or why one cannot be read. Without `follow` the
//! lines of several containers are merged by time. With `follow` each comes as it is written, also after a restart or a move of
//! its instance; an empty line now and then keeps the connection.

mod merge;
mod source;
mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use contract::access::Right;
use contract::logs::{InstanceLine, LogLine, LogProblem, LogRecord};
use contract::name::GroupName;
use contract::query::{Answer, GroupView, Query};
use fabric::tasks::{self, Scoped};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{mpsc, watch};
use tokio::time::interval;

use super::audience::{Audience, Due};
use super::events::{NO_BUFFERING, TOO_MANY_FOLLOWERS};
use super::respond::{HttpResult, Refused, shown};
use super::router::HttpMethod;
use super::{Api, Call, guard};
use crate::access::Client;
use crate::metrics::Metrics;
use crate::peers::Permit;
use crate::queries::{self, Queries};
use crate::rates::Payer;
use crate::sessions::Sessions;
use merge::Merge;
use source::{Batch, ContainerLog};
use wanted::{MOST_SOURCES, SourceKey, Wanted};

/// Batches that wait for the client; more stay at the agents. A batch has at most 256 KiB.
const BATCHES: usize = 4;
/// Bytes of a merged piece of the answer.
const PIECE: usize = 64 << 10;
/// How often a follower looks where the containers are, while one of them is not read.
const LOOK: Duration = Duration::from_secs(1);
/// The same while all are read, in looks: new instances appear.
const RARELY: u32 = 5;

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, call).await,
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => {
            Err(Refused::unsupported(call.method.word()))
        }
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let wanted = Arc::new(Wanted::read(&call.params, api.streams.now())?);
    let Some(name) = call.params.text("name") else {
        return Err(Refused::bad_request("No pod group name provided."));
    };
    let unknown = || Refused::not_found(format!("No such pod group name={}", shown(name)));
    let name: GroupName = name.parse().map_err(|_| unknown())?;
    let group = group(&api.queries, &call.client, &name).await?.ok_or_else(unknown)?;
    if !call.client.principal.may(Right::Logs, Some(&group.spec.namespace)) {
        return Err(guard::denied(&call.client, Right::Logs, name.as_str()));
    }
    let keys = wanted.sources(&group)?;
    let permit =
        api.streams.follower_permit(call.client.payer()).map_err(|_| Refused::too_often(TOO_MANY_FOLLOWERS, 1))?;
    let reading = Reading { sessions: api.sessions.clone(), queries: api.queries.clone(), wanted, name };
    let content =
        if reading.wanted.follow { reading.follow(*group, call.client.clone()) } else { reading.once(&group, &keys) };
    Ok(answer(Feed { content, audience: Audience::of(api, call), _counted: Counted::new(&api.metrics, permit) }))
}

/// The group, if the client may read it.
async fn group(queries: &Queries, client: &Client, name: &GroupName) -> Result<Option<Box<GroupView>>, queries::Error> {
    let reply = queries.ask(&Query::Group { name: name.clone(), refresh: false }).await?;
    let Answer::Group(found) = reply.answer else { return Err(queries::Error::Mismatch) };
    Ok(found.filter(|group| client.reads(&group.spec.namespace)))
}

fn answer(feed: Feed) -> Response {
    let pieces = futures_util::stream::unfold(feed, async |mut feed| {
        let piece = feed.next().await?;
        Some((piece, feed))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// What one request reads.
struct Reading {
    sessions: Sessions,
    queries: Queries,
    wanted: Arc<Wanted>,
    name: GroupName,
}

impl Reading {
    fn source(&self, key: SourceKey, out: mpsc::Sender<Batch>) -> ContainerLog {
        ContainerLog { key, sessions: self.sessions.clone(), wanted: Arc::clone(&self.wanted), out }
    }

    /// The logs as they are now, merged.
    fn once(&self, group: &GroupView, keys: &[SourceKey]) -> Content {
        let targets = wanted::targets(group);
        let start = |key: &SourceKey| {
            let (out, batches) = mpsc::channel(1);
            let reading = self.source(*key, out).read_once(targets.get(key).cloned());
            Merged { key: *key, node: String::new(), batches, _task: tasks::spawn_scoped("log", reading) }
        };
        let logs: Vec<Merged> = keys.iter().map(start).collect();
        Content::Merged { merge: Merge::new(logs.len()), logs }
    }

    fn follow(self, group: GroupView, client: Client) -> Content {
        let (out, batches) = mpsc::channel(BATCHES);
        Content::Live { batches, _task: tasks::spawn_scoped("follow logs", self.direct(group, client, out)) }
    }

    /// Looks where the containers are, and starts a source for each.
    async fn direct(self, mut group: GroupView, client: Client, out: mpsc::Sender<Batch>) {
        let (publish, targets) = watch::channel(Arc::default());
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut sources: BTreeMap<SourceKey, Scoped> = BTreeMap::new();
        let (mut look, mut looks, mut is_later) = (interval(LOOK), 0_u32, false);
        loop {
            publish.send_replace(Arc::new(wanted::targets(&group)));
            for key in self.wanted.named(&group).into_iter().take(MOST_SOURCES) {
                sources.entry(key).or_insert_with(|| {
                    let source = self.source(key, out.clone());
                    let followed = source.follow(targets.clone(), (Arc::clone(&waiting), is_later));
                    tasks::spawn_scoped("log", followed)
                });
            }
            is_later = true;
            group = loop {
                look.tick().await;
                looks = looks.wrapping_add(1);
                if waiting.load(Ordering::Relaxed) == 0 && !looks.is_multiple_of(RARELY) {
                    continue;
                }
                match self::group(&self.queries, &client, &self.name).await {
                    Ok(Some(group)) => break *group,
                    // It was removed: nothing will follow.
                    Ok(None) => return,
                    Err(error) => tracing::debug!(%error, group = %self.name, "cannot look where the containers are"),
                }
            };
        }
    }
}

/// One log of a merged answer.
struct Merged {
    key: SourceKey,
    node: String,
    batches: mpsc::Receiver<Batch>,
    _task: Scoped,
}

enum Content {
    Merged { merge: Merge, logs: Vec<Merged> },
    Live { batches: mpsc::Receiver<Batch>, _task: Scoped },
}

impl Content {
    /// The next piece; none at the end. Cancel-safe: what was received is kept.
    async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Live { batches, .. } => batches.recv().await.map(encode),
            Self::Merged { merge, logs } => loop {
                let Some(index) = merge.lacking() else { return piece(merge, logs) };
                // Lines that are ready do not wait for the log that lacks one.
                let log = logs.get_mut(index)?;
                match log.batches.recv().await {
                    Some(batch @ Batch { content: Err(_), .. }) => return Some(encode(batch)),
                    Some(Batch { node, content: Ok(lines), .. }) => {
                        log.node = node;
                        merge.add(index, lines);
                        if let Some(piece) = piece(merge, logs) {
                            return Some(piece);
                        }
                    }
                    None => merge.end(index),
                }
            },
        }
    }
}

/// The lines that are ready; none when there are none.
fn piece(merge: &mut Merge, logs: &[Merged]) -> Option<Bytes> {
    let mut text = Vec::new();
    while text.len() < PIECE
        && let Some((index, line)) = merge.next()
    {
        if let Some(log) = logs.get(index) {
            write(&mut text, &instance_line(log.key, &log.node, line));
        }
    }
    (!text.is_empty()).then(|| text.into())
}

fn encode(batch: Batch) -> Bytes {
    let Batch { key: SourceKey { instance, container }, node, content } = batch;
    let mut text = Vec::new();
    match content {
        Ok(lines) => {
            lines.into_iter().for_each(|line| write(&mut text, &instance_line(batch.key, &node, line)));
        }
        Err(error) => write(&mut text, &LogRecord::Problem(LogProblem { instance, container, error })),
    }
    text.into()
}

fn instance_line(key: SourceKey, node: &str, line: LogLine) -> LogRecord {
    let SourceKey { instance, container } = key;
    LogRecord::Line(InstanceLine { instance, container, node: node.to_owned(), line })
}

/// Compact JSON has no line breaks, so it is one line.
fn write(text: &mut Vec<u8>, record: &LogRecord) {
    text.extend(serde_json::to_vec(record).unwrap_or_default());
    text.push(b'\n');
}

/// Counts a reader while it reads.
struct Counted {
    readers: Gauge,
    metrics: Metrics,
    _permit: Permit<Payer>,
}

impl Counted {
    fn new(metrics: &Metrics, permit: Permit<Payer>) -> Self {
        let readers = metrics.log_readers.clone();
        readers.inc();
        Self { readers, metrics: metrics.clone(), _permit: permit }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.readers.dec();
    }
}

/// Ends an answer that is not complete.
#[derive(Debug, thiserror::Error)]
#[error("the apiserver ends before the answer is complete")]
struct CutOff;

struct Feed {
    content: Content,
    audience: Audience,
    _counted: Counted,
}

impl Feed {
    async fn next(&mut self) -> Option<Result<Bytes, CutOff>> {
        tokio::select! {
            due = self.audience.due() => match (due, &self.content) {
                (Due::KeepAlive, _) => Some(Ok(Bytes::from_static(b"\n"))),
                (Due::End, Content::Live { .. }) => None,
                // Without an error the client would take what it has for the whole log.
                (Due::End, Content::Merged { .. }) => Some(Err(CutOff)),
            },
            piece = self.content.next() => {
                let piece = piece?;
                self._counted.metrics.log_bytes.inc_by(piece.len() as u64);
                Some(Ok(piece))
            }
        }
    }
}
