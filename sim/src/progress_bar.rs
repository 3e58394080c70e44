//! How far a run of many seeds is: a bar where somebody watches, a line now and then where nobody does.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line for so many seeds where there is no terminal.
const LINE_EVERY: u64 = 100;

/// Seeds that are done, of so many.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    is_watched: bool,
}

impl Progress {
    /// Nothing is done yet.
    pub fn new(seeds: u64) -> Self {
        let is_watched = std::io::stderr().is_terminal();
        if !is_watched {
            let bar = ProgressBar::hidden();
            bar.set_length(seeds);
            return Self { bar, is_watched };
        }
        let bar = ProgressBar::new(seeds);
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len} seeds, {msg}{elapsed}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar, is_watched }
    }

    /// One more is done; so many broke an invariant.
    pub fn step(&self, failed: u64) {
        self.bar.inc(1);
        let done = self.bar.position();
        if failed > 0 {
            self.bar.set_message(format!("{failed} failed, "));
        }
        if !self.is_watched && done.is_multiple_of(LINE_EVERY) {
            eprintln!("{done} of {} seeds, {failed} failed", self.bar.length().unwrap_or(done));
        }
    }

    /// Prints something without the bar in its way.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// All are done.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
