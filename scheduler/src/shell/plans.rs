//! Plans: computed one at a time on a thread of their own, so that they delay neither decisions nor other answers.
//!
//! Requests wait here, outside the core, until the worker is free; only then does the core copy what the plan is computed
//! from. A request whose client does not wait any longer is dropped, and so is a computation when that happens meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use contract::command::Refusal;
use contract::query::{Answer, Query, Reply};
use fabric::nats::Bus;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::ears::Asked;
use crate::core::io::Inbox;
use crate::core::queries::dry_run::DryRun;
use crate::metrics::Metrics;

/// Requests that wait for the worker. When full, the next one is answered as busy.
const MOST_WAITING: usize = 16;
/// How long a client of an older version waits.
const USUAL_PATIENCE: Duration = Duration::from_secs(3);
/// The longest patience believed: a request must not hold its place for longer.
const LONGEST_PATIENCE: Duration = Duration::from_secs(30);
/// When a client that was refused may ask again, in seconds: a plan takes a fraction of one.
const RETRY_AFTER: u32 = 2;

/// The requests, and the one being computed.
pub(super) struct Plans {
    metrics: Metrics,
    waiting: VecDeque<Asked>,
    /// The request that the core or the worker has.
    current: Option<Current>,
    done_sender: mpsc::Sender<()>,
    done: mpsc::Receiver<()>,
}

struct Current {
    inbox: Inbox,
    until: Instant,
    is_computed: bool,
}

/// What became of a request for a plan.
pub(super) enum Taken {
    /// It waits for its turn.
    Waits,
    /// Too many wait.
    Busy(Inbox, Box<Reply>),
}

impl Plans {
    pub(super) fn new(metrics: Metrics) -> Self {
        // One computation at a time, so one message at a time.
        let (done_sender, done) = mpsc::channel(1);
        Self { metrics, waiting: VecDeque::new(), current: None, done_sender, done }
    }

    /// Takes a request for a plan.
    pub(super) fn take(&mut self, asked: Asked) -> Taken {
        let now = Instant::now();
        self.waiting.retain(|asked| until(asked) > now);
        if self.waiting.len() >= MOST_WAITING {
            self.metrics.plans_refused.inc();
            let reason = "the scheduler computes other plans; try again in a moment".to_owned();
            let answer = Answer::Plan(Err(Refusal::Unfit { reason }));
            let reply = Reply { retry_after: Some(RETRY_AFTER), ..Reply::new(false, answer) };
            return Taken::Busy(asked.reply, Box::new(reply));
        }
        self.waiting.push_back(asked);
        Taken::Waits
    }

    /// The next request whose client still waits, once the worker is free. May be cancelled without loss.
    pub(super) async fn next(&mut self) -> Asked {
        loop {
            if let Some(current) = &self.current {
                // One that the core was deposed with never comes back: its time ends it.
                let is_over = timeout_at(current.until, self.done.recv()).await;
                if is_over.is_err() && current.is_computed {
                    // The computation notices by itself within a step.
                    self.done.recv().await;
                }
                self.current = None;
            }
            let Some(asked) = self.waiting.pop_front() else { return std::future::pending().await };
            let until = until(&asked);
            if until > Instant::now() {
                self.current = Some(Current { inbox: asked.reply.clone(), until, is_computed: false });
                return asked;
            }
        }
    }

    /// The core answered by itself: the spec is refused.
    pub(super) fn answered(&mut self, inbox: &Inbox) {
        if self.current.as_ref().is_some_and(|current| current.inbox == *inbox && !current.is_computed) {
            self.current = None;
        }
    }

    /// Computes a plan and answers with it over `bus`.
    pub(super) fn compute(&mut self, bus: &Bus, inbox: Inbox, stale: bool, dry_run: Box<DryRun>) {
        let Some(current) = self.current.as_mut().filter(|current| current.inbox == inbox && !current.is_computed)
        else {
            // Its client does not wait any longer, and another one has its turn.
            return;
        };
        current.is_computed = true;
        let (bus, until, done) = (bus.clone(), current.until, self.done_sender.clone());
        self.metrics.plans.inc();
        let work = tokio::task::spawn_blocking(move || {
            let Some(answer) = dry_run.answer(&|| Instant::now() >= until) else { return };
            // Encoded on this thread too: a plan may have megabytes.
            if let Err(error) = Handle::current().block_on(bus.answer(&inbox, &Reply::new(stale, answer))) {
                tracing::warn!(%error, "a plan was not sent");
            }
        });
        fabric::tasks::spawn("plan", async move {
            if let Err(error) = work.await {
                // Its client runs into its deadline.
                tracing::error!(%error, "the computation of a plan panicked");
            }
            // Fails only when the scheduler ends.
            let _ = done.send(()).await;
        });
    }
}

/// Whether the question is a request for a plan.
pub(super) fn is_plan(asked: &Asked) -> bool {
    matches!(asked.query, Query::Plan { .. })
}

fn until(asked: &Asked) -> Instant {
    let told = match &asked.query {
        Query::Plan { within_millis: Some(millis), .. } => Duration::from_millis(*millis),
        _ => USUAL_PATIENCE,
    };
    asked.at + told.min(LONGEST_PATIENCE)
}

#[cfg(test)]
mod tests {
    use contract::spec::PodGroupSpec;
    use futures_util::FutureExt;

    use super::*;

    fn asked(name: &str, within_millis: Option<u64>) -> Asked {
        let spec = Box::new(PodGroupSpec { name: name.to_owned(), ..PodGroupSpec::default() });
        Asked { query: Query::Plan { spec, within_millis }, reply: name.to_owned(), at: Instant::now() }
    }

    fn plans() -> Plans {
        Plans::new(Metrics::default())
    }

    impl Plans {
        fn next_now(&mut self) -> Option<String> {
            self.next().now_or_never().map(|asked| asked.reply)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_plan_is_computed_at_a_time() {
        let mut plans = plans();
        for (name, patience) in [("a", 3_000), ("b", 3_000), ("c", 9_000)] {
            assert!(matches!(plans.take(asked(name, Some(patience))), Taken::Waits));
        }
        assert_eq!((plans.next_now().as_deref(), plans.next_now()), (Some("a"), None));
        plans.answered(&"another".to_owned());
        assert_eq!(plans.next_now(), None, "that answer was to another question");
        plans.answered(&"a".to_owned());
        assert_eq!(plans.next_now().as_deref(), Some("b"), "a refused spec leaves nothing to compute");
        // The core was deposed with it: it never comes back.
        assert_eq!(plans.next().await.reply, "c");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_dropped_when_its_client_does_not_wait_any_longer() {
        let mut plans = plans();
        plans.take(asked("short", Some(1_000)));
        plans.take(asked("long", Some(10_000)));
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!(plans.next_now().as_deref(), Some("long"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_beyond_the_queue_is_answered_as_busy() {
        let mut plans = plans();
        for number in 0..MOST_WAITING {
            assert!(matches!(plans.take(asked(&number.to_string(), None)), Taken::Waits));
        }
        let Taken::Busy(inbox, reply) = plans.take(asked("one more", None)) else { panic!("it was taken") };
        assert_eq!((inbox.as_str(), reply.retry_after), ("one more", Some(RETRY_AFTER)));
        assert_eq!(plans.metrics.plans_refused.get(), 1);
        tokio::time::advance(USUAL_PATIENCE).await;
        assert!(matches!(plans.take(asked("later", None)), Taken::Waits), "expired requests give their places back");
    }
}
