//! What a row of measurements comes to.

use std::time::Duration;

use crate::figures::percentile;

/// Measurements of one thing, smallest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    /// Takes the values as they come; what is no number is left out.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The same in seconds.
    pub(crate) fn of_times(times: &[Duration]) -> Self {
        Self::of(times.iter().map(Duration::as_secs_f64))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// A value that was measured: of an even number the lower of the two in the middle.
    pub(crate) fn median(&self) -> f64 {
        self.percentile(0.5)
    }

    pub(crate) fn percentile(&self, share: f64) -> f64 {
        percentile(&self.0, share)
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or(0.0)
    }

    pub(crate) fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }
}

/// `above` by `below`; none when that would say nothing.
pub(crate) fn ratio(above: f64, below: f64) -> Option<f64> {
    (above > 0.0 && below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_measuring_does_not_matter_and_nonsense_is_left_out() {
        let sample = Sample::of([3.0, f64::NAN, 1.0, 2.0, f64::INFINITY]);
        assert_eq!(sample, Sample::of([1.0, 2.0, 3.0]));
        assert_eq!((sample.count(), sample.least(), sample.median(), sample.most()), (3, 1.0, 2.0, 3.0));
    }

    #[test]
    fn nothing_measured_is_nothing_and_no_panic() {
        let nothing = Sample::default();
        assert!(nothing.is_empty());
        assert_eq!((nothing.median(), nothing.most(), nothing.percentile(0.99)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_ratio_with_nothing_is_none() {
        assert_eq!(ratio(10.0, 4.0), Some(2.5));
        assert_eq!((ratio(1.0, 0.0), ratio(0.0, 1.0)), (None, None));
    }

    #[test]
    fn times_are_told_in_seconds() {
        let sample = Sample::of_times(&[Duration::from_millis(1500), Duration::from_millis(500)]);
        assert_eq!((sample.least(), sample.most()), (0.5, 1.5));
    }
}
