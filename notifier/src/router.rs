//! Routes notices to one queue per callback and never waits for a queue.
//!
//! A notice whose queue is full goes back to the bus with a delay. The bus counts that as a delivery, so the notice has
//! one attempt less; the last attempt is always made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contract::notice::Notice;
use fabric::nats::Job;
use fabric::shutdown::Shutdown;
use planner::webhook::jittered;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::queue::{self, Tools, Work};

/// Notices per queue. When a queue is full, the router returns the next notice to the bus with a delay.
const QUEUE_SIZE: usize = 100;
/// Queues at a time. A notice for a further callback goes back to the bus with a delay.
const MOST_QUEUES: usize = 1000;
/// Delay of a notice whose queue is full: two timeouts of a hanging callback.
const PUT_BACK: Duration = Duration::from_secs(30);

/// The open queues, by callback URL.
#[derive(Debug)]
pub struct Router {
    tools: Arc<Tools>,
    queues: BTreeMap<String, CallbackQueue>,
    shutdown: Shutdown,
}

#[derive(Debug)]
struct CallbackQueue {
    permits: Arc<Semaphore>,
    sender: mpsc::Sender<Work>,
    task: JoinHandle<()>,
}

impl Router {
    pub fn new(tools: Arc<Tools>, shutdown: Shutdown) -> Self {
        Self { tools, queues: BTreeMap::new(), shutdown }
    }

    /// Puts a job into the queue of its callback.
    pub async fn take(&mut self, job: Job) {
        match serde_json::from_slice::<Notice>(&job.payload) {
            Err(error) => queue::bury(&self.tools, &job, format!("cannot be read: {error}")).await,
            Ok(notice) => {
                if let Some(job) = self.enqueue(notice, job) {
                    self.put_back(&job).await;
                }
            }
        }
    }

    /// Returns the job when its queue is full.
    fn enqueue(&mut self, notice: Notice, job: Job) -> Option<Job> {
        // An idle queue closes itself.
        if self.queues.get(&notice.callback).is_none_or(|queue| queue.sender.is_closed()) {
            self.queues.retain(|_, queue| !queue.sender.is_closed());
            if self.queues.len() >= MOST_QUEUES {
                return Some(job);
            }
            self.queues.insert(notice.callback.clone(), self.open());
            self.tools.metrics.queues.set(i64::try_from(self.queues.len()).unwrap_or(i64::MAX));
        }
        let Some(queue) = self.queues.get(&notice.callback) else { return Some(job) };
        let Ok(permit) = queue.permits.clone().try_acquire_owned() else { return Some(job) };
        // The channel has room for every permit, so this fails only when the queue closes at this moment.
        queue.sender.try_send(Work { notice, job, permit }).err().map(|error| error.into_inner().job)
    }

    fn open(&self) -> CallbackQueue {
        let (sender, incoming) = mpsc::channel(QUEUE_SIZE);
        let task =
            fabric::tasks::spawn("callback queue", queue::run(self.tools.clone(), incoming, self.shutdown.clone()));
        CallbackQueue { permits: Arc::new(Semaphore::new(QUEUE_SIZE)), sender, task }
    }

    /// Returns a job to the bus: with a delay, or without one during shutdown.
    pub async fn put_back(&self, job: &Job) {
        self.tools.metrics.put_back.inc();
        // During shutdown the queue is closed, not full: another notifier may take the job immediately.
        let leaving = self.shutdown.is_triggered();
        let delay = if leaving { Duration::ZERO } else { jittered(PUT_BACK, queue::key(job)) };
        if let Err(error) = job.retry_after(delay).await {
            tracing::warn!(%error, "could not return a notice to the bus");
        }
    }

    /// Waits until every queue has returned its notices to the bus. The shared shutdown ends the queues.
    pub async fn close(self) {
        for queue in self.queues.into_values() {
            drop(queue.sender);
            // The task of a queue logs its panic; the bus delivers the jobs again.
            drop(queue.task.await);
        }
    }
}
