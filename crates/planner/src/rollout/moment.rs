//! Time in nanoseconds since 1970, the resolution that the age buckets of the ranking need.
//!
//! `Timestamp` has milliseconds and converts exactly.

use std::time::Duration;

use contract::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(i64);

impl Moment {
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
    /// Saturates.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }
    /// Negative when `earlier` is later.
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
    /// Zero when `later` has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_nanos(u64::try_from(later.nanos_since(self)).unwrap_or(0))
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(time.as_millis().saturating_mul(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_saturate() {
        assert_eq!(Moment::from_secs(i64::MAX).after(Duration::MAX), Moment::from_nanos(i64::MAX));
        assert_eq!(Moment::from_nanos(i64::MAX).nanos_since(Moment::from_nanos(i64::MIN)), i64::MAX);
    }

    #[test]
    fn a_timestamp_converts_exactly() {
        assert_eq!(Moment::from(Timestamp::from_millis(1_500)), Moment::from_nanos(1_500_000_000));
        assert_eq!(Moment::from_secs(2).until(Moment::from_secs(5)), Duration::from_secs(3));
        assert_eq!(Moment::from_secs(5).until(Moment::from_secs(2)), Duration::ZERO);
    }
}
