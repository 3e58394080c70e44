//! Shows how far the benchmarks are: a bar on a terminal, a line for each step elsewhere. On standard error only.

use std::time::Instant;

use cli::output::progress::on_terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far it is.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    /// So many steps will be made.
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        if on_terminal() {
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
        } else {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self { bar, begun: Instant::now() }
    }

    /// The next step begins.
    pub(crate) fn begin(&self, text: &str) {
        self.bar.set_message(text.to_owned());
        if !on_terminal() {
            let (at, all) = (self.bar.position() + 1, self.bar.length().unwrap_or(0));
            eprintln!("{at:>3}/{all} {:>4.0} s  {text}", self.begun.elapsed().as_secs_f64());
        }
    }

    /// The step is made.
    pub(crate) fn done(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
