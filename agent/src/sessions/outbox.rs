//! The lines of a session between Docker and the apiserver: bounded, numbered, kept until they have arrived. Pure.

use std::collections::VecDeque;

use contract::logs::LogLine;
use contract::session::{SessionRefusal, SessionReply};

/// Most bytes of lines in one reply as JSON; a message on NATS may have 1 MiB.
const MOST_IN_REPLY: usize = 256 << 10;
/// Bytes that a session reads ahead. One line more may exceed it: a line has at most 16 KiB, and its JSON at most six times that.
const MOST_AHEAD: usize = 256 << 10;
/// Bytes of a line as JSON besides its text.
const FRAME: usize = 96;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Each with its bytes as JSON.
    lines: VecDeque<(LogLine, usize)>,
    /// Number of the first of them.
    first: u64,
    bytes: usize,
    /// No more lines will come, or why they cannot be read.
    end: Option<Result<(), SessionRefusal>>,
}

impl Outbox {
    /// Whether more may be read from Docker.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < MOST_AHEAD
    }

    pub(super) fn push(&mut self, line: LogLine) {
        let bytes = json_bytes(&line.line);
        self.bytes += bytes;
        self.lines.push_back((line, bytes));
    }

    pub(super) fn finish(&mut self, end: Result<(), SessionRefusal>) {
        self.end = Some(end);
    }

    /// Whether a read from this number would be answered with something.
    pub(super) fn has_news(&self, from: u64) -> bool {
        self.end.is_some() || from < self.first || self.next() > from
    }

    /// Whether waiting for more lines cannot improve the answer.
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some() || !self.has_room()
    }

    /// The lines from this number. The apiserver has those before it.
    pub(super) fn read(&mut self, from: u64) -> SessionReply {
        if from < self.first || from > self.next() {
            // The lines are gone, or were never there: the apiserver must start again.
            return SessionReply::Refused(SessionRefusal::NoSession);
        }
        while self.first < from
            && let Some((_, bytes)) = self.lines.pop_front()
        {
            self.first += 1;
            self.bytes -= bytes;
        }
        if let (true, Some(Err(refusal))) = (self.lines.is_empty(), &self.end) {
            return SessionReply::Refused(refusal.clone());
        }
        let mut total = 0;
        let fits = |bytes: &usize| {
            total += bytes;
            total == *bytes || total <= MOST_IN_REPLY
        };
        let count = self.lines.iter().map(|(_, bytes)| bytes).copied().take_while(fits).count();
        let lines: Vec<LogLine> = self.lines.iter().take(count).map(|(line, _)| line.clone()).collect();
        let is_end = count == self.lines.len() && matches!(self.end, Some(Ok(())));
        SessionReply::Lines { next: self.first + count as u64, lines, is_end }
    }

    fn next(&self) -> u64 {
        self.first + self.lines.len() as u64
    }
}

/// Bytes of a line as JSON, at most: a control character becomes `\u001b`.
fn json_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    FRAME + text.bytes().map(escaped).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use contract::logs::{LogStream, LogTime};

    use super::*;

    fn line(number: usize, length: usize) -> LogLine {
        let text = format!("{number}:{}", "x".repeat(length));
        LogLine { time: LogTime::from_nanos(i64::try_from(number).unwrap()), stream: LogStream::Stdout, line: text }
    }

    fn filled(count: usize, length: usize) -> Outbox {
        let mut outbox = Outbox::default();
        (0..count).for_each(|number| outbox.push(line(number, length)));
        outbox
    }

    fn lines(reply: SessionReply) -> (Vec<i64>, u64, bool) {
        match reply {
            SessionReply::Lines { lines, next, is_end } => {
                (lines.iter().map(|line| line.time.as_nanos()).collect(), next, is_end)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_repeated_read_gets_the_same_lines_and_a_later_one_drops_them() {
        let mut outbox = filled(3, 1);
        assert_eq!(lines(outbox.read(0)), (vec![0, 1, 2], 3, false));
        outbox.push(line(3, 1));
        assert_eq!(lines(outbox.read(0)), (vec![0, 1, 2, 3], 4, false), "the reply was lost");
        assert_eq!(lines(outbox.read(2)), (vec![2, 3], 4, false));
        assert_eq!(lines(outbox.read(4)), (vec![], 4, false));
        for gone in [0, 3, 5] {
            assert_eq!(outbox.read(gone), SessionReply::Refused(SessionRefusal::NoSession), "{gone}");
        }
    }

    #[test]
    fn the_buffer_is_bounded_and_has_room_again_when_lines_have_arrived() {
        let mut outbox = Outbox::default();
        let mut pushed = 0;
        while outbox.has_room() {
            outbox.push(line(pushed, 1000));
            pushed += 1;
        }
        assert!((200..300).contains(&pushed), "{pushed} lines of 1 KB");
        assert!(outbox.is_complete());
        let (_, next, _) = lines(outbox.read(0));
        outbox.read(next);
        assert!(outbox.has_room() && outbox.bytes < 2000, "{}", outbox.bytes);
    }

    #[test]
    fn a_reply_is_bounded_as_json_and_has_at_least_one_line() {
        let mut outbox = Outbox::default();
        let worst = "\u{1b}".repeat(16 << 10);
        for number in 0..5 {
            outbox.push(LogLine { line: worst.clone(), ..line(number, 0) });
        }
        let reply = outbox.read(0);
        let size = serde_json::to_vec(&reply).unwrap().len();
        assert!(size < (300 << 10), "{size}");
        assert_eq!(lines(reply).0, [0, 1]);
    }

    #[test]
    fn the_end_is_reported_with_the_last_lines_and_an_error_after_them() {
        let mut outbox = filled(2, 1);
        outbox.finish(Ok(()));
        assert_eq!(lines(outbox.read(0)), (vec![0, 1], 2, true));
        let mut failed = filled(1, 1);
        failed.finish(Err(SessionRefusal::NoContainer));
        assert_eq!(lines(failed.read(0)), (vec![0], 1, false));
        assert_eq!(failed.read(1), SessionReply::Refused(SessionRefusal::NoContainer));
    }
}
