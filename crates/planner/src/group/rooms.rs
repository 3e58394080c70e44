//! Keeps account of room while instances of several versions look for places in one plan.
//!
//! Each version, and each extra condition of an operation, has its own batch of candidates; what one takes or gives back the
//! others must know. Most plans place nothing, so a batch is made only when somebody asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::name::NodeName;

use super::{GroupFacts, Revision};
use crate::placement::{Batch, Need, Site, Unplaceable, Wish};

/// What an instance asks for beside its version's own filters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extra {
    /// Nothing.
    Nothing,
    /// It stays on its node, whatever node its filters name.
    Pinned,
    /// One more expression.
    Also(String),
}

/// What an instance asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ask {
    pub(super) version: u32,
    pub(super) extra: Extra,
    /// The expression of its deployment unit; empty when it has none.
    pub(super) within: String,
}

#[derive(Debug, Clone)]
enum Shift {
    Release(NodeName, Need),
    Uncount(NodeName),
    Keep(NodeName, Need),
}

pub(super) struct Rooms<'a> {
    facts: &'a GroupFacts<'a>,
    /// The nodes of the instances before any shift, in their order: counted only for somebody who asks.
    siblings: Vec<&'a NodeName>,
    /// What changed since, for batches that are made later.
    shifts: Vec<Shift>,
    batches: BTreeMap<Ask, Batch<'a>>,
}

impl<'a> Rooms<'a> {
    pub(super) fn new(facts: &'a GroupFacts<'a>) -> Self {
        Self { facts, siblings: Vec::new(), shifts: Vec::new(), batches: BTreeMap::new() }
    }

    /// One instance is on the node; only before anything is placed.
    pub(super) fn count(&mut self, node: &'a NodeName) {
        self.siblings.push(node);
    }
    /// An instance gives its room back.
    pub(super) fn release(&mut self, node: &NodeName, need: Need) {
        self.shift(Shift::Release(node.clone(), need));
    }
    /// An instance looks for another place and is no sibling on its node any more.
    pub(super) fn uncount(&mut self, node: &NodeName) {
        self.shift(Shift::Uncount(node.clone()));
    }
    /// An instance stays after all.
    pub(super) fn keep(&mut self, node: &NodeName, need: Need) {
        self.shift(Shift::Keep(node.clone(), need));
    }

    /// Finds a place and takes it.
    pub(super) fn place(
        &mut self,
        ask: &Ask,
        revision: &Revision,
        wish: Wish<'_>,
    ) -> Result<NodeName, Arc<Unplaceable>> {
        if !self.batches.contains_key(ask) {
            let batch = self.open(ask, revision);
            self.batches.insert(ask.clone(), batch);
        }
        let batch = self.batches.get_mut(ask).expect("it was just made");
        let node = batch.place(wish)?;
        let kept = Shift::Keep(node.clone(), revision.need);
        self.batches.iter_mut().filter(|(other, _)| *other != ask).for_each(|(_, batch)| kept.apply(batch));
        self.shifts.push(kept);
        Ok(node)
    }

    fn open(&self, ask: &Ask, revision: &Revision) -> Batch<'a> {
        let mut siblings: BTreeMap<NodeName, u32> = BTreeMap::new();
        for node in &self.siblings {
            *siblings.entry((*node).clone()).or_default() += 1;
        }
        let filters = filters(&revision.pod.filters, ask, self.facts.constraints);
        let GroupFacts { hosts, standings, tenants, .. } = *self.facts;
        let mut batch = Batch::on(Site { hosts, standings, tenants }, &filters, revision.need, &siblings);
        self.shifts.iter().for_each(|shift| shift.apply(&mut batch));
        batch
    }

    fn shift(&mut self, shift: Shift) {
        self.batches.values_mut().for_each(|batch| shift.apply(batch));
        self.shifts.push(shift);
    }
}

impl Shift {
    fn apply(&self, batch: &mut Batch<'_>) {
        match self {
            Self::Release(node, need) => batch.release(node, *need),
            Self::Uncount(node) => batch.uncount(node),
            Self::Keep(node, need) => batch.keep(node, *need),
        }
    }
}

/// A pin takes the place of the node an instance's own filters name, and of the unit it is in.
fn filters(own: &[String], ask: &Ask, constraints: &[String]) -> Vec<String> {
    let is_pinned = ask.extra == Extra::Pinned;
    let named = |filter: &&String| !is_pinned || !filter.starts_with("constraint:node==");
    let mut filters: Vec<String> = own.iter().filter(named).chain(constraints).cloned().collect();
    filters.extend(Some(ask.within.clone()).filter(|within| !within.is_empty() && !is_pinned));
    if let Extra::Also(expression) = &ask.extra {
        filters.push(expression.clone());
    }
    filters
}
