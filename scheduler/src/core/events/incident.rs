//! Reports incidents of instances and of the cluster: always an event, and a notice to every callback.
//!
//! Dependency pods are not instances and have no incidents.

use std::collections::BTreeMap;

use contract::event::{Event, Kind};
use contract::history::{HistoryRecord, page_of};
use contract::name::{GroupName, NodeName};
use contract::notice::{Incident, NoticeBody};
use contract::pod_id::PodId;
use contract::report::PodFacts;
use planner::group::GroupPlan;
use planner::notices::{self, Occurrence};

use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::observe::reports::PodChange;
use crate::core::reconcile::waits;
use crate::core::{events, observe};

use super::placement::moves;
use super::{conditions, rollout};

/// Namespace of notices about the cluster.
const CLUSTER: &str = "Cluster";

/// Emits events and notices for changes between two reports of a node.
pub(in crate::core) fn report_changes(leading: &mut Leading<'_>, node: &NodeName, changes: &[PodChange]) {
    let mut effects = Vec::new();
    for change in changes {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
        for happening in notices::incidents_between(before, after) {
            effects.extend(of_instance(leading, &change.pod, Some(node), happening));
        }
    }
    leading.emit(effects);
}

/// Starts a leadership: reports restarts that happened while there was no leader.
pub(in crate::core) fn note_all_missed(leading: &mut Leading<'_>) {
    let reports = leading.reports.all().flat_map(|(node, report)| report.pods.iter().map(move |it| (node, it)));
    let pods = reports.map(|(node, (pod, facts))| (node, pod, facts));
    let effects = missed(leading, pods);
    leading.emit(effects);
}

/// The same for pods that this leader sees for the first time.
pub(in crate::core) fn note_missed(leading: &mut Leading<'_>, node: &NodeName, changes: &[PodChange]) {
    let new = changes.iter().filter(|change| change.before.is_none());
    let effects = missed(leading, new.filter_map(|change| Some((node, &change.pod, change.after.as_ref()?))));
    leading.emit(effects);
}

fn missed<'p>(
    leading: &Leading<'_>,
    pods: impl Iterator<Item = (&'p NodeName, &'p PodId, &'p PodFacts)>,
) -> Vec<Effect> {
    let mut pages: BTreeMap<(&GroupName, u32), HistoryRecord> = BTreeMap::new();
    let mut effects = Vec::new();
    for (node, pod, facts) in pods.filter(|(_, _, facts)| facts.restarts > 0) {
        if leading.state.histories.is_stored(&pod.group, pod.instance) || may_be_requested(leading, pod, facts) {
            continue;
        }
        let page = page_of(pod.instance);
        let stored =
            pages.entry((&pod.group, page)).or_insert_with(|| observe::history::stored_page(leading, &pod.group, page));
        let newest = stored.instances.get(&pod.instance).and_then(|ring| ring.events().last());
        if let Some(missed) = notices::missed(facts, newest.map(|event| event.at)) {
            effects.extend(of_instance(leading, pod, Some(node), missed));
        }
    }
    effects
}

/// Whether a user may have requested the last restart: it happened before the last operation on the group ended.
fn may_be_requested(leading: &Leading<'_>, pod: &PodId, facts: &PodFacts) -> bool {
    let Some(record) = leading.state.groups.get(&pod.group).map(|group| &group.record) else { return false };
    let is_answered = facts.starts_done > 0 || facts.restarts_done > 0;
    is_answered && (record.operation.is_some() || facts.restarted_at <= record.updated_at)
}

/// The events of a plan: where instances go, why one is unschedulable, what failed.
pub(in crate::core) fn events_of_plan(leading: &mut Leading<'_>, name: &GroupName, plan: &GroupPlan) -> Vec<Effect> {
    let Some(group) = leading.state.groups.get(name) else { return Vec::new() };
    let mut events = if plan.store { moves(name, group.instances(), &plan.instances, leading.now) } else { Vec::new() };
    for (instance, incident) in &plan.incidents {
        let pod = PodId { group: name.clone(), instance: *instance, version: 0, drift: 0 };
        let index = usize::try_from(instance.saturating_sub(1)).unwrap_or(usize::MAX);
        let node = group.instances().get(index).and_then(|instance| instance.node.as_ref());
        events.extend(of_instance(leading, &pod, node, Occurrence { incident: *incident, at: leading.now }));
        if let Incident::BadUpgrade { version } = incident {
            let why = plan.record.as_ref().map(|record| record.last_error.as_str()).unwrap_or_default();
            let message = format!("version {version} did not work and was rolled back: {why}");
            events.push(Effect::Record(events::of_group(Kind::RolledBack, name, message, leading.now)));
        }
    }
    if plan.store {
        events.extend(rollout::drained(name, group.instances(), &plan.instances, leading.now));
    }
    events.extend(rollout::undrained(name, &plan.undrained, leading.now));
    if let Some(release) = &plan.release {
        events.extend(rollout::between(name, group.release.as_ref(), release, leading.now));
    }
    events.extend(leading.lead.event_dedup.unplaceable(name, plan, leading.now));
    let wait = waits::of_moves(leading.state, leading.reports, name, group);
    events.extend(leading.lead.event_dedup.stalled(name, wait, leading.now));
    events
}

/// Something went wrong with an instance.
pub(super) fn of_instance(
    leading: &Leading<'_>,
    pod: &PodId,
    node: Option<&NodeName>,
    happening: Occurrence,
) -> Vec<Effect> {
    let group = leading.state.groups.get(&pod.group).filter(|group| pod.instance > 0 && !group.is_orphan());
    let Some(group) = group else { return Vec::new() };
    let event = events::of_group(Kind::Incident, &pod.group, explained(leading, pod, happening.incident), leading.now);
    let event = Event { instance: pod.instance, node: node.cloned(), ..event };
    let body = notices::body(&group.record.spec.namespace, pod, happening);
    [Effect::Record(event)].into_iter().chain(notify(leading, body)).collect()
}

/// The text of an incident, with how the instance ended last if it is about that. Notices keep the text alone: receivers
/// compare it.
fn explained(leading: &Leading<'_>, pod: &PodId, incident: Incident) -> String {
    let text = incident.text();
    let is_end = matches!(incident, Incident::Down | Incident::DownWithOom | Incident::CrashLooping);
    let exits = conditions::facts_of(leading, &pod.group, pod.instance).filter_map(|(_, facts, _)| facts.last_exit());
    match exits.max_by_key(|exit| exit.at).filter(|_| is_end) {
        Some(exit) => format!("{text}: {}", exit.summary()),
        None => text.into_owned(),
    }
}

/// A notice about the cluster; `part` is the name that receivers know.
pub(in crate::core) fn cluster_notice(leading: &Leading<'_>, part: &str, incident: Incident) -> Option<Effect> {
    let body = NoticeBody {
        level: notices::LEVEL.to_owned(),
        namespace: CLUSTER.to_owned(),
        pod_name: part.to_owned(),
        instance_no: 1,
        timestamp: leading.now,
        message: incident.text().into_owned(),
    };
    notify(leading, body)
}

fn notify(leading: &Leading<'_>, body: NoticeBody) -> Option<Effect> {
    let callbacks: Vec<String> = leading.state.cluster.callbacks().iter().cloned().collect();
    let former = leading.state.access.former_callbacks();
    (!callbacks.is_empty()).then_some(Effect::Notify { callbacks, former, body })
}
