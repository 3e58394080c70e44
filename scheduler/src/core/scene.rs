//! Puts together what one group is planned from: once, for the leader who decides and for whoever only looks.

use std::collections::BTreeMap;

use contract::record::GroupRecord;
use contract::switches::Constraint;
use contract::time::Timestamp;
use planner::group::GroupFacts;
use planner::placement::LoadRanking;

use super::io::Settings;
use super::planning::Sight;
use super::state::{Group, State};
use super::surplus::Surplus;

/// What is known around a group. A leader knows more than who only hears reports.
pub(super) struct Scene<'a> {
    pub(super) state: &'a State,
    pub(super) settings: &'a Settings,
    pub(super) sight: Sight<'a>,
    pub(super) surplus: &'a Surplus,
    /// Whether the node each slot leaves has let go of it.
    pub(super) vacated: Vec<bool>,
    /// Something of the group that must go is still there.
    pub(super) lingers: bool,
    /// Since when decisions are known to be stored.
    pub(super) known: &'a BTreeMap<Timestamp, Timestamp>,
    /// The nodes' order, if one is kept.
    pub(super) standings: Option<&'a LoadRanking>,
}

impl Scene<'_> {
    /// Looks at a group with this record as the planner does.
    pub(super) fn look<T>(&self, group: &Group, record: &GroupRecord, see: impl FnOnce(&GroupFacts<'_>) -> T) -> T {
        let constraints: Vec<String> = self.state.constraints.values().map(Constraint::expression).collect();
        see(&GroupFacts {
            record,
            revisions: &group.revisions,
            timeouts: self.settings.patience(),
            slots: group.slots(),
            observed: &self.sight.seen,
            vacated: &self.vacated,
            has_leftovers: self.lingers,
            observed_surge: &self.sight.beside,
            leaving: &self.surplus.leaving,
            strays: self.surplus.strays,
            committed: self.known,
            release: group.release.as_ref(),
            guard_enabled: self.state.engine.guarding,
            constraints: &constraints,
            nodes: &self.state.hosts,
            ranking: self.standings,
            placed_pods: self.state,
        })
    }
}
