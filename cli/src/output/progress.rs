//! Shows what a command does and waits for: a moving line on a terminal, plain lines elsewhere.
//!
//! Everything goes to standard error, so that standard output holds only answers.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether a person watches.
pub fn on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Elsewhere than on a terminal a wait is explained after this time, and again when its reason changed.
const EXPLAIN_EVERY: Duration = Duration::from_secs(5);

/// One piece of work that takes a while; cheap to clone, all clones are the same line.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    /// What was printed last and when; none on a terminal.
    printed: Option<Arc<Mutex<(Instant, String)>>>,
}

impl Progress {
    /// Begins with what is being done.
    pub fn start(text: &str) -> Self {
        if !on_terminal() {
            eprintln!("{text}");
            let printed = Some(Arc::new(Mutex::new((Instant::now(), String::new()))));
            return Self { bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()), printed };
        }
        let bar = ProgressBar::new_spinner().with_message(text.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, printed: None }
    }

    /// Shows what it waits for now; elsewhere than on a terminal a line at most every few seconds.
    pub fn update(&self, text: &str) {
        let Some(printed) = &self.printed else {
            if self.bar.message() != text {
                self.bar.set_message(text.to_owned());
            }
            return;
        };
        let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.0.elapsed() >= EXPLAIN_EVERY && printed.1 != text {
            eprintln!("{text}");
            *printed = (Instant::now(), text.to_owned());
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
