//! Bounds texts that are stored: an engine's error may be as long as it likes, a record may not.

use std::borrow::Cow;

use contract::layout;

/// The text, cut to the length that a stored error may have.
pub(super) fn bounded(text: String) -> String {
    match layout::short(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(cut) => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_a_short_one_is_kept() {
        let long = bounded("é".repeat(1_000));
        assert!(long.len() <= layout::LONGEST_REASON && long.ends_with("é…"), "{}", long.len());
        assert_eq!(bounded("x".repeat(layout::LONGEST_REASON)), "x".repeat(layout::LONGEST_REASON));
    }
}
