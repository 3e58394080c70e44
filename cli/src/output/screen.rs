//! Shows a rollout in progress: lines that are redrawn on a terminal, one line per change elsewhere.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::output::progress::on_terminal;
use crate::output::terminal::inline;

/// Shows a changing state on standard error; standard output holds only results.
#[derive(Debug)]
pub enum Screen {
    /// One bar per line, redrawn in place.
    Terminal { all: MultiProgress, lines: Vec<ProgressBar> },
    /// Not a terminal.
    Plain { last: String },
}

impl Screen {
    pub fn start() -> Self {
        if on_terminal() {
            Self::Terminal { all: MultiProgress::new(), lines: Vec::new() }
        } else {
            Self::Plain { last: String::new() }
        }
    }

    /// Shows `live` on a terminal, and `line` elsewhere if it has changed.
    pub fn show(&mut self, live: &[String], line: &str) {
        match self {
            Self::Terminal { all, lines } => {
                while lines.len() > live.len() {
                    if let Some(line) = lines.pop() {
                        line.finish_and_clear();
                        all.remove(&line);
                    }
                }
                while lines.len() < live.len() {
                    lines.push(all.add(empty_line(lines.is_empty())));
                }
                for (line, text) in lines.iter().zip(live) {
                    line.set_message(inline(text).into_owned());
                }
            }
            Self::Plain { last } if last != line => {
                eprintln!("{line}");
                line.clone_into(last);
            }
            Self::Plain { .. } => {}
        }
    }

    /// Shows one line.
    pub fn say(&mut self, text: &str) {
        self.show(&[text.to_owned()], text);
    }

    /// Clears the lines.
    pub fn clear(&mut self) {
        if let Self::Terminal { all, lines } = self {
            for line in lines.drain(..) {
                line.finish_and_clear();
                all.remove(&line);
            }
        }
    }
}

/// A bar without text; the first one shows the elapsed time.
fn empty_line(is_first: bool) -> ProgressBar {
    let line = ProgressBar::new_spinner();
    let template = if is_first { "{spinner} {wide_msg} {elapsed}" } else { "  {wide_msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        line.set_style(style);
    }
    if is_first {
        line.enable_steady_tick(Duration::from_millis(100));
    }
    line
}
