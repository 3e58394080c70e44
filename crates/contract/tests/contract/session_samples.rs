//! One value of every message of a session, and of every object of `GET /api/logs`.

use contract::logs::{InstanceLine, LogLine, LogProblem, LogRecord, LogStream, LogTime};
use contract::session::{LogSelection, SessionContent, SessionRefusal, SessionReply, SessionRequest};

use crate::samples::{at, pod};

fn text(text: &str) -> String {
    text.to_owned()
}

fn time() -> LogTime {
    LogTime::from_nanos(1_794_794_630_123_456_789)
}

fn line() -> LogLine {
    LogLine { time: time(), stream: LogStream::Stderr, line: text("cannot open /etc/app.conf") }
}

pub(crate) fn requests() -> Vec<(&'static str, SessionRequest)> {
    let whole = LogSelection {
        pod: pod("hello.web.web.v2-i1-d0"),
        container: 0,
        tail: None,
        since: None,
        previous: false,
        follow: false,
    };
    let part = LogSelection {
        container: 1,
        tail: Some(100),
        since: Some(time()),
        previous: true,
        follow: true,
        ..whole.clone()
    };
    let open = |selection| SessionRequest::Open { what: SessionContent::Log(selection) };
    vec![
        ("open-log", open(whole)),
        ("open-log-part", open(part)),
        ("read", SessionRequest::Read { session: text("01JCK0"), from: 7, wait_millis: 5_000 }),
        ("close", SessionRequest::Close { session: text("01JCK0") }),
    ]
}

pub(crate) fn replies() -> Vec<(&'static str, SessionReply)> {
    let refused = |why| SessionReply::Refused(why);
    vec![
        ("opened", SessionReply::Opened { session: text("01JCK0"), started_at: at(0), at: at(9) }),
        ("lines", SessionReply::Lines { lines: vec![line()], next: 8, is_end: false }),
        ("end", SessionReply::Lines { lines: Vec::new(), next: 8, is_end: true }),
        ("full", refused(SessionRefusal::Full { limit: 128 })),
        ("no-container", refused(SessionRefusal::NoContainer)),
        ("unreadable", refused(SessionRefusal::Unreadable { driver: text("none") })),
        ("no-session", refused(SessionRefusal::NoSession)),
        ("engine", refused(SessionRefusal::Engine { reason: text("no answer from the engine within 5 s") })),
        ("unsupported", refused(SessionRefusal::Unsupported)),
    ]
}

pub(crate) fn log_records() -> Vec<(&'static str, LogRecord)> {
    let line = InstanceLine { instance: 2, container: 0, node: text("node1"), line: line() };
    let problem = LogProblem { instance: 3, container: 0, error: text("instance 3 has no container yet") };
    vec![("line", LogRecord::Line(line)), ("problem", LogRecord::Problem(problem))]
}
