//! How long a command may take, and what it waits for meanwhile.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Error;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(300);
/// Longer than any command runs; a longer timeout would not fit the clock.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// When the time of a command is over. One deadline covers all its requests, retries and waits.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    started: Instant,
    at: Instant,
}

impl Deadline {
    /// `span` from now.
    pub fn after(span: Duration) -> Self {
        let started = Instant::now();
        Self { started, at: started + span.min(LONGEST) }
    }

    /// Whether the time is over.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// The time that is left.
    pub fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// The error of a command whose time is over.
    pub fn missed(self, waiting_for: &str) -> Error {
        Error::Deadline { after: self.at - self.started, waiting_for: waiting_for.to_owned() }
    }
}

/// Waits between attempts until the deadline, and passes on every reason to wait.
pub struct Patience {
    deadline: Deadline,
    said: Box<dyn FnMut(&str) + Send>,
}

impl std::fmt::Debug for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Patience {
    /// Until `deadline`; `said` hears every reason to wait.
    pub fn until(deadline: Deadline, said: impl FnMut(&str) + Send + 'static) -> Self {
        Self { deadline, said: Box::new(said) }
    }

    /// From now on for `span`; `said` hears every reason to wait.
    pub fn for_span(span: Duration, said: impl FnMut(&str) + Send + 'static) -> Self {
        Self::until(Deadline::after(span), said)
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.deadline.is_over()
    }

    /// Waits a little, or fails with the reason when the time is over. It never waits past the deadline.
    pub async fn pause(&mut self, why: &str) -> Result<(), Error> {
        self.pause_for(why, None).await
    }

    /// Waits as long as the API asks for, but leaves time for one more attempt before the deadline.
    pub async fn pause_for(&mut self, why: &str, asked: Option<Duration>) -> Result<(), Error> {
        let left = self.deadline.left();
        if !left.is_zero() {
            (self.said)(why);
            sleep(asked.unwrap_or_default().min(left.saturating_sub(PAUSE)).max(PAUSE).min(left)).await;
        }
        if left <= PAUSE { Err(self.deadline.missed(why)) } else { Ok(()) }
    }

    /// Waits before another attempt. When the time is over, an API that cannot be reached is the error, not the deadline.
    pub async fn retry(&mut self, error: Error) -> Result<(), Error> {
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
    async fn patience_ends() {
        let mut patience = Patience::for_span(Duration::ZERO, |_| {});
        let error = patience.pause("the moon is full").await.unwrap_err().to_string();
        assert!(error.contains("the moon is full"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_at_the_deadline_and_keeps_the_reason() {
        let started = Instant::now();
        let mut patience = Patience::for_span(Duration::from_millis(700), |_| {});
        assert!(patience.pause("first").await.is_ok() && patience.pause("second").await.is_ok());
        let error = patience.pause("third").await.unwrap_err().to_string();
        assert!(error.contains("third"), "{error}");
        assert_eq!(started.elapsed(), Duration::from_millis(700));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_as_long_as_the_api_asks_for_and_leaves_time_for_one_more_attempt() {
        let started = Instant::now();
        let mut patience = Patience::for_span(Duration::from_secs(5), |_| {});
        assert!(patience.pause_for("busy", Some(Duration::from_secs(2))).await.is_ok());
        assert_eq!(started.elapsed(), Duration::from_secs(2));
        assert!(patience.pause_for("busy", Some(Duration::from_secs(60))).await.is_ok());
        assert_eq!(started.elapsed(), Duration::from_millis(4700));
        assert!(patience.pause_for("busy", Some(Duration::from_secs(60))).await.is_err());
        assert_eq!(started.elapsed(), Duration::from_secs(5));
    }
}
