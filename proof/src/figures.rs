//! What the experiments come to: one row per figure, as a table for people and as JSON for programs.
//!
//! A goal is for reading; only promises (nothing lost, nothing double, nothing disturbed, nothing stale) decide the exit code.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::checks::Promise;
use crate::fault::{Fault, Happened};
use crate::model::Verdict;
use crate::trial::Report;
use crate::workload::Entry;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) goal: Option<&'static str>,
}

/// The figures of one experiment.
pub(crate) fn figures(reports: &[Report]) -> Vec<Figure> {
    let mut all = load(reports);
    all.extend(leaders(reports));
    all.extend(promises(reports));
    all
}

fn figure(name: impl Into<String>, value: f64, unit: &'static str, goal: Option<&'static str>) -> Figure {
    Figure { name: name.into(), value, unit, goal }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn count(name: &str, value: usize, goal: Option<&'static str>) -> Figure {
    figure(name, value as f64, "", goal)
}

fn load(reports: &[Report]) -> Vec<Figure> {
    let entries = || reports.iter().flat_map(|report| &report.journal.entries);
    let accepted = entries().filter(|entry| entry.verdict == Verdict::Accepted).count();
    let seconds: f64 = reports.iter().map(|report| report.span.as_secs_f64()).sum();
    let rate = f64::from(u32::try_from(entries().count()).unwrap_or(u32::MAX)) / seconds.max(1.0);
    let slowest = reports.iter().map(|report| report.settled).max().unwrap_or_default();
    let pause = reports.iter().filter_map(|report| longest_pause(&report.journal.entries)).max().unwrap_or_default();
    let faults = reports.iter().map(|report| report.happened.len()).sum();
    vec![
        count("faults", faults, None),
        count("commands decided", entries().count(), None),
        count("commands accepted", accepted, None),
        count("sent more than once", entries().filter(|entry| entry.repeated).count(), None),
        figure("commands a second, each cluster", rate, "/s", Some(">= 20")),
        count("patches that found no room", entries().filter(|entry| entry.no_room).count(), Some("0")),
        figure("longest time without an accepted write", pause.as_secs_f64(), "s", None),
        figure("everything agrees after", slowest.as_secs_f64(), "s", None),
    ]
}

fn leaders(reports: &[Report]) -> Vec<Figure> {
    let mut all = Vec::new();
    for (fault, name, goal) in [
        (Fault::KillLeader, "leader killed: next accepted write", "p99 <= 7 s"),
        (Fault::StopLeader, "leader stopped: next accepted write", "p99 <= 7 s"),
    ] {
        let times = of(reports, &fault, first_accepted);
        if !times.is_empty() {
            for (word, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
                all.push(figure(format!("{name}, {word}"), percentile(&times, share), "s", Some(goal)));
            }
        }
    }
    let gaps = of(reports, &Fault::TermLeader, longest_gap);
    if !gaps.is_empty() {
        let name = "leader asked to go: longest time without an accepted write";
        all.push(figure(name, percentile(&gaps, 1.0), "s", Some("<= 1 s")));
    }
    all
}

fn promises(reports: &[Report]) -> Vec<Figure> {
    let broken = |promise| reports.iter().flat_map(|r| &r.broken).filter(|b| b.promise == promise).count();
    let sum = |of: fn(&Report) -> u64| usize::try_from(reports.iter().map(of).sum::<u64>()).unwrap_or(usize::MAX);
    vec![
        count("acknowledged commands lost", broken(Promise::Kept), Some("0")),
        count("double effects", broken(Promise::Once), Some("0")),
        count("calm containers restarted or moved", broken(Promise::Undisturbed), Some("0")),
        count("orders that differ under one fence", broken(Promise::Fenced), Some("0")),
        count("stale orders refused by agents", sum(|report| report.stale.orders_refused), None),
        count("stale writes refused by etcd", sum(|report| report.stale.writes_refused), None),
    ]
}

/// How a time is found for one fault among the commands of its cluster.
type Measure = fn(&[Entry], &Happened) -> Option<Duration>;

fn of(reports: &[Report], fault: &Fault, measure: Measure) -> Vec<f64> {
    let mut times = Vec::new();
    for report in reports {
        let happened = report.happened.iter().filter(|happened| happened.fault == *fault);
        times.extend(happened.filter_map(|h| measure(&report.journal.entries, h)).map(|time| time.as_secs_f64()));
    }
    times.sort_by(f64::total_cmp);
    times
}

/// From the fault to the first answer "accepted" to a command that was sent after it.
fn first_accepted(entries: &[Entry], happened: &Happened) -> Option<Duration> {
    let after = entries.iter().filter(|entry| entry.sent > happened.at && is_new(entry));
    after.map(|entry| entry.decided.duration_since(happened.at)).min()
}

/// The longest pause between accepted writes in the five seconds after the fault.
fn longest_gap(entries: &[Entry], happened: &Happened) -> Option<Duration> {
    let end = happened.at + Duration::from_secs(5);
    let mut times: Vec<Instant> = entries.iter().filter(|entry| is_new(entry)).map(|entry| entry.decided).collect();
    times.push(happened.at);
    times.retain(|time| *time >= happened.at && *time <= end);
    longest(times)
}

/// The longest pause between accepted writes in the whole trial.
fn longest_pause(entries: &[Entry]) -> Option<Duration> {
    longest(entries.iter().filter(|entry| is_new(entry)).map(|entry| entry.decided).collect())
}

fn longest(mut times: Vec<Instant>) -> Option<Duration> {
    times.sort_unstable();
    times.windows(2).map(|pair| pair[1].duration_since(pair[0])).max()
}

/// What was accepted before is answered from memory and proves no write.
fn is_new(entry: &Entry) -> bool {
    entry.verdict == Verdict::Accepted && !entry.repeated
}

/// The smallest value that so large a share does not exceed.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let count = f64::from(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the length")]
    let rank = (count * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// A table as people read it.
pub(crate) fn table(name: &str, figures: &[Figure]) -> String {
    let mut table = cli::table::plain(&[name, "measured", "goal"]);
    for Figure { name, value, unit, goal } in figures {
        let value = if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") };
        table.add_row([name.clone(), format!("{value} {unit}").trim_end().to_owned(), goal.unwrap_or("").to_owned()]);
    }
    cli::table::text(&table)
}

/// The same for programs.
pub(crate) fn json(name: &str, figures: &[Figure], broken: &[String]) -> Value {
    let row =
        |figure: &Figure| json!({"name": figure.name, "value": figure.value, "unit": figure.unit, "goal": figure.goal});
    json!({"experiment": name, "figures": figures.iter().map(row).collect::<Vec<_>>(), "broken": broken})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let times: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&times, share)), [10.0, 20.0, 20.0]);
        assert!((percentile(&[3.5], 0.5) - 3.5).abs() < f64::EPSILON);
    }
}
