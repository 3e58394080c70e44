//! The lane of one callback: its notices one after the other, and nobody else's.
//!
//! While one notice is being posted the others wait here, and the bus is told that they are alive; a lane that has
//! nothing to do ends.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

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

/// A lane without work ends after this; the next notice opens a new one.
const IDLE: Duration = Duration::from_secs(60);
/// How long a post in flight may take to end at shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// How long the bus may take to store a dead letter.
const DEAD_LETTER_DEADLINE: Duration = Duration::from_secs(5);
/// After a failed attempt to store a dead letter.
const DEAD_LETTER_RETRY: Duration = Duration::from_secs(30);

/// A notice with the job that brought it.
#[derive(Debug)]
pub struct Work {
    /// The notice.
    pub notice: Notice,
    /// Its job on the bus.
    pub job: Job,
    /// Its place in the lane, given back when it is settled.
    pub place: OwnedSemaphorePermit,
}

/// What lanes work with.
#[derive(Debug)]
pub struct Tools {
    /// The bus, for dead letters.
    pub bus: Bus,
    /// Which callbacks are registered.
    pub callbacks: Callbacks,
    /// Posts.
    pub poster: Poster,
    /// When to try again.
    pub schedule: Schedule,
    /// How often the bus is told that a job is alive.
    pub progress_every: Duration,
    /// Counters.
    pub metrics: Metrics,
    /// For the time of dead letters.
    pub clock: Clock,
}

impl Tools {
    /// One attempt, if the callback is still registered.
    async fn post(&self, notice: &Notice) -> Attempt {
        if !self.callbacks.may_have(&notice.callback).await {
            return Attempt::Unregistered;
        }
        self.poster.post(notice).await
    }
}

/// Serves one callback until nothing comes any more or until shutdown.
pub async fn run(tools: Arc<Tools>, incoming: mpsc::Receiver<Work>, shutdown: Shutdown) {
    let mut alive = interval(tools.progress_every);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut lane = Lane { tools, incoming, waiting: VecDeque::new(), alive, shutdown };
    while let Some(work) = lane.next().await {
        match lane.attempt(&work).await {
            Some(attempt) => settle(&lane.tools, &work, attempt).await,
            None => {
                // Not acknowledged, so somebody posts it again: twice is better than never.
                lane.waiting.push_front(work);
                break;
            }
        }
    }
    lane.put_back().await;
}

struct Lane {
    tools: Arc<Tools>,
    incoming: mpsc::Receiver<Work>,
    /// Taken in while another was posted; the lane's places bound how many there are.
    waiting: VecDeque<Work>,
    alive: Interval,
    shutdown: Shutdown,
}

impl Lane {
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

    /// Posts `work`; none when shutdown did not leave it the time.
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

    /// Gives everything back to the bus at once, for another notifier.
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

/// Tells the bus what became of the job.
async fn settle(tools: &Tools, work: &Work, attempt: Attempt) {
    let Work { notice, job, place: _ } = work;
    match attempt {
        Attempt::Delivered => {
            tools.metrics.delivered.inc();
            tracing::info!(callback = notice.callback, message = notice.body.message, "notice delivered");
            logged(job.ack().await);
        }
        Attempt::Unregistered => {
            tools.metrics.unregistered.inc();
            tracing::info!(
                callback = notice.callback,
                message = notice.body.message,
                "notice dropped: no such callback"
            );
            logged(job.ack().await);
        }
        Attempt::Hopeless(reason) => bury(tools, job, reason).await,
        Attempt::Failed(reason) => {
            tools.metrics.failed.inc();
            match tools.schedule.after_failure(job.delivered, key(job)) {
                AfterFailure::RetryIn(delay) => {
                    tracing::warn!(
                        callback = notice.callback,
                        attempt = job.delivered,
                        ?delay,
                        reason,
                        "notice not delivered"
                    );
                    logged(job.retry_after(delay).await);
                }
                AfterFailure::GiveUp => {
                    bury(tools, job, format!("given up, delivery {}: {reason}", job.delivered)).await
                }
            }
        }
    }
}

/// Puts a job among the dead letters and takes it off the queue; in this order, so that it is never nowhere.
pub async fn bury(tools: &Tools, job: &Job, reason: String) {
    tracing::error!(subject = job.subject, reason, "notice given up");
    let letter = DeadLetter::new(&job.subject, reason, &job.payload, tools.clock.now());
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

/// An answer the bus did not hear means the job comes again, to us or to another.
fn logged(result: Result<(), fabric::nats::Error>) {
    if let Err(error) = result {
        tracing::warn!(%error, "the bus did not hear what became of a notice");
    }
}
