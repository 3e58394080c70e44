//! Sorts notices into lanes, one per callback, and never waits for any of them.
//!
//! A notice without room goes back to the bus for a while. The bus counts that as a delivery, so such a notice has
//! fewer attempts left; it always has one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contract::notice::Notice;
use fabric::nats::Job;
use fabric::shutdown::Shutdown;
use planner::webhook::jittered;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::lane::{self, Tools, Work};

/// Notices a lane holds. When it is full the next one goes back to the bus for a while.
const LANE_PLACES: usize = 100;
/// Callbacks served at once; a notice for one more goes back to the bus for a while.
const MOST_LANES: usize = 1000;
/// How long a notice stays on the bus when its lane is full: two timeouts of a hanging callback.
const PUT_BACK: Duration = Duration::from_secs(30);

/// The lanes that are open.
#[derive(Debug)]
pub struct Desk {
    tools: Arc<Tools>,
    lanes: BTreeMap<String, Lane>,
    shutdown: Shutdown,
}

#[derive(Debug)]
struct Lane {
    places: Arc<Semaphore>,
    queue: mpsc::Sender<Work>,
    task: JoinHandle<()>,
}

impl Desk {
    /// A desk without lanes.
    pub fn new(tools: Arc<Tools>, shutdown: Shutdown) -> Self {
        Self { tools, lanes: BTreeMap::new(), shutdown }
    }

    /// Hands a job to the lane of its callback.
    pub async fn take(&mut self, job: Job) {
        match serde_json::from_slice::<Notice>(&job.payload) {
            Err(error) => lane::bury(&self.tools, &job, format!("cannot be read: {error}")).await,
            Ok(notice) => {
                if let Some(job) = self.hand_over(notice, job) {
                    self.put_back(&job).await;
                }
            }
        }
    }

    /// Gives the job back when there is no room for it.
    fn hand_over(&mut self, notice: Notice, job: Job) -> Option<Job> {
        // A lane that had nothing to do has ended.
        if self.lanes.get(&notice.callback).is_none_or(|lane| lane.queue.is_closed()) {
            self.lanes.retain(|_, lane| !lane.queue.is_closed());
            if self.lanes.len() >= MOST_LANES {
                return Some(job);
            }
            self.lanes.insert(notice.callback.clone(), self.open());
            self.tools.metrics.lanes.set(i64::try_from(self.lanes.len()).unwrap_or(i64::MAX));
        }
        let Some(lane) = self.lanes.get(&notice.callback) else { return Some(job) };
        let Ok(place) = lane.places.clone().try_acquire_owned() else { return Some(job) };
        // The channel has room for every place; it can only be closed, by a lane that ends this very moment.
        lane.queue.try_send(Work { notice, job, place }).err().map(|error| error.into_inner().job)
    }

    fn open(&self) -> Lane {
        let (queue, incoming) = mpsc::channel(LANE_PLACES);
        let task = fabric::tasks::spawn("lane", lane::run(self.tools.clone(), incoming, self.shutdown.clone()));
        Lane { places: Arc::new(Semaphore::new(LANE_PLACES)), queue, task }
    }

    /// Gives a job back to the bus: for a while, or at once when this process leaves.
    pub async fn put_back(&self, job: &Job) {
        self.tools.metrics.put_back.inc();
        // While leaving, a closed lane is no lack of room: another notifier may take the job at once.
        let leaving = self.shutdown.is_triggered();
        let delay = if leaving { Duration::ZERO } else { jittered(PUT_BACK, lane::key(job)) };
        if let Err(error) = job.retry_after(delay).await {
            tracing::warn!(%error, "a notice without room was not put back");
        }
    }

    /// Waits until every lane has put back what it holds; the lanes end by the shutdown they share.
    pub async fn close(self) {
        for lane in self.lanes.into_values() {
            drop(lane.queue);
            // A lane that panicked was logged by its task; its jobs come again by themselves.
            drop(lane.task.await);
        }
    }
}
