//! Spans of time as people write them in settings: `500ms`, `15s`, `5m`, `2h`, `1m30s`.

use std::time::Duration;

/// Reads a span; made for clap's `value_parser`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let complaint = || format!("{text:?} is not a duration; write for example 500ms, 15s, 5m, 2h or 1m30s");
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    if rest.is_empty() {
        return Err(complaint());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(complaint)?;
        let number: u64 = rest[..digits].parse().map_err(|_| complaint())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let millis: u64 = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(complaint()),
        };
        sum += Duration::from_millis(number.checked_mul(millis).ok_or_else(complaint)?);
        rest = &rest[letters..];
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
    }

    #[test]
    fn what_is_not_a_span_is_refused_with_an_example() {
        for text in ["", "15", "s", "15 s", "1d", "-3s", "99999999999999999999s"] {
            assert!(parse(text).is_err_and(|why| why.contains("1m30s")), "{text:?}");
        }
    }
}
