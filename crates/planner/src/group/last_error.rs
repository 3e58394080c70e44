//! Tells apart what a group's last error is about: the planner's own sentences are known by how they begin, so that they can be
//! taken back when they are over. Anything else is the answer to a command, and stays until the next one.

use super::number;

/// How every text about a release that is held starts.
pub(super) const HELD: &str = "the release is held: ";

const NOT_UPGRADED: &str = " is not upgraded";

const FAILS: &str = " fails";

/// How the text about an upgrade that gave its lock back unfinished starts.
pub(super) const UNFINISHED: &str = "the upgrade to version ";

/// How a text about an instance that is not upgraded starts.
pub(super) fn stuck_prefix(index: usize) -> String {
    format!("instance {}{NOT_UPGRADED}", number(index))
}

/// How a text about an instance that does not work in its new version starts.
pub(super) fn failing_prefix(index: usize) -> String {
    format!("instance {}{FAILS}", number(index))
}

/// An instance does not work in its new version.
pub(super) fn is_about_failing(said: &str) -> bool {
    said.starts_with("instance ") && said.contains(FAILS)
}

/// An instance is not upgraded.
pub(super) fn is_about_stuck(said: &str) -> bool {
    said.starts_with("instance ") && said.contains(NOT_UPGRADED)
}

/// The release is held.
pub(super) fn is_about_held(said: &str) -> bool {
    said.starts_with(HELD)
}

/// There is no text, or only one of the planner's own.
pub(super) fn is_planner_text(said: &str) -> bool {
    let is_own = is_about_stuck(said) || is_about_held(said) || is_about_failing(said) || said.starts_with(UNFINISHED);
    said.is_empty() || is_own
}
