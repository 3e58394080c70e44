//! The simulated agents in several sizes: what each size took, side by side, and how it grew with the instances.

use serde_json::{Value, json};

use super::chart::{Bar, Chart, Goal};
use super::table::{markdown, with_unit};

/// So many simulated nodes and instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fleet {
    pub(crate) nodes: u32,
    pub(crate) instances: u32,
}

/// What came of one size.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) fleet: Fleet,
    /// Every figure by its name, as the program that measured tells them.
    pub(crate) figures: Value,
}

/// A figure that is shown: the sum of what stands under these names.
struct Shown {
    name: &'static str,
    words: &'static str,
    unit: &'static str,
    keys: &'static [&'static str],
}

const fn shown(name: &'static str, words: &'static str, unit: &'static str, keys: &'static [&'static str]) -> Shown {
    Shown { name, words, unit, keys }
}

const SHOWN: [Shown; 17] = [
    shown("decided", "all commands decided", "s", &["decided_seconds"]),
    shown("placed", "all placed and stored", "s", &["placed_seconds"]),
    shown("ordered", "all ordered", "s", &["ordered_seconds"]),
    shown("running", RUNNING, "s", &["running_seconds"]),
    shown(
        "schedulers-cpu",
        "CPU meanwhile: leader and standby",
        "s",
        &["deploy_scheduler_1_cpu_seconds", "deploy_scheduler_2_cpu_seconds"],
    ),
    shown("agents-cpu", "CPU meanwhile: all agents", "s", &["deploy_agents_cpu_seconds"]),
    shown("nats-cpu", "CPU meanwhile: nats-server", "s", &["deploy_nats_cpu_seconds"]),
    shown("etcd-cpu", "CPU meanwhile: etcd", "s", &["deploy_etcd_cpu_seconds"]),
    shown("order-bytes", "bytes of orders per instance", "B", &["order_bytes_per_instance"]),
    shown("leader-memory", "memory of the leader per instance", "B", &["leader_bytes_per_instance"]),
    shown("standby-memory", "memory of the standby per instance", "B", &["standby_bytes_per_instance"]),
    shown("stored", "stored in etcd per instance", "B", &["stored_bytes_per_instance"]),
    shown("leader-steady", "steady CPU of the leader, of one core", "%", &["steady_leader_cpu_percent"]),
    shown("standby-steady", "steady CPU of the standby, of one core", "%", &["steady_standby_cpu_percent"]),
    shown("change-decided", "one instance more: decided", "ms", &["change_decided_milliseconds"]),
    shown("change-ordered", "one instance more: ordered", "ms", &["change_ordered_milliseconds"]),
    shown("takeover", "leader killed: next command in effect", "s", &["takeover_seconds"]),
];
const RUNNING: &str = "all reported running";
/// The size of Nomad's challenge, and what it may take here.
pub(crate) const CHALLENGE: Fleet = Fleet { nodes: 6_100, instances: 2_000_000 };
const CHALLENGE_GOAL: f64 = 60.0;

impl Fleet {
    /// As it stands in tables and pictures.
    pub(crate) fn shown(self) -> String {
        format!("{} nodes, {} instances", grouped(self.nodes), grouped(self.instances))
    }

    /// The same beside a bar.
    fn short(self) -> String {
        format!("{} on {} nodes", grouped(self.instances), grouped(self.nodes))
    }
}

impl Measured {
    fn value(&self, what: &Shown) -> Option<f64> {
        what.keys.iter().map(|key| self.figures[*key].as_f64()).sum()
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        json!({"nodes": self.fleet.nodes, "instances": self.fleet.instances, "figures": self.figures})
    }
}

/// One column for each size, and how often the first one is in the last.
pub(crate) fn table(sizes: &[Measured]) -> String {
    let times = growth(sizes, |one| Some(f64::from(one.fleet.instances)));
    let grown = format!("growth (instances: {times})");
    let names: Vec<String> = sizes.iter().map(|one| one.fleet.shown()).collect();
    let header: Vec<&str> =
        std::iter::once("simulated agents").chain(names.iter().map(String::as_str)).chain([grown.as_str()]).collect();
    let rows = SHOWN.iter().map(|what| {
        let cell = |one: &Measured| one.value(what).map_or_else(|| "-".to_owned(), |value| with_unit(value, what.unit));
        let cells = sizes.iter().map(cell);
        let grew = growth(sizes, |one| one.value(what));
        std::iter::once(what.words.to_owned()).chain(cells).chain([grew]).collect()
    });
    markdown(&header, &rows.collect::<Vec<Vec<String>>>())
}

fn growth(sizes: &[Measured], of: impl Fn(&Measured) -> Option<f64>) -> String {
    let (first, last) = (sizes.first().and_then(&of), sizes.last().and_then(&of));
    let ratio = if sizes.len() > 1 {
        last.zip(first).and_then(|(last, first)| super::statistics::ratio(last, first))
    } else {
        None
    };
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} x", super::table::number(ratio)))
}

/// One picture for each figure, one bar for each size.
pub(crate) fn charts(sizes: &[Measured]) -> Vec<Chart> {
    let chart = |what: &Shown| {
        let bar = |one: &Measured| {
            let value = one.value(what)?;
            Some(Bar { label: one.fleet.short(), value, least: value, most: value, count: 1 })
        };
        let bars: Vec<Bar> = sizes.iter().filter_map(bar).collect();
        let challenge = sizes.iter().find(|one| one.fleet == CHALLENGE).and_then(|one| one.value(what));
        let goals = challenge.filter(|_| what.words == RUNNING).map(|took| {
            Goal::new(format!("{} in at most {CHALLENGE_GOAL} s", CHALLENGE.shown()), took <= CHALLENGE_GOAL)
        });
        let title = format!("Simulated agents: {}", what.words);
        let name = format!("agents-{}", what.name);
        Chart { name, title, unit: what.unit, bars, goals: goals.into_iter().collect() }
    };
    SHOWN.iter().map(chart).filter(|chart| !chart.bars.is_empty()).collect()
}

/// 2,000,000
fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn measured(nodes: u32, instances: u32, figures: Value) -> Measured {
        Measured { fleet: Fleet { nodes, instances }, figures }
    }

    #[test]
    fn sizes_stand_side_by_side_with_their_growth() {
        let small = json!({"running_seconds": 2.0, "deploy_scheduler_1_cpu_seconds": 1.0, "deploy_scheduler_2_cpu_seconds": 0.5});
        let large = json!({"running_seconds": 30.0, "deploy_scheduler_1_cpu_seconds": 10.0, "deploy_scheduler_2_cpu_seconds": 5.0});
        let sizes = [measured(200, 20_000, small), measured(1_000, 200_000, large)];
        let text = table(&sizes);
        let line = |word: &str| {
            text.lines()
                .find(|line| line.contains(word))
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            line("instances:").as_deref(),
            Some(
                "| simulated agents | 200 nodes, 20,000 instances | 1,000 nodes, 200,000 instances | growth (instances: 10.0 x) |"
            )
        );
        assert_eq!(line("reported").as_deref(), Some("| all reported running | 2.00 s | 30.0 s | 15.0 x |"));
        assert_eq!(
            line("leader and standby").as_deref(),
            Some("| CPU meanwhile: leader and standby | 1.50 s | 15.0 s | 10.0 x |")
        );
        assert_eq!(line("takeover"), None);
        assert_eq!(
            line("killed").as_deref(),
            Some("| leader killed: next command in effect | - | - | - |"),
            "what was not measured has no number"
        );
    }

    #[test]
    fn each_figure_has_a_picture_with_a_bar_for_each_size() {
        let sizes = [
            measured(200, 20_000, json!({"running_seconds": 2.0})),
            measured(CHALLENGE.nodes, CHALLENGE.instances, json!({"running_seconds": 61.0, "takeover_seconds": 9.0})),
        ];
        let charts = charts(&sizes);
        let names: Vec<(&str, usize)> = charts.iter().map(|chart| (chart.name.as_str(), chart.bars.len())).collect();
        assert_eq!(names, [("agents-running", 2), ("agents-takeover", 1)]);
        assert_eq!(charts[0].goals, [Goal::new("6,100 nodes, 2,000,000 instances in at most 60 s", false)]);
    }

    #[test]
    fn one_size_alone_grew_by_nothing() {
        let text = table(&[measured(1, 10, json!({"running_seconds": 2.0}))]);
        assert!(text.contains("growth (instances: -)"), "{text}");
    }
}
