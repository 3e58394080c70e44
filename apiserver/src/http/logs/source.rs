//! Reads the log of one container: once, or followed through restarts and moves of its instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contract::logs::{LogLine, LogPosition, LogTime};
use contract::pod_id::PodId;
use contract::session::LogSelection;
use contract::time::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::wanted::{LogTarget, SourceKey, Wanted};
use crate::sessions::{Error, Sessions};

/// Pause before a node that could not be read is asked again.
const RETRY: Duration = Duration::from_secs(2);

const STOPPED: &str = "the container stopped; its log continues when it starts again";

/// Lines of one container, or why it cannot be read.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) key: SourceKey,
    pub(super) node: String,
    pub(super) content: Result<Vec<LogLine>, String>,
}

/// The client does not read any more.
#[derive(Debug)]
struct Gone;

/// Reads one container for one request.
pub(super) struct ContainerLog {
    pub(super) key: SourceKey,
    pub(super) sessions: Sessions,
    pub(super) wanted: Arc<Wanted>,
    pub(super) out: mpsc::Sender<Batch>,
}

/// How a session ended.
enum SessionEnd {
    /// The container has exited; it had last started at this time.
    Exited(Timestamp),
    Failed(Error),
}

/// What a follower does after a session.
enum Next {
    /// Reads again soon. The problem is reported if it is another one than before.
    Retry(Option<String>),
    /// Reports the problem and waits until the container changes. A container that was read to its end had last started at this
    /// time.
    Wait(String, Option<Timestamp>),
}

/// What a follower knows of the container that it reads.
struct Followed {
    pod: PodId,
    position: LogPosition,
    /// When its first session was opened, by the clock of the node.
    opened_at: Timestamp,
}

impl ContainerLog {
    /// Reads the log as it is now.
    pub(super) async fn read_once(self, target: Option<LogTarget>) {
        let Some(target) = target else { return };
        let selection = self.wanted.selection(self.key, &target.pod);
        // The client went away: nothing is left to do.
        let _ = match self.session(&target, selection, &mut None).await {
            Ok(SessionEnd::Exited(_)) => Ok(()),
            Ok(SessionEnd::Failed(error)) => self.report(Some(&target), text(&error, &target)).await,
            Err(gone) => Err(gone),
        };
    }

    /// Follows the log until the request ends. `targets` says where the container is; `waiting` counts the sources that wait for
    /// news of it. An instance that appears later is read from its first line.
    pub(super) async fn follow(
        self,
        mut targets: watch::Receiver<Arc<BTreeMap<SourceKey, LogTarget>>>,
        (waiting, is_later): (Arc<AtomicUsize>, bool),
    ) {
        let (mut followed, mut reported) = (None, String::new());
        loop {
            let target = targets.borrow_and_update().get(&self.key).cloned();
            let Ok(next) = self.read_next(target.as_ref(), &mut followed, is_later).await else { return };
            let news = match &next {
                Next::Retry(problem) => problem.clone().filter(|problem| *problem != reported),
                Next::Wait(problem, _) => Some(problem.clone()),
            };
            if let Some(problem) = news {
                problem.clone_into(&mut reported);
                if self.report(target.as_ref(), problem).await.is_err() {
                    return;
                }
            }
            let Next::Wait(_, read_until) = next else {
                sleep(RETRY).await;
                continue;
            };
            waiting.fetch_add(1, Ordering::Relaxed);
            let changed = wait_for_change(&mut targets, self.key, target.as_ref(), read_until).await;
            waiting.fetch_sub(1, Ordering::Relaxed);
            if changed.is_err() {
                return;
            }
        }
    }

    /// Reads as long as there is something to read, and decides what to do then.
    async fn read_next(
        &self,
        target: Option<&LogTarget>,
        followed: &mut Option<Followed>,
        is_later: bool,
    ) -> Result<Next, Gone> {
        let Some(target) = target else { return Ok(Next::Wait("the instance was removed".to_owned(), None)) };
        Ok(match self.read_on(target, followed, is_later).await? {
            SessionEnd::Exited(started_at) => Next::Wait(STOPPED.to_owned(), Some(started_at)),
            SessionEnd::Failed(error) if error.is_final() => Next::Wait(text(&error, target), Some(target.started_at)),
            // The agent has restarted; the log continues where it was.
            SessionEnd::Failed(error) if error.is_lost_session() => Next::Retry(None),
            SessionEnd::Failed(error) => Next::Retry(Some(text(&error, target))),
        })
    }

    /// Reads a container from where it was read to.
    async fn read_on(
        &self,
        target: &LogTarget,
        followed: &mut Option<Followed>,
        is_later: bool,
    ) -> Result<SessionEnd, Gone> {
        let first = self.wanted.selection(self.key, &target.pod);
        let whole = LogSelection { tail: None, since: None, ..first.clone() };
        let is_first = followed.is_none() && !is_later;
        let selection = match followed.as_mut().filter(|followed| followed.pod == target.pod) {
            Some(same) => {
                same.position.restart();
                let since = same.position.since().unwrap_or_else(|| from(same.opened_at));
                LogSelection { since: Some(since), ..whole }
            }
            None if is_first => first,
            // Another container: all its lines are new.
            None => {
                *followed = None;
                whole
            }
        };
        self.session(target, selection, followed).await
    }

    /// Reads one session to its end.
    async fn session(
        &self,
        target: &LogTarget,
        selection: LogSelection,
        followed: &mut Option<Followed>,
    ) -> Result<SessionEnd, Gone> {
        let Some(node) = &target.node else { return Ok(SessionEnd::Failed(Error::NotPlaced { why: why(target) })) };
        let mut session = tokio::select! {
            opened = self.sessions.open_log(node, selection) => match opened {
                Ok(session) => session,
                Err(error) => return Ok(SessionEnd::Failed(error)),
            },
            () = self.out.closed() => return Err(Gone),
        };
        let opened = || Followed { pod: target.pod.clone(), position: LogPosition::default(), opened_at: session.at };
        let followed = followed.get_or_insert_with(opened);
        loop {
            let read = tokio::select! {
                read = session.read() => read,
                () = self.out.closed() => return Err(Gone),
            };
            let (mut lines, is_end) = match read {
                Ok(read) => read,
                Err(error) => return Ok(SessionEnd::Failed(error)),
            };
            lines.retain(|line| followed.position.advance(line));
            if !lines.is_empty() {
                self.send(node.to_string(), Ok(lines)).await?;
            }
            if is_end {
                return Ok(SessionEnd::Exited(session.started_at));
            }
        }
    }

    async fn report(&self, target: Option<&LogTarget>, problem: String) -> Result<(), Gone> {
        let node = target.and_then(|target| target.node.as_ref()).map(ToString::to_string);
        self.send(node.unwrap_or_default(), Err(problem)).await
    }

    async fn send(&self, node: String, content: Result<Vec<LogLine>, String>) -> Result<(), Gone> {
        self.out.send(Batch { key: self.key, node, content }).await.map_err(|_| Gone)
    }
}

/// Waits until the container may have more to read: it is another one, or it started again.
async fn wait_for_change(
    targets: &mut watch::Receiver<Arc<BTreeMap<SourceKey, LogTarget>>>,
    key: SourceKey,
    known: Option<&LogTarget>,
    read_until: Option<Timestamp>,
) -> Result<(), watch::error::RecvError> {
    let is_other = |now: Option<&LogTarget>| match (now, known) {
        (Some(now), Some(known)) => {
            (&now.pod, &now.node) != (&known.pod, &known.node) || read_until.is_some_and(|until| now.started_at > until)
        }
        (now, known) => now.is_some() != known.is_some(),
    };
    targets.wait_for(|targets| is_other(targets.get(&key))).await.map(drop)
}

fn from(time: Timestamp) -> LogTime {
    LogTime::from_nanos(time.as_millis().saturating_mul(1_000_000))
}

fn why(target: &LogTarget) -> String {
    if target.why.is_empty() { String::new() } else { format!(": {}", target.why) }
}

/// The problem, with what keeps the instance from running.
fn text(error: &Error, target: &LogTarget) -> String {
    match (&target.node, error.is_no_container()) {
        (Some(node), true) => format!("its container was not created on {node} yet{}", why(target)),
        _ => error.to_string(),
    }
}
