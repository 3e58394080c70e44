//! Ranks nodes by load, so that a placement examines only a few of them.
//!
//! The order depends on the size of the pod, so a ranking is kept for each recently used size and shared by all groups. After
//! a change of some nodes, an update is one pass over a list of numbers; sorting all nodes for each of ten thousand groups
//! would be far slower. The ranking ignores liveness and filters: those are checked when a node is examined.

use std::collections::BTreeMap;

use contract::name::NodeName;

use super::{Candidate, Need};

/// Sizes with a ranking: pods come in a few sizes.
const MOST_NEEDS: usize = 8;

/// If fewer than one in `FEW` nodes changed, each is looked up by name.
const FEW: usize = 16;

/// The rankings of recently used sizes.
#[derive(Debug, Clone, Default)]
pub struct LoadRanking {
    /// All nodes, sorted; the index is the number of the node.
    names: Vec<NodeName>,
    /// The most recently used one is the last.
    kept: Vec<SizeRanking>,
}

/// The nodes with enough resources for one size, the lowest share first.
#[derive(Debug, Clone)]
struct SizeRanking {
    need: Need,
    order: Vec<RankedNode>,
    /// Nodes whose position may be wrong; may contain duplicates.
    touched: Vec<u32>,
}

/// Dominant share after the placement, and the number of the node.
pub(super) type RankedNode = (u64, u32);

impl LoadRanking {
    /// A ranking for one size.
    pub(super) fn of(nodes: &BTreeMap<NodeName, Candidate>, need: Need) -> Self {
        let names: Vec<NodeName> = nodes.keys().cloned().collect();
        let kept = vec![SizeRanking::new(nodes, need)];
        Self { names, kept }
    }

    /// The capacity or load of a node changed.
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

    /// A node was added or removed.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Brings the ranking for `need` up to date.
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

    /// The ranking for `need`, if it is up to date.
    pub(super) fn order(&self, need: Need) -> Option<&[RankedNode]> {
        let ranking = self.kept.iter().rev().find(|ranking| ranking.need == need)?;
        ranking.touched.is_empty().then_some(&ranking.order)
    }

    pub(super) fn number(&self, node: &NodeName) -> Option<u32> {
        self.names.binary_search(node).ok().and_then(|index| u32::try_from(index).ok())
    }

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

    fn tidy(&mut self) {
        self.touched.sort_unstable();
        self.touched.dedup();
    }

    /// Moves the touched nodes to their new positions.
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
            // One pass over all nodes is cheaper than searching each.
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

/// The dominant share (the larger of memory and CPU) with one more instance, in millionths; none if it does not fit. 512 of
/// 1,024 MiB and 1 of 8 cores: 500,000.
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
