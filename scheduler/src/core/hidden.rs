//! Remembers since when pods that are taken out of service are known to be: from when their drain is stored.
//!
//! The grace of a drain is for whoever watches the gates from outside, who sees nothing before the decision is stored. A
//! commit may take longer than the grace; counted from the decision, the drain and what it was for would be stored together.
//! A new leader cannot know when its predecessor's drains were stored, so they count from its own beginning.

use std::collections::{BTreeMap, BTreeSet};

use contract::name::GroupName;
use contract::record::{Draining, Slot};
use contract::time::Timestamp;

use super::leader::Leading;
use super::state::{Group, State};

/// By group and by when a drain began, since when it is known to be stored.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    groups: BTreeMap<GroupName, BTreeMap<Timestamp, Timestamp>>,
    nothing: BTreeMap<Timestamp, Timestamp>,
}

impl Hidden {
    /// All drains a new leader finds.
    pub(super) fn of_stored(state: &State, now: Timestamp) -> Self {
        let groups = state.groups.iter().map(|(name, group)| {
            let drains = drains(group).map(|drain| (drain.since, now)).collect::<BTreeMap<_, _>>();
            (name.clone(), drains)
        });
        Self { groups: groups.filter(|(_, drains)| !drains.is_empty()).collect(), ..Self::default() }
    }

    /// What is known of one group.
    pub(super) fn of(&self, name: &GroupName) -> &BTreeMap<Timestamp, Timestamp> {
        self.groups.get(name).unwrap_or(&self.nothing)
    }
}

impl Leading<'_> {
    /// What a decision just made hides.
    pub(super) fn hidden_now(&self, name: &GroupName) -> Option<(GroupName, Timestamp)> {
        let group = self.state.groups.get(name)?;
        drains(group).any(|drain| drain.since == self.now).then(|| (name.clone(), self.now))
    }

    /// A drain is stored: its grace begins, and the group is planned when it ends.
    pub(super) fn note_hidden(&mut self, what: (GroupName, Timestamp)) {
        if self.lead.outbox.hides(&what) {
            // Decided in the same moment: the later one counts for both.
            return;
        }
        let (name, since) = what;
        let Some(group) = self.state.groups.get(&name) else { return drop(self.lead.hidden.groups.remove(&name)) };
        let present: BTreeSet<Timestamp> = drains(group).map(|drain| drain.since).collect();
        let known = self.lead.hidden.groups.entry(name.clone()).or_default();
        known.insert(since, self.now);
        known.retain(|since, _| present.contains(since));
        self.lead.dirty.insert(name);
    }
}

fn drains(group: &Group) -> impl Iterator<Item = &Draining> {
    group.slots().iter().flat_map(Slot::pods).filter_map(|pod| pod.draining.as_ref())
}
