//! The containers a step works on just now.
//!
//! The engine tells of what a step does while it does it, and the step looks at the container at its end anyhow: an event
//! within a step asks for no look of its own. The guard ends before the step's look begins, so that whatever happens from then on
//! is looked at. One event is passed on to the step: the end of the container, which the engine tells of well before it has
//! tidied up and answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::SetOnce;

/// The containers that are worked on, by id. A lane has one step at a time, so each is here once.
#[derive(Debug, Default)]
pub(super) struct InProgress(Mutex<BTreeMap<String, Arc<Watched>>>);

/// A container is worked on until this is dropped.
#[derive(Debug)]
pub(super) struct Work<'a> {
    in_progress: &'a InProgress,
    id: &'a str,
    watched: Arc<Watched>,
}

#[derive(Debug)]
struct Watched {
    /// In nanoseconds since 1970. The engine shares the machine and so the clock: what it tells of an earlier time is an end
    /// before the step, of which the news comes late.
    since: i64,
    died: SetOnce<()>,
}

impl InProgress {
    /// A step begins to work on a container.
    pub(super) fn begin<'a>(&'a self, id: &'a str) -> Work<'a> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        let watched = Arc::new(Watched { since, died: SetOnce::new() });
        self.containers().insert(id.to_owned(), Arc::clone(&watched));
        Work { in_progress: self, id, watched }
    }

    /// Whether a step will look at the container, or remove it.
    pub(super) fn has(&self, id: &str) -> bool {
        self.containers().contains_key(id)
    }

    /// The engine tells that a container ended at that time.
    pub(super) fn note_death(&self, id: &str, at: i64) {
        if let Some(watched) = self.containers().get(id).filter(|watched| at >= watched.since) {
            // Once is enough: a step that ends a container does not start it.
            watched.died.set(()).ok();
        }
    }

    fn containers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Watched>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work<'_> {
    /// The container that is worked on.
    pub(super) fn id(&self) -> &str {
        self.id
    }

    /// Waits until the engine tells that the container ended. That may be never: who asked for the end is also answered.
    pub(super) async fn died(&self) {
        self.watched.died.wait().await;
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.in_progress.containers().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_container_is_worked_on_until_its_step_lets_go() {
        let in_progress = InProgress::default();
        let (one, two) = (in_progress.begin("one"), in_progress.begin("two"));
        drop(one);
        assert_eq!((in_progress.has("one"), in_progress.has("two")), (false, true));
        drop(two);
        assert!(!in_progress.has("two"));
    }

    #[test]
    fn an_end_is_told_to_the_step_even_if_it_listens_later_and_an_earlier_one_is_not() {
        let in_progress = InProgress::default();
        let work = in_progress.begin("one");
        in_progress.note_death("one", work.watched.since - 1);
        in_progress.note_death("two", i64::MAX);
        assert_eq!(work.died().now_or_never(), None);
        in_progress.note_death("one", work.watched.since);
        assert_eq!(work.died().now_or_never(), Some(()));
    }
}
