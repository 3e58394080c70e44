//! Shares one pull among all instances that need an image, and limits retries of failed pulls to one in 5 s.
//!
//! Thousands of instances of one group may need the same image at the same time. Otherwise each would pull it, and an image
//! that cannot be pulled would keep Docker busy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::fault::Error;

/// No retry of a failed pull within this time.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Pulls in progress and recent failures, by image.
#[derive(Debug, Default)]
pub(super) struct Pulls(Mutex<BTreeMap<String, Arc<PullState>>>);

#[derive(Debug, Default)]
struct PullState {
    /// Held during a pull.
    pulling: tokio::sync::Mutex<()>,
    last: Mutex<Option<(Instant, Result<(), Error>)>>,
}

impl PullState {
    /// Result of the last pull, if it ended after `since`.
    fn ended_since(&self, since: Instant) -> Option<Result<(), Error>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(at, _)| *at >= since).map(|(_, end)| end.clone())
    }

    /// Error of a recent failed pull.
    fn failure(&self) -> Option<Error> {
        let lately = Instant::now().checked_sub(RETRY_AFTER)?;
        self.ended_since(lately)?.err()
    }
}

impl Pulls {
    /// Error of a recent failed pull.
    pub(super) fn failure(&self, image: &str) -> Option<Error> {
        let images = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        images.get(image)?.failure()
    }

    /// Runs `pull`, unless another pull of the same image ends while this call waits for its turn: then returns that result.
    pub(super) async fn run(&self, name: &str, pull: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        let (image, asked_at) = (self.image(name), Instant::now());
        let _pulling = image.pulling.lock().await;
        if let Some(end) = image.ended_since(asked_at) {
            return end;
        }
        if let Some(failure) = image.failure() {
            return Err(failure);
        }
        let end = pull.await;
        // An engine that is down is no failure of the image.
        if !matches!(end, Err(Error::Unconnected(_))) {
            *image.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), end.clone()));
        }
        end
    }

    fn image(&self, name: &str) -> Arc<PullState> {
        let mut images = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Forgets images without a pull in progress and without a recent failure.
        images.retain(|_, image| Arc::strong_count(image) > 1 || image.failure().is_some());
        Arc::clone(images.entry(name.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn refused() -> Error {
        Error::Refused { status: 500, text: "connection refused".to_owned() }
    }

    async fn many(pulls: &Pulls, count: &AtomicU32, end: Result<(), Error>) -> Vec<Result<(), Error>> {
        let pull = || async {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(60)).await;
            end.clone()
        };
        futures_util::future::join_all((0..1_000).map(|_| pulls.run("image", pull()))).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_instances_share_one_pull() {
        let (pulls, count) = (Pulls::default(), AtomicU32::new(0));
        assert!(many(&pulls, &count, Ok(())).await.iter().all(Result::is_ok));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        many(&pulls, &count, Ok(())).await;
        assert_eq!(count.load(Ordering::Relaxed), 2, "an image that was removed is pulled again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_pull_is_retried_after_five_seconds() {
        let (pulls, count) = (Pulls::default(), AtomicU32::new(0));
        for _ in 0..10 {
            assert!(many(&pulls, &count, Err(refused())).await.iter().all(|end| *end == Err(refused())));
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(pulls.failure("image"), Some(refused()));
        tokio::time::advance(RETRY_AFTER + Duration::from_millis(1)).await;
        assert_eq!(pulls.failure("image"), None);
        assert!(many(&pulls, &count, Ok(())).await.iter().all(Result::is_ok));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_is_down_is_no_failure_of_the_image() {
        let (pulls, count) = (Pulls::default(), AtomicU32::new(0));
        let away = Error::Unconnected("gone".to_owned());
        let pull = || async {
            count.fetch_add(1, Ordering::Relaxed);
            Err(away.clone())
        };
        assert_eq!(pulls.run("image", pull()).await, Err(away.clone()));
        assert_eq!(pulls.failure("image"), None);
        assert_eq!(pulls.run("image", pull()).await, Err(away.clone()));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
