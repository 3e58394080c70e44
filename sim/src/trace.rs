//! The history as text: one line per event, and a sum of all lines to compare two runs of a seed.

use std::fmt::Write;

use contract::time::Timestamp;

use crate::world::event_queue::BEGINNING;

/// Lines kept for a failure report when the whole history is not asked for.
const KEPT: usize = 60;

/// What happened so far.
#[derive(Debug)]
pub struct Trace {
    lines: std::collections::VecDeque<String>,
    whole: bool,
    sum: u64,
    count: u64,
}

impl Trace {
    /// A trace that keeps every line, or only the last ones.
    pub fn new(whole: bool) -> Self {
        Self { lines: std::collections::VecDeque::new(), whole, sum: 0xcbf2_9ce4_8422_2325, count: 0 }
    }

    /// Adds a line.
    pub fn line(&mut self, now: Timestamp, who: &str, what: &str) {
        let since = now.since(BEGINNING).as_millis();
        let mut line = String::with_capacity(what.len() + 24);
        // Writing to a String cannot fail.
        let _ = write!(line, "{:>4}.{:03} {who:<6} {what}", since / 1000, since % 1000);
        for byte in line.bytes() {
            self.sum = (self.sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.count += 1;
        if !self.whole && self.lines.len() >= KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Sum over every line ever added.
    pub fn sum(&self) -> u64 {
        self.sum
    }
    /// Lines ever added.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The lines kept.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_covers_lines_that_are_not_kept() {
        let trace = |first: &str| {
            let mut trace = Trace::new(false);
            trace.line(BEGINNING, "a", first);
            (0..KEPT).for_each(|_| trace.line(BEGINNING, "b", "x"));
            trace
        };
        assert_eq!(trace("one").sum(), trace("one").sum());
        assert_ne!(trace("one").sum(), trace("two").sum());
        assert_eq!(trace("one").into_lines().len(), KEPT);
    }
}
