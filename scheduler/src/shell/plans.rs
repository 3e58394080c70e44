//! Computes plans, one at a time and on another thread, so that they delay neither decisions nor other answers.
//!
//! Requests wait here until the thread is free; then the core copies the state that the plan is computed from. When the client's
//! deadline passes, its request is dropped, also during the computation.

use std::collections::VecDeque;
use std::time::Duration;

use contract::command::Refusal;
use contract::query::{Answer, Query, Reply};
use fabric::nats::Bus;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::subscriptions::QueryRequest;
use crate::core::io::Inbox;
use crate::core::queries::dry_run::DryRun;
use crate::metrics::Metrics;

/// Requests that wait. When full, the next one is answered as busy.
const QUEUE: usize = 16;
/// How long a client waits that sends no deadline: one of an older version.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(3);
/// The upper limit of a client's deadline, so that a request cannot keep its place for longer.
const MAX_DEADLINE: Duration = Duration::from_secs(30);
/// After how many seconds a client that was answered as busy may ask again. A plan takes less than a second.
const RETRY_AFTER: u32 = 2;

pub(super) struct Plans {
    metrics: Metrics,
    waiting: VecDeque<QueryRequest>,
    /// The request that the core prepares or the thread computes.
    current: Option<Current>,
    done_sender: mpsc::Sender<()>,
    done: mpsc::Receiver<()>,
}

struct Current {
    inbox: Inbox,
    deadline: Instant,
    is_computed: bool,
}

pub(super) enum Admission {
    Queued,
    /// The queue is full: the answer for the client.
    Busy(Inbox, Box<Reply>),
}

impl Plans {
    pub(super) fn new(metrics: Metrics) -> Self {
        // One computation at a time, so one message at a time.
        let (done_sender, done) = mpsc::channel(1);
        Self { metrics, waiting: VecDeque::new(), current: None, done_sender, done }
    }

    pub(super) fn admit(&mut self, request: QueryRequest) -> Admission {
        let now = Instant::now();
        self.waiting.retain(|request| deadline(request) > now);
        if self.waiting.len() >= QUEUE {
            self.metrics.plans_refused.inc();
            let reason = "the scheduler computes other plans; try again in a moment".to_owned();
            let answer = Answer::Plan(Err(Refusal::Unfit { reason }));
            let reply = Reply { retry_after: Some(RETRY_AFTER), ..Reply::new(false, answer) };
            return Admission::Busy(request.reply, Box::new(reply));
        }
        self.waiting.push_back(request);
        Admission::Queued
    }

    /// The next request whose client still waits, once the thread is free. May be cancelled without loss.
    pub(super) async fn next(&mut self) -> QueryRequest {
        loop {
            if let Some(current) = &self.current {
                // When this process loses the leadership, the core drops the request, and only the deadline ends it here.
                let done = timeout_at(current.deadline, self.done.recv()).await;
                if done.is_err() && current.is_computed {
                    // The computation checks the deadline in each step and ends.
                    self.done.recv().await;
                }
                self.current = None;
            }
            let Some(request) = self.waiting.pop_front() else { return std::future::pending().await };
            let deadline = deadline(&request);
            if deadline > Instant::now() {
                self.current = Some(Current { inbox: request.reply.clone(), deadline, is_computed: false });
                return request;
            }
        }
    }

    /// The core has answered without a computation, because it refuses the spec.
    pub(super) fn answered(&mut self, inbox: &Inbox) {
        if self.current.as_ref().is_some_and(|current| current.inbox == *inbox && !current.is_computed) {
            self.current = None;
        }
    }

    pub(super) fn compute(&mut self, bus: &Bus, inbox: Inbox, stale: bool, dry_run: Box<DryRun>) {
        let Some(current) = self.current.as_mut().filter(|current| current.inbox == inbox && !current.is_computed)
        else {
            // The client's deadline has passed and another request is current.
            return;
        };
        current.is_computed = true;
        let (bus, deadline, done) = (bus.clone(), current.deadline, self.done_sender.clone());
        self.metrics.plans.inc();
        let work = tokio::task::spawn_blocking(move || {
            let Some(answer) = dry_run.answer(&|| Instant::now() >= deadline) else { return };
            // Encoded on this thread too: a plan may have several megabytes.
            if let Err(error) = Handle::current().block_on(bus.answer(&inbox, &Reply::new(stale, answer))) {
                tracing::warn!(%error, "cannot send a plan");
            }
        });
        fabric::tasks::spawn("plan", async move {
            if let Err(error) = work.await {
                // The client runs into its deadline.
                tracing::error!(%error, "the computation of a plan panicked");
            }
            // The channel closes only when the scheduler stops.
            let _ = done.send(()).await;
        });
    }
}

pub(super) fn is_plan(request: &QueryRequest) -> bool {
    matches!(request.query, Query::Plan { .. })
}

fn deadline(request: &QueryRequest) -> Instant {
    let wait = match &request.query {
        Query::Plan { within_millis: Some(millis), .. } => Duration::from_millis(*millis),
        _ => DEFAULT_DEADLINE,
    };
    request.received_at + wait.min(MAX_DEADLINE)
}

#[cfg(test)]
mod tests {
    use contract::spec::PodGroupSpec;
    use futures_util::FutureExt;

    use super::*;

    fn request(name: &str, within_millis: Option<u64>) -> QueryRequest {
        let spec = Box::new(PodGroupSpec { name: name.to_owned(), ..PodGroupSpec::default() });
        QueryRequest { query: Query::Plan { spec, within_millis }, reply: name.to_owned(), received_at: Instant::now() }
    }

    fn plans() -> Plans {
        Plans::new(Metrics::default())
    }

    impl Plans {
        fn next_now(&mut self) -> Option<String> {
            self.next().now_or_never().map(|request| request.reply)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_plan_is_computed_at_a_time() {
        let mut plans = plans();
        for (name, deadline) in [("a", 3_000), ("b", 3_000), ("c", 9_000)] {
            assert!(matches!(plans.admit(request(name, Some(deadline))), Admission::Queued));
        }
        assert_eq!((plans.next_now().as_deref(), plans.next_now()), (Some("a"), None));
        plans.answered(&"another".to_owned());
        assert_eq!(plans.next_now(), None, "that answer was for another request");
        plans.answered(&"a".to_owned());
        assert_eq!(plans.next_now().as_deref(), Some("b"), "a refused spec leaves nothing to compute");
        // The core lost the leadership and dropped `b`: its deadline ends it.
        assert_eq!(plans.next().await.reply, "c");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_dropped_when_the_deadline_of_its_client_has_passed() {
        let mut plans = plans();
        plans.admit(request("short", Some(1_000)));
        plans.admit(request("long", Some(10_000)));
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!(plans.next_now().as_deref(), Some("long"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_beyond_the_queue_is_answered_as_busy() {
        let mut plans = plans();
        for number in 0..QUEUE {
            assert!(matches!(plans.admit(request(&number.to_string(), None)), Admission::Queued));
        }
        let Admission::Busy(inbox, reply) = plans.admit(request("one more", None)) else {
            panic!("the request was admitted")
        };
        assert_eq!((inbox.as_str(), reply.retry_after), ("one more", Some(RETRY_AFTER)));
        assert_eq!(plans.metrics.plans_refused.get(), 1);
        tokio::time::advance(DEFAULT_DEADLINE).await;
        assert!(
            matches!(plans.admit(request("later", None)), Admission::Queued),
            "expired requests give their places back"
        );
    }
}
