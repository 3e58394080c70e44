//! Where a release is shown while it goes on: lines that are redrawn on a terminal, a line per change elsewhere.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::output::progress::on_terminal;

/// A place to show something that changes; standard error, like all that is not an answer.
#[derive(Debug)]
pub enum Screen {
    /// A person watches: one bar per line, redrawn in place.
    Terminal {
        /// All lines.
        all: MultiProgress,
        /// Each line.
        lines: Vec<ProgressBar>,
    },
    /// Nobody does.
    Plain {
        /// What was written last.
        last: String,
    },
}

impl Screen {
    /// An empty one.
    pub fn start() -> Self {
        if on_terminal() {
            Self::Terminal { all: MultiProgress::new(), lines: Vec::new() }
        } else {
            Self::Plain { last: String::new() }
        }
    }

    /// Shows the lines on a terminal, and the one line elsewhere unless it was written last.
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
                    line.set_message(text.clone());
                }
            }
            Self::Plain { last } if last != line => {
                eprintln!("{line}");
                line.clone_into(last);
            }
            Self::Plain { .. } => {}
        }
    }

    /// Shows one line for now.
    pub fn say(&mut self, text: &str) {
        self.show(&[text.to_owned()], text);
    }

    /// Leaves a terminal as it was; an answer follows.
    pub fn clear(&mut self) {
        if let Self::Terminal { all, lines } = self {
            for line in lines.drain(..) {
                line.finish_and_clear();
                all.remove(&line);
            }
        }
    }
}

/// The first line shows that time passes even while nothing changes.
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
