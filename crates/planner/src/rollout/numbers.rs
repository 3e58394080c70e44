//! Amounts that are a count or a percentage, and the roundings of the rollout rules (section 1).
//!
//! All exact, with integers. The surprise: a percent text is digits and one `%`, nothing else; `"10"` is an error and not
//! ten percent, because upstream has been read both ways.

use std::fmt;

/// A count, or a percentage of the desired replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Taken as it is.
    Count(i64),
    /// Of the desired replicas, never of the pods there are now.
    Percent(i64),
}

/// A text that is no percentage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a percentage: digits and one % are", self.0)
    }
}

impl std::error::Error for Malformed {}

impl Amount {
    /// Reads the text form, which only a percentage has.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        match text.strip_suffix('%') {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                // Only digits: the one way to fail is to be too large, and that saturates like all arithmetic here.
                Ok(Self::Percent(digits.parse().unwrap_or(i64::MAX)))
            }
            Some(_) | None => Err(Malformed(text.to_owned())),
        }
    }

    /// The count it stands for, a fraction counted as a whole one: what `maxSurge` does.
    pub fn rounded_up(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => saturated((i128::from(percent) * i128::from(total) + 99).div_euclid(100)),
        }
    }

    /// The count it stands for, a fraction dropped: what `maxUnavailable` does.
    pub fn rounded_down(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => saturated((i128::from(percent) * i128::from(total)).div_euclid(100)),
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

/// `numerator / denominator`, halves away from zero; 0 when there is nothing to divide by.
pub(crate) fn rounded_half_away(numerator: i128, denominator: i128) -> i64 {
    let (size, by) = (numerator.unsigned_abs(), denominator.unsigned_abs());
    if by == 0 {
        return 0;
    }
    let rest = size % by;
    // `rest >= by - rest` is `2 * rest >= by` without a product that could overflow.
    let rounded = i128::try_from(size / by + u128::from(rest >= by - rest)).unwrap_or(i128::MAX);
    saturated(if (numerator < 0) == (denominator < 0) { rounded } else { -rounded })
}

/// The nearest count.
pub(crate) fn saturated(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// A sum that saturates.
pub(crate) fn sum(counts: impl IntoIterator<Item = i64>) -> i64 {
    counts.into_iter().fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_digits_and_one_percent_sign_are_a_percentage() {
        for text in ["10", "oops", "", "%", "10%%", "-5%", "+5%", " 5%", "5 %", "1.5%", "5%x"] {
            assert_eq!(Amount::parse(text), Err(Malformed(text.to_owned())), "{text:?}");
        }
        assert_eq!(Amount::parse("0%"), Ok(Amount::Percent(0)));
        assert_eq!(Amount::parse("007%"), Ok(Amount::Percent(7)));
        assert_eq!(Amount::parse("99999999999999999999%"), Ok(Amount::Percent(i64::MAX)));
    }

    #[test]
    fn halves_go_away_from_zero() {
        let rounded = |n, d| rounded_half_away(n, d);
        assert_eq!([rounded(3, 2), rounded(-3, 2), rounded(5, 3), rounded(4, 3), rounded(1, 0)], [2, -2, 2, 1, 0]);
        assert_eq!([rounded(1, -2), rounded(-1, -2), rounded(i128::MIN, 1)], [-1, 1, i64::MIN]);
    }

    proptest! {
        #[test]
        fn both_roundings_are_within_one_of_the_exact_value(percent in 0..1_000i64, total in -5_000..5_000i64) {
            let exact = percent * total;
            let (up, down) = (Amount::Percent(percent).rounded_up(total), Amount::Percent(percent).rounded_down(total));
            prop_assert!(up * 100 >= exact && up * 100 - exact < 100);
            prop_assert!(down * 100 <= exact && exact - down * 100 < 100);
        }

        #[test]
        fn no_number_is_too_large(percent in 0..=i64::MAX, total: i64) {
            let amount = Amount::Percent(percent);
            prop_assert!(amount.rounded_up(total) >= amount.rounded_down(total));
        }
    }
}
