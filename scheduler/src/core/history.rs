//! Keeps when containers started and stopped, from what nodes report.
//!
//! Every scheduler takes in what it hears; the leader stores it late and in passing, a page at most once in
//! [`STORED_AFTER`], whatever happens on it. Taking in is a union, so a standby that takes over adds what the leader before
//! did not come to store. What was taken in is shown before it is stored: it is a fact, not a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::history::{Condition, Event, HistoryRecord, page_of};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::time::Timestamp;
use planner::history::{self, Transition};

use super::alarms::Alarm;
use super::commit::{self, Bundle};
use super::io::Write;
use super::leader::Leading;
use super::reports::PodChange;
use super::state::{Group, State};

/// A page that changed is stored so long after.
const STORED_AFTER: Duration = Duration::from_secs(5);
/// Pages stored at a time; the rest follow a moment later, so that a thousand starts do not delay commands.
const MOST_PAGES: usize = 64;
/// That moment.
const REST_AFTER: Duration = Duration::from_millis(500);

/// The histories of all groups, in pages as they are stored.
#[derive(Debug, Default)]
pub(super) struct Histories {
    groups: BTreeMap<GroupName, BTreeMap<u32, HistoryRecord>>,
    /// Pages that know more than is stored.
    unstored: BTreeSet<(GroupName, u32)>,
}

impl Histories {
    /// The last starts and stops of an instance, oldest first.
    pub(super) fn of(&self, name: &GroupName, instance: u32) -> Vec<Event> {
        let page = self.groups.get(name).and_then(|pages| pages.get(&page_of(instance)));
        page.and_then(|page| page.instances.get(&instance)).map(|ring| ring.events().to_vec()).unwrap_or_default()
    }

    /// A page was read from the store: what is known beyond it stays, and stays unstored.
    pub(super) fn read(&mut self, name: &GroupName, page: u32, record: &HistoryRecord) {
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

    /// The conditions that were reported and stand, each with when it was last reported.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&GroupName, u32, Condition, Timestamp)> {
        let pages = self.groups.iter().flat_map(|(name, pages)| pages.values().map(move |page| (name, page)));
        let instances =
            pages.flat_map(|(name, page)| page.reported.iter().map(move |(number, it)| (name, *number, it)));
        instances.flat_map(|(name, number, reported)| reported.iter().map(move |(it, at)| (name, number, *it, *at)))
    }

    /// Notes when a condition of an instance was reported, or that it ended. Its page is to be stored then; none when
    /// nothing changed.
    pub(super) fn report(
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
    pub(super) fn page(&self, name: &GroupName, page: u32) -> Option<&HistoryRecord> {
        self.groups.get(name)?.get(&page)
    }

    /// Whether everything that is known of an instance is stored.
    pub(super) fn is_stored(&self, name: &GroupName, instance: u32) -> bool {
        !self.unstored.contains(&(name.clone(), page_of(instance)))
    }

    /// A page is not stored any more: its group is gone.
    pub(super) fn drop_page(&mut self, name: &GroupName, page: u32) {
        self.unstored.remove(&(name.clone(), page));
        if let Some(pages) = self.groups.get_mut(name) {
            pages.remove(&page);
        }
    }

    /// Forgets a group; the pages it had.
    pub(super) fn forget(&mut self, name: &GroupName) -> Vec<u32> {
        let pages: Vec<u32> = self.groups.remove(name).unwrap_or_default().into_keys().collect();
        for page in &pages {
            self.unstored.remove(&(name.clone(), *page));
        }
        pages
    }

    fn insert(&mut self, pod: &PodId, event: Event) {
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
    /// Takes sightings of a pod in, if its group is known.
    fn note(&mut self, node: &NodeName, pod: &PodId, sightings: &[Transition]) {
        let Some(group) = self.groups.get(&pod.group) else { return };
        let version = group.version_of(pod);
        for sighting in sightings {
            self.histories.insert(pod, event(group, version, node, sighting));
        }
    }

    /// Takes in what changed pods tell by themselves, as a standby does.
    pub(super) fn note_told(&mut self, node: &NodeName, changes: &[PodChange]) {
        for (change, after) in changes.iter().filter_map(|change| Some((change, change.after.as_ref()?))) {
            self.note(node, &change.pod, &history::reported(after));
        }
    }

    /// Takes over what `before` knows about groups that are still the same.
    pub(super) fn inherit_history(&mut self, before: Self) {
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

fn event(group: &Group, version: u32, node: &NodeName, sighting: &Transition) -> Event {
    let index = usize::try_from(sighting.container).unwrap_or(usize::MAX);
    let container = group.pod(version).and_then(|pod| pod.containers.get(index));
    let image = container.map_or("", |container| container.image.as_str());
    Event {
        at: sighting.at,
        happened: sighting.happened,
        container: sighting.container,
        from: format!("{image} node:{node}"),
    }
}

impl Leading<'_> {
    /// A node reported changes.
    pub(super) fn note_history(&mut self, node: &NodeName, changes: &[PodChange]) {
        self.state.note_told(node, changes);
        for change in changes {
            let vanished = history::vanished(change.before.as_ref(), change.after.as_ref(), self.now);
            self.state.note(node, &change.pod, &vanished);
        }
        self.plan_history();
    }

    /// Takes in everything that was heard before this process knew the groups.
    pub(super) fn note_all_history(&mut self) {
        for (node, report) in self.ears.reports() {
            for (pod, facts) in &report.pods {
                self.state.note(node, pod, &history::reported(facts));
            }
        }
        self.plan_history();
    }

    /// A page as it is stored; empty when there is none that can be read.
    pub(super) fn stored_page(&self, name: &GroupName, page: u32) -> HistoryRecord {
        let value = self.stored.get(&keys::history(name, page));
        value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
    }

    /// A condition that was reported ended: its page is stored soon.
    pub(super) fn forget_reported(&mut self, name: &GroupName, instance: u32, condition: Condition) {
        if !self.state.groups.contains_key(name) {
            return;
        }
        if let Some(page) = self.state.histories.report((name, instance, condition), None) {
            self.state.histories.unstored.insert((name.clone(), page));
            self.plan_history();
        }
    }

    fn plan_history(&mut self) {
        if !self.state.histories.unstored.is_empty() {
            self.lead.alarms.set_once(Alarm::History, self.now + STORED_AFTER);
        }
    }

    /// Stores pages that changed, each as a decision of its own: none depends on another.
    pub(super) fn store_history(&mut self) {
        let mut writes = Vec::new();
        while let Some((name, page, record)) = self.state.histories.next_unstored() {
            writes.push(commit::put(keys::history(&name, page), record));
            if writes.len() >= MOST_PAGES {
                self.lead.alarms.set_once(Alarm::History, self.now + REST_AFTER);
                break;
            }
        }
        for write in writes {
            self.decide(Bundle { writes: vec![write], ..Bundle::default() });
        }
    }

    /// Forgets the histories of a group that is gone.
    pub(super) fn forget_history(&mut self, name: &GroupName) -> Vec<Write> {
        let pages = self.state.histories.forget(name);
        pages.into_iter().map(|page| Write::Delete { key: keys::history(name, page) }).collect()
    }
}
