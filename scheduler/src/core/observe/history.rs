//! Keeps when containers started and stopped, from the reports of agents.
//!
//! Every scheduler folds what it receives; the leader stores a page at most once in [`STORED_AFTER`]. Folding is a union, so a
//! standby that takes over adds what its predecessor did not store. Queries show events before they are stored, because they are
//! facts and not decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::history::{Condition, ContainerEvent, HistoryRecord, page_of};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::time::Timestamp;
use planner::history::{self, Transition};

use crate::core::commit::{self, Bundle};
use crate::core::io::Write;
use crate::core::leader::Leading;
use crate::core::state::{Group, State};
use crate::core::timers::Timer;

use super::reports::PodChange;

/// A changed page is stored after this time.
const STORED_AFTER: Duration = Duration::from_secs(5);
/// Pages stored at a time; the rest follow after [`REST_AFTER`], so that a thousand starts do not delay commands.
const MOST_PAGES: usize = 64;
const REST_AFTER: Duration = Duration::from_millis(500);

/// The histories of all groups, in pages as they are stored.
#[derive(Debug, Default)]
pub(in crate::core) struct Histories {
    groups: BTreeMap<GroupName, BTreeMap<u32, HistoryRecord>>,
    /// Pages that know more than is stored.
    unstored: BTreeSet<(GroupName, u32)>,
}

impl Histories {
    /// The last starts and stops of an instance, oldest first.
    pub(in crate::core) fn of(&self, name: &GroupName, instance: u32) -> Vec<ContainerEvent> {
        let page = self.groups.get(name).and_then(|pages| pages.get(&page_of(instance)));
        page.and_then(|page| page.instances.get(&instance)).map(|ring| ring.events().to_vec()).unwrap_or_default()
    }

    /// Merges a stored page into memory. Events that the page lacks stay and are stored later.
    pub(in crate::core) fn read(&mut self, name: &GroupName, page: u32, record: &HistoryRecord) {
        let known = self.groups.entry(name.clone()).or_default().entry(page).or_default();
        for (instance, ring) in &record.instances {
            let mine = known.instances.entry(*instance).or_default();
            for event in ring.events() {
                mine.insert(event.clone());
            }
        }
        known.reported.clone_from(&record.reported);
        if known == record {
            self.unstored.remove(&(name.clone(), page));
        }
    }

    /// The conditions that were reported and persist, each with the time of its last report.
    pub(in crate::core) fn reported(&self) -> impl Iterator<Item = (&GroupName, u32, Condition, Timestamp)> {
        let pages = self.groups.iter().flat_map(|(name, pages)| pages.values().map(move |page| (name, page)));
        let instances =
            pages.flat_map(|(name, page)| page.reported.iter().map(move |(number, it)| (name, *number, it)));
        instances.flat_map(|(name, number, reported)| reported.iter().map(move |(it, at)| (name, number, *it, *at)))
    }

    /// Notes when a condition of an instance was reported, or that it ended. Its page is to be stored then; none when
    /// nothing changed.
    pub(in crate::core) fn report(
        &mut self,
        (name, instance, condition): (&GroupName, u32, Condition),
        at: Option<Timestamp>,
    ) -> Option<u32> {
        let page = page_of(instance);
        let known = self.groups.entry(name.clone()).or_default().entry(page).or_default();
        let before = match at {
            Some(at) => known.reported.entry(instance).or_default().insert(condition, at),
            None => known.reported.get_mut(&instance).and_then(|reported| reported.remove(&condition)),
        };
        known.reported.retain(|_, reported| !reported.is_empty());
        (before != at).then_some(page)
    }

    /// A page as it is to be stored.
    pub(in crate::core) fn page(&self, name: &GroupName, page: u32) -> Option<&HistoryRecord> {
        self.groups.get(name)?.get(&page)
    }

    /// Whether everything that is known of an instance is stored.
    pub(in crate::core) fn is_stored(&self, name: &GroupName, instance: u32) -> bool {
        !self.unstored.contains(&(name.clone(), page_of(instance)))
    }

    /// A page is not stored any more: its group is gone.
    pub(in crate::core) fn drop_page(&mut self, name: &GroupName, page: u32) {
        self.unstored.remove(&(name.clone(), page));
        if let Some(pages) = self.groups.get_mut(name) {
            pages.remove(&page);
        }
    }

    /// Forgets a group; the pages it had.
    pub(in crate::core) fn forget(&mut self, name: &GroupName) -> Vec<u32> {
        let pages: Vec<u32> = self.groups.remove(name).unwrap_or_default().into_keys().collect();
        for page in &pages {
            self.unstored.remove(&(name.clone(), *page));
        }
        pages
    }

    fn insert(&mut self, pod: &PodId, event: ContainerEvent) {
        let page = page_of(pod.instance);
        let known = self.groups.entry(pod.group.clone()).or_default().entry(page).or_default();
        if known.instances.entry(pod.instance).or_default().insert(event) {
            self.unstored.insert((pod.group.clone(), page));
        }
    }

    fn next_unstored(&mut self) -> Option<(GroupName, u32, &HistoryRecord)> {
        let (name, page) = self.unstored.pop_first()?;
        let record = self.groups.get(&name)?.get(&page)?;
        Some((name, page, record))
    }
}

impl State {
    /// Inserts the starts and stops of a pod, if its group is known.
    fn note(&mut self, node: &NodeName, pod: &PodId, transitions: &[Transition]) {
        let Some(group) = self.groups.get(&pod.group) else { return };
        let version = group.version_of(pod);
        for transition in transitions {
            self.histories.insert(pod, event(group, version, node, transition));
        }
    }

    /// Folds the starts and stops in changed pods.
    pub(in crate::core) fn note_reported_history(&mut self, node: &NodeName, changes: &[PodChange]) {
        for (change, after) in changes.iter().filter_map(|change| Some((change, change.after.as_ref()?))) {
            self.note(node, &change.pod, &history::reported(after));
        }
    }

    /// Takes over what `before` knows about groups that are still the same.
    pub(in crate::core) fn inherit_history(&mut self, before: Self) {
        let created = |state: &Self, name: &GroupName| -> Option<Timestamp> {
            state.groups.get(name).map(|group| group.record.spec.created_at)
        };
        let same = |name: &GroupName| created(&before, name).is_some() && created(&before, name) == created(self, name);
        let kept: BTreeSet<GroupName> = before.histories.groups.keys().filter(|name| same(name)).cloned().collect();
        for (name, pages) in before.histories.groups.into_iter().filter(|(name, _)| kept.contains(name)) {
            for (instance, ring) in pages.into_values().flat_map(|page| page.instances) {
                let pod = PodId { group: name.clone(), instance, version: 0, drift: 0 };
                for event in ring.events() {
                    self.histories.insert(&pod, event.clone());
                }
            }
        }
    }
}

fn event(group: &Group, version: u32, node: &NodeName, sighting: &Transition) -> ContainerEvent {
    let index = usize::try_from(sighting.container).unwrap_or(usize::MAX);
    let container = group.pod(version).and_then(|pod| pod.containers.get(index));
    let image = container.map_or("", |container| container.image.as_str());
    ContainerEvent {
        at: sighting.at,
        happened: sighting.happened,
        container: sighting.container,
        from: format!("{image} node:{node}"),
    }
}

/// A node reported changes.
pub(super) fn note_history(leading: &mut Leading<'_>, node: &NodeName, changes: &[PodChange]) {
    leading.state.note_reported_history(node, changes);
    for change in changes {
        let vanished = history::vanished(change.before.as_ref(), change.after.as_ref(), leading.now);
        leading.state.note(node, &change.pod, &vanished);
    }
    schedule_store(leading);
}

/// Folds every report that arrived before this process knew the groups.
pub(in crate::core) fn note_all_history(leading: &mut Leading<'_>) {
    for (node, report) in leading.reports.all() {
        for (pod, facts) in &report.pods {
            leading.state.note(node, pod, &history::reported(facts));
        }
    }
    schedule_store(leading);
}

/// A page as it is stored; empty when there is none that can be read.
pub(in crate::core) fn stored_page(leading: &Leading<'_>, name: &GroupName, page: u32) -> HistoryRecord {
    let value = leading.stored.get(&keys::history(name, page));
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}

/// A condition that was reported ended: its page is stored soon.
pub(in crate::core) fn forget_reported(
    leading: &mut Leading<'_>,
    name: &GroupName,
    instance: u32,
    condition: Condition,
) {
    if !leading.state.groups.contains_key(name) {
        return;
    }
    if let Some(page) = leading.state.histories.report((name, instance, condition), None) {
        leading.state.histories.unstored.insert((name.clone(), page));
        schedule_store(leading);
    }
}

fn schedule_store(leading: &mut Leading<'_>) {
    if !leading.state.histories.unstored.is_empty() {
        leading.lead.timers.set_once(Timer::History, leading.now + STORED_AFTER);
    }
}

/// Stores pages that changed, each as a decision of its own: none depends on another.
pub(in crate::core) fn store_history(leading: &mut Leading<'_>) {
    let mut writes = Vec::new();
    while let Some((name, page, record)) = leading.state.histories.next_unstored() {
        writes.push(commit::put(keys::history(&name, page), record));
        if writes.len() >= MOST_PAGES {
            leading.lead.timers.set_once(Timer::History, leading.now + REST_AFTER);
            break;
        }
    }
    for write in writes {
        leading.decide(Bundle { writes: vec![write], ..Bundle::default() });
    }
}

/// Forgets the histories of a group that is gone.
pub(in crate::core) fn forget_history(leading: &mut Leading<'_>, name: &GroupName) -> Vec<Write> {
    let pages = leading.state.histories.forget(name);
    pages.into_iter().map(|page| Write::Delete { key: keys::history(name, page) }).collect()
}
