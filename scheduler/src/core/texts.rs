//! Bounds texts that are stored: an engine's error may be as long as it likes, a record may not.

/// Longest text, in bytes.
const LONGEST: usize = 512;

/// The text, cut to a bounded length.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_a_short_one_is_kept() {
        let long = bounded("é".repeat(1_000));
        assert!(long.len() <= LONGEST && long.ends_with("é…"), "{}", long.len());
        assert_eq!(bounded("x".repeat(LONGEST)), "x".repeat(LONGEST));
    }
}
