//! Merges the logs of several containers by time. Pure.
//!
//! Each log is in the order of its times, so the next line of all is the oldest of their first lines. It is known as soon as every
//! log that has not ended has one.

use std::collections::VecDeque;

use contract::logs::LogLine;

#[derive(Debug, Default)]
struct PendingLines {
    lines: VecDeque<LogLine>,
    has_ended: bool,
}

#[derive(Debug)]
pub(super) struct Merge {
    queues: Vec<PendingLines>,
}

impl Merge {
    pub(super) fn new(count: usize) -> Self {
        Self { queues: std::iter::repeat_with(PendingLines::default).take(count).collect() }
    }

    /// A log whose next line must be known first.
    pub(super) fn lacking(&self) -> Option<usize> {
        self.queues.iter().position(|queue| queue.lines.is_empty() && !queue.has_ended)
    }

    pub(super) fn add(&mut self, index: usize, lines: Vec<LogLine>) {
        if let Some(queue) = self.queues.get_mut(index) {
            queue.lines.extend(lines);
        }
    }

    pub(super) fn end(&mut self, index: usize) {
        if let Some(queue) = self.queues.get_mut(index) {
            queue.has_ended = true;
        }
    }

    /// The next line with the number of its log; none while one is lacking, and at the end.
    pub(super) fn next(&mut self) -> Option<(usize, LogLine)> {
        if self.lacking().is_some() {
            return None;
        }
        let first = |(index, queue): (usize, &PendingLines)| queue.lines.front().map(|line| (line.time, index));
        let (_, index) = self.queues.iter().enumerate().filter_map(first).min()?;
        let line = self.queues.get_mut(index)?.lines.pop_front()?;
        Some((index, line))
    }
}

#[cfg(test)]
mod tests {
    use contract::logs::{LogStream, LogTime};

    use super::*;

    fn lines(times: &[i64]) -> Vec<LogLine> {
        let line =
            |time: &i64| LogLine { time: LogTime::from_nanos(*time), stream: LogStream::Stdout, line: String::new() };
        times.iter().map(line).collect()
    }

    #[test]
    fn lines_come_by_time_and_only_when_no_older_one_can_follow() {
        let mut merge = Merge::new(2);
        merge.add(0, lines(&[1, 4]));
        assert_eq!((merge.lacking(), merge.next()), (Some(1), None));
        merge.add(1, lines(&[2, 3]));
        let mut seen = Vec::new();
        while let Some((index, line)) = merge.next() {
            seen.push((index, line.time.as_nanos()));
        }
        assert_eq!(seen, [(0, 1), (1, 2), (1, 3)]);
        assert_eq!(merge.lacking(), Some(1));
        merge.end(1);
        assert_eq!(merge.next().map(|(index, _)| index), Some(0));
        merge.end(0);
        assert_eq!((merge.lacking(), merge.next()), (None, None));
    }
}
