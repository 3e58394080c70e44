//! Keeps the nodes in the order placement takes them, from one group to the next.
//!
//! The order depends on what an instance takes, so it is kept for each need lately asked for. A change of some nodes costs
//! one pass over a list of numbers; working the order out anew for each of ten thousand groups would cost a look at every
//! node each time. What is kept is only an order: whether a node may be used at all is asked when its turn comes.

use std::collections::BTreeMap;

use contract::name::NodeName;

use super::{Candidate, Need};

/// Needs an order is kept for: pods come in a few sizes.
const MOST_NEEDS: usize = 8;

/// Fewer than every so-manieth node are found one by one.
const FEW: usize = 16;

/// The orders that are kept.
#[derive(Debug, Clone, Default)]
pub struct LoadRanking {
    /// Every node, in the order of names; its place in it stands for the name, and is in the same order.
    names: Vec<NodeName>,
    /// The one used last is the last.
    kept: Vec<SizeRanking>,
}

/// The nodes with room for one need, the lowest share first.
#[derive(Debug, Clone)]
struct SizeRanking {
    need: Need,
    order: Vec<RankedNode>,
    /// Nodes whose place may not be right any more; some more than once.
    touched: Vec<u32>,
}

/// The share a node would have of its scarcer part, and the node.
pub(super) type RankedNode = (u64, u32);

impl LoadRanking {
    /// The order for one need alone.
    pub(super) fn of(nodes: &BTreeMap<NodeName, Candidate>, need: Need) -> Self {
        let names: Vec<NodeName> = nodes.keys().cloned().collect();
        let kept = vec![SizeRanking::new(nodes, need)];
        Self { names, kept }
    }

    /// What a node has or has given away changed.
    pub fn touch(&mut self, node: &NodeName) {
        let Some(number) = self.number(node) else { return };
        let most = self.names.len();
        for ranking in &mut self.kept {
            ranking.touched.push(number);
            if ranking.touched.len() > 2 * most {
                ranking.tidy();
            }
        }
    }

    /// A node came or went.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Brings the order for `need` up to date with the hosts.
    pub fn prepare(&mut self, nodes: &BTreeMap<NodeName, Candidate>, need: Need) {
        if self.names.len() != nodes.len() {
            *self = Self::of(nodes, need);
            return;
        }
        let found = self.kept.iter().position(|ranking| ranking.need == need);
        let mut ranking = match found {
            Some(index) => self.kept.remove(index),
            None => SizeRanking::new(nodes, need),
        };
        ranking.refresh(nodes, &self.names);
        if self.kept.len() >= MOST_NEEDS {
            self.kept.remove(0);
        }
        self.kept.push(ranking);
    }

    /// The order for `need`, if it is up to date.
    pub(super) fn order(&self, need: Need) -> Option<&[RankedNode]> {
        let ranking = self.kept.iter().rev().find(|ranking| ranking.need == need)?;
        ranking.touched.is_empty().then_some(&ranking.order)
    }

    /// The number that stands for a node.
    pub(super) fn number(&self, node: &NodeName) -> Option<u32> {
        self.names.binary_search(node).ok().and_then(|index| u32::try_from(index).ok())
    }

    /// The node a number stands for.
    pub(super) fn name(&self, number: u32) -> Option<&NodeName> {
        self.names.get(usize::try_from(number).ok()?)
    }
}

impl SizeRanking {
    fn new(nodes: &BTreeMap<NodeName, Candidate>, need: Need) -> Self {
        let places = (0..)
            .zip(nodes.values())
            .filter_map(|(number, candidate)| Some((share(candidate.room(), candidate.used, need)?, number)));
        let mut order: Vec<RankedNode> = places.collect();
        order.sort_unstable();
        Self { need, order, touched: Vec::new() }
    }

    /// Each touched node once.
    fn tidy(&mut self) {
        self.touched.sort_unstable();
        self.touched.dedup();
    }

    /// Takes the touched nodes out and puts them where they belong now.
    fn refresh(&mut self, nodes: &BTreeMap<NodeName, Candidate>, names: &[NodeName]) {
        if self.touched.is_empty() {
            return;
        }
        self.tidy();
        let touched = std::mem::take(&mut self.touched);
        let mut is_touched = vec![false; names.len()];
        for number in touched.iter().filter_map(|number| usize::try_from(*number).ok()) {
            is_touched[number] = true;
        }
        let place = |(number, candidate): (u32, &Candidate)| {
            Some((share(candidate.room(), candidate.used, self.need)?, number))
        };
        let mut fresh: Vec<RankedNode> = if touched.len() > names.len() / FEW {
            // A walk through all of them is cheaper than finding each.
            let all = (0..).zip(nodes.values()).zip(&is_touched);
            all.filter(|(_, is_touched)| **is_touched).filter_map(|(candidate, _)| place(candidate)).collect()
        } else {
            let found = |number: &u32| Some((*number, nodes.get(names.get(usize::try_from(*number).ok()?)?)?));
            touched.iter().filter_map(found).filter_map(place).collect()
        };
        fresh.sort_unstable();
        let stays = |(_, number): &RankedNode| usize::try_from(*number).is_ok_and(|number| !is_touched[number]);
        let mut fresh = fresh.into_iter().peekable();
        let mut order = Vec::with_capacity(names.len());
        for place in self.order.iter().copied().filter(stays) {
            while let Some(earlier) = fresh.next_if(|fresh| *fresh < place) {
                order.push(earlier);
            }
            order.push(place);
        }
        order.extend(fresh);
        self.order = order;
    }
}

/// The share a node would have of its scarcer part with one instance more, in millionths; none when it has no room.
pub(super) fn share(room: Need, used: Need, need: Need) -> Option<u64> {
    let after = used.plus(need);
    if after.memory > room.memory || after.cpu_millis > room.cpu_millis {
        return None;
    }
    Some(millionths(after.memory, room.memory)?.max(millionths(after.cpu_millis, room.cpu_millis)?))
}

fn millionths(part: u64, whole: u64) -> Option<u64> {
    let whole = whole.max(1);
    match part.checked_mul(1_000_000) {
        Some(product) => Some(product / whole),
        None => u64::try_from(u128::from(part) * 1_000_000 / u128::from(whole)).ok(),
    }
}
