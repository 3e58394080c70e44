//! Lines that containers wrote, as agents read them from Docker and `GET /api/logs` shows them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::MalformedTime;

/// When a container wrote a line, in nanoseconds since 1970 by the clock of its node. Written as RFC 3339 with nine decimals, so
/// that texts sort as the times do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LogTime(i64);

impl LogTime {
    /// From nanoseconds since 1970.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }
    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
    /// Parses RFC 3339 text.
    pub fn parse(text: &str) -> Result<Self, MalformedTime> {
        let time = text.parse::<jiff::Timestamp>().ok().and_then(|time| i64::try_from(time.as_nanosecond()).ok());
        time.map(Self).ok_or_else(|| MalformedTime::of(text))
    }
}

impl fmt::Display for LogTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(self.0.into()) {
            Ok(time) => write!(f, "{time:.9}"),
            Err(_) => write!(f, "{} ns", self.0),
        }
    }
}
impl fmt::Debug for LogTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl From<LogTime> for String {
    fn from(time: LogTime) -> Self {
        time.to_string()
    }
}
impl TryFrom<String> for LogTime {
    type Error = MalformedTime;
    fn try_from(text: String) -> Result<Self, MalformedTime> {
        Self::parse(&text)
    }
}

/// Where a container wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One line of a container. Docker splits a line of more than 16 KiB into several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LogLine {
    /// When it was written.
    pub time: LogTime,
    /// Where it was written.
    pub stream: LogStream,
    /// The text without its line break. Bytes that are not UTF-8 are replaced.
    pub line: String,
}

/// One object of `GET /api/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LogRecord {
    /// A line of an instance.
    Line(InstanceLine),
    /// Why the log of an instance cannot be read, or has ended.
    Problem(LogProblem),
}

/// A line of one container of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InstanceLine {
    /// Instance number, from 1.
    pub instance: u32,
    /// Index of the container in its pod, from 0.
    pub container: u32,
    /// Name of the node that it was read from.
    pub node: String,
    /// The line itself.
    #[serde(flatten)]
    pub line: LogLine,
}

/// Why the log of a container cannot be read, or has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LogProblem {
    /// Instance number, from 1.
    pub instance: u32,
    /// Index of the container in its pod, from 0.
    pub container: u32,
    /// The problem and the remedy.
    pub error: String,
}

/// How far the log of one container was read, so that a reader that starts again neither loses nor repeats lines.
///
/// Docker writes the two streams of a container on its own each, so only lines of one stream are in the order of their times.
/// Several lines may have the same time.
///
/// Example: after lines at 1, 2, 2 of one stream, the lines 1, 2, 2, 2, 3 are read again from 1. The first three are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPosition {
    stdout: Option<Mark>,
    stderr: Option<Mark>,
}

/// How far one stream was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    time: LogTime,
    /// Lines read with this time.
    count: u32,
    /// Lines with this time since the reader started again; none when it has caught up.
    again: Option<u32>,
}

impl LogPosition {
    /// The streams of a container differ by less, and a stream that was silent for long costs no lines that are read again.
    const SKEW_NANOS: i64 = 10_000_000_000;

    /// From when to read again; none before the first line.
    pub fn since(&self) -> Option<LogTime> {
        let times = || self.stdout.iter().chain(&self.stderr).map(|mark| mark.time);
        let (first, last) = (times().min()?, times().max()?);
        Some(first.max(LogTime(last.0.saturating_sub(Self::SKEW_NANOS))))
    }

    /// The reader starts again at [`Self::since`].
    pub fn restart(&mut self) {
        for mark in self.stdout.iter_mut().chain(&mut self.stderr) {
            mark.again = Some(0);
        }
    }

    /// Whether a line is new, and notes it.
    pub fn advance(&mut self, line: &LogLine) -> bool {
        let mark = match line.stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        };
        let count = match mark {
            Some(Mark { time, again: Some(_), .. }) if line.time < *time => return false,
            Some(Mark { time, again: Some(again), count }) if line.time == *time && *again < *count => {
                *again += 1;
                return false;
            }
            Some(Mark { time, count, .. }) if line.time == *time => *count + 1,
            Some(_) | None => 1,
        };
        *mark = Some(Mark { time: line.time, count, again: None });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(nanos: i64) -> LogTime {
        LogTime::from_nanos(nanos)
    }

    #[test]
    fn times_keep_nanoseconds_and_sort_as_texts() {
        let text = "2026-11-16T02:03:50.000864592Z";
        let parsed = LogTime::parse(text).expect("a time of Docker's");
        assert_eq!(parsed.to_string(), text);
        assert_eq!(
            LogTime::parse("2026-11-16T02:03:50Z").expect("a time").to_string(),
            "2026-11-16T02:03:50.000000000Z"
        );
        assert!(LogTime::parse("yesterday").is_err() && parsed > time(0) && parsed.to_string() > time(0).to_string());
    }

    fn line(nanos: i64, stream: LogStream) -> LogLine {
        LogLine { time: time(nanos), stream, line: String::new() }
    }

    #[test]
    fn a_reader_that_starts_again_neither_loses_nor_repeats_lines_of_the_same_time() {
        let mut position = LogPosition::default();
        assert_eq!(position.since(), None);
        let read = |position: &mut LogPosition, times: &[i64]| -> Vec<bool> {
            times.iter().map(|at| position.advance(&line(*at, LogStream::Stdout))).collect()
        };
        assert_eq!(read(&mut position, &[1, 2, 2]), [true; 3]);
        position.restart();
        assert_eq!(read(&mut position, &[1, 2, 2, 2, 3, 3]), [false, false, false, true, true, true]);
        assert_eq!(position.since(), Some(time(3)));
        assert_eq!(read(&mut position, &[2]), [true], "the clock of the node was set back");
    }

    #[test]
    fn the_streams_of_a_container_are_read_apart() {
        let mut position = LogPosition::default();
        let both = [line(5, LogStream::Stdout), line(4, LogStream::Stderr)];
        assert!(both.iter().all(|line| position.advance(line)), "written at once, and stored in another order");
        assert_eq!(position.since(), Some(time(4)));
        position.restart();
        assert!(!both.iter().any(|line| position.advance(line)));
        assert!(position.advance(&line(60_000_000_000, LogStream::Stdout)));
        assert_eq!(position.since(), Some(time(50_000_000_000)), "standard error was silent for long");
    }

    #[test]
    fn an_object_is_a_line_or_a_problem() {
        let line = LogLine { time: time(7), stream: LogStream::Stderr, line: "a\u{1b}[0m".to_owned() };
        let records = [
            LogRecord::Line(InstanceLine { instance: 2, container: 0, node: "n1".to_owned(), line }),
            LogRecord::Problem(LogProblem { instance: 2, container: 0, error: "gone".to_owned() }),
        ];
        for record in records {
            let text = serde_json::to_string(&record).expect("serialises");
            assert_eq!(serde_json::from_str::<LogRecord>(&text).expect("reads"), record, "{text}");
        }
    }
}
