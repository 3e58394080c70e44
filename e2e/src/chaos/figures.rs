//! What the experiments come to: one row per figure, as a table for people and as JSON for programs.
//!
//! A goal is for reading; only promises (nothing lost, nothing double, nothing disturbed, nothing stale) decide the exit code.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chaos::checks::Promise;
use crate::chaos::fault::{Fault, InjectedFault};
use crate::chaos::model::CommandOutcome;
use crate::chaos::run::ClusterReport;
use crate::chaos::scenario::{Measured, Sample, server_outage};
use crate::chaos::workload::Entry;
use crate::percentile::percentile;

/// A longer pause than this is worth an explanation: the lease of 5 s and the election.
const TAKE_OVER: Duration = Duration::from_secs(7);

/// A fault so short before a pause has to do with it.
const JUST_BEFORE: Duration = Duration::from_secs(1);

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) goal: Option<&'static str>,
}

/// The figures of one experiment; `accepted` is how many commands are to be accepted in all.
pub(crate) fn figures(reports: &[ClusterReport], accepted: Option<&'static str>) -> Vec<Figure> {
    let mut all = load(reports, accepted);
    all.extend(leaders(reports));
    all.extend(measured(reports.iter().flat_map(|report| &report.samples)));
    all.extend(promises(reports));
    all
}

/// What the experiments measured themselves: counts added up, of several times the middle and the longest.
fn measured<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<Figure> {
    let mut order: Vec<&Sample> = Vec::new();
    let (mut counts, mut times): (BTreeMap<&str, usize>, BTreeMap<&str, Vec<f64>>) = Default::default();
    for sample in samples {
        if !order.iter().any(|known| known.name == sample.name) {
            order.push(sample);
        }
        match sample.value {
            Measured::Count(count) => *counts.entry(sample.name).or_default() += count,
            Measured::Time(time) => times.entry(sample.name).or_default().push(time.as_secs_f64()),
        }
    }
    let mut all = Vec::new();
    for Sample { name, goal, .. } in order {
        all.extend(counts.get(name).map(|sum| count(name, *sum, *goal)));
        let Some(times) = times.get_mut(name) else { continue };
        times.sort_by(f64::total_cmp);
        if times.len() > 1 {
            all.push(figure(format!("{name}, p50"), percentile(times, 0.5), "s", *goal));
        }
        let longest = if times.len() > 1 { format!("{name}, max") } else { (*name).to_owned() };
        all.push(figure(longest, percentile(times, 1.0), "s", *goal));
    }
    all
}

/// Who was away in the longest pause of each cluster, when it was longer than a take-over explains.
pub(crate) fn pauses(reports: &[ClusterReport]) -> Vec<String> {
    let mut lines = Vec::new();
    for report in reports {
        let Some((from, until)) = longest_pause(&report.journal.entries) else { continue };
        let pause = until.duration_since(from);
        if pause < TAKE_OVER {
            continue;
        }
        let away = report.downtime.between(from, until);
        let away: Vec<String> = away.iter().map(|(name, time)| format!("{name} {:.1} s", time.as_secs_f64())).collect();
        let who = if away.is_empty() { "no process".to_owned() } else { away.join(", ") };
        lines.push(format!("no accepted write for {:.1} s; away meanwhile: {who}", pause.as_secs_f64()));
        let faults = report.happened.iter().filter(|fault| fault.at + JUST_BEFORE > from && fault.at < until);
        let when = |fault: &InjectedFault| fault.at.saturating_duration_since(from).as_secs_f64();
        let faults: Vec<String> = faults.map(|fault| format!("{} at {:.1} s", fault.who, when(fault))).collect();
        lines.push(format!("  faults of that time: {}", faults.join(", ")));
    }
    lines
}

fn figure(name: impl Into<String>, value: f64, unit: &'static str, goal: Option<&'static str>) -> Figure {
    Figure { name: name.into(), value, unit, goal }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn count(name: &str, value: usize, goal: Option<&'static str>) -> Figure {
    figure(name, value as f64, "", goal)
}

fn load(reports: &[ClusterReport], goal: Option<&'static str>) -> Vec<Figure> {
    let entries = || reports.iter().flat_map(|report| &report.journal.entries);
    let length = |(from, until): (Instant, Instant)| until.duration_since(from);
    let accepted = entries().filter(|entry| entry.outcome == CommandOutcome::Accepted).count();
    let seconds: f64 = reports.iter().map(|report| report.span.as_secs_f64()).sum();
    let rate = f64::from(u32::try_from(entries().count()).unwrap_or(u32::MAX)) / seconds.max(1.0);
    let slowest = reports.iter().map(|report| report.settled).max().unwrap_or_default();
    let pause = reports
        .iter()
        .filter_map(|report| longest_pause(&report.journal.entries))
        .map(length)
        .max()
        .unwrap_or_default();
    let faults = reports.iter().map(|report| report.happened.len()).sum();
    vec![
        count("faults", faults, None),
        count("commands decided", entries().count(), None),
        count("commands accepted", accepted, goal),
        count("sent more than once", entries().filter(|entry| entry.repeated).count(), None),
        figure("commands a second, each cluster", rate, "/s", Some(">= 20")),
        count("patches that found no room", entries().filter(|entry| entry.no_room).count(), Some("0")),
        figure("longest time without an accepted write", pause.as_secs_f64(), "s", None),
        figure("everything agrees after", slowest.as_secs_f64(), "s", Some("<= 60 s")),
    ]
}

fn leaders(reports: &[ClusterReport]) -> Vec<Figure> {
    let mut all = Vec::new();
    for (fault, name, goal) in [
        (Fault::KillLeader, "leader killed: next accepted write", "p99 <= 7 s"),
        (Fault::StopLeader, "leader stopped: next accepted write", "p99 <= 7 s"),
        (Fault::Other(server_outage::STREAM_DELETED), "command stream deleted: next accepted write", "<= 60 s"),
        (Fault::Other(server_outage::STORE_BACK), "store back: next accepted write", "<= 10 s"),
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

fn promises(reports: &[ClusterReport]) -> Vec<Figure> {
    let broken = |promise| reports.iter().flat_map(|r| &r.broken).filter(|b| b.promise == promise).count();
    let sum =
        |of: fn(&ClusterReport) -> u64| usize::try_from(reports.iter().map(of).sum::<u64>()).unwrap_or(usize::MAX);
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
type Measure = fn(&[Entry], &InjectedFault) -> Option<Duration>;

fn of(reports: &[ClusterReport], fault: &Fault, measure: Measure) -> Vec<f64> {
    let mut times = Vec::new();
    for report in reports {
        let happened = report.happened.iter().filter(|happened| happened.fault == *fault);
        times.extend(happened.filter_map(|h| measure(&report.journal.entries, h)).map(|time| time.as_secs_f64()));
    }
    times.sort_by(f64::total_cmp);
    times
}

/// From the fault to the first answer "accepted" to a command that was sent after it.
fn first_accepted(entries: &[Entry], happened: &InjectedFault) -> Option<Duration> {
    let after = entries.iter().filter(|entry| entry.sent > happened.at && is_new(entry));
    after.map(|entry| entry.decided.duration_since(happened.at)).min()
}

/// The longest pause between accepted writes in the five seconds after the fault.
fn longest_gap(entries: &[Entry], happened: &InjectedFault) -> Option<Duration> {
    let end = happened.at + Duration::from_secs(5);
    let mut times: Vec<Instant> = entries.iter().filter(|entry| is_new(entry)).map(|entry| entry.decided).collect();
    times.push(happened.at);
    times.retain(|time| *time >= happened.at && *time <= end);
    longest(times).map(|(from, until)| until.duration_since(from))
}

/// The longest pause between accepted writes in the whole trial.
fn longest_pause(entries: &[Entry]) -> Option<(Instant, Instant)> {
    longest(entries.iter().filter(|entry| is_new(entry)).map(|entry| entry.decided).collect())
}

fn longest(mut times: Vec<Instant>) -> Option<(Instant, Instant)> {
    times.sort_unstable();
    times.windows(2).map(|pair| (pair[0], pair[1])).max_by_key(|(from, until)| until.duration_since(*from))
}

/// What was accepted before is answered from memory and proves no write.
fn is_new(entry: &Entry) -> bool {
    entry.outcome == CommandOutcome::Accepted && !entry.repeated
}

/// A table as people read it.
pub(crate) fn table(name: &str, figures: &[Figure]) -> String {
    let mut table = cli::output::table::plain(&[name, "measured", "goal"]);
    for Figure { name, value, unit, goal } in figures {
        let value = if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") };
        table.add_row([name.clone(), format!("{value} {unit}").trim_end().to_owned(), goal.unwrap_or("").to_owned()]);
    }
    cli::output::table::text(&table)
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
    fn counts_are_added_up_and_of_times_the_middle_and_the_longest_are_shown() {
        let sample = |name, value| Sample { name, goal: None, value };
        let seconds = |name, seconds| sample(name, Measured::Time(Duration::from_secs(seconds)));
        let all = [seconds("t", 3), sample("n", Measured::Count(2)), seconds("t", 1), seconds("t", 2), seconds("u", 9)];
        let more = [sample("n", Measured::Count(5))];
        let shown: Vec<(String, f64)> =
            measured(all.iter().chain(&more)).into_iter().map(|figure| (figure.name, figure.value)).collect();
        let expected = [("t, p50", 2.0), ("t, max", 3.0), ("n", 7.0), ("u", 9.0)].map(|(n, v)| (n.to_owned(), v));
        assert_eq!(shown, expected);
    }
}
