//! The sessions of this node: what apiservers read from it piece by piece (see [`contract::session`]).
//!
//! Their number is bounded, and so is what each reads ahead: 128 sessions of 256 KiB.

mod outbox;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contract::session::{
    LONGEST_WAIT_MILLIS, LogSelection, SessionContent, SessionRefusal, SessionReply, SessionRequest,
};
use contract::time::Timestamp;
use fabric::clock::Clock;
use fabric::tasks::{self, Scoped};
use futures_util::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::debug;

use crate::docker::{Engine, LogSource};
use crate::fault::Error;
use crate::metrics::Metrics;
use session::Session;

/// Sessions of all apiservers together; more are refused.
pub const MOST_SESSIONS: usize = 128;
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(5);

/// Clones share the sessions.
#[derive(Debug, Clone)]
pub struct Sessions {
    engine: Arc<Engine>,
    metrics: Metrics,
    clock: Clock,
    places: Arc<Semaphore>,
    open: Arc<Mutex<BTreeMap<String, Open>>>,
}

/// Dropping it ends the session.
#[derive(Debug)]
struct Open {
    session: Arc<Session>,
    _pump: Scoped,
    _place: OwnedSemaphorePermit,
}

impl Sessions {
    pub fn new(engine: Arc<Engine>, metrics: Metrics, clock: Clock) -> Self {
        Self { engine, metrics, clock, places: Arc::new(Semaphore::new(MOST_SESSIONS)), open: Arc::default() }
    }

    /// Ends sessions that are not read any more.
    pub async fn sweep(self) {
        let mut tick = tokio::time::interval(SWEEP);
        loop {
            tick.tick().await;
            self.open().retain(|id, open| {
                let is_idle = open.session.is_idle();
                if is_idle {
                    debug!(session = %id, "ended a session that was not read");
                }
                !is_idle
            });
            self.count();
        }
    }

    /// The answer to a request; none when it needs none.
    pub async fn answer(&self, request: SessionRequest) -> Option<SessionReply> {
        match request {
            SessionRequest::Open { what: SessionContent::Log(selection) } => {
                Some(self.open_log(selection).await.unwrap_or_else(SessionReply::Refused))
            }
            SessionRequest::Read { session, from, wait_millis } => {
                let wait = Duration::from_millis(wait_millis.min(LONGEST_WAIT_MILLIS));
                Some(self.read(&session, from, wait).await)
            }
            SessionRequest::Close { session } => {
                self.open().remove(&session);
                self.count();
                None
            }
        }
    }

    async fn open_log(&self, selection: LogSelection) -> Result<SessionReply, SessionRefusal> {
        let place = self.place()?;
        let found = self.engine.log_source(&selection.pod, selection.container).await;
        let source = found.map_err(|error| engine_failed(&error))?.ok_or(SessionRefusal::NoContainer)?;
        let (engine, started_at) = (Arc::clone(&self.engine), source.started_at);
        Ok(self.start(place, started_at, async move |session: Arc<Session>| {
            let end = pump(&engine, &source, &selection, &session).await;
            session.finish(end.map_err(|error| refusal(&error, &source)));
        }))
    }

    /// Room for a session.
    fn place(&self) -> Result<OwnedSemaphorePermit, SessionRefusal> {
        let full = |_| SessionRefusal::Full { limit: u32::try_from(MOST_SESSIONS).unwrap_or(u32::MAX) };
        Arc::clone(&self.places).try_acquire_owned().map_err(full)
    }

    fn start<P, F>(&self, place: OwnedSemaphorePermit, started_at: Timestamp, pump: P) -> SessionReply
    where
        P: FnOnce(Arc<Session>) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let session = Arc::new(Session::new());
        let pump = tasks::spawn_scoped("session", pump(Arc::clone(&session)));
        let id = ulid::Ulid::generate().to_string();
        self.open().insert(id.clone(), Open { session, _pump: pump, _place: place });
        self.count();
        SessionReply::Opened { session: id, started_at, at: self.clock.now() }
    }

    async fn read(&self, id: &str, from: u64, wait: Duration) -> SessionReply {
        let found = self.open().get(id).map(|open| Arc::clone(&open.session));
        let Some(session) = found else { return SessionReply::Refused(SessionRefusal::NoSession) };
        let reply = session.read(from, wait).await;
        if let SessionReply::Lines { lines, .. } = &reply {
            self.metrics.session_bytes(lines.iter().map(|line| line.line.len()).sum());
        }
        reply
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) {
        self.metrics.sessions(self.open().len());
    }
}

/// Passes the lines of a container to a session, as fast as it takes them.
async fn pump(engine: &Engine, source: &LogSource, selection: &LogSelection, session: &Session) -> Result<(), Error> {
    let mut lines = std::pin::pin!(engine.log_lines(source, selection).await?);
    while let Some(line) = lines.next().await {
        session.push(line?).await;
    }
    Ok(())
}

fn engine_failed(error: &Error) -> SessionRefusal {
    SessionRefusal::Engine { reason: error.to_string() }
}

fn refusal(error: &Error, source: &LogSource) -> SessionRefusal {
    // Docker's text for the driver `none`, and for others without a copy of their lines.
    if error.mentions("does not support reading") {
        return SessionRefusal::Unreadable { driver: source.driver.clone() };
    }
    match error.status() {
        404 => SessionRefusal::NoContainer,
        _ => engine_failed(error),
    }
}

#[cfg(test)]
mod tests {
    use contract::labels::Owner;
    use contract::logs::{LogLine, LogStream, LogTime};

    use super::*;
    use crate::container::Host;
    use crate::engine_health::EngineHealth;

    fn sessions() -> Sessions {
        let host = Host {
            owner: Owner { cluster: "c".to_owned(), node: "n1".parse().unwrap() },
            volume_root: String::new(),
            cloud_volume_root: String::new(),
            quota_cores: 8,
            publish_ip: String::new(),
            throttles: Vec::new(),
        };
        let engine = Engine::new("/nowhere".into(), host, 1, EngineHealth::new().0);
        Sessions::new(Arc::new(engine), Metrics::new().0, Clock::start())
    }

    fn line(number: i64) -> LogLine {
        LogLine { time: LogTime::from_nanos(number), stream: LogStream::Stdout, line: "x".repeat(1000) }
    }

    /// A session that writes lines as fast as it may, and counts them.
    fn chatty(sessions: &Sessions, written: &Arc<Mutex<i64>>) -> Result<String, SessionRefusal> {
        let place = sessions.place()?;
        let written = Arc::clone(written);
        let opened = sessions.start(place, Timestamp::NEVER, async move |session: Arc<Session>| {
            loop {
                let number = *written.lock().unwrap();
                session.push(line(number)).await;
                *written.lock().unwrap() += 1;
            }
        });
        match opened {
            SessionReply::Opened { session, .. } => Ok(session),
            other => panic!("{other:?}"),
        }
    }

    async fn read(sessions: &Sessions, session: &str, from: u64) -> SessionReply {
        let request = SessionRequest::Read { session: session.to_owned(), from, wait_millis: 1000 };
        sessions.answer(request).await.expect("an answer")
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_stops_the_source_and_gets_every_line_once() {
        let (sessions, written) = (sessions(), Arc::default());
        let session = chatty(&sessions, &written).unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        let ahead = *written.lock().unwrap();
        assert!(ahead < 300, "{ahead} lines of 1 KB are read ahead");
        let (mut from, mut seen) = (0, Vec::new());
        while seen.len() < 1000 {
            let SessionReply::Lines { lines, next, is_end: false } = read(&sessions, &session, from).await else {
                panic!("no lines")
            };
            seen.extend(lines.iter().map(|line| line.time.as_nanos()));
            from = next;
        }
        assert!(seen.iter().copied().eq(0..i64::try_from(seen.len()).unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_beyond_the_limit_is_refused_and_an_idle_one_makes_room() {
        let (sessions, written) = (sessions(), Arc::default());
        let sweeper = tasks::spawn_scoped("sweep", sessions.clone().sweep());
        let first = chatty(&sessions, &written).unwrap();
        for _ in 1..MOST_SESSIONS {
            chatty(&sessions, &Arc::default()).unwrap();
        }
        let full = SessionRefusal::Full { limit: 128 };
        assert_eq!(chatty(&sessions, &written), Err(full));
        let mut from = 0;
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let SessionReply::Lines { next, .. } = read(&sessions, &first, from).await else { panic!("no lines") };
            from = next;
        }
        assert_eq!(sessions.open().keys().collect::<Vec<_>>(), [&first], "only the one that is read is left");
        chatty(&sessions, &written).expect("there is room again");
        assert_eq!(sessions.answer(SessionRequest::Close { session: first.clone() }).await, None);
        assert_eq!(read(&sessions, &first, from).await, SessionReply::Refused(SessionRefusal::NoSession));
        drop(sweeper);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_without_output_is_answered_after_its_wait() {
        let sessions = sessions();
        let place = sessions.place().unwrap();
        let SessionReply::Opened { session, .. } =
            sessions.start(place, Timestamp::NEVER, async |_| std::future::pending().await)
        else {
            panic!("not opened")
        };
        let began = tokio::time::Instant::now();
        let nothing = SessionReply::Lines { lines: Vec::new(), next: 0, is_end: false };
        assert_eq!(read(&sessions, &session, 0).await, nothing);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
