//! Divides seats by weights with the largest-remainder method, so that the parts add up.
//!
//! 4 seats, weights 3 and 5: exact shares 1.5 and 2.5, remainders equal, the larger weight gets the last seat: 1 and 3. Of
//! equal weights the first one gets it.

use std::cmp::Reverse;

use super::numbers::saturated;

/// The seats of each weight; all 0 when no weight is above 0.
pub fn apportion(seats: i64, weights: &[i64]) -> Vec<i64> {
    let seats = i128::from(seats.max(0));
    let weights: Vec<i128> = weights.iter().map(|weight| i128::from((*weight).max(0))).collect();
    let all: i128 = weights.iter().sum();
    if all == 0 {
        return vec![0; weights.len()];
    }
    let mut parts: Vec<i128> = weights.iter().map(|weight| seats * weight / all).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&at| (Reverse(seats * weights[at] % all), Reverse(weights[at]), at));
    // The remainders sum up to the seats left times `all`, so fewer seats are left than there are remainders above zero.
    let left = seats - parts.iter().sum::<i128>();
    for at in order.into_iter().take(usize::try_from(left).unwrap_or(0)) {
        parts[at] += 1;
    }
    parts.into_iter().map(saturated).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    #[test]
    fn a_tie_goes_to_the_larger_weight_and_then_to_the_earlier() {
        assert_eq!(apportion(4, &[3, 5]), [1, 3]);
        assert_eq!(apportion(3, &[5, 5]), [2, 1]);
        assert_eq!(apportion(3, &[7, 1, 1]), [3, 0, 0]);
    }

    #[test]
    fn without_weights_all_parts_are_zero() {
        assert_eq!(apportion(3, &[0, -1]), [0, 0]);
        assert_eq!(apportion(3, &[]), Vec::<i64>::new());
        assert_eq!(apportion(-3, &[1, 1]), [0, 0]);
    }

    property! {
        fn the_parts_sum_up_and_each_is_its_share_rounded(
            seats in 0..10_000i64, weights in prop::collection::vec(0..1_000i64, 1..8),
        ) {
            let parts = apportion(seats, &weights);
            let all: i64 = weights.iter().sum();
            prop_assert_eq!(parts.iter().sum::<i64>(), if all == 0 { 0 } else { seats });
            for (part, weight) in parts.iter().zip(&weights).filter(|_| all > 0) {
                prop_assert!((part * all - seats * weight).abs() < all);
            }
        }

        fn no_apportionment_overflows(seats: i64, weights in prop::collection::vec(any::<i64>(), 0..5)) {
            prop_assert_eq!(apportion(seats, &weights).len(), weights.len());
        }
    }
}
