//! Durations in settings and query parameters: `500ms`, `15s`, `5m`, `2h`, `1m30s`.

use std::time::Duration;

use jiff::fmt::friendly::SpanParser;

/// Parses a duration in jiff's friendly format; made for clap's `value_parser`. The error shows examples.
pub fn parse(text: &str) -> Result<Duration, String> {
    SpanParser::new()
        .parse_unsigned_duration(text.trim())
        .map_err(|_| format!("{text:?} is not a duration; write for example 500ms, 15s, 5m, 2h or 1m30s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_durations() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse(" 0s "), Ok(Duration::ZERO));
        assert_eq!(parse("1000000s"), Ok(Duration::from_secs(1_000_000)));
        assert_eq!(parse("15 s"), Ok(Duration::from_secs(15)));
    }

    #[test]
    fn any_other_text_is_refused_with_an_example() {
        for text in ["", "15", "s", "1d", "-3s", "soon", "99999999999999999999s"] {
            assert!(parse(text).is_err_and(|why| why.contains("1m30s")), "{text:?}");
        }
    }
}
