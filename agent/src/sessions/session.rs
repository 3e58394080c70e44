//! One session: its outbox, and the two tasks that use it. The pump fills it from Docker, reads empty it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contract::logs::LogLine;
use contract::session::{SessionRefusal, SessionReply};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::outbox::Outbox;

/// How long a read collects lines after the first one, so that a chatty container does not cost a message for each line.
const GATHER: Duration = Duration::from_millis(200);
/// A session that was not read for this time is ended: its apiserver is gone.
pub(super) const IDLE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Session {
    state: Mutex<State>,
    /// There are new lines, or there is an end.
    news: Notify,
    /// Lines have arrived, so there may be room.
    room: Notify,
}

#[derive(Debug)]
struct State {
    outbox: Outbox,
    read_at: Instant,
}

impl Session {
    pub(super) fn new() -> Self {
        let state = State { outbox: Outbox::default(), read_at: Instant::now() };
        Self { state: Mutex::new(state), news: Notify::new(), room: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state().read_at.elapsed() >= IDLE
    }

    /// Adds a line, as soon as there is room.
    pub(super) async fn push(&self, line: LogLine) {
        while !self.state().outbox.has_room() {
            self.room.notified().await;
        }
        self.state().outbox.push(line);
        self.news.notify_waiters();
    }

    pub(super) fn finish(&self, end: Result<(), SessionRefusal>) {
        self.state().outbox.finish(end);
        self.news.notify_waiters();
    }

    /// Answers a read: at once when there is much, after a short while when there is some, else after `wait`.
    pub(super) async fn read(&self, from: u64, wait: Duration) -> SessionReply {
        self.state().read_at = Instant::now();
        let until = Instant::now() + wait;
        self.wait_for(until, |outbox| outbox.has_news(from)).await;
        self.wait_for(until.min(Instant::now() + GATHER), Outbox::is_complete).await;
        let mut state = self.state();
        state.read_at = Instant::now();
        let reply = state.outbox.read(from);
        drop(state);
        self.room.notify_one();
        reply
    }

    async fn wait_for(&self, until: Instant, is_so: impl Fn(&Outbox) -> bool) {
        loop {
            // Created before the check, so that it sees what is pushed after it.
            let news = self.news.notified();
            if is_so(&self.state().outbox) || timeout_at(until, news).await.is_err() {
                return;
            }
        }
    }
}
