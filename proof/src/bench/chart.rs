//! One figure of the benchmarks: bars that are compared, and what we want of them.
//!
//! A goal is for reading. Nothing passes or fails by it.

use serde_json::{Value, json};

use super::side::Side;
use super::statistics::{Sample, ratio};

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// Name of its file.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) bars: Vec<Bar>,
    pub(crate) goals: Vec<Goal>,
}

/// One bar: the median, and how far the measurements lie apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) count: usize,
}

/// What we want, and whether this run has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) text: String,
    pub(crate) met: bool,
}

impl Bar {
    /// The median of a row of measurements.
    pub(crate) fn of(label: &str, sample: &Sample) -> Self {
        Self::with(label, sample.median(), sample)
    }

    /// Another value of a row of measurements.
    pub(crate) fn with(label: &str, value: f64, sample: &Sample) -> Self {
        let (least, most) = (sample.least(), sample.most());
        Self { label: label.to_owned(), value, least, most, count: sample.count() }
    }
}

impl Goal {
    pub(crate) fn new(text: impl Into<String>, met: bool) -> Self {
        Self { text: text.into(), met }
    }

    /// As it stands in a table.
    pub(crate) fn shown(&self) -> String {
        format!("{} {}", self.text, if self.met { "(met)" } else { "(not met)" })
    }
}

impl Chart {
    /// The figure of a race: how long each side took. Sides that did not run have no bar.
    pub(crate) fn of_race(name: String, title: String, times: &[(Side, Sample)]) -> Self {
        let ran = times.iter().filter(|(_, sample)| !sample.is_empty());
        let bars = ran.map(|(side, sample)| Bar::of(side.label(), sample)).collect();
        Self { name, title, unit: "s", bars, goals: Vec::new() }
    }

    pub(crate) fn value(&self, label: &str) -> Option<f64> {
        self.bars.iter().find(|bar| bar.label == label).map(|bar| bar.value)
    }

    /// How many times as long one side took as another.
    pub(crate) fn compared(&self, above: Side, below: Side) -> Option<f64> {
        ratio(self.value(above.label())?, self.value(below.label())?)
    }

    /// Starts: hardly slower than the engine by itself, and not slower than Swarm mode.
    pub(crate) fn with_start_goals(mut self) -> Self {
        if let Some(times) = self.compared(Side::Deployd, Side::Raw) {
            self.goals.push(Goal::new("at most 1.05 x raw", times <= 1.05));
        }
        if let Some(times) = self.compared(Side::Swarm, Side::Deployd) {
            self.goals.push(Goal::new("ahead of Swarm mode", times >= 1.0));
        }
        self
    }

    /// Rolling updates: much faster than Swarm mode at equal parallelism.
    pub(crate) fn with_update_goal(mut self) -> Self {
        if let Some(times) = self.compared(Side::Swarm, Side::Deployd) {
            self.goals.push(Goal::new("Swarm mode takes 5 x as long", times >= 5.0));
        }
        self
    }

    /// The figure for programs.
    pub(crate) fn json(&self) -> Value {
        let bar = |bar: &Bar| json!({"label": bar.label, "value": bar.value, "least": bar.least, "most": bar.most, "count": bar.count});
        let goal = |goal: &Goal| json!({"goal": goal.text, "met": goal.met});
        json!({
            "name": self.name, "title": self.title, "unit": self.unit,
            "bars": self.bars.iter().map(bar).collect::<Vec<_>>(),
            "goals": self.goals.iter().map(goal).collect::<Vec<_>>(),
            "deployd_by_raw": self.compared(Side::Deployd, Side::Raw),
            "swarm_by_deployd": self.compared(Side::Swarm, Side::Deployd),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn race(raw: f64, swarm: f64, deployd: f64) -> Chart {
        let times = [(Side::Raw, raw), (Side::Swarm, swarm), (Side::Deployd, deployd)];
        let times = times.map(|(side, value)| (side, Sample::of([value])));
        Chart::of_race("start-50".to_owned(), "50 instances".to_owned(), &times)
    }

    #[test]
    fn goals_compare_medians_of_the_same_run() {
        let good: Vec<bool> = race(10.0, 11.0, 10.4).with_start_goals().goals.iter().map(|goal| goal.met).collect();
        let bad: Vec<bool> = race(10.0, 10.5, 10.6).with_start_goals().goals.iter().map(|goal| goal.met).collect();
        assert_eq!((good, bad), (vec![true, true], vec![false, false]));
        assert!(race(1.0, 50.0, 10.0).with_update_goal().goals[0].met);
        assert!(!race(1.0, 49.0, 10.0).with_update_goal().goals[0].met);
    }

    #[test]
    fn a_side_that_did_not_run_has_no_bar_and_no_goal() {
        let times = [(Side::Deployd, Sample::of([1.0])), (Side::Swarm, Sample::default())];
        let chart = Chart::of_race("a".to_owned(), "a".to_owned(), &times).with_start_goals().with_update_goal();
        assert_eq!((chart.bars.len(), chart.goals.len()), (1, 0));
    }

    #[test]
    fn programs_find_values_ratios_and_goals() {
        let value = race(10.0, 30.0, 5.0).with_update_goal().json();
        assert_eq!((&value["bars"][1]["label"], &value["bars"][1]["value"]), (&json!("Swarm mode"), &json!(30.0)));
        assert_eq!((&value["deployd_by_raw"], &value["swarm_by_deployd"]), (&json!(0.5), &json!(6.0)));
        assert_eq!(value["goals"][0]["met"], json!(true));
    }
}
