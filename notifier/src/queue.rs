//! The queue of one callback: posts its notices one after the other.
//!
//! While the queue posts one notice, it reports progress on all of them to the bus, so the bus does not redeliver those
//! that wait. An idle queue ends.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use contract::callback_url;
use contract::notice::{DeadLetter, Notice};
use contract::subjects::{self, DeadLetterKind};
use fabric::clock::Clock;
use fabric::nats::{Bus, Job};
use fabric::shutdown::Shutdown;
use planner::webhook::{AfterFailure, Schedule};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::callbacks::Callbacks;
use crate::metrics::Metrics;
use crate::post::{Attempt, Poster};

/// A queue without work ends after this time; the next notice opens a new one.
const IDLE: Duration = Duration::from_secs(60);
/// Time for a post in flight to finish at shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// Time for the bus to store a dead letter.
const DEAD_LETTER_DEADLINE: Duration = Duration::from_secs(5);
/// After a failed attempt to store a dead letter.
const DEAD_LETTER_RETRY: Duration = Duration::from_secs(30);

/// A notice with its job on the bus.
#[derive(Debug)]
pub struct Work {
    pub notice: Notice,
    pub job: Job,
    /// Its place in the queue, released when the job is settled.
    pub permit: OwnedSemaphorePermit,
}

/// Shared by all queues.
#[derive(Debug)]
pub struct Tools {
    pub bus: Bus,
    pub callbacks: Callbacks,
    pub poster: Poster,
    pub schedule: Schedule,
    /// Interval of progress messages to the bus.
    pub progress_every: Duration,
    pub metrics: Metrics,
    /// Stamps dead letters.
    pub clock: Clock,
}

impl Tools {
    /// Makes one attempt if the callback is still registered.
    async fn post(&self, notice: &Notice) -> Attempt {
        match self.callbacks.is_former(notice).await {
            Some(is_former) => self.poster.post(notice, is_former, self.clock.now()).await,
            None => Attempt::Unregistered,
        }
    }
}

/// Serves one callback until it is idle or until shutdown.
pub async fn run(tools: Arc<Tools>, incoming: mpsc::Receiver<Work>, shutdown: Shutdown) {
    let mut alive = interval(tools.progress_every);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut queue = Queue { tools, incoming, waiting: VecDeque::new(), alive, shutdown };
    while let Some(work) = queue.next().await {
        match queue.attempt(&work).await {
            Some(attempt) => settle(&queue.tools, &work, attempt).await,
            None => {
                // Not acknowledged, so the bus delivers it again: at least once, possibly twice.
                queue.waiting.push_front(work);
                break;
            }
        }
    }
    queue.put_back().await;
}

struct Queue {
    tools: Arc<Tools>,
    incoming: mpsc::Receiver<Work>,
    /// Received while another notice was posted; bounded by the permits of the queue.
    waiting: VecDeque<Work>,
    alive: Interval,
    shutdown: Shutdown,
}

impl Queue {
    async fn next(&mut self) -> Option<Work> {
        if self.shutdown.is_triggered() {
            return None;
        }
        if let Some(work) = self.waiting.pop_front() {
            return Some(work);
        }
        tokio::select! {
            work = timeout(IDLE, self.incoming.recv()) => work.unwrap_or(None),
            () = self.shutdown.wait() => None,
        }
    }

    /// Posts `work`. None when shutdown cut the attempt short.
    async fn attempt(&mut self, work: &Work) -> Option<Attempt> {
        let tools = self.tools.clone();
        let posting = tools.post(&work.notice);
        tokio::pin!(posting);
        loop {
            tokio::select! {
                attempt = &mut posting => return Some(attempt),
                Some(more) = self.incoming.recv() => self.waiting.push_back(more),
                _ = self.alive.tick() => keep_alive(work, &self.waiting).await,
                () = self.shutdown.wait() => return timeout(GRACE, &mut posting).await.ok(),
            }
        }
    }

    /// Returns all notices to the bus without delay, for another notifier.
    async fn put_back(mut self) {
        self.incoming.close();
        while let Ok(work) = self.incoming.try_recv() {
            self.waiting.push_back(work);
        }
        for work in self.waiting {
            logged(work.job.retry_after(Duration::ZERO).await);
        }
    }
}

async fn keep_alive(current: &Work, waiting: &VecDeque<Work>) {
    for work in std::iter::once(current).chain(waiting) {
        logged(work.job.progress().await);
    }
}

/// Acknowledges the job, schedules a retry or moves it to the dead letters.
async fn settle(tools: &Tools, work: &Work, attempt: Attempt) {
    let Work { notice, job, permit: _ } = work;
    let callback = callback_url::shown(&notice.callback);
    match attempt {
        Attempt::Delivered => {
            tools.metrics.delivered.inc();
            tracing::info!(%callback, message = notice.body.message, "notice delivered");
            logged(job.ack().await);
        }
        Attempt::Unregistered => {
            tools.metrics.unregistered.inc();
            tracing::info!(%callback, message = notice.body.message, "notice dropped: no such callback");
            logged(job.ack().await);
        }
        Attempt::Permanent(reason) => bury(tools, job, reason).await,
        Attempt::Refused(refused) => {
            tools.metrics.refused.inc();
            bury(tools, job, format!("{callback} is refused: {refused}")).await;
        }
        Attempt::Failed(reason) => {
            tools.metrics.failed.inc();
            match tools.schedule.after_failure(job.delivered, key(job)) {
                AfterFailure::RetryIn(delay) => {
                    tracing::warn!(%callback, attempt = job.delivered, ?delay, reason, "notice not delivered");
                    logged(job.retry_after(delay).await);
                }
                AfterFailure::GiveUp => {
                    bury(tools, job, format!("given up, delivery {}: {reason}", job.delivered)).await
                }
            }
        }
    }
}

/// Stores a job as a dead letter, then acknowledges it: in this order, so that a crash between them loses nothing.
pub async fn bury(tools: &Tools, job: &Job, reason: String) {
    tracing::error!(subject = job.subject, reason, "notice given up");
    let letter = DeadLetter::new(&job.subject, reason, &callback_url::shown_in_notice(&job.payload), tools.clock.now());
    let subject = subjects::dead_letter(DeadLetterKind::Notice);
    let id = format!("notice-{}-{:016x}", job.sequence, key(job));
    match tools.bus.publish_durable(&subject, &id, &[], &letter, DEAD_LETTER_DEADLINE).await {
        Ok(_) => {
            tools.metrics.dead.inc();
            logged(job.ack().await);
        }
        Err(error) => {
            tracing::warn!(%error, "dead letter not stored");
            logged(job.retry_after(DEAD_LETTER_RETRY).await);
        }
    }
}

/// Hash of a notice, the source of its jitter.
pub fn key(job: &Job) -> u64 {
    let mut hasher = DefaultHasher::new();
    (job.sequence, &job.payload).hash(&mut hasher);
    hasher.finish()
}

/// Logs a lost acknowledgement: the bus will deliver the job again, here or to another notifier.
fn logged(result: Result<(), fabric::nats::Error>) {
    if let Err(error) = result {
        tracing::warn!(%error, "could not acknowledge a notice; the bus will deliver it again");
    }
}
