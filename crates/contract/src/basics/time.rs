//! Points in time, as milliseconds since 1970 in UTC.
//!
//! Internal messages carry the number. Bodies of the HTTP API carry RFC 3339 text, where "never" is the original API's
//! zero time `0001-01-01T00:00:00Z`. Nothing in this crate reads a clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// "Never": the zero time of the original API, before any other time.
    pub const NEVER: Self = Self(-62_135_596_800_000);

    /// From milliseconds since 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }
    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
    /// True unless this is [`Timestamp::NEVER`].
    pub fn happened(self) -> bool {
        self != Self::NEVER
    }
    /// The opposite of [`Timestamp::happened`], by reference for serde.
    pub fn is_never(&self) -> bool {
        !self.happened()
    }
    /// Time since `earlier`; zero when this is before it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
    /// Parses RFC 3339 text.
    pub fn parse(text: &str) -> Result<Self, MalformedTime> {
        text.parse::<jiff::Timestamp>().map(|t| Self(t.as_millisecond())).map_err(|_| MalformedTime::of(text))
    }
}

/// A text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 time")]
pub struct MalformedTime(String);

impl MalformedTime {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::NEVER
    }
}
impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}
impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The API's form, for `#[serde(with = "time::rfc3339")]`.
pub mod rfc3339 {
    use serde::{Deserializer, Serializer, de};

    use super::Timestamp;

    /// Writes RFC 3339.
    pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        // Fast path: most times of a spec are "never".
        if time.happened() { serializer.collect_str(time) } else { serializer.serialize_str(NEVER) }
    }
    /// Reads RFC 3339.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        deserializer.deserialize_str(Text)
    }

    const NEVER: &str = "0001-01-01T00:00:00Z";

    struct Text;

    impl de::Visitor<'_> for Text {
        type Value = Timestamp;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
            if text == NEVER { Ok(Timestamp::NEVER) } else { Timestamp::parse(text).map_err(E::custom) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_the_zero_time_of_the_api() {
        assert_eq!(Timestamp::NEVER.to_string(), "0001-01-01T00:00:00Z");
        assert_eq!(Timestamp::parse("0001-01-01T00:00:00Z"), Ok(Timestamp::NEVER));
    }

    #[test]
    fn docker_times_are_read_to_the_millisecond() {
        let time = Timestamp::parse("2026-11-16T02:03:50.610864592Z").expect("a time of Docker's");
        assert_eq!(time.to_string(), "2026-11-16T02:03:50.61Z");
    }

    #[test]
    fn a_duration_between_two_times_is_never_negative() {
        let (early, late) = (Timestamp::from_millis(1_000), Timestamp::from_millis(4_000));
        assert_eq!(late.since(early), Duration::from_secs(3));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
