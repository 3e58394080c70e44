//! Shows on standard error what a command does and waits for: a spinner on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::terminal::inline;

/// Whether standard error is a terminal.
pub fn on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Not on a terminal: print the reason of a wait at most this often.
const EXPLAIN_EVERY: Duration = Duration::from_secs(5);

/// The progress line of a command; clones share the line.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    /// The last printed text and its time; none on a terminal.
    printed: Option<Arc<Mutex<(Instant, String)>>>,
}

impl Progress {
    pub fn start(text: &str) -> Self {
        if !on_terminal() {
            eprintln!("{text}");
            let printed = Some(Arc::new(Mutex::new((Instant::now(), String::new()))));
            return Self { bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()), printed };
        }
        let bar = ProgressBar::new_spinner().with_message(inline(text).into_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, printed: None }
    }

    /// Shows what the command waits for.
    pub fn update(&self, text: &str) {
        let Some(printed) = &self.printed else {
            let text = inline(text);
            if self.bar.message() != text {
                self.bar.set_message(text.into_owned());
            }
            return;
        };
        let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.0.elapsed() >= EXPLAIN_EVERY && printed.1 != text {
            eprintln!("{text}");
            *printed = (Instant::now(), text.to_owned());
        }
    }

    /// Ends the line with the result.
    pub fn done(&self, text: &str) {
        self.bar.finish_and_clear();
        eprintln!("{text}");
    }

    /// Ends the line without a text; an error follows.
    pub fn abandon(&self) {
        self.bar.finish_and_clear();
    }
}
