//! Percentiles of measurements, without interpolation.

/// The smallest measured value that `share` of all values do not exceed. 20 values, share 0.99: the largest one.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let count = f64::from(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the length")]
    let rank = (count * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let times: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&times, share)), [10.0, 20.0, 20.0]);
        assert!((percentile(&[3.5], 0.5) - 3.5).abs() < f64::EPSILON);
        assert_eq!(percentile(&[], 0.99), 0.0);
    }
}
