//! Shows that something is going on: a moving line on a terminal, plain lines elsewhere.
//!
//! Everything goes to standard error, so that standard output holds only answers.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether a person watches.
pub fn on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// One piece of work that takes a while; cheap to clone, all clones are the same line.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Begins with what is being done.
    pub fn start(text: &str) -> Self {
        if !on_terminal() {
            eprintln!("{text}");
            return Self { bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()) };
        }
        let bar = ProgressBar::new_spinner().with_message(text.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar }
    }

    /// Says what it is waiting for now; elsewhere than on a terminal nothing, the end will tell.
    pub fn update(&self, text: &str) {
        if self.bar.message() != text {
            self.bar.set_message(text.to_owned());
        }
    }

    /// Ends with what was achieved.
    pub fn done(&self, text: &str) {
        self.bar.finish_and_clear();
        eprintln!("{text}");
    }

    /// Ends without a word: an error follows.
    pub fn abandon(&self) {
        self.bar.finish_and_clear();
    }
}
