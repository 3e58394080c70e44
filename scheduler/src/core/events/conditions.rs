//! Decides when a condition that persists is reported: once, again after `tell_again_after`, and again when it ended and came
//! back.
//!
//! Each condition has one timer, so nothing is scanned. Facts of a node that is silent or whose Docker does not answer prove
//! nothing: a condition there neither ends nor is reported. The time of the last report is stored with the report, so a new
//! leader does not repeat it.

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

use crate::core::commit::{self, Bundle};
use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::observe::reports::PodChange;
use crate::core::state::pod_id;
use crate::core::state::quarantine::Object;
use crate::core::timers::Timer;
use crate::core::{events, observe};

use super::incident;

/// Shortest interval of reports of a condition that flaps.
const FLAPS_WITHIN: Duration = Duration::from_secs(60);
/// What receivers know a node's engine by.
const CLUSTER_MANAGER: &str = "Cluster-Manager";

/// A condition of an instance or of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) enum ConditionKey {
    /// Something is wrong with an instance.
    Instance(GroupName, u32, Condition),
    /// The engine of a node does not answer.
    Engine(NodeName),
}

/// The conditions that persist, or ended a moment ago.
#[derive(Debug, Default)]
pub(in crate::core) struct Conditions {
    known: BTreeMap<ConditionKey, Tracked>,
    /// When callbacks were last notified about an engine. The notice does not name the node, so one is enough for several nodes.
    engine_notified_at: Option<Timestamp>,
    /// Reports to send with the history page that stores their time, by group and page: one write for all reports of one input.
    unsent: BTreeMap<(GroupName, u32), Vec<Effect>>,
}

#[derive(Debug, Clone, Copy)]
struct Tracked {
    seen_at: Timestamp,
    reported_at: Option<Timestamp>,
    phase: ReportPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportPhase {
    /// Persists and is not reported yet.
    Unreported,
    /// Persists and was reported.
    Reported,
    /// Was reported and ended; kept for a moment, in case it comes back.
    Ended,
}

enum ConditionState {
    Absent,
    /// Unknown now: the node is silent, or its Docker does not answer.
    Unknown,
    /// Report it at this time.
    Due(Timestamp),
}

impl ConditionState {
    /// The state of an instance with two pods: the worse of both.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Due(one), Self::Due(other)) => Self::Due(one.min(other)),
            (Self::Due(due), Self::Absent | Self::Unknown) | (Self::Absent | Self::Unknown, Self::Due(due)) => {
                Self::Due(due)
            }
            (Self::Unknown, Self::Absent | Self::Unknown) | (Self::Absent, Self::Unknown) => Self::Unknown,
            (Self::Absent, Self::Absent) => Self::Absent,
        }
    }
}

/// Looks at the conditions of a pod that a node reported.
pub(in crate::core) fn note_condition(leading: &mut Leading<'_>, node: &NodeName, change: &PodChange) {
    let quiet = leading.lead.conditions.known.is_empty();
    if quiet && change.after.as_ref().is_none_or(is_well) {
        return;
    }
    // Only pods that are meant to be there count, not their predecessors on the way out.
    let mut meant = expected_pods(leading, &change.pod.group, change.pod.instance);
    if meant.any(|(at, pod, _)| at == node && pod == change.pod) {
        drop(meant);
        check_pod(leading, &change.pod);
    }
}

/// Starts a leadership: checks the conditions that earlier leaders reported, and what is wrong now.
pub(in crate::core) fn note_all_conditions(leading: &mut Leading<'_>) {
    let instances = leading.state.histories.reported();
    let instances =
        instances.map(|(name, number, condition, at)| (ConditionKey::Instance(name.clone(), number, condition), at));
    let engines = leading.state.nodes.records().filter(|(_, record)| record.engine_reported_at.happened());
    let engines = engines.map(|(node, record)| (ConditionKey::Engine(node.clone()), record.engine_reported_at));
    let reported: Vec<(ConditionKey, Timestamp)> = instances.chain(engines).collect();
    for (key, at) in reported {
        let tracked = Tracked { seen_at: at, reported_at: Some(at), phase: ReportPhase::Reported };
        leading.lead.conditions.known.insert(key.clone(), tracked);
        leading.fire_guarded(Timer::Condition(key));
    }
    let ill = |report: &Report| {
        report.pods.iter().filter(|(_, facts)| !is_well(facts)).map(|(pod, _)| pod.clone()).collect::<Vec<_>>()
    };
    let pods: Vec<PodId> = leading.reports.all().flat_map(|(_, report)| ill(report)).collect();
    for pod in &pods {
        let object = Object::Group(pod.group.clone());
        if leading.state.quarantine.holds_back(&object, leading.now).is_none() {
            leading.guarded(&object, |leading| check_pod(leading, pod));
        }
    }
    for node in leading.state.nodes.keys().cloned().collect::<Vec<_>>() {
        leading.fire_guarded(Timer::Condition(ConditionKey::Engine(node)));
    }
}

fn check_pod(leading: &mut Leading<'_>, pod: &PodId) {
    for condition in Condition::ALL {
        check(leading, ConditionKey::Instance(pod.group.clone(), pod.instance, condition));
    }
}

/// Where the pods of an instance are meant to run, each with its spec.
fn expected_pods<'a>(
    leading: &'a Leading<'_>,
    group: &GroupName,
    instance: u32,
) -> impl Iterator<Item = (&'a NodeName, PodId, &'a PodSpec)> + use<'a> {
    let index = usize::try_from(instance).unwrap_or(0).checked_sub(1);
    let group = leading.state.groups.get_key_value(group).filter(|(_, group)| group.is_present());
    let found =
        group.zip(index).and_then(|((name, group), index)| Some((name, group, index, group.instances().get(index)?)));
    found.into_iter().flat_map(|(name, group, index, instance)| {
        let meant = instance.pods().filter(|pod| pod.target == TargetState::Run);
        meant.filter_map(move |pod| Some((pod.node.as_ref()?, pod_id(name, index, pod), &**group.pod(pod.version)?)))
    })
}

pub(super) fn facts_of<'a>(
    leading: &'a Leading<'_>,
    group: &GroupName,
    instance: u32,
) -> impl Iterator<Item = (&'a NodeName, &'a PodFacts, &'a PodSpec)> + use<'a> {
    expected_pods(leading, group, instance)
        .filter_map(|(node, pod, spec)| Some((node, leading.reports.pod(node, &pod)?, spec)))
}

fn state_of(leading: &Leading<'_>, key: &ConditionKey, seen_at: Timestamp) -> ConditionState {
    let heard = |node: &NodeName| leading.state.nodes.get(node).filter(|host| host.liveness == Liveness::Alive);
    match key {
        ConditionKey::Engine(node) => match heard(node).map(|host| host.engine) {
            None => ConditionState::Unknown,
            Some(EngineState::Up) => ConditionState::Absent,
            Some(EngineState::Hung | EngineState::Down) => {
                ConditionState::Due(seen_at + leading.settings.engine_away_after)
            }
        },
        ConditionKey::Instance(group, instance, condition) => {
            let pods = expected_pods(leading, group, *instance).map(|(node, pod, spec)| {
                if heard(node).is_none_or(|host| host.engine != EngineState::Up) {
                    return ConditionState::Unknown;
                }
                let facts = leading.reports.pod(node, &pod);
                let due = facts.and_then(|facts| {
                    notices::reportable_at(*condition, facts, spec, leading.settings.health_poll, seen_at)
                });
                due.map_or(ConditionState::Absent, ConditionState::Due)
            });
            pods.fold(ConditionState::Absent, ConditionState::or)
        }
    }
}

/// Checks one condition: reports it when it is due, and sets its timer.
pub(in crate::core) fn check(leading: &mut Leading<'_>, key: ConditionKey) {
    let known = leading.lead.conditions.known.get(&key).copied();
    let persisted = known.filter(|known| known.phase != ReportPhase::Ended);
    let seen_at = persisted.map_or(leading.now, |persisted| persisted.seen_at);
    let mut condition = match (state_of(leading, &key, seen_at), persisted) {
        (ConditionState::Unknown, None) | (ConditionState::Absent, _) => return ended(leading, key, known),
        (ConditionState::Unknown, Some(persisted)) => return keep(leading, key, persisted, leading.now + FLAPS_WITHIN),
        (ConditionState::Due(_), Some(persisted)) if persisted.phase == ReportPhase::Reported => persisted,
        (ConditionState::Due(due), _) => {
            let reported_at = known.and_then(|known| known.reported_at);
            let condition = Tracked { seen_at, reported_at, phase: ReportPhase::Unreported };
            let not_before = reported_at.map_or(due, |reported_at| due.max(reported_at + FLAPS_WITHIN));
            if leading.now < not_before {
                return keep(leading, key, condition, not_before);
            }
            condition
        }
    };
    let recheck_at = |reported_at: Timestamp| reported_at + leading.settings.tell_again_after;
    if condition.phase == ReportPhase::Unreported
        || condition.reported_at.is_none_or(|reported_at| leading.now >= recheck_at(reported_at))
    {
        report_condition(leading, &key);
        condition = Tracked { reported_at: Some(leading.now), phase: ReportPhase::Reported, ..condition };
    }
    let next = recheck_at(condition.reported_at.unwrap_or(leading.now));
    keep(leading, key, condition, next);
}

fn keep(leading: &mut Leading<'_>, key: ConditionKey, condition: Tracked, look_at: Timestamp) {
    leading.lead.conditions.known.insert(key.clone(), condition);
    leading.lead.timers.set(Timer::Condition(key), Some(look_at));
}

/// The condition does not hold, or ended.
fn ended(leading: &mut Leading<'_>, key: ConditionKey, known: Option<Tracked>) {
    let Some(condition) = known else { return };
    match condition.reported_at.map(|reported_at| reported_at + FLAPS_WITHIN).filter(|until| leading.now < *until) {
        Some(until) => keep(leading, key, Tracked { phase: ReportPhase::Ended, ..condition }, until),
        None => {
            leading.lead.conditions.known.remove(&key);
            leading.lead.timers.set(Timer::Condition(key.clone()), None);
            forget_report(leading, &key);
        }
    }
}

/// The condition ended: if it comes back, any leader reports it immediately.
fn forget_report(leading: &mut Leading<'_>, key: &ConditionKey) {
    match key {
        ConditionKey::Instance(group, instance, condition) => {
            observe::history::forget_reported(leading, group, *instance, *condition)
        }
        ConditionKey::Engine(node) => engine_reported(leading, node, Timestamp::NEVER, Vec::new()),
    }
}

fn report_condition(leading: &mut Leading<'_>, key: &ConditionKey) {
    match key {
        ConditionKey::Instance(group, instance, condition) => {
            let statuses = |(_, facts, spec): &(&NodeName, &PodFacts, &PodSpec)| {
                notices::reportable_at(*condition, facts, spec, leading.settings.health_poll, leading.now).is_some()
            };
            let Some((node, facts, _)) = facts_of(leading, group, *instance).find(statuses) else { return };
            let at = notices::notice_time(*condition, facts, leading.now);
            let pod = PodId { group: group.clone(), instance: *instance, version: 0, drift: 0 };
            let effects =
                incident::of_instance(leading, &pod, Some(node), Occurrence { incident: condition.incident(), at });
            leading.state.histories.report((group, *instance, *condition), Some(leading.now));
            let page = (group.clone(), page_of(*instance));
            leading.lead.conditions.unsent.entry(page).or_default().extend(effects);
        }
        ConditionKey::Engine(node) => {
            let effects = engine_events(leading, node);
            engine_reported(leading, node, leading.now, effects);
        }
    }
}

/// Sends the reports of this input, each with the history page that stores its time.
pub(in crate::core) fn send_reports(leading: &mut Leading<'_>) {
    for ((name, page), effects) in std::mem::take(&mut leading.lead.conditions.unsent) {
        let record = leading.state.histories.page(&name, page);
        let writes = record.map(|record| commit::put(keys::history(&name, page), record)).into_iter().collect();
        leading.decide(Bundle { writes, effects, ..Bundle::default() });
    }
}

/// Notes when the engine of a node was reported as away, or that it is not; `effects` report it.
fn engine_reported(leading: &mut Leading<'_>, node: &NodeName, at: Timestamp, effects: Vec<Effect>) {
    let record = leading.state.nodes.set_engine_reported_at(node, at);
    let write = record.map(|record| commit::put(keys::node(node), record));
    if write.is_some() || !effects.is_empty() {
        leading.decide(Bundle { writes: write.into_iter().collect(), effects, ..Bundle::default() });
    }
}

fn engine_events(leading: &mut Leading<'_>, node: &NodeName) -> Vec<Effect> {
    let event = events::event(Kind::Incident, Incident::EngineAway.text(), leading.now);
    let mut effects = vec![Effect::Record(Event { node: Some(node.clone()), ..event })];
    if leading.lead.conditions.engine_notified_at.is_none_or(|at| leading.now >= at + FLAPS_WITHIN) {
        leading.lead.conditions.engine_notified_at = Some(leading.now);
        effects.extend(incident::cluster_notice(leading, CLUSTER_MANAGER, Incident::EngineAway));
    }
    effects
}

/// Nothing about the pod can be a condition: most pods, most of the time.
fn is_well(facts: &PodFacts) -> bool {
    let addressed = facts.containers.iter().all(|container| !container.running || !container.ip.is_empty());
    !facts.is_crash_looping && facts.health != HealthState::Unhealthy && addressed
}
