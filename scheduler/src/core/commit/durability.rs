//! Records when each decision was committed.
//!
//! Timers of drains and of instances that start count from the commit, not from the decision. Otherwise a slow commit could
//! contain both a drain and the replacement that has to wait for it, and clients that watch the gates would never see the drain.
//! A new leader does not know when its predecessor committed, so these timers count from its start.

use std::collections::{BTreeMap, BTreeSet};

use contract::name::GroupName;
use contract::record::Instance;
use contract::time::Timestamp;
use planner::group::decided;

use crate::core::leader::Leading;
use crate::core::state::{Group, State};

/// Commit time of each decision, by group and time of decision.
#[derive(Debug, Default)]
pub(in crate::core) struct CommitTimes {
    groups: BTreeMap<GroupName, BTreeMap<Timestamp, Timestamp>>,
    nothing: BTreeMap<Timestamp, Timestamp>,
}

/// Decisions of one bundle whose timers start when it is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::core) struct TimedDecisions {
    pub(super) group: GroupName,
    /// When the bundle was made.
    pub(super) at: Timestamp,
    /// The decisions in it that were not known to be stored; those of bundles before it are among them.
    decisions: BTreeSet<Timestamp>,
}

impl CommitTimes {
    /// All decisions a new leader finds.
    pub(in crate::core) fn of_stored(state: &State, now: Timestamp) -> Self {
        let groups = state.groups.iter().map(|(name, group)| {
            let decisions = decisions(group).map(|decision| (decision, now)).collect::<BTreeMap<_, _>>();
            (name.clone(), decisions)
        });
        Self { groups: groups.filter(|(_, decisions)| !decisions.is_empty()).collect(), ..Self::default() }
    }

    /// What is known of one group.
    pub(in crate::core) fn of(&self, name: &GroupName) -> &BTreeMap<Timestamp, Timestamp> {
        self.groups.get(name).unwrap_or(&self.nothing)
    }
}

/// The decisions about a group in a bundle made now that are not known to be committed.
pub(in crate::core) fn decided_now(leading: &mut Leading<'_>, name: &GroupName) -> Option<TimedDecisions> {
    if let Some(known) = leading.lead.commit_times.groups.get_mut(name) {
        // A bundle with the same timestamp may be committed already: the later one counts for both.
        known.remove(&leading.now);
    }
    let known = leading.lead.commit_times.of(name);
    let unknown = decisions(leading.state.groups.get(name)?).filter(|decision| !known.contains_key(decision));
    let decisions: BTreeSet<Timestamp> = unknown.collect();
    (!decisions.is_empty()).then(|| TimedDecisions { group: name.clone(), at: leading.now, decisions })
}

/// Decisions are committed and their timers start. A group with a drain is reconciled again to learn when the drain ends; other
/// waits are checked anyway.
pub(super) fn note_stored(leading: &mut Leading<'_>, decided: TimedDecisions) {
    if leading.lead.outbox.has_later_decision(&decided) {
        // A later bundle with the same timestamp counts for both.
        return;
    }
    let TimedDecisions { group: name, decisions: stored, .. } = decided;
    let Some(group) = leading.state.groups.get(&name) else {
        return drop(leading.lead.commit_times.groups.remove(&name));
    };
    let present: BTreeSet<Timestamp> = decisions(group).collect();
    let mut drains = group.instances().iter().flat_map(Instance::pods).filter_map(|pod| pod.draining.as_ref());
    if drains.any(|drain| stored.contains(&drain.since)) {
        leading.lead.queue.mark(name.clone());
    }
    let known = leading.lead.commit_times.groups.entry(name).or_default();
    for decision in stored {
        known.entry(decision).or_insert(leading.now);
    }
    known.retain(|decision, _| present.contains(decision));
}

fn decisions(group: &Group) -> impl Iterator<Item = Timestamp> {
    group.instances().iter().flat_map(decided)
}
