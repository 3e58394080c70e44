//! The progress of many seeds: a bar on a terminal, otherwise a line per hundred seeds.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const LINE_EVERY: u64 = 100;

#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    is_watched: bool,
}

impl Progress {
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

    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
