//! Tells the outside what goes wrong: an event always, and a notice for every callback.
//!
//! None about dependency pods: they are nobody's instances.

use std::collections::BTreeSet;

use contract::event::{Event, Kind};
use contract::name::{GroupName, NodeName};
use contract::notice::{Incident, NoticeBody};
use contract::pod_id::PodId;
use planner::group::GroupPlan;
use planner::notices::{self, Happening};

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
            for happening in notices::between(before, after) {
                effects.extend(self.incident(&change.pod, Some(node), happening));
            }
        }
        self.tell(effects);
    }

    /// What a plan means for people: where instances go, why one has no place, what went wrong.
    pub(super) fn plan_told(&mut self, name: &GroupName, plan: &GroupPlan) -> Vec<Effect> {
        let Some(group) = self.state.groups.get(name) else { return Vec::new() };
        let mut told = if plan.store { moves(name, group.slots(), &plan.slots, self.now) } else { Vec::new() };
        for (instance, incident) in &plan.incidents {
            let pod = PodId { group: name.clone(), instance: *instance, version: 0, drift: 0 };
            let index = usize::try_from(instance.saturating_sub(1)).unwrap_or(usize::MAX);
            let node = group.slots().get(index).and_then(|slot| slot.node.as_ref());
            told.extend(self.incident(&pod, node, Happening { incident: *incident, at: self.now }));
            if let Incident::BadUpgrade { version } = incident {
                let message = format!("version {version} did not become well and was taken back");
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
    pub(super) fn incident(&self, pod: &PodId, node: Option<&NodeName>, happening: Happening) -> Vec<Effect> {
        let group = self.state.groups.get(&pod.group).filter(|group| pod.instance > 0 && !group.is_orphan());
        let Some(group) = group else { return Vec::new() };
        let event = events::of_group(Kind::Incident, &pod.group, happening.incident.text(), self.now);
        let event = Event { instance: pod.instance, node: node.cloned(), ..event };
        let body = notices::body(&group.record.spec.namespace, pod, happening);
        [Effect::Record(event)].into_iter().chain(notify(&self.state.callbacks, body)).collect()
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
