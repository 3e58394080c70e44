//! Questions to the user of a terminal.

use std::io::{self, BufRead, IsTerminal};

use super::progress::on_terminal;
use super::terminal;

/// Whether a user can see a question and answer it.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && on_terminal()
}

/// Asks, and returns whether the user typed `y` or `yes`. Without a terminal the answer is no.
pub(crate) fn is_confirmed(question: &str) -> bool {
    is_answered(question, "[y/N]", &["y", "yes"])
}

/// The same for a change that cannot be undone: only a whole `yes` counts.
pub(crate) fn is_confirmed_in_full(question: &str) -> bool {
    is_answered(question, "Type `yes` to continue:", &["yes"])
}

fn is_answered(question: &str, hint: &str, accepted: &[&str]) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    terminal::prompt(&format!("{question} {hint} "));
    let mut answer = String::new();
    let is_read = io::stdin().lock().read_line(&mut answer).is_ok();
    is_read && accepted.contains(&answer.trim().to_lowercase().as_str())
}
