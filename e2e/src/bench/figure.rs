//! One figure of the benchmarks: rows that a reader compares, and the goals they should meet. No goal fails a run.

use std::time::Duration;

use serde::Serialize;

use super::contestant::Contestant;
use crate::percentile::percentile;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
    pub(crate) goals: Vec<Goal>,
}

/// The distribution of `n` measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) n: usize,
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Goal {
    pub(crate) goal: String,
    pub(crate) met: bool,
}

impl Row {
    /// Ignores values that are not finite.
    pub(crate) fn of(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let [min, p50, p99, max] = [0.0, 0.5, 0.99, 1.0].map(|share| percentile(&sorted, share));
        Self { label: label.to_owned(), n: sorted.len(), min, p50, p99, max }
    }

    pub(crate) fn of_times(label: &str, times: &[Duration]) -> Self {
        Self::of(label, times.iter().map(Duration::as_secs_f64))
    }
}

impl Goal {
    pub(crate) fn new(goal: impl Into<String>, met: bool) -> Self {
        Self { goal: goal.into(), met }
    }
}

impl Figure {
    pub(crate) fn new(name: &str, title: String, unit: &'static str, rows: Vec<Row>) -> Self {
        Self { name: name.to_owned(), title, unit, rows, goals: Vec::new() }
    }

    /// How long each contestant took. Contestants without a measurement have no row.
    pub(crate) fn of_race(name: &str, title: String, times: &[(Contestant, Vec<Duration>)]) -> Self {
        let measured = times.iter().filter(|(_, times)| !times.is_empty());
        let rows = measured.map(|(contestant, times)| Row::of_times(contestant.label(), times)).collect();
        Self::new(name, title, "s", rows)
    }

    /// The ratio of two contestants' medians.
    pub(crate) fn ratio(&self, above: Contestant, below: Contestant) -> Option<f64> {
        let median = |contestant: Contestant| {
            let row = self.rows.iter().find(|row| row.label == contestant.label())?;
            (row.p50 > 0.0).then_some(row.p50)
        };
        Some(median(above)? / median(below)?)
    }

    /// Starts: at most 5 % slower than the engine alone, and not slower than Swarm mode.
    pub(crate) fn with_start_goals(mut self) -> Self {
        if let Some(ratio) = self.ratio(Contestant::Deployd, Contestant::Raw) {
            self.goals.push(Goal::new("at most 1.05 x raw", ratio <= 1.05));
        }
        if let Some(ratio) = self.ratio(Contestant::Swarm, Contestant::Deployd) {
            self.goals.push(Goal::new("ahead of Swarm mode", ratio >= 1.0));
        }
        self
    }

    /// Rolling updates: five times as fast as Swarm mode with the same parallelism.
    pub(crate) fn with_update_goal(mut self) -> Self {
        if let Some(ratio) = self.ratio(Contestant::Swarm, Contestant::Deployd) {
            self.goals.push(Goal::new("Swarm mode takes 5 x as long", ratio >= 5.0));
        }
        self
    }

    /// One line per row, then one per goal.
    pub(crate) fn lines(&self) -> Vec<String> {
        let row = |row: &Row| {
            let Row { label, n, min, p50, p99, max } = row;
            let (title, unit) = (&self.title, self.unit);
            format!("{title}: {label}: p50 {p50:.3} {unit}, p99 {p99:.3}, min {min:.3}, max {max:.3}, n {n}")
        };
        let goal =
            |goal: &Goal| format!("{}: goal {}: {}", self.title, goal.goal, if goal.met { "met" } else { "not met" });
        self.rows.iter().map(row).chain(self.goals.iter().map(goal)).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn race(raw: u64, swarm: u64, deployd: u64) -> Figure {
        let times = [(Contestant::Raw, raw), (Contestant::Swarm, swarm), (Contestant::Deployd, deployd)];
        let times = times.map(|(contestant, tenths)| (contestant, vec![Duration::from_millis(tenths * 100)]));
        Figure::of_race("start-50", "50 instances".to_owned(), &times)
    }

    #[test]
    fn a_row_shows_sample_size_and_spread_whatever_the_sequence_of_measurements() {
        let row = Row::of("a", [3.0, f64::NAN, 1.0, 2.0, f64::INFINITY]);
        assert_eq!(row, Row { label: "a".to_owned(), n: 3, min: 1.0, p50: 2.0, p99: 3.0, max: 3.0 });
        let times = Row::of_times("b", &[Duration::from_millis(1500), Duration::from_millis(500)]);
        assert_eq!((times.n, times.min, times.p50, times.max), (2, 0.5, 0.5, 1.5));
    }

    #[test]
    fn a_row_without_measurements_is_zero() {
        assert_eq!(Row::of("a", []), Row { label: "a".to_owned(), n: 0, min: 0.0, p50: 0.0, p99: 0.0, max: 0.0 });
    }

    #[test]
    fn goals_compare_medians_of_the_same_run() {
        let good: Vec<bool> = race(100, 110, 104).with_start_goals().goals.iter().map(|goal| goal.met).collect();
        let bad: Vec<bool> = race(100, 105, 106).with_start_goals().goals.iter().map(|goal| goal.met).collect();
        assert_eq!((good, bad), (vec![true, true], vec![false, false]));
        assert!(race(10, 500, 100).with_update_goal().goals[0].met);
        assert!(!race(10, 490, 100).with_update_goal().goals[0].met);
    }

    #[test]
    fn a_contestant_without_measurements_has_no_row_and_no_goal() {
        let times = [(Contestant::Deployd, vec![Duration::from_secs(1)]), (Contestant::Swarm, Vec::new())];
        let figure = Figure::of_race("a", "a".to_owned(), &times).with_start_goals().with_update_goal();
        assert_eq!((figure.rows.len(), figure.goals.len()), (1, 0));
        assert_eq!(figure.ratio(Contestant::Deployd, Contestant::Swarm), None);
    }

    #[test]
    fn plain_lines_name_every_row_and_goal() {
        let lines = race(100, 600, 100).with_update_goal().lines();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[1], "50 instances: Swarm mode: p50 60.000 s, p99 60.000, min 60.000, max 60.000, n 1");
        assert_eq!(lines[3], "50 instances: goal Swarm mode takes 5 x as long: met");
    }
}
