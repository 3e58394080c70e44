//! The deadline of a command, and the waits between its attempts.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Error;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(300);
/// Longer than any command runs; a longer timeout would not fit the clock.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The deadline of a command. It covers all its requests, retries and waits.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    started: Instant,
    at: Instant,
}

impl Deadline {
    pub fn after(span: Duration) -> Self {
        let started = Instant::now();
        Self { started, at: started + span.min(LONGEST) }
    }

    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    pub fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub fn missed(self, waiting_for: &str) -> Error {
        Error::Deadline { after: self.at - self.started, waiting_for: waiting_for.to_owned() }
    }
}

/// Waits between attempts until the deadline, and reports every reason to wait.
pub struct Retry {
    deadline: Deadline,
    report: Box<dyn FnMut(&str) + Send>,
}

impl std::fmt::Debug for Retry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retry").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Retry {
    /// Retries until `deadline`; `report` gets every reason to wait.
    pub fn until(deadline: Deadline, report: impl FnMut(&str) + Send + 'static) -> Self {
        Self { deadline, report: Box::new(report) }
    }

    /// Retries for `span` from now.
    pub fn for_span(span: Duration, report: impl FnMut(&str) + Send + 'static) -> Self {
        Self::until(Deadline::after(span), report)
    }

    pub fn is_over(&self) -> bool {
        self.deadline.is_over()
    }

    /// Waits a moment, or fails with the reason at the deadline.
    pub async fn pause(&mut self, why: &str) -> Result<(), Error> {
        self.pause_for(why, None).await
    }

    /// Waits for the API's `Retry-After`, but leaves time for one more attempt before the deadline.
    pub async fn pause_for(&mut self, why: &str, retry_after: Option<Duration>) -> Result<(), Error> {
        let left = self.deadline.left();
        if !left.is_zero() {
            (self.report)(why);
            sleep(retry_after.unwrap_or_default().min(left.saturating_sub(PAUSE)).max(PAUSE).min(left)).await;
        }
        if left <= PAUSE { Err(self.deadline.missed(why)) } else { Ok(()) }
    }

    /// Waits before another attempt. At the deadline the error is an unreachable API if there was one, else the deadline.
    pub async fn after_error(&mut self, error: Error) -> Result<(), Error> {
        let waited = self.pause_for(&error.to_string(), error.retry_after()).await;
        waited.map_err(|missed| match error {
            Error::Unreachable { .. } | Error::Deadline { .. } => error,
            _ => missed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_retry_fails_at_its_deadline_with_the_reason() {
        let mut retry = Retry::for_span(Duration::ZERO, |_| {});
        let error = retry.pause("no leader").await.unwrap_err().to_string();
        assert!(error.contains("no leader"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_at_the_deadline_and_keeps_the_reason() {
        let started = Instant::now();
        let mut retry = Retry::for_span(Duration::from_millis(700), |_| {});
        assert!(retry.pause("first").await.is_ok() && retry.pause("second").await.is_ok());
        let error = retry.pause("third").await.unwrap_err().to_string();
        assert!(error.contains("third"), "{error}");
        assert_eq!(started.elapsed(), Duration::from_millis(700));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_as_long_as_the_api_asks_for_and_leaves_time_for_one_more_attempt() {
        let started = Instant::now();
        let mut retry = Retry::for_span(Duration::from_secs(5), |_| {});
        assert!(retry.pause_for("busy", Some(Duration::from_secs(2))).await.is_ok());
        assert_eq!(started.elapsed(), Duration::from_secs(2));
        assert!(retry.pause_for("busy", Some(Duration::from_secs(60))).await.is_ok());
        assert_eq!(started.elapsed(), Duration::from_millis(4700));
        assert!(retry.pause_for("busy", Some(Duration::from_secs(60))).await.is_err());
        assert_eq!(started.elapsed(), Duration::from_secs(5));
    }
}
