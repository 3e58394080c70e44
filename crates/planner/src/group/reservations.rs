//! Tracks the resources that one plan takes and frees while it places instances of several revisions.
//!
//! Each combination of revision and constraint has its own [`Placer`]; a reservation in one is applied to all others.
//! Example: revision 2 takes 512 MiB on node a, so the placer of revision 1 sees 512 MiB less there. Most plans place
//! nothing, so placers are created on demand.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::name::NodeName;

use super::{GroupFacts, Revision};
use crate::placement::{Candidates, Need, NodePreference, Placer, Unplaceable};

/// A constraint in addition to the filters of the revision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExtraConstraint {
    None,
    /// It stays on its node, whatever node its filters name.
    Pinned,
    /// One more placement expression.
    Expression(String),
}

/// What identifies a placer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlacementRequest {
    pub(super) version: u32,
    pub(super) extra: ExtraConstraint,
    /// The expression of its deployment unit; empty without units.
    pub(super) unit_constraint: String,
}

#[derive(Debug, Clone)]
enum Adjustment {
    Release(NodeName, Need),
    Uncount(NodeName),
    Keep(NodeName, Need),
}

pub(super) struct Reservations<'a> {
    facts: &'a GroupFacts<'a>,
    /// The nodes of the instances before any adjustment; counted when the first placer is created.
    siblings: Vec<&'a NodeName>,
    /// All adjustments of this plan, for placers that are created later.
    adjustments: Vec<Adjustment>,
    placers: BTreeMap<PlacementRequest, Placer<'a>>,
}

impl<'a> Reservations<'a> {
    pub(super) fn new(facts: &'a GroupFacts<'a>) -> Self {
        Self { facts, siblings: Vec::new(), adjustments: Vec::new(), placers: BTreeMap::new() }
    }

    /// One instance is on the node; only before anything is placed.
    pub(super) fn count(&mut self, node: &'a NodeName) {
        self.siblings.push(node);
    }
    /// An instance frees its resources.
    pub(super) fn release(&mut self, node: &NodeName, need: Need) {
        self.adjust(Adjustment::Release(node.clone(), need));
    }
    /// An instance is to be placed again and is no sibling on its node any more.
    pub(super) fn uncount(&mut self, node: &NodeName) {
        self.adjust(Adjustment::Uncount(node.clone()));
    }
    /// An instance stays on its node.
    pub(super) fn keep(&mut self, node: &NodeName, need: Need) {
        self.adjust(Adjustment::Keep(node.clone(), need));
    }

    /// Chooses a node and reserves the resources there.
    pub(super) fn place(
        &mut self,
        request: &PlacementRequest,
        revision: &Revision,
        preference: NodePreference<'_>,
    ) -> Result<NodeName, Arc<Unplaceable>> {
        if !self.placers.contains_key(request) {
            let placer = self.open(request, revision);
            self.placers.insert(request.clone(), placer);
        }
        let placer = self.placers.get_mut(request).expect("the placer was just created");
        let node = placer.place(preference)?;
        let kept = Adjustment::Keep(node.clone(), revision.need);
        self.placers.iter_mut().filter(|(other, _)| *other != request).for_each(|(_, placer)| kept.apply(placer));
        self.adjustments.push(kept);
        Ok(node)
    }

    fn open(&self, request: &PlacementRequest, revision: &Revision) -> Placer<'a> {
        let mut siblings: BTreeMap<NodeName, u32> = BTreeMap::new();
        for node in &self.siblings {
            *siblings.entry((*node).clone()).or_default() += 1;
        }
        let filters = filters(&revision.pod.filters, request, self.facts.constraints);
        let GroupFacts { nodes, ranking, placed_pods, .. } = *self.facts;
        let mut placer = Placer::new(Candidates { nodes, ranking, placed_pods }, &filters, revision.need, &siblings);
        self.adjustments.iter().for_each(|adjust| adjust.apply(&mut placer));
        placer
    }

    fn adjust(&mut self, adjust: Adjustment) {
        self.placers.values_mut().for_each(|placer| adjust.apply(placer));
        self.adjustments.push(adjust);
    }
}

impl Adjustment {
    fn apply(&self, placer: &mut Placer<'_>) {
        match self {
            Self::Release(node, need) => placer.release(node, *need),
            Self::Uncount(node) => placer.uncount(node),
            Self::Keep(node, need) => placer.keep(node, *need),
        }
    }
}

/// A pin overrides the node in the filters and the deployment unit.
fn filters(own: &[String], request: &PlacementRequest, constraints: &[String]) -> Vec<String> {
    let is_pinned = request.extra == ExtraConstraint::Pinned;
    let named = |filter: &&String| !is_pinned || !filter.starts_with("constraint:node==");
    let mut filters: Vec<String> = own.iter().filter(named).chain(constraints).cloned().collect();
    filters.extend(
        Some(request.unit_constraint.clone()).filter(|unit_constraint| !unit_constraint.is_empty() && !is_pinned),
    );
    if let ExtraConstraint::Expression(expression) = &request.extra {
        filters.push(expression.clone());
    }
    filters
}
