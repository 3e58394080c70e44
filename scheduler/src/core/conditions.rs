//! Decides when a condition that persists is reported: once, again after `tell_again_after`, and anew when it came back.
//!
//! Each condition has one alarm, so nothing is scanned; what rings is looked at afresh. Facts of a node that is not heard,
//! or whose engine does not answer, say nothing: a condition there neither ends nor is reported. When each condition was last
//! reported is stored with the report, so a new leader does not repeat it.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::event::{Event, Kind};
use contract::history::{Condition, page_of};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::notice::Incident;
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::report::{EngineState, PodFacts, Report};
use contract::spec::PodSpec;
use contract::state::{HealthState, TargetState};
use contract::time::Timestamp;
use planner::notices::{self, Occurrence};

use super::alarms::Alarm;
use super::commit::{self, Bundle};
use super::events;
use super::io::Effect;
use super::leader::Leading;
use super::quarantine::Object;
use super::reports::PodChange;
use super::state::pod_id;

/// A condition that comes and goes is told at most so often.
const FLAPS_WITHIN: Duration = Duration::from_secs(60);
/// What receivers know a node's engine by.
const CLUSTER_MANAGER: &str = "Cluster-Manager";

/// What may stand for long.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Concern {
    /// Something is wrong with an instance.
    Instance(GroupName, u32, Condition),
    /// The engine of a node does not answer.
    Engine(NodeName),
}

/// The conditions that stand, or ended a moment ago.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    known: BTreeMap<Concern, Tracked>,
    /// When callbacks last heard of an engine; they are not told which, so one notice is enough for all of one moment.
    engine_told_at: Option<Timestamp>,
    /// Reports to send with the page that stores when they were made, by group and page: one write for all of one moment.
    unsent: BTreeMap<(GroupName, u32), Vec<Effect>>,
}

#[derive(Debug, Clone, Copy)]
struct Tracked {
    seen_at: Timestamp,
    told_at: Option<Timestamp>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Stands and is to be told.
    Waiting,
    /// Stands and was told.
    Told,
    /// Was told and ended; remembered for a moment, in case it comes back.
    Ended,
}

/// Whether a condition stands.
enum Standing {
    No,
    /// Nobody can say now.
    Unheard,
    /// Worth telling from then on.
    Due(Timestamp),
}

impl Standing {
    /// Of two pods of an instance, the one that is ill speaks.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Due(one), Self::Due(other)) => Self::Due(one.min(other)),
            (Self::Due(due), Self::No | Self::Unheard) | (Self::No | Self::Unheard, Self::Due(due)) => Self::Due(due),
            (Self::Unheard, Self::No | Self::Unheard) | (Self::No, Self::Unheard) => Self::Unheard,
            (Self::No, Self::No) => Self::No,
        }
    }
}

impl Leading<'_> {
    /// Looks at the conditions of a pod that a node reported.
    pub(super) fn note_condition(&mut self, node: &NodeName, change: &PodChange) {
        let quiet = self.lead.conditions.known.is_empty();
        if quiet && change.after.as_ref().is_none_or(is_well) {
            return;
        }
        // Only pods that are meant to be there count, not their predecessors on the way out.
        let mut meant = self.pods_of(&change.pod.group, change.pod.instance);
        if meant.any(|(at, pod, _)| at == node && pod == change.pod) {
            drop(meant);
            self.look_at_pod(&change.pod);
        }
    }

    /// The first look of a leadership: at what earlier leaders reported, and at what is wrong now.
    pub(super) fn note_all_conditions(&mut self) {
        let instances = self.state.histories.reported();
        let instances =
            instances.map(|(name, number, condition, at)| (Concern::Instance(name.clone(), number, condition), at));
        let engines = self.state.records.iter().filter(|(_, record)| record.engine_reported_at.happened());
        let engines = engines.map(|(node, record)| (Concern::Engine(node.clone()), record.engine_reported_at));
        let reported: Vec<(Concern, Timestamp)> = instances.chain(engines).collect();
        for (concern, at) in reported {
            let tracked = Tracked { seen_at: at, told_at: Some(at), phase: Phase::Told };
            self.lead.conditions.known.insert(concern.clone(), tracked);
            self.ring_guarded(Alarm::Condition(concern));
        }
        let ill = |report: &Report| {
            report.pods.iter().filter(|(_, facts)| !is_well(facts)).map(|(pod, _)| pod.clone()).collect::<Vec<_>>()
        };
        let pods: Vec<PodId> = self.ears.reports().flat_map(|(_, report)| ill(report)).collect();
        for pod in &pods {
            let object = Object::Group(pod.group.clone());
            if self.state.quarantine.holds_back(&object, self.now).is_none() {
                self.guarded(&object, |leading| leading.look_at_pod(pod));
            }
        }
        for node in self.state.hosts.keys().cloned().collect::<Vec<_>>() {
            self.ring_guarded(Alarm::Condition(Concern::Engine(node)));
        }
    }

    fn look_at_pod(&mut self, pod: &PodId) {
        for condition in Condition::ALL {
            self.look(Concern::Instance(pod.group.clone(), pod.instance, condition));
        }
    }

    /// Where the pods of an instance are meant to run, each with its spec.
    fn pods_of(&self, group: &GroupName, instance: u32) -> impl Iterator<Item = (&NodeName, PodId, &PodSpec)> {
        let index = usize::try_from(instance).unwrap_or(0).checked_sub(1);
        let group = self.state.groups.get_key_value(group).filter(|(_, group)| group.is_present());
        let found =
            group.zip(index).and_then(|((name, group), index)| Some((name, group, index, group.slots().get(index)?)));
        found.into_iter().flat_map(|(name, group, index, slot)| {
            let meant = slot.pods().filter(|pod| pod.target == TargetState::Run);
            meant
                .filter_map(move |pod| Some((pod.node.as_ref()?, pod_id(name, index, pod), &**group.pod(pod.version)?)))
        })
    }

    pub(super) fn facts_of(
        &self,
        group: &GroupName,
        instance: u32,
    ) -> impl Iterator<Item = (&NodeName, &PodFacts, &PodSpec)> {
        self.pods_of(group, instance).filter_map(|(node, pod, spec)| Some((node, self.ears.pod(node, &pod)?, spec)))
    }

    fn standing(&self, concern: &Concern, seen_at: Timestamp) -> Standing {
        let heard = |node: &NodeName| self.state.hosts.get(node).filter(|host| host.liveness == Liveness::Alive);
        match concern {
            Concern::Engine(node) => match heard(node).map(|host| host.engine) {
                None => Standing::Unheard,
                Some(EngineState::Up) => Standing::No,
                Some(EngineState::Hung | EngineState::Down) => Standing::Due(seen_at + self.settings.engine_away_after),
            },
            Concern::Instance(group, instance, condition) => {
                let pods = self.pods_of(group, *instance).map(|(node, pod, spec)| {
                    if heard(node).is_none_or(|host| host.engine != EngineState::Up) {
                        return Standing::Unheard;
                    }
                    let facts = self.ears.pod(node, &pod);
                    let due = facts.and_then(|facts| {
                        notices::reportable_at(*condition, facts, spec, self.settings.health_poll, seen_at)
                    });
                    due.map_or(Standing::No, Standing::Due)
                });
                pods.fold(Standing::No, Standing::or)
            }
        }
    }

    /// Looks at one condition: tells it when its time has come, and sets when to look again.
    pub(super) fn look(&mut self, concern: Concern) {
        let known = self.lead.conditions.known.get(&concern).copied();
        let stood = known.filter(|known| known.phase != Phase::Ended);
        let seen_at = stood.map_or(self.now, |stood| stood.seen_at);
        let mut condition = match (self.standing(&concern, seen_at), stood) {
            (Standing::Unheard, None) | (Standing::No, _) => return self.ended(concern, known),
            (Standing::Unheard, Some(stood)) => return self.keep(concern, stood, self.now + FLAPS_WITHIN),
            (Standing::Due(_), Some(stood)) if stood.phase == Phase::Told => stood,
            (Standing::Due(due), _) => {
                let told_at = known.and_then(|known| known.told_at);
                let condition = Tracked { seen_at, told_at, phase: Phase::Waiting };
                let not_before = told_at.map_or(due, |told_at| due.max(told_at + FLAPS_WITHIN));
                if self.now < not_before {
                    return self.keep(concern, condition, not_before);
                }
                condition
            }
        };
        let again_at = |told_at: Timestamp| told_at + self.settings.tell_again_after;
        if condition.phase == Phase::Waiting || condition.told_at.is_none_or(|told_at| self.now >= again_at(told_at)) {
            self.tell_condition(&concern);
            condition = Tracked { told_at: Some(self.now), phase: Phase::Told, ..condition };
        }
        let next = again_at(condition.told_at.unwrap_or(self.now));
        self.keep(concern, condition, next);
    }

    fn keep(&mut self, concern: Concern, condition: Tracked, look_at: Timestamp) {
        self.lead.conditions.known.insert(concern.clone(), condition);
        self.lead.alarms.set(Alarm::Condition(concern), Some(look_at));
    }

    /// It does not stand, or not any more.
    fn ended(&mut self, concern: Concern, known: Option<Tracked>) {
        let Some(condition) = known else { return };
        match condition.told_at.map(|told_at| told_at + FLAPS_WITHIN).filter(|until| self.now < *until) {
            Some(until) => self.keep(concern, Tracked { phase: Phase::Ended, ..condition }, until),
            None => {
                self.lead.conditions.known.remove(&concern);
                self.lead.alarms.set(Alarm::Condition(concern.clone()), None);
                self.forget_report(&concern);
            }
        }
    }

    /// The condition ended: when it comes back it is reported at once, also by another leader.
    fn forget_report(&mut self, concern: &Concern) {
        match concern {
            Concern::Instance(group, instance, condition) => self.forget_reported(group, *instance, *condition),
            Concern::Engine(node) => self.engine_reported(node, Timestamp::NEVER, Vec::new()),
        }
    }

    fn tell_condition(&mut self, concern: &Concern) {
        match concern {
            Concern::Instance(group, instance, condition) => {
                let statuses = |(_, facts, spec): &(&NodeName, &PodFacts, &PodSpec)| {
                    notices::reportable_at(*condition, facts, spec, self.settings.health_poll, self.now).is_some()
                };
                let Some((node, facts, _)) = self.facts_of(group, *instance).find(statuses) else { return };
                let at = notices::notice_time(*condition, facts, self.now);
                let pod = PodId { group: group.clone(), instance: *instance, version: 0, drift: 0 };
                let effects = self.incident(&pod, Some(node), Occurrence { incident: condition.incident(), at });
                self.state.histories.report((group, *instance, *condition), Some(self.now));
                let page = (group.clone(), page_of(*instance));
                self.lead.conditions.unsent.entry(page).or_default().extend(effects);
            }
            Concern::Engine(node) => {
                let effects = self.engine_away(node);
                self.engine_reported(node, self.now, effects);
            }
        }
    }

    /// Sends what was reported since the last commit, each with the page that says when.
    pub(super) fn send_conditions(&mut self) {
        for ((name, page), effects) in std::mem::take(&mut self.lead.conditions.unsent) {
            let record = self.state.histories.page(&name, page);
            let writes = record.map(|record| commit::put(keys::history(&name, page), record)).into_iter().collect();
            self.decide(Bundle { writes, effects, ..Bundle::default() });
        }
    }

    /// Notes when the engine of a node was reported as away, or that it is not; `effects` report it.
    fn engine_reported(&mut self, node: &NodeName, at: Timestamp, effects: Vec<Effect>) {
        let record = self.state.records.get_mut(node).filter(|record| record.engine_reported_at != at);
        let write = record.map(|record| {
            record.engine_reported_at = at;
            commit::put(keys::node(node), &*record)
        });
        if write.is_some() || !effects.is_empty() {
            self.decide(Bundle { writes: write.into_iter().collect(), effects, ..Bundle::default() });
        }
    }

    fn engine_away(&mut self, node: &NodeName) -> Vec<Effect> {
        let event = events::event(Kind::Incident, Incident::EngineAway.text(), self.now);
        let mut effects = vec![Effect::Record(Event { node: Some(node.clone()), ..event })];
        if self.lead.conditions.engine_told_at.is_none_or(|at| self.now >= at + FLAPS_WITHIN) {
            self.lead.conditions.engine_told_at = Some(self.now);
            effects.extend(self.cluster_notice(CLUSTER_MANAGER, Incident::EngineAway));
        }
        effects
    }
}

/// Nothing about the pod can be a condition: most pods, most of the time.
fn is_well(facts: &PodFacts) -> bool {
    let addressed = facts.containers.iter().all(|container| !container.running || !container.ip.is_empty());
    !facts.is_crash_looping && facts.health != HealthState::Unhealthy && addressed
}
