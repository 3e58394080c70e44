//! Events about placement: one per instance, one per node if many instances changed, and one in all if many nodes changed.
//!
//! Storing an event costs an fsync, and queries show where each instance is. A thousand events of one deployment would only
//! displace useful ones.

use std::collections::BTreeMap;

use contract::event::{Event, Kind};
use contract::name::{GroupName, NodeName};
use contract::record::{Instance, Presence};
use contract::time::Timestamp;

use crate::core::io::Effect;

use super::of_group;

/// Above this many changes in one group there is one event per node.
const MOST_MOVES: usize = 50;
/// Above this many nodes there is one event in all.
const MOST_NODES: usize = 50;

/// Which pod of an instance.
#[derive(PartialEq, Eq)]
enum Which {
    Own,
    /// Its surge pod.
    Second,
    /// The surge pod became the current pod.
    TookOver,
}

/// A change of one pod's place.
struct Move<'a> {
    instance: u32,
    which: Which,
    from: Option<&'a Instance>,
    to: Option<&'a Instance>,
}

/// What changed at one node.
#[derive(Default)]
struct Traffic {
    came: u32,
    left: u32,
    recreated: u32,
}

impl<'a> Move<'a> {
    /// The changes of one instance: its current pod and its surge pod.
    fn of(instance: u32, before: Option<&'a Instance>, after: Option<&'a Instance>) -> Vec<Self> {
        let main = |instance: Option<&'a Instance>| instance.filter(|instance| instance.presence == Presence::Pod);
        let beside = |instance: Option<&'a Instance>| instance.and_then(|instance| instance.next.as_deref());
        let (from, next) = (main(before), beside(before));
        if let Some((old, new)) = next.zip(main(after)).filter(|(old, new)| identity(old) == identity(new)) {
            // The surge pod was promoted to the current pod: the instance moved to the node of the surge pod.
            let came = Self { instance, which: Which::Second, from: None, to: beside(after) };
            let took_over = Self { instance, which: Which::TookOver, from: from.or(Some(old)), to: Some(new) };
            return vec![took_over, came];
        }
        let own = Self { instance, which: Which::Own, from, to: main(after) };
        vec![own, Self { instance, which: Which::Second, from: next, to: beside(after) }]
    }
    fn left(&self) -> Option<&NodeName> {
        self.from.and_then(|instance| instance.node.as_ref())
    }
    fn came(&self) -> Option<&NodeName> {
        self.to.and_then(|instance| instance.node.as_ref())
    }
    fn is_one(&self) -> bool {
        let nowhere = self.left().is_none() && self.came().is_none();
        !nowhere && self.from.map(identity) != self.to.map(identity)
    }
    fn sentence(&self) -> String {
        let versions = self.from.zip(self.to).map(|(from, to)| (from.version, to.version));
        let upgrade = versions.filter(|(from, to)| from != to);
        let upgrade = upgrade.map(|(from, to)| format!(", version {from} to {to}")).unwrap_or_default();
        let drift = self.to.map_or(0, |instance| instance.drift);
        match (self.left(), self.came()) {
            (None, None) => "has no place".to_owned(),
            (None, Some(to)) if self.which == Which::Second => format!("its next pod is placed on {to}"),
            (Some(from), None) if self.which == Which::Second => format!("its next pod leaves {from}"),
            (Some(from), Some(to)) if self.which == Which::Second => format!("its next pod moves from {from} to {to}"),
            (Some(from), Some(to)) if self.which == Which::TookOver => {
                format!("its next pod on {to} took over from the one on {from}{upgrade}")
            }
            (None, Some(to)) => format!("placed on {to}"),
            (Some(from), None) => format!("leaves {from}"),
            (Some(from), Some(to)) if from != to => format!("moves from {from} to {to}, drift {drift}{upgrade}"),
            (Some(_), Some(to)) if upgrade.is_empty() => format!("re-created on {to}, drift {drift}"),
            (Some(_), Some(to)) => format!("upgraded on {to}{upgrade}"),
        }
    }
}

fn identity(instance: &Instance) -> (Option<&NodeName>, u32, u32) {
    (instance.node.as_ref(), instance.version, instance.drift)
}

/// What changed in where the instances of a group are.
pub(in crate::core) fn moves(
    group: &GroupName,
    before: &[Instance],
    after: &[Instance],
    now: Timestamp,
) -> Vec<Effect> {
    let all = (0..before.len().max(after.len())).flat_map(|index| {
        // At most 5,000 instances: the number always fits.
        let instance = u32::try_from(index + 1).unwrap_or(u32::MAX);
        Move::of(instance, before.get(index), after.get(index))
    });
    let moves: Vec<Move<'_>> = all.filter(Move::is_one).collect();
    if moves.len() > MOST_MOVES {
        return by_node(group, &moves, now);
    }
    let event_of = |change: &Move<'_>| {
        let node = change.came().or_else(|| change.left()).cloned();
        let event = of_group(Kind::Placed, group, change.sentence(), now);
        Effect::Record(Event { instance: change.instance, node, ..event })
    };
    moves.iter().map(event_of).collect()
}

fn by_node(group: &GroupName, moves: &[Move<'_>], now: Timestamp) -> Vec<Effect> {
    let mut nodes: BTreeMap<&NodeName, Traffic> = BTreeMap::new();
    for change in moves {
        match (change.left(), change.came()) {
            (Some(from), Some(to)) if from == to => nodes.entry(to).or_default().recreated += 1,
            (from, to) => {
                from.into_iter().for_each(|node| nodes.entry(node).or_default().left += 1);
                to.into_iter().for_each(|node| nodes.entry(node).or_default().came += 1);
            }
        }
    }
    if nodes.len() > MOST_NODES {
        return vec![Effect::Record(of_group(Kind::Placed, group, sum(&nodes), now))];
    }
    let events = nodes.iter().map(|(node, traffic)| {
        let event = of_group(Kind::Placed, group, traffic.sentence(), now);
        Effect::Record(Event { node: Some((*node).clone()), ..event })
    });
    events.collect()
}

/// What changed, and on how many nodes.
fn sum(nodes: &BTreeMap<&NodeName, Traffic>) -> String {
    let part = |count: fn(&Traffic) -> u32, word: &str| {
        let counts = nodes.values().map(count).filter(|count| *count > 0);
        let (sum, on) = (counts.clone().sum::<u32>(), counts.count());
        (sum > 0).then(|| format!("{sum} {word} {on} nodes"))
    };
    let parts = [
        part(|traffic| traffic.came, "placed on"),
        part(|traffic| traffic.left, "leave"),
        part(|traffic| traffic.recreated, "re-created or upgraded on"),
    ];
    format!("instances: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

impl Traffic {
    fn sentence(&self) -> String {
        let parts = [(self.came, "placed here"), (self.left, "leave"), (self.recreated, "re-created or upgraded here")];
        let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
        format!("instances: {}", parts.collect::<Vec<_>>().join(", "))
    }
}
