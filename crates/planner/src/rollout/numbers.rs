//! Integer arithmetic of the rollout rules: exact rounding and saturating sums.
//!
//! A percentage is digits and one `%`: `"10"` is an error and not 10%, because Kubernetes has read it both ways.

pub use contract::rollout::Amount;

/// `numerator / denominator`, halves away from zero; 0 when the denominator is 0.
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

pub(crate) fn saturated(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

pub(crate) fn sum(counts: impl IntoIterator<Item = i64>) -> i64 {
    counts.into_iter().fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    #[test]
    fn halves_go_away_from_zero() {
        let rounded = |n, d| rounded_half_away(n, d);
        assert_eq!([rounded(3, 2), rounded(-3, 2), rounded(5, 3), rounded(4, 3), rounded(1, 0)], [2, -2, 2, 1, 0]);
        assert_eq!([rounded(1, -2), rounded(-1, -2), rounded(i128::MIN, 1)], [-1, 1, i64::MIN]);
    }

    property! {
        fn both_roundings_are_within_one_of_the_exact_value(percent in 0..1_000i64, total in -5_000..5_000i64) {
            let exact = percent * total;
            let (up, down) = (Amount::Percent(percent).rounded_up(total), Amount::Percent(percent).rounded_down(total));
            prop_assert!(up * 100 >= exact && up * 100 - exact < 100);
            prop_assert!(down * 100 <= exact && exact - down * 100 < 100);
        }

        fn no_percentage_overflows(percent in 0..=i64::MAX, total: i64) {
            let amount = Amount::Percent(percent);
            prop_assert!(amount.rounded_up(total) >= amount.rounded_down(total));
        }
    }
}
