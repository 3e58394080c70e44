//! Containers with an action in progress.
//!
//! An action inspects its container at the end, so events during the action need no inspection of their own. The guard is
//! dropped before that inspection, so later events are not lost. One event is forwarded to the action: the container's death,
//! which Docker emits well before it has cleaned up and answers the stop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::SetOnce;

/// By container id. An instance has one action at a time, so each id occurs once.
#[derive(Debug, Default)]
pub(super) struct InProgress(Mutex<BTreeMap<String, Arc<Watched>>>);

/// The action is in progress until this is dropped.
#[derive(Debug)]
pub(super) struct Work<'a> {
    in_progress: &'a InProgress,
    id: &'a str,
    watched: Arc<Watched>,
}

#[derive(Debug)]
struct Watched {
    /// Start of the action in nanoseconds since 1970. Docker runs on the same machine and clock: an earlier death is a late
    /// event from before the action.
    since: i64,
    died: SetOnce<()>,
}

impl InProgress {
    pub(super) fn begin<'a>(&'a self, id: &'a str) -> Work<'a> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        let watched = Arc::new(Watched { since, died: SetOnce::new() });
        self.containers().insert(id.to_owned(), Arc::clone(&watched));
        Work { in_progress: self, id, watched }
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.containers().contains_key(id)
    }

    /// Docker reports the death of a container.
    pub(super) fn note_death(&self, id: &str, at: i64) {
        if let Some(watched) = self.containers().get(id).filter(|watched| at >= watched.since) {
            // A second death is ignored: an action that stops a container does not start it.
            watched.died.set(()).ok();
        }
    }

    fn containers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Watched>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work<'_> {
    pub(super) fn id(&self) -> &str {
        self.id
    }

    /// Waits for the death event. It may never come, so callers also wait for the answer to the stop.
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
    fn a_container_is_in_progress_until_its_guard_is_dropped() {
        let in_progress = InProgress::default();
        let (one, two) = (in_progress.begin("one"), in_progress.begin("two"));
        drop(one);
        assert_eq!((in_progress.has("one"), in_progress.has("two")), (false, true));
        drop(two);
        assert!(!in_progress.has("two"));
    }

    #[test]
    fn a_death_is_forwarded_also_to_a_late_listener_and_an_earlier_death_is_not() {
        let in_progress = InProgress::default();
        let work = in_progress.begin("one");
        in_progress.note_death("one", work.watched.since - 1);
        in_progress.note_death("two", i64::MAX);
        assert_eq!(work.died().now_or_never(), None);
        in_progress.note_death("one", work.watched.since);
        assert_eq!(work.died().now_or_never(), Some(()));
    }
}
