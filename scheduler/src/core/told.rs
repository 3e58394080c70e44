//! Tells the outside what goes wrong: an event always, and a notice for every callback.
//!
//! None about dependency pods: they are nobody's instances.

use std::collections::{BTreeMap, BTreeSet};

use contract::event::{Event, Kind};
use contract::history::{HistoryRecord, page_of};
use contract::name::{GroupName, NodeName};
use contract::notice::{Incident, NoticeBody};
use contract::pod_id::PodId;
use contract::report::PodFacts;
use planner::group::GroupPlan;
use planner::notices::{self, Occurrence};

use super::events;
use super::io::Effect;
use super::leader::Leading;
use super::milestones;
use super::moves::moves;
use super::reports::PodChange;
use super::waits;

/// Namespace of notices about the cluster.
const CLUSTER: &str = "Cluster";

impl Leading<'_> {
    /// Tells what happened to pods between two reports of a node.
    pub(super) fn note_happenings(&mut self, node: &NodeName, changes: &[PodChange]) {
        let mut effects = Vec::new();
        for change in changes {
            let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
            for happening in notices::incidents_between(before, after) {
                effects.extend(self.incident(&change.pod, Some(node), happening));
            }
        }
        self.tell(effects);
    }

    /// Reports restarts that nodes told of when there was no leader: all of them at the begin of a leadership.
    pub(super) fn note_all_missed(&mut self) {
        let reports = self.ears.reports().flat_map(|(node, report)| report.pods.iter().map(move |it| (node, it)));
        let pods = reports.map(|(node, (pod, facts))| (node, pod, facts));
        let effects = self.missed(pods);
        self.tell(effects);
    }

    /// The same for pods that this leader hears of for the first time.
    pub(super) fn note_missed(&mut self, node: &NodeName, changes: &[PodChange]) {
        let new = changes.iter().filter(|change| change.before.is_none());
        let effects = self.missed(new.filter_map(|change| Some((node, &change.pod, change.after.as_ref()?))));
        self.tell(effects);
    }

    fn missed<'p>(&self, pods: impl Iterator<Item = (&'p NodeName, &'p PodId, &'p PodFacts)>) -> Vec<Effect> {
        let mut pages: BTreeMap<(&GroupName, u32), HistoryRecord> = BTreeMap::new();
        let mut effects = Vec::new();
        for (node, pod, facts) in pods.filter(|(_, _, facts)| facts.restarts > 0) {
            if self.state.histories.is_stored(&pod.group, pod.instance) || self.may_be_asked_for(pod, facts) {
                continue;
            }
            let page = page_of(pod.instance);
            let stored = pages.entry((&pod.group, page)).or_insert_with(|| self.stored_page(&pod.group, page));
            let newest = stored.instances.get(&pod.instance).and_then(|ring| ring.events().last());
            if let Some(missed) = notices::missed(facts, newest.map(|event| event.at)) {
                effects.extend(self.incident(pod, Some(node), missed));
            }
        }
        effects
    }

    /// Whether a user may have asked for the last restart: it happened before the last operation on the group was over.
    fn may_be_asked_for(&self, pod: &PodId, facts: &PodFacts) -> bool {
        let Some(record) = self.state.groups.get(&pod.group).map(|group| &group.record) else { return false };
        let is_answered = facts.starts_done > 0 || facts.restarts_done > 0;
        is_answered && (record.operation.is_some() || facts.restarted_at <= record.updated_at)
    }

    /// What a plan means for people: where instances go, why one has no place, what went wrong.
    pub(super) fn plan_told(&mut self, name: &GroupName, plan: &GroupPlan) -> Vec<Effect> {
        let Some(group) = self.state.groups.get(name) else { return Vec::new() };
        let mut told = if plan.store { moves(name, group.slots(), &plan.slots, self.now) } else { Vec::new() };
        for (instance, incident) in &plan.incidents {
            let pod = PodId { group: name.clone(), instance: *instance, version: 0, drift: 0 };
            let index = usize::try_from(instance.saturating_sub(1)).unwrap_or(usize::MAX);
            let node = group.slots().get(index).and_then(|slot| slot.node.as_ref());
            told.extend(self.incident(&pod, node, Occurrence { incident: *incident, at: self.now }));
            if let Incident::BadUpgrade { version } = incident {
                let why = plan.record.as_ref().map(|record| record.last_error.as_str()).unwrap_or_default();
                let message = format!("version {version} did not work and was rolled back: {why}");
                told.push(Effect::Record(events::of_group(Kind::RolledBack, name, message, self.now)));
            }
        }
        if plan.store {
            told.extend(milestones::drained(name, group.slots(), &plan.slots, self.now));
        }
        told.extend(milestones::undrained(name, &plan.undrained, self.now));
        if let Some(release) = &plan.release {
            told.extend(milestones::told(name, group.release.as_ref(), release, self.now));
        }
        told.extend(self.lead.journal.unplaceable(name, plan, self.now));
        let wait = waits::of_moves(self.state, self.ears, name, group);
        told.extend(self.lead.journal.stalled(name, wait, self.now));
        told
    }

    /// Something went wrong with an instance.
    pub(super) fn incident(&self, pod: &PodId, node: Option<&NodeName>, happening: Occurrence) -> Vec<Effect> {
        let group = self.state.groups.get(&pod.group).filter(|group| pod.instance > 0 && !group.is_orphan());
        let Some(group) = group else { return Vec::new() };
        let event = events::of_group(Kind::Incident, &pod.group, self.explained(pod, happening.incident), self.now);
        let event = Event { instance: pod.instance, node: node.cloned(), ..event };
        let body = notices::body(&group.record.spec.namespace, pod, happening);
        [Effect::Record(event)].into_iter().chain(notify(&self.state.callbacks, body)).collect()
    }

    /// The text of an incident, with how the instance ended last if it is about that. Notices keep the text alone: receivers
    /// compare it.
    fn explained(&self, pod: &PodId, incident: Incident) -> String {
        let text = incident.text();
        let is_end = matches!(incident, Incident::Down | Incident::DownWithOom | Incident::CrashLooping);
        let exits = self.facts_of(&pod.group, pod.instance).filter_map(|(_, facts, _)| facts.last_exit());
        match exits.max_by_key(|exit| exit.at).filter(|_| is_end) {
            Some(exit) => format!("{text}: {}", exit.summary()),
            None => text.into_owned(),
        }
    }

    /// Something went wrong with the cluster; `who` is what receivers know it by.
    pub(super) fn cluster_notice(&self, who: &str, incident: Incident) -> Option<Effect> {
        let body = NoticeBody {
            level: notices::LEVEL.to_owned(),
            namespace: CLUSTER.to_owned(),
            pod_name: who.to_owned(),
            instance_no: 1,
            timestamp: self.now,
            message: incident.text().into_owned(),
        };
        notify(&self.state.callbacks, body)
    }
}

fn notify(callbacks: &BTreeSet<String>, body: NoticeBody) -> Option<Effect> {
    (!callbacks.is_empty()).then(|| Effect::Notify { callbacks: callbacks.iter().cloned().collect(), body })
}
