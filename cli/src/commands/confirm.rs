//! Confirms changes that concern more than one named object.

use crate::output::question;

/// A change that the user did not confirm.
#[derive(Debug, thiserror::Error)]
#[error("nothing was changed: this {what}; {flag} does it without a question")]
pub struct Unconfirmed {
    /// What the command does, and in which cluster.
    what: String,
    /// The flag that says that it is meant.
    flag: &'static str,
}

/// Asks on a terminal; elsewhere the flag is needed. `what` completes the sentence "This ...".
pub(crate) fn ask(what: &str, flag: &'static str) -> Result<(), Unconfirmed> {
    let is_meant = question::can_ask() && question::is_confirmed(&format!("This {what}. Continue?"));
    if is_meant { Ok(()) } else { Err(Unconfirmed { what: what.to_owned(), flag }) }
}
