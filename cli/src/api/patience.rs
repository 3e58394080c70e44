//! How long a person is ready to wait, and what they are told meanwhile.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Error;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(300);

/// How long somebody is ready to try again, and who hears why it takes so long.
pub struct Patience {
    started: Instant,
    deadline: Instant,
    said: Box<dyn FnMut(&str) + Send>,
}

impl std::fmt::Debug for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Patience {
    /// From now on for `span`; `said` hears every reason to wait.
    pub fn for_span(span: Duration, said: impl FnMut(&str) + Send + 'static) -> Self {
        let started = Instant::now();
        Self { started, deadline: started + span, said: Box::new(said) }
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Waits a little, or fails with the reason when the time is up.
    pub async fn pause(&mut self, why: &str) -> Result<(), Error> {
        if self.is_over() {
            return Err(Error::Deadline { after: self.deadline - self.started, waiting_for: why.to_owned() });
        }
        (self.said)(why);
        sleep(PAUSE).await;
        Ok(())
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
}
