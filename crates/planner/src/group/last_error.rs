//! Recognises the planner's own texts in a group's `last_error` by their first words, so that it can clear them when the
//! problem is over. Any other text is the outcome of a command and stays until the next command.

use super::number;

pub(super) const PAUSED: &str = "the rollout is paused: ";

/// What schedulers before this text wrote; it may still be stored.
const FORMERLY_PAUSED: &str = "the release is held: ";

const NOT_UPGRADED: &str = " is not upgraded";

const FAILS: &str = " fails";

pub(super) const UNFINISHED: &str = "the upgrade to version ";

pub(super) fn stuck_prefix(index: usize) -> String {
    format!("instance {}{NOT_UPGRADED}", number(index))
}

pub(super) fn failing_prefix(index: usize) -> String {
    format!("instance {}{FAILS}", number(index))
}

pub(super) fn is_about_failing(text: &str) -> bool {
    text.starts_with("instance ") && text.contains(FAILS)
}

pub(super) fn is_about_stuck(text: &str) -> bool {
    text.starts_with("instance ") && text.contains(NOT_UPGRADED)
}

pub(super) fn is_about_pause(text: &str) -> bool {
    text.starts_with(PAUSED) || text.starts_with(FORMERLY_PAUSED)
}

/// The text is empty or the planner's own.
pub(super) fn is_planner_text(text: &str) -> bool {
    let is_own = is_about_stuck(text) || is_about_pause(text) || is_about_failing(text) || text.starts_with(UNFINISHED);
    text.is_empty() || is_own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_an_older_scheduler_stored_is_recognised() {
        for text in ["the rollout is paused: revision 2: …", "the release is held: revision 2: …"] {
            assert!(is_about_pause(text) && is_planner_text(text), "{text}");
        }
        assert!(!is_about_pause("the upgrade to version 2 is paused"));
    }
}
