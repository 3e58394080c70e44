//! Sizes of simulated clusters, and what one run of a size measured.

use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Fleet {
    pub(crate) nodes: u32,
    pub(crate) instances: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    pub(crate) fleet: Fleet,
    /// The object that `proof agents --json` writes.
    pub(crate) figures: Value,
}

/// The size of Nomad's two-million-container challenge.
pub(crate) const CHALLENGE: Fleet = Fleet { nodes: 6_100, instances: 2_000_000 };

impl Fleet {
    pub(crate) fn shown(self) -> String {
        format!("{} nodes, {} instances", grouped(self.nodes), grouped(self.instances))
    }
}

impl Measured {
    /// One line per figure.
    pub(crate) fn lines(&self) -> Vec<String> {
        let figures = self.figures.as_object().into_iter().flatten();
        figures.map(|(name, value)| format!("{}: {name} {value}", self.fleet.shown())).collect()
    }
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
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped_by_thousands() {
        assert_eq!(CHALLENGE.shown(), "6,100 nodes, 2,000,000 instances");
        assert_eq!(Fleet { nodes: 2, instances: 100 }.shown(), "2 nodes, 100 instances");
    }
}
